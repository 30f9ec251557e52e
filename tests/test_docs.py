"""The documentation as a whole: every link leads somewhere, and nothing is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.settings import SETTINGS
from tests import reference_docs
from tests.cases import in_turn
from tests.readme import README

ROOT = README.parent
DOCS = ROOT / "docs"
INTERNALS = DOCS / "internals"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
CONTROL_CONTRACTS = [
    ROOT / "invoice_sandbox" / "control" / "openapi.yaml",
    ROOT / "openapi" / "sandbox.yaml",
]
OF_THE_LISTEN_COMMAND = re.compile(r"/listeners/")
"""Endpoints that the page sums up as "and below"."""


def anchors(page: Path) -> set[str]:
    """The anchors of the page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one).strip().lower().replace(" ", "-") for one in titles}


@in_turn("page", PAGES, ids=lambda one: one.name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "`", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("folder", [DOCS, INTERNALS], ids=lambda one: one.name)
def test_the_index_lists_every_page(folder: Path) -> None:
    index = (folder / "README.md").read_text()
    left_out = [item.name for item in folder.glob("*.md") if f"]({item.name})" not in index]
    assert left_out == ["README.md"]


@pytest.mark.parametrize("name", reference_docs.PAGES)
def test_a_reference_page_is_up_to_date(name: str) -> None:
    page = (DOCS / f"{name}.md").read_text()
    made = reference_docs.with_generated(name, page)
    assert made == page, "run python -m tests.reference_docs"


def test_the_index_for_language_models_is_up_to_date() -> None:
    made = reference_docs.llms_text((DOCS / "README.md").read_text())
    assert made == reference_docs.LLMS.read_text(), "run python -m tests.reference_docs"


def test_every_setting_is_on_the_page_with_its_default() -> None:
    page = (DOCS / "configuration.md").read_text()
    for one in SETTINGS:
        row = next(line for line in page.splitlines() if re.match(rf"\| .*`--{one.name}\b", line))
        assert one.default is None or f"`{one.default}`" in row


@pytest.mark.parametrize("file", CONTROL_CONTRACTS, ids=lambda one: one.parent.name)
def test_every_control_endpoint_is_on_the_page(file: Path) -> None:
    page = (DOCS / "control-api.md").read_text()
    paths = [one for one in load_document(file)["paths"] if not OF_THE_LISTEN_COMMAND.match(one)]
    assert paths
    assert [one for one in paths if f"`/sandbox{one}`" not in page] == []


def test_every_path_of_the_architecture_exists() -> None:
    page = (INTERNALS / "architecture.md").read_text()
    paths = set(re.findall(r"`([\w./-]+(?:/|\.py|\.yaml|\.toml))`", page))
    assert len(paths) > 50
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


def test_the_architecture_names_every_package_and_every_stage() -> None:
    page = (INTERNALS / "architecture.md").read_text()
    packages = [one.name for one in (ROOT / "invoice_sandbox").iterdir() if one.is_dir()]
    shown = [one for one in packages if one != "__pycache__"]
    assert [one for one in shown if f"`invoice_sandbox/{one}/`" not in page] == []
    steps = re.findall(r"^\| ([a-z ]+) \|", page, re.MULTILINE)
    assert steps == [
        *("route", "admit", "due steps", "fault", "read", "idempotency", "prefer", "handler"),
        *("check", "commit", "journal", "reply"),
    ]
