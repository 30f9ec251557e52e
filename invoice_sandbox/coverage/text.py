"""A coverage report in few lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Final

from invoice_sandbox.base.errors import alternatives
from invoice_sandbox.coverage.report import Count, Report, Row, rounded
from invoice_sandbox.state.hits import TYPES

_WIDTH: Final = 100
_INDENT: Final = "  "
_SHARED: Final = frozenset({"401", "403", "405", "413", "415", "429"})
"""Statuses that most operations return for the same reason, before they are carried out. They would
bury what is particular to one operation."""


def shortfall(report: Report, least: float) -> str:
    """The coverage, if it is less than ``least`` percent; else nothing."""
    if least and not report.counts:
        return f"Nothing was counted, so {least:g} % is not reached."
    if report.percent >= least:
        return ""
    return f"{rounded(report.percent):g} % covered, which is less than {least:g} %."


def lines(report: Report, most: int | None = None) -> Iterator[str]:
    """A line for each type, then what is missing: at most ``most`` items of each type."""
    counts = report.counts
    if not counts:
        yield f"Nothing was counted: there are no {alternatives([*report.rows])} to cover."
        return
    width = max(len(str(count.declared)) for count in counts.values())
    for type_, count in counts.items():
        yield _summary(type_, count, width)
    missing = report.missing
    if not missing:
        yield "Everything is covered."
        return
    yield f"{rounded(report.percent):g} % covered. Missing:"
    idle = {row.names for row in missing.get("operations", ())}
    for type_, rows in missing.items():
        called = [row for row in rows if row.names[:-1] not in idle]
        shared = [row for row in called if type_ == "statuses" and row.names[-1] in _SHARED]
        own = [row for row in called if row not in shared]
        shown = [*_lines_of(own, report.rows[type_]), *_lines_of_shared(shared)]
        if shown:
            yield f"{type_}:"
            yield from _cut(shown, most)


def _summary(type_: str, count: Count, width: int) -> str:
    line = f"{type_:<{max(map(len, TYPES))}}  {count.covered:>{width}} of {count.declared:>{width}}"
    return f"{line}  ({count.injected} injected only)" if count.injected else line


def _lines_of_shared(missing: Iterable[Row]) -> Iterator[str]:
    """One line for each status: ``api 405: createOrder, getOrder``."""
    found: dict[str, list[str]] = {}
    for row in missing:
        part, operation, status = row.names
        found.setdefault(f"{part} {status}", []).append(operation)
    for status, operations in sorted(found.items()):
        yield f"{status}: {', '.join(operations)}"


def _lines_of(missing: Iterable[Row], rows: Iterable[Row]) -> Iterator[str]:
    """One line for all that differ in the last name only: ``api createOrder: 404, 409``.

    Groups that are missing completely share one line.
    """
    everything = _grouped(rows)
    groups = _grouped(missing)
    whole = [group for group, last in groups.items() if group and last == everything[group]]
    if whole:
        yield f"all of {', '.join(' '.join(group) for group in whole)}"
    for group, last in groups.items():
        if group not in whole:
            yield f"{' '.join(group)}: {', '.join(last)}" if group else ", ".join(last)


def _grouped(rows: Iterable[Row]) -> dict[tuple[str, ...], list[str]]:
    grouped: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        grouped.setdefault(row.names[:-1], []).append(row.names[-1])
    return grouped


def _cut(shown: Sequence[str], most: int | None) -> Iterator[str]:
    first = shown[:most]
    for line in first:
        yield from wrap(
            line,
            _WIDTH,
            initial_indent=_INDENT,
            subsequent_indent=2 * _INDENT,
            break_on_hyphens=False,
        )
    if len(first) < len(shown):
        yield f"{_INDENT}and {len(shown) - len(first)} more"
