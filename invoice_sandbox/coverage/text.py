"""A coverage report in few lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap
from typing import Final

from invoice_sandbox.coverage.report import Count, Report, Row, rounded
from invoice_sandbox.state.hits import TYPES

_WIDTH: Final = 100
_INDENT: Final = "  "


def lines(report: Report, most: int | None = None) -> Iterator[str]:
    """A line for each kind, then what is missing: at most ``most`` things of each kind."""
    counts = report.counts
    width = max((len(str(count.declared)) for count in counts.values()), default=1)
    for kind, count in counts.items():
        yield _summary(kind, count, width)
    missing = report.missing
    if not missing:
        yield "Everything was touched."
        return
    yield f"{rounded(report.percent):g} % of everything was touched. What is missing:"
    idle = {row.names for row in missing.get("operations", ())}
    for kind, rows in missing.items():
        told = list(_told(rows, report.rows[kind], idle))
        if told:
            yield f"{kind}:"
            yield from _cut(told, most)


def _summary(kind: str, count: Count, width: int) -> str:
    line = f"{kind:<{max(map(len, TYPES))}}  {count.touched:>{width}} of {count.declared:>{width}}"
    return f"{line}  ({count.injected} only ordered)" if count.injected else line


def _told(missing: Iterable[Row], rows: Iterable[Row], idle: set[tuple[str, ...]]) -> Iterator[str]:
    """One line for all that differ in the last name only: ``api createInvoice: 404, 409``.

    Where all of them are missing only what they share is told, and of ``idle`` operations nothing:
    nobody asked for them, so they gave no answer either.
    """
    everything = _grouped(rows)
    groups = {group: last for group, last in _grouped(missing).items() if group not in idle}
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


def _cut(told: Sequence[str], most: int | None) -> Iterator[str]:
    shown = told[:most]
    for line in shown:
        yield from wrap(
            line,
            _WIDTH,
            initial_indent=_INDENT,
            subsequent_indent=2 * _INDENT,
            break_on_hyphens=False,
        )
    if len(shown) < len(told):
        yield f"{_INDENT}and {len(told) - len(shown)} more"
