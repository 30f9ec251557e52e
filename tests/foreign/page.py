"""The table of docs/any-document.md: what came of each document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.foreign.play import Played

PAGE: Final = Path(__file__).parents[2] / "docs" / "any-document.md"
_START: Final = "<!-- played: make foreign -->\n"
_END: Final = "<!-- end -->\n"
_LONGEST: Final = 160
_FOLDER_OF_PACKAGE: Final = re.compile(r"\S*/node_modules/[^/\s]+/")


def with_table(page: str, played: Iterable[Played]) -> str:
    """The page with what came of the documents between its two marks."""
    before, _, rest = page.partition(_START)
    _, _, after = rest.partition(_END)
    return before + _START + "".join(_lines(list(played))) + _END + after


def _listed(title: str, found: list[tuple[Played, list[str]]]) -> Iterator[str]:
    lines = [f"- {one.name}, {line[:_LONGEST]}\n" for one, some in found for line in some]
    yield from [f"\n{title}\n\n", *(lines or ["- none\n"])]


def _counted(lines: list[str]) -> Iterator[str]:
    """The first line of each reason, and how many more have the same."""
    for reason, same in groupby(sorted(lines, key=_reason), key=_reason):
        first, *others = same
        place = first.removesuffix(reason).rstrip(": ")
        yield f"{place}{f' and {len(others)} more' if others else ''}: {reason}"


def _reason(line: str) -> str:
    return line.rpartition(": ")[2]


def _lines(played: list[Played]) -> Iterator[str]:
    yield "\n| document | OpenAPI | operations | right | wrong | 501 | not asked | ready after |\n"
    yield "|---|---|---|---|---|---|---|---|\n"
    for one in played:
        if not one.refused:
            lists = (one.wrong, one.unanswered, one.unasked)
            numbers = " | ".join(map(str, (one.operations, one.right, *map(len, lists))))
            yield f"| {one.name} | {one.version} | {numbers} | {one.seconds:.1f} s |\n"
    yield from _listed("Wrong:", [(one, one.wrong) for one in played])
    yield from _listed(
        "Answered with 501, and told so at the start:", [(one, one.unanswered) for one in played]
    )
    yield from _listed(
        "Not asked, because the check could not make a valid request:",
        [(one, list(_counted(one.unasked))) for one in played],
    )
    yield "\nRefused at the start, by place:\n\n"
    for one in played:
        if one.refused:
            yield f"- `{_FOLDER_OF_PACKAGE.sub('', one.refused)}`\n"
    yield "\n"
