"""Reports of contract coverage: which operations returned which of their declared statuses.

A report is the data of ``GET /sandbox/coverage``: ``operations`` with the number of responses of
each declared status, and the totals.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, Final

Report = Mapping[str, Any]

_WIDTH: Final = 100
_COMMON: Final = frozenset({"401", "403", "413", "415", "429"})
"""Statuses that most operations return for the same reason. They are listed last, by status, so
that they do not bury what is particular to one operation."""


def report_of(operations: Sequence[Mapping[str, Any]]) -> Report:
    """Return the report of operations, each with ``covered`` and the counts of its ``statuses``."""
    called = [bool(row["covered"]) for row in operations]
    returned = [count > 0 for row in operations for count in row["statuses"].values()]
    items = {"operations": called, "statuses": returned}
    return {
        "percent": _percent([*called, *returned]),
        "summary": {
            name: {"covered": sum(found), "declared": len(found)} for name, found in items.items()
        },
        "operations": operations,
    }


def merged(reports: Sequence[Report]) -> Report:
    """Return one report of several that have the same operations; their counts are added."""
    by_operation = zip(*(report["operations"] for report in reports), strict=True)
    return report_of([_merged(rows) for rows in by_operation])


def lines(report: Report, most: int | None = None) -> Iterator[str]:
    """Return the report as text: totals, then what is missing, in at most ``most`` entries."""
    for name, total in report["summary"].items():
        yield f"{name:<10}  {total['covered']:>3} of {total['declared']:>3}"
    missing = [*_missing(report["operations"])]
    if not missing:
        yield "Everything is covered."
        return
    yield f"{report['percent']:g} % covered. Missing:"
    for entry in missing[:most]:
        yield from wrap(entry, _WIDTH, initial_indent="  ", subsequent_indent="    ")
    if most is not None and len(missing) > most:
        yield f"  and {len(missing) - most} more"


def shortfall(report: Report, least: float) -> str:
    """Return what is wrong with a coverage below ``least`` percent, or an empty text."""
    if float(report["percent"]) >= least:  # the command reads exact decimals
        return ""
    return f"{report['percent']:g} % covered, which is less than {least:g} %."


def _percent(items: Sequence[bool]) -> float:
    """Return the share of what is covered, never rounded up: 100 is everything."""
    return int(1000 * sum(items) / len(items)) / 10 if items else 100.0


def _merged(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        **rows[0],
        "covered": any(row["covered"] for row in rows),
        "statuses": {
            status: sum(row["statuses"][status] for row in rows) for status in rows[0]["statuses"]
        },
    }


def _missing(operations: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Return entries such as ``not called: login, logout``, ``getOrder: 404``, and
    ``429: getOrder, listOrders``."""
    idle = [row["operation"] for row in operations if not row["covered"]]
    if idle:
        yield f"not called: {', '.join(idle)}"
    common: dict[str, list[str]] = {}
    for row in operations:
        if not row["covered"]:
            continue
        missing = [status for status, count in row["statuses"].items() if not count]
        particular = [status for status in missing if status not in _COMMON]
        if particular:
            yield f"{row['operation']}: {', '.join(particular)}"
        for status in sorted(_COMMON.intersection(missing)):
            common.setdefault(status, []).append(row["operation"])
    for status, names in sorted(common.items()):
        yield f"{status}: {', '.join(names)}"
