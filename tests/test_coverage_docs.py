"""docs/coverage.md is true: its commands are run, and its tables are complete.

``python -m tests.test_coverage_docs`` brings the outputs of the page up to date.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
import pytest

from invoice_sandbox.cli.coverage import coverage
from invoice_sandbox.state.hits import TYPES
from tests.readme import commands, with_outputs
from tests.test_cli import SERVE, started
from tests.testing_docs import environment, output

PAGE: Final = Path(__file__).parents[1] / "docs" / "coverage.md"
_URL: Final = "http://127.0.0.1:8080"


def played(page: str) -> str:
    """The page with what its commands print, beside a server that records."""
    env = environment(Path(sys.executable).parent)
    with TemporaryDirectory() as name:
        folder = Path(name)
        with started([*SERVE, "--coverage", folder / "run.txt"]) as server:
            lines = [one.replace(_URL, server.url) for one in commands(page)]
            printed = [output(line, folder, env) for line in lines]
        assert any("status 1" in one for one in printed), "the page shows a run that falls short"
        assert (folder / "coverage.html").exists()
    return with_outputs(page, [one.replace(server.url, _URL) for one in printed])


@pytest.mark.process
def test_the_commands_of_the_page_print_what_the_page_shows() -> None:
    page = PAGE.read_text()
    assert played(page) == page


def test_every_type_and_every_option_is_on_the_page() -> None:
    page = PAGE.read_text()
    assert re.findall(r"^\| (\w+) \| Each", page, re.MULTILINE) == list(TYPES)
    names = {
        one.opts[0] for one in coverage.params if isinstance(one, click.Option) and not one.hidden
    }
    assert {name for name in names if name not in page} == set()


def test_every_link_of_the_page_leads_somewhere() -> None:
    for link in re.findall(r"\]\(([^)#]+)", PAGE.read_text()):
        assert (PAGE.parent / link).exists(), link


if __name__ == "__main__":
    PAGE.write_text(played(PAGE.read_text()))
