"""``--sandbox-coverage`` in test runs of those who install the plugin."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.scenario_run import data
from tests.support import FROZEN, serving
from tests.test_coverage import names
from tests.test_plugin import run

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]

SUITE = """
import httpx

@pytest.mark.parametrize("path", ["/api/offers", "/api/partners"])
def test_a_list(invoice_sandbox, path):
    invoice_sandbox.client.get(path)

def test_a_scenario(invoice_sandbox):
    register(invoice_sandbox)
    invoice_sandbox.advance("PT1S")

def test_without_a_key(invoice_sandbox):
    httpx.get(f"{invoice_sandbox.url}/api/invoices", timeout=60)

def test_another_workspace(invoice_sandbox):
    with invoice_sandbox.workspace() as other:
        other.client.get("/api/audit-log")
"""
OPERATIONS = {"listOffers", "listPartners", "createInvoice", "listInvoices", "listAuditEvents"}
"""What the suite asks for; that the plugin registers an inbox is no part of it."""

JSON = "--sandbox-coverage-json"


@pytest.fixture(autouse=True)
def _no_sandbox_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "KEY", "PROJECT", "SCENARIOS"):
        monkeypatch.delenv(f"INVOICE_SANDBOX_{name}", raising=False)


def reported(folder: Path) -> dict[str, Any]:
    """What the file says that a run has written."""
    found: dict[str, Any] = json.loads((folder / "coverage.json").read_text())
    return found


def operations(folder: Path) -> set[str]:
    return {name for _, name in names(reported(folder), "operations")}


@pytest.mark.process
def test_the_run_ends_with_its_coverage(pytester: pytest.Pytester) -> None:
    result = run(pytester, SUITE, "--sandbox-coverage")
    result.assert_outcomes(passed=5)
    printed = result.stdout.str()
    assert "= coverage of the invoice sandbox =" in printed
    assert re.search(r"^operations +5 of +25$", printed, re.MULTILINE)
    assert re.search(r"^steps +1 of +\d+$", printed, re.MULTILINE)
    assert "api listInvoices: 200, 400" in printed
    assert "sandbox" not in printed.partition("What is missing:")[2].partition("passed")[0]


@pytest.mark.process
def test_without_the_option_nothing_is_said(pytester: pytest.Pytester) -> None:
    assert "coverage" not in run(pytester, SUITE).stdout.str()


@pytest.mark.process
def test_it_is_written_into_files(pytester: pytest.Pytester) -> None:
    files = (JSON, "coverage.json", "--sandbox-coverage-html", "coverage.html")
    run(pytester, SUITE, *files).assert_outcomes(passed=5)
    assert operations(pytester.path) == OPERATIONS
    report = reported(pytester.path)
    assert names(report, "steps") == {("auto-progress", "1")}
    assert ("api", "listInvoices", "401") in names(report, "statuses")
    assert {row["part"] for row in report["statuses"]} == {"api"}
    assert (pytester.path / "coverage.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.process
def test_a_file_that_cannot_be_written_is_said_and_fails_nothing(pytester: pytest.Pytester) -> None:
    result = run(pytester, SUITE, JSON, "no/where.json")
    result.assert_outcomes(passed=5)
    assert "no/where.json cannot be written: No such file" in result.stdout.str()


def test_what_all_workers_covered_counts_once(pytester: pytest.Pytester) -> None:
    result = run(pytester, SUITE, "-n", "3", JSON, "coverage.json")
    result.assert_outcomes(passed=5)
    assert operations(pytester.path) == OPERATIONS
    assert result.stdout.str().count("= coverage of the invoice sandbox =") == 1


def test_on_a_server_of_others_only_what_this_run_covered_counts(
    pytester: pytest.Pytester,
) -> None:
    with serving(FROZEN) as server, server.client() as other:
        other.get("/api/health")
        other.get("/api/webhooks")
        before = [one["id"] for one in data(other.get("/sandbox/workspaces"))]
        at = ("--sandbox-url", server.url, JSON, "coverage.json")
        run(pytester, SUITE, *at).assert_outcomes(passed=5)
        assert [one["id"] for one in data(other.get("/sandbox/workspaces"))] == before
    # Who sends no key is nobody's there.
    assert operations(pytester.path) == OPERATIONS - {"listInvoices"}


def test_a_run_that_never_asked_for_the_sandbox_reports_so(pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test_it(): pass", "--sandbox-coverage")
    result.assert_outcomes(passed=1)
    assert "No test has used the fixture invoice_sandbox." in result.stdout.str()


BROKEN = """
def test_it(invoice_sandbox):
    invoice_sandbox.client.get("/api/offers")
    assert False
"""


@pytest.mark.process
def test_a_test_that_fails_counts_too(pytester: pytest.Pytester) -> None:
    run(pytester, BROKEN, JSON, "coverage.json").assert_outcomes(failed=1)
    assert operations(pytester.path) == {"listOffers"}


@pytest.mark.process
def test_a_run_can_need_a_coverage_of_some_types(pytester: pytest.Pytester) -> None:
    options = ("--sandbox-coverage-only", "operations", "--sandbox-coverage-fail-under")
    enough = run(pytester, SUITE, *options, "20")
    assert enough.ret == pytest.ExitCode.OK
    assert "statuses" not in enough.stdout.str()
    less = run(pytester, SUITE, *options, "20.1")
    assert less.ret == pytest.ExitCode.TESTS_FAILED
    less.stdout.fnmatch_lines(["20 % covered, which is less than 20.1 %."])


def test_a_run_without_coverage_does_not_have_enough_of_it(pytester: pytest.Pytester) -> None:
    text, option = "def test_it(): pass\n", "--sandbox-coverage-fail-under"
    less = run(pytester, text, option, "1")
    assert less.ret == pytest.ExitCode.TESTS_FAILED
    less.stdout.fnmatch_lines(["The coverage is not known, so it may be less than 1 %."])
    any_will_do = run(pytester, text, option, "0")
    assert any_will_do.ret == pytest.ExitCode.OK
    assert "= coverage of the invoice sandbox =" in any_will_do.stdout.str()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("nan", "nan is not in the range 0<=x<=100"),
        ("101", "101 is not in the range 0<=x<=100"),
        ("most", "'most' is not a valid number"),
    ],
)
def test_a_coverage_that_no_run_can_be_compared_with_is_an_error(
    pytester: pytest.Pytester, text: str, problem: str
) -> None:
    result = run(pytester, SUITE, "--sandbox-coverage-fail-under", text)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert problem in result.stderr.str()


def test_an_unknown_type_of_coverage_is_an_error(pytester: pytest.Pytester) -> None:
    result = run(pytester, SUITE, "--sandbox-coverage-only", "operation")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "there is no 'operation'; did you mean operations?" in result.stderr.str()
