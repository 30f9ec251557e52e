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
from tests.testing_docs import PAGE, environment, output, played

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


# --- the workflow


def workflow() -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
    return loaded


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
