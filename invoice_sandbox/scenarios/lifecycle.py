"""Lifecycles as data: states, triggers, and the event that each move makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from invoice_sandbox.contract.documents import load_document


@dataclass(frozen=True)
class Transition:
    """One move that a machine allows."""

    trigger: str
    from_: str
    to: str
    event: str | None


Move = Transition


@dataclass
class IllegalMove(Exception):
    """A trigger that the status does not allow."""

    machine: str
    status: str
    trigger: str
    legal: tuple[str, ...]

    __hash__ = Exception.__hash__


@dataclass(frozen=True)
class Machine:
    """One lifecycle."""

    name: str
    initial: str
    created: str
    terminal: frozenset[str]
    states: tuple[str, ...]
    transitions: tuple[Transition, ...]

    def legal(self, status: str) -> tuple[str, ...]:
        """The triggers that ``status`` allows."""
        return tuple(one.trigger for one in self.transitions if one.from_ == status)

    def step(self, status: str, trigger: str, previous: str | None = None) -> Move:
        """The move that ``trigger`` makes from ``status``."""
        for one in self.transitions:
            if (one.from_, one.trigger) == (status, trigger):
                to = previous or status if one.to == "previous" else one.to
                return Move(trigger, status, to, one.event)
        raise IllegalMove(self.name, status, trigger, self.legal(status))


@dataclass(frozen=True)
class Lifecycle:
    """All machines, and every kind of event with a sentence about it."""

    machines: Mapping[str, Machine]
    events: Mapping[str, str]


def load_lifecycle(file: Path) -> Lifecycle:
    """The lifecycle that a file describes."""
    raw = load_document(file)
    machines = {}
    for name, one in raw["machines"].items():
        transitions = tuple(
            Transition(row["trigger"], start, row["to"], row.get("event"))
            for row in one["transitions"]
            for start in row["from"]
        )
        states = dict.fromkeys(
            [
                one["initial"],
                *(t.from_ for t in transitions),
                *(t.to for t in transitions if t.to != "previous"),
            ]
        )
        machines[name] = Machine(
            name,
            one["initial"],
            one.get("created", ""),
            frozenset(one["terminal"]),
            tuple(states),
            transitions,
        )
    return Lifecycle(machines, raw["events"])
