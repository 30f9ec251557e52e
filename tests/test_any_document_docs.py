"""docs/any-document.md is up to date: options, limits, and the results of each document."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from invoice_sandbox.openapi.load import fetching
from tests.foreign import packages
from tests.foreign.page import PAGE, with_table
from tests.foreign.play import Played

TEXT = PAGE.read_text()
ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "word",
    [
        *("serve --contract", "--allow-remote-refs", "INVOICE_SANDBOX_ALLOW_REMOTE_REFS"),
        *("invoice-sandbox init", "contract --limitations", "make foreign", "make interop"),
        *("callbacks", "externalValue", "mutualTLS", "nullable", "servers", "#"),
        "an example that is a `$ref`",
        f"{fetching.MAX_SECONDS} seconds",
        f"{fetching.MAX_BYTES // 1024 // 1024} MiB",
        f"no more than {fetching.MAX_FILES}",
    ],
)
def test_the_page_describes(word: str) -> None:
    assert word in " ".join(TEXT.split())


def test_the_page_names_every_document_that_is_played() -> None:
    for name in packages.MAKERS:
        assert f"`{name}`" in TEXT or f"`{name}:" in TEXT


def test_no_response_in_the_table_is_wrong() -> None:
    row = r"^\| [^|]+ \| 3[^|]* \| (\d+) \| (\d+) \| (\d+) \| "
    rows = re.findall(row, TEXT, re.MULTILINE)
    assert sum(int(right) for _, right, _ in rows) > 9000
    assert {wrong for _, _, wrong in rows} == {"0"}


def test_documents_of_more_than_three_makers_are_played_every_time() -> None:
    makers = {name.partition("/")[0] for name in packages.BOUNDED[packages.DIRECTORY]}
    assert len(makers) > 3


def test_the_make_targets_are_there() -> None:
    targets = (ROOT / "Makefile").read_text()
    assert "\nforeign: " in targets
    assert "-m tests.foreign --bounded\n" in targets


def test_a_table_replaces_the_one_before() -> None:
    played = [
        Played(
            "maker a.json", "3.0.3", operations=2, right=1, unanswered=["GET /a: no"], collections=3
        ),
        Played("maker b.json", rejected="/x/node_modules/maker-1/b.json:1:1: not OpenAPI"),
    ]
    once = with_table(TEXT, played)
    assert with_table(once, played) == once
    assert "| maker a.json | 3.0 | 2 | 1 | 0 | 1 | 0 | 3 | 0.0 s |\n" in once
    assert "- maker a.json, GET /a: `no`\n" in once
    assert "- `b.json:1:1: not OpenAPI`\n" in once


def test_reasons_that_differ_in_a_number_only_are_one_line() -> None:
    advice = "; add an example to the operation. All other operations are served."
    lines = [f"GET /{n}: {n} is no status{advice}" for n in (100, 101)]
    page = with_table(TEXT, [Played("a.json", "3.0.3", operations=2, unanswered=lines)])
    assert "- a.json, GET /100 and 1 more: `100 is no status`\n" in page
