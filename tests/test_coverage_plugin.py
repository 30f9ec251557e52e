"""``--sandbox-coverage`` in test runs of those who install the plugin."""

from __future__ import annotations

import re

import pytest

from tests.scenario_run import data
from tests.support import FROZEN, Running, serving
from tests.test_plugin import is_up, notes, run

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]

SUITE = """
import httpx

@pytest.mark.parametrize("path", ["/api/offers", "/api/partners"])
def test_a_list(invoice_sandbox, path):
    invoice_sandbox.client.get(path)
    note(url=invoice_sandbox.url)

def test_a_scenario(invoice_sandbox):
    register(invoice_sandbox)
    invoice_sandbox.advance("PT1S")
    note(url=invoice_sandbox.url)

def test_without_a_key(invoice_sandbox):
    httpx.get(f"{invoice_sandbox.url}/api/invoices", timeout=60)

def test_another_workspace(invoice_sandbox):
    with invoice_sandbox.workspace() as other:
        other.client.get("/api/audit-log")
"""


@pytest.fixture(autouse=True)
def _no_sandbox_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "KEY", "PROJECT", "SCENARIOS"):
        monkeypatch.delenv(f"INVOICE_SANDBOX_{name}", raising=False)


def test_without_the_option_nothing_is_said(pytester: pytest.Pytester, server: Running) -> None:
    assert "coverage" not in run(pytester, SUITE, "--sandbox-url", server.url).stdout.str()


@pytest.mark.process
def test_each_worker_has_a_server_of_its_own_and_what_all_covered_counts_once(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, SUITE, "-n", "2", "--sandbox-coverage-fail-under", "5")
    result.assert_outcomes(passed=5)
    urls = {one["url"] for one in notes(pytester.path)}
    assert len(urls) == 2
    assert not any(map(is_up, urls))
    printed = result.stdout.str()
    assert printed.count("= coverage of the invoice sandbox =") == 1
    assert re.search(r"^operations +5 of +25$", printed, re.MULTILINE)
    assert "listInvoices: 200, 400" in printed


def test_on_a_server_of_others_only_what_this_run_covered_counts(
    pytester: pytest.Pytester,
) -> None:
    with serving(FROZEN) as server, server.client() as other:
        other.get("/api/health")
        other.get("/api/webhooks")
        before = [one["id"] for one in data(other.get("/sandbox/workspaces"))]
        result = run(pytester, SUITE, "--sandbox-url", server.url, "--sandbox-coverage")
        result.assert_outcomes(passed=5)
        assert [one["id"] for one in data(other.get("/sandbox/workspaces"))] == before
    # The request without a key counts for the first workspace of that server.
    assert re.search(r"^operations +4 of +25$", result.stdout.str(), re.MULTILINE)


def test_a_run_that_never_asked_for_the_sandbox_reports_so(pytester: pytest.Pytester) -> None:
    result = run(pytester, "def test_it(): pass", "--sandbox-coverage")
    result.assert_outcomes(passed=1)
    assert "No test has used the fixture invoice_sandbox." in result.stdout.str()


def test_a_run_can_need_a_coverage(pytester: pytest.Pytester, server: Running) -> None:
    there = ("--sandbox-url", server.url, "--sandbox-coverage-fail-under")
    assert run(pytester, SUITE, *there, "4").ret == pytest.ExitCode.OK
    less = run(pytester, SUITE, *there, "80")
    assert less.ret == pytest.ExitCode.TESTS_FAILED
    less.stdout.fnmatch_lines(["* % covered, which is less than 80 %."])


def test_a_run_without_coverage_does_not_have_enough_of_it(pytester: pytest.Pytester) -> None:
    text, option = "def test_it(): pass\n", "--sandbox-coverage-fail-under"
    less = run(pytester, text, option, "1")
    assert less.ret == pytest.ExitCode.TESTS_FAILED
    less.stdout.fnmatch_lines(["The coverage is not known, so it may be less than 1 %."])
    any_will_do = run(pytester, text, option, "0")
    assert any_will_do.ret == pytest.ExitCode.OK
    assert "= coverage of the invoice sandbox =" in any_will_do.stdout.str()


def test_a_percentage_that_nothing_can_be_compared_with_is_misuse(
    pytester: pytest.Pytester,
) -> None:
    result = run(pytester, SUITE, "--sandbox-coverage-fail-under", "101")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "101 is not in the range 0<=x<=100" in result.stderr.str()
