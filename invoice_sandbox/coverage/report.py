"""What is declared, and whether it is covered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from invoice_sandbox.state import hits
from invoice_sandbox.state.hits import API, INJECTED, SANDBOX, TYPES, Hit

if TYPE_CHECKING:  # the pytest plugin merges reports where only a client is installed
    from invoice_sandbox.openapi.operation import Contract
    from invoice_sandbox.project.loader import Project
    from invoice_sandbox.scenarios.script import Scenario


@dataclass(frozen=True)
class Row:
    """One declared item: its names as TYPES has them, and a description for people.

    ``injected``: it is covered only by responses of a fault or of ``Prefer``.
    """

    names: tuple[str, ...]
    about: str = ""
    covered: bool = False
    injected: bool = False


@dataclass(frozen=True)
class Count:
    """How many items of a type are covered, how many of them by injection only, of how many."""

    covered: int
    injected: int
    declared: int


Rows = Mapping[str, tuple[Row, ...]]


@dataclass(frozen=True)
class Report:
    """Everything that is declared, by type, in the order of declaration."""

    rows: Rows

    @property
    def counts(self) -> dict[str, Count]:
        """The counts of each type; types without declared items are left out."""
        return {type_: _count(rows) for type_, rows in self.rows.items() if rows}

    @property
    def percent(self) -> float:
        """How much is covered, from 0 to 100; 100 when nothing is declared."""
        counts = self.counts.values()
        declared = sum(one.declared for one in counts)
        return 100 * sum(one.covered for one in counts) / declared if declared else 100.0

    @property
    def missing(self) -> dict[str, tuple[Row, ...]]:
        """The items that are not covered, by type; types without any are left out."""
        found = {type_: tuple(row for row in rows if not row.covered) for type_, rows in self}
        return {type_: rows for type_, rows in found.items() if rows}

    def __iter__(self) -> Iterator[tuple[str, tuple[Row, ...]]]:
        """Types and their rows."""
        return iter(self.rows.items())

    def only(self, types: Collection[str]) -> Report:
        """The report of these types."""
        return Report({type_: rows for type_, rows in self if type_ in types})

    def without_control_api(self) -> Report:
        """The report without the operations of the control API."""
        return Report(
            {
                type_: tuple(row for row in rows if not _is_control(type_, row))
                for type_, rows in self
            }
        )

    def merged(self, other: Report) -> Report:
        """Covered is what either covers; what only ``other`` declares comes last."""
        return Report(
            {type_: _merged(self.rows.get(type_, ()), other.rows.get(type_, ())) for type_ in TYPES}
        )

    def data(self) -> dict[str, Any]:
        """The report as JSON: ``summary``, and a list of objects for each type."""
        summary = {type_: vars(count) for type_, count in self.counts.items()}
        lists = {type_: [_data(type_, row) for row in rows] for type_, rows in self}
        return {"percent": rounded(self.percent), "summary": summary, **lists}


def rounded(percent: float) -> float:
    """With one decimal, and never rounded up: 100 is everything."""
    return int(percent * 10) / 10


def report_of(project: Project, found: Iterable[Hit]) -> Report:
    """What a project declares, compared with the hits."""
    done = frozenset(found)
    return Report({type_: tuple(_judged(done, rows)) for type_, rows in _declared(project).items()})


def report_from(data: Mapping[str, Any]) -> Report:
    """The report from its ``data``. Raises KeyError or TypeError for other data."""
    return Report({type_: tuple(_row(type_, one) for one in data[type_]) for type_ in TYPES})


# What is declared -------------------------------------------------------------------------------


def _declared(project: Project) -> dict[str, list[tuple[Hit, str]]]:
    parts = {API: project.contract, SANDBOX: project.control}
    return {
        "operations": [
            one for part, contract in parts.items() for one in _operations(part, contract)
        ],
        "statuses": [one for part, contract in parts.items() for one in _statuses(part, contract)],
        "events": [(hits.event(type_), about) for type_, about in _events(project).items()],
        "transitions": [
            (hits.transition(machine.name, one.from_, one.trigger), one.description)
            for machine in project.lifecycle.machines.values()
            for one in machine.transitions
        ],
        "steps": [
            one for name in sorted(project.scenarios) for one in _steps(project.scenarios[name])
        ],
    }


def _operations(part: str, contract: Contract) -> Iterator[tuple[Hit, str]]:
    for one in contract.operations.values():
        yield hits.operation(part, one.id), f"{one.method} {contract.base_path}{one.path}"


def _statuses(part: str, contract: Contract) -> Iterator[tuple[Hit, str]]:
    for one in contract.operations.values():
        for key in sorted(one.responses):
            yield hits.status(part, one.id, key), ""


def _events(project: Project) -> dict[str, str]:
    """The events of the lifecycle; a contract may declare webhooks that are never sent."""
    return dict(project.lifecycle.events)


def _steps(scenario: Scenario) -> Iterator[tuple[Hit, str]]:
    shown = {one.index: one.do for one in scenario.steps}
    shown |= {one.index: one.do for one in scenario.calls}
    for index in sorted(shown):
        yield hits.step(scenario.name, index), shown[index]


# Rows ------------------------------------------------------------------------------------------


def _judged(done: frozenset[Hit], declared: list[tuple[Hit, str]]) -> Iterator[Row]:
    for hit, about in declared:
        _, *names = hit
        served, injected = hit in done, (INJECTED, *names) in done
        yield Row(tuple(names), about, served or injected, injected and not served)


def _count(rows: tuple[Row, ...]) -> Count:
    return Count(
        sum(row.covered for row in rows), sum(row.injected for row in rows), declared=len(rows)
    )


def _is_control(type_: str, row: Row) -> bool:
    return "part" in TYPES[type_] and row.names[0] == SANDBOX


def _merged(ours: tuple[Row, ...], theirs: tuple[Row, ...]) -> tuple[Row, ...]:
    rows = {row.names: row for row in ours}
    for row in theirs:
        rows[row.names] = _either(rows[row.names], row) if row.names in rows else row
    return tuple(rows.values())


def _either(one: Row, other: Row) -> Row:
    served = any(row.covered and not row.injected for row in (one, other))
    return replace(
        one,
        covered=one.covered or other.covered,
        injected=not served and (one.injected or other.injected),
    )


def _data(type_: str, row: Row) -> dict[str, Any]:
    shown: dict[str, Any] = dict(zip(TYPES[type_], row.names, strict=True))
    if row.about:
        shown["about"] = row.about
    return {**shown, "covered": row.covered, **({"injected": True} if row.injected else {})}


def _row(type_: str, shown: Mapping[str, Any]) -> Row:
    names = tuple(str(shown[name]) for name in TYPES[type_])
    about = str(shown.get("about", ""))
    return Row(names, about, bool(shown["covered"]), bool(shown.get("injected", False)))
