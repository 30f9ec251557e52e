"""docs/clients.md is true. Its sessions that need Node.js are run by ``make interop``."""

from __future__ import annotations

import json
import re
from importlib.metadata import version

import pytest

from tests.clients.page import PAGE, PYTHON, SESSIONS, played, section
from tests.interop.node import HERE
from tests.readme import commands

ROOT = PAGE.parents[1]
GENERATORS = ROOT / "tests" / "generators"
NPM = {
    "openapi-typescript": "openapi-typescript",
    "Prism": "@stoplight/prism-cli",
    "hey-api": "@hey-api/openapi-ts",
    "orval": "orval",
    "Redocly": "@redocly/cli",
    "Spectral": "@stoplight/spectral-cli",
}
"""Tools by the names that the page has for them."""


@pytest.mark.process
def test_the_session_in_python_prints_what_the_page_shows() -> None:
    page = PAGE.read_text()
    assert played(page, [PYTHON]) == page


@pytest.mark.parametrize("heading", SESSIONS)
def test_every_session_has_commands_and_no_other_section_has(heading: str) -> None:
    page = PAGE.read_text()
    assert commands(section(page, heading))
    assert len(commands(page)) == sum(len(commands(section(page, one))) for one in SESSIONS)


def test_the_page_names_the_versions_that_were_tried() -> None:
    page = PAGE.read_text()
    pinned: dict[str, str] = {}
    for folder in (HERE, GENERATORS):
        pinned |= json.loads((folder / "package.json").read_text())["dependencies"]
    versions = {name: pinned[package] for name, package in NPM.items()}
    versions["openapi-python-client"] = version("openapi-python-client")
    constraints = (ROOT / "constraints.txt").read_text()
    versions["openapi-generator"] = re.findall(r"openapi-generator-cli==(.+)", constraints)[0]
    for name, number in versions.items():
        minor = number.rpartition(".")[0]
        assert re.search(rf"{name} {re.escape(minor)}[ ,]", page)
