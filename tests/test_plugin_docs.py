"""docs/testing.md is true, and the files that it hands out do what it says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from invoice_sandbox.state.credentials import DEMO_KEY
from invoice_sandbox.testing import InvoiceSandbox, Webhooks
from tests.testing_docs import PAGE, environment, files, output, played, without_chance

ROOT = PAGE.parents[1]
WORKFLOW = ROOT / "docs" / "ci-workflow.yml"
NOT_ON_THE_PAGE = {
    "close",  # the fixture does it
    "prepare",  # the fixture does it
    "forget",  # what reset does
}


def public(thing: type) -> set[str]:
    """The names of a class that are for everybody."""
    return {name for name in vars(thing) if not name.startswith("_")}


@pytest.mark.process
def test_the_sessions_of_the_page_print_what_the_page_shows() -> None:
    page = PAGE.read_text()
    assert played(page, Path(sys.executable).parent) == page
    assert len(re.findall(r"\d failed", page)) == 1, "one test of the page fails on purpose"


def test_everything_that_a_test_is_given_is_on_the_page() -> None:
    page = PAGE.read_text()
    names = public(InvoiceSandbox) | public(Webhooks)
    missing = {name for name in names if not re.search(rf"\.{name}\b", page)}
    assert missing == NOT_ON_THE_PAGE


def test_every_option_is_on_the_page(pytestconfig: pytest.Config) -> None:
    page = PAGE.read_text()
    for name in ("url", "key", "project", "contract", "scenarios"):
        assert pytestconfig.getoption(f"--sandbox-{name}", "missing") is None
        assert f"`--sandbox-{name} " in page
        assert f"`INVOICE_SANDBOX_{name.upper()}`" in page
    assert pytestconfig.getoption("--sandbox-stateful") is None
    assert "| `--sandbox-stateful` | `INVOICE_SANDBOX_STATEFUL=on` |" in page


def test_every_link_of_the_page_leads_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)", PAGE.read_text()):
        assert (PAGE.parent / link).exists(), link


def test_the_page_takes_five_minutes() -> None:
    """Client and first test are short enough to be read and typed in that time."""
    texts = files(PAGE.read_text())
    assert len((texts["billing.py"] + texts["test_billing.py"]).splitlines()) < 50


def test_what_is_of_chance_is_made_equal() -> None:
    printed = "/a/b/testing/x.py:1: http://127.0.0.1:1/ in 2.00s"
    assert without_chance(printed) == "testing/x.py:1: http://127.0.0.1:41234/ in 1.30s"


# --- the workflow


def workflow() -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
    return loaded


def test_the_workflow_is_one() -> None:
    found = workflow()
    assert {"name", "permissions", "env", "jobs"} <= found.keys()
    assert found[True].keys() == {"push", "pull_request"}  # YAML 1.1 reads "on" as a truth value
    for job in found["jobs"].values():
        assert job["runs-on"]
        assert job["timeout-minutes"] <= 10
        assert all(("uses" in step) != ("run" in step) for step in job["steps"])


def test_its_actions_have_versions_and_it_may_only_read() -> None:
    for job in workflow()["jobs"].values():
        for step in job["steps"]:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step.get("uses", "actions/x@v1"))
    assert workflow()["permissions"] == {"contents": "read"}


def test_it_uses_the_documented_key() -> None:
    job = workflow()["jobs"]["any-language"]
    assert job["env"]["INVOICE_SANDBOX_KEY"] == DEMO_KEY


def test_a_command_of_a_page_sees_nothing_of_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INVOICE_SANDBOX_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("CI", "true")
    env = environment(Path(sys.executable).parent)
    assert output("echo $INVOICE_SANDBOX_URL$PYTEST_CURRENT_TEST$CI", tmp_path, env) == ""
