"""What is declared, and whether it was touched."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from invoice_sandbox.openapi.operation import Contract
from invoice_sandbox.project.loader import Project
from invoice_sandbox.scenarios.script import Scenario
from invoice_sandbox.state import hits
from invoice_sandbox.state.hits import API, INJECTED, SANDBOX, TYPES, Hit


@dataclass(frozen=True)
class Row:
    """One thing that is declared: its names as TYPES has them, and ``about`` it for people.

    ``injected``: it was touched, but every such answer was ordered by a fault or ``Prefer``.
    """

    names: tuple[str, ...]
    about: str = ""
    touched: bool = False
    injected: bool = False


@dataclass(frozen=True)
class Count:
    """How many things of a kind were touched, how many of them by injection only, of how many."""

    touched: int
    injected: int
    declared: int


Rows = Mapping[str, tuple[Row, ...]]


@dataclass(frozen=True)
class Report:
    """All that is declared, by kind, in the order in which it is declared."""

    rows: Rows

    @property
    def counts(self) -> dict[str, Count]:
        """How much of each kind was touched; kinds of which nothing is declared are left out."""
        return {kind: _count(rows) for kind, rows in self.rows.items() if rows}

    @property
    def percent(self) -> float:
        """How much of everything was touched, from 0 to 100; nothing declared is 100."""
        counts = self.counts.values()
        declared = sum(one.declared for one in counts)
        return 100 * sum(one.touched for one in counts) / declared if declared else 100.0

    @property
    def missing(self) -> dict[str, tuple[Row, ...]]:
        """What was not touched, by kind; kinds of which nothing is missing are left out."""
        found = {kind: tuple(row for row in rows if not row.touched) for kind, rows in self}
        return {kind: rows for kind, rows in found.items() if rows}

    def __iter__(self) -> Iterator[tuple[str, tuple[Row, ...]]]:
        """Kinds and their rows."""
        return iter(self.rows.items())

    def only(self, kinds: Collection[str]) -> Report:
        """The same for these kinds alone."""
        return Report({kind: rows for kind, rows in self if kind in kinds})

    def without_levers(self) -> Report:
        """The same without the operations of the levers."""
        return Report(
            {kind: tuple(row for row in rows if not _is_lever(kind, row)) for kind, rows in self}
        )

    def merged(self, other: Report) -> Report:
        """Touched is what was touched in either; what only ``other`` declares comes last."""
        return Report(
            {kind: _merged(self.rows.get(kind, ()), other.rows.get(kind, ())) for kind in TYPES}
        )

    def data(self) -> dict[str, Any]:
        """The report as JSON has it: ``summary``, and a list of objects for each kind."""
        summary = {kind: vars(count) for kind, count in self.counts.items()}
        lists = {kind: [_data(kind, row) for row in rows] for kind, rows in self}
        return {"percent": rounded(self.percent), "summary": summary, **lists}


def rounded(percent: float) -> float:
    """With one decimal, and never rounded up: 100 is everything."""
    return int(percent * 10) / 10


def report_of(project: Project, touched: Iterable[Hit]) -> Report:
    """What a project declares, held against what was touched."""
    done = frozenset(touched)
    return Report({kind: tuple(_judged(done, rows)) for kind, rows in _declared(project).items()})


def report_from(data: Mapping[str, Any]) -> Report:
    """The report that ``data`` was made of. Raises KeyError or TypeError for other data."""
    return Report({kind: tuple(_row(kind, one) for one in data[kind]) for kind in TYPES})


# What is declared -------------------------------------------------------------------------------


def _declared(project: Project) -> dict[str, list[tuple[Hit, str]]]:
    parts = {API: project.contract, SANDBOX: project.control}
    return {
        "operations": [
            one for part, contract in parts.items() for one in _operations(part, contract)
        ],
        "statuses": [one for part, contract in parts.items() for one in _statuses(part, contract)],
        "events": [(hits.event(kind), about) for kind, about in _events(project).items()],
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
    """What the lifecycle can record; a contract alone declares webhooks that nobody sends."""
    return dict(project.lifecycle.events)


def _steps(scenario: Scenario) -> Iterator[tuple[Hit, str]]:
    told = {one.index: one.do for one in scenario.steps}
    told |= {one.index: one.do for one in scenario.calls}
    for index in sorted(told):
        yield hits.step(scenario.name, index), told[index]


# Rows ------------------------------------------------------------------------------------------


def _judged(done: frozenset[Hit], declared: list[tuple[Hit, str]]) -> Iterator[Row]:
    for touch, about in declared:
        _, *names = touch
        served, injected = touch in done, (INJECTED, *names) in done
        yield Row(tuple(names), about, served or injected, injected and not served)


def _count(rows: tuple[Row, ...]) -> Count:
    return Count(
        sum(row.touched for row in rows), sum(row.injected for row in rows), declared=len(rows)
    )


def _is_lever(kind: str, row: Row) -> bool:
    return "part" in TYPES[kind] and row.names[0] == SANDBOX


def _merged(ours: tuple[Row, ...], theirs: tuple[Row, ...]) -> tuple[Row, ...]:
    rows = {row.names: row for row in ours}
    for row in theirs:
        rows[row.names] = _either(rows[row.names], row) if row.names in rows else row
    return tuple(rows.values())


def _either(one: Row, other: Row) -> Row:
    served = any(row.touched and not row.injected for row in (one, other))
    return replace(
        one,
        touched=one.touched or other.touched,
        injected=not served and (one.injected or other.injected),
    )


def _data(kind: str, row: Row) -> dict[str, Any]:
    told: dict[str, Any] = dict(zip(TYPES[kind], row.names, strict=True))
    if row.about:
        told["about"] = row.about
    return {**told, "touched": row.touched, **({"injected": True} if row.injected else {})}


def _row(kind: str, told: Mapping[str, Any]) -> Row:
    names = tuple(str(told[name]) for name in TYPES[kind])
    about = str(told.get("about", ""))
    return Row(names, about, bool(told["touched"]), bool(told.get("injected", False)))
