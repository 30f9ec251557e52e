"""A coverage report as one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from invoice_sandbox.coverage.report import Report, Row, rounded

_TEMPLATES: Final = Path(__file__).parent
_TEMPLATE: Final = "coverage.template.html"


@dataclass(frozen=True)
class Group:
    """Rows whose names differ in the last one only; ``head`` is the row that they belong to."""

    names: tuple[str, ...]
    rows: tuple[Row, ...]
    head: Row | None = None

    @property
    def title(self) -> str:
        """The names that all rows share."""
        return " ".join(self.names)

    @property
    def done(self) -> bool:
        """Whether all of it is covered."""
        own = self.head is None or self.head.covered
        return own and all(row.covered for row in self.rows)


def page(report: Report, title: str) -> str:
    """The report as HTML; ``title`` names what was covered."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(_TEMPLATE).render(
        title=title,
        percent=rounded(report.percent),
        counts=report.counts,
        operations=_operations(report),
        groups={name: _groups(report.rows.get(name, ())) for name in ("transitions", "steps")},
        events=report.rows.get("events", ()),
    )


def _operations(report: Report) -> dict[str, list[Group]]:
    """By part: each operation with its statuses."""
    heads = {row.names: row for row in report.rows.get("operations", ())}
    statuses = {group.names: group.rows for group in _groups(report.rows.get("statuses", ()))}
    parts: dict[str, list[Group]] = {}
    for names in {**heads, **statuses}:
        group = Group(names[1:], statuses.get(names, ()), heads.get(names))
        parts.setdefault(names[0], []).append(group)
    return parts


def _groups(rows: Iterable[Row]) -> list[Group]:
    grouped: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        grouped.setdefault(row.names[:-1], []).append(row)
    return [Group(names, tuple(found)) for names, found in grouped.items()]
