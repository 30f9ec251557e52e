"""Lifecycles as data: state machines, the triggers of their transitions, and the types of events.

A file is checked when it is loaded: every state can be reached, every record can reach a terminal
state, and every type of event is declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.openapi.schema.file_schema import (
    FileProblem,
    FileSchema,
    Pointer,
    reject_problems,
)

SCHEMA: Final = Path(__file__).with_name("lifecycle.schema.json")
"""The JSON Schema of a lifecycle file."""

PREVIOUS: Final = "previous"
"""As the target of a transition: the status immediately before the present one."""


@dataclass(frozen=True)
class Transition:
    """A transition that a machine allows. ``to`` may be ``previous``; ``event`` is a type."""

    trigger: str
    from_: str
    to: str
    event: str | None
    description: str


@dataclass(frozen=True)
class Move:
    """A transition that was made, with the status it led to."""

    trigger: str
    from_: str
    to: str
    event: str | None


@dataclass
class IllegalMove(Exception):  # noqa: N818  a client's mistake, not an error of the engine
    """A trigger that the status does not allow; ``legal`` are the ones that it allows."""

    machine: str
    status: str
    trigger: str
    legal: tuple[str, ...]

    __hash__ = Exception.__hash__

    def __str__(self) -> str:
        """Return one line: the rejected trigger and the possible ones."""
        legal = ", ".join(self.legal) or "nothing"
        return (
            f"{self.machine}: '{self.trigger}' is not possible in {self.status} (possible: {legal})"
        )


@dataclass(frozen=True)
class Machine:
    """The state machine of one type of record.

    ``created`` is the type of the event that creation records, or empty. ``states`` and
    ``transitions`` (one per state and trigger) are in the order of the file. ``by_clients`` are the
    triggers that requests cause. ``tones`` are ``good``, ``wait`` or ``bad``, by state.
    """

    name: str
    initial: str
    created: str
    terminal: frozenset[str]
    states: tuple[str, ...]
    transitions: tuple[Transition, ...]
    by_clients: tuple[str, ...] = ()
    tones: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def legal(self) -> Mapping[str, tuple[str, ...]]:
        """The triggers of each state that it allows, in the order of the file."""
        return {
            state: tuple(move.trigger for move in self.transitions if move.from_ == state)
            for state in self.states
        }

    @cached_property
    def _by_cause(self) -> Mapping[tuple[str, str], Transition]:
        return {(move.from_, move.trigger): move for move in self.transitions}

    def step(self, status: str, trigger: str, previous: str | None = None) -> Move:
        """Return the move that ``trigger`` makes from ``status``, before which was ``previous``.

        Raises IllegalMove when the machine has no such move, or needs a ``previous`` status for it.
        """
        transition = self._by_cause.get((status, trigger))
        if transition is not None:
            to = previous if transition.to == PREVIOUS else transition.to
            if to in self.states:
                return Move(trigger, status, to, transition.event)
        legal = tuple(other for other in self.legal.get(status, ()) if other != trigger)
        raise IllegalMove(self.name, status, trigger, legal)


@dataclass(frozen=True)
class Lifecycle:
    """All machines by name, every type of event with its description, and the conditions that every
    scenario has, with their defaults."""

    machines: Mapping[str, Machine]
    events: Mapping[str, str]
    conditions: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def creation_events(self) -> frozenset[str]:
        """The types of the events that record a creation."""
        return frozenset(machine.created for machine in self.machines.values() if machine.created)


def load_lifecycle(file: Path) -> Lifecycle:
    """Return the lifecycle in a file. Raises DocumentError with all problems."""
    document = load_document(file)
    reject_problems(file, FileSchema.read(SCHEMA).problems(document) or _problems(document))
    machines = {name: _machine(name, raw) for name, raw in document["machines"].items()}
    return Lifecycle(machines, document["events"], document.get("conditions", {}))


def _problems(document: Mapping[str, Any]) -> list[FileProblem]:
    """Return what a schema cannot express."""
    problems = list(_event_problems(document))
    for name, raw in document["machines"].items():
        problems += _machine_problems(_machine(name, raw), raw)
    return problems


# Machines --------------------------------------------------------------------------------------


def _machine(name: str, raw: Mapping[str, Any]) -> Machine:
    transitions = tuple(transition for _, transition in _transitions(name, raw))
    named = (state for move in transitions for state in (move.from_, move.to) if state != PREVIOUS)
    return Machine(
        name,
        raw["initial"],
        raw.get("created", ""),
        frozenset(raw["terminal"]),
        tuple(dict.fromkeys((raw["initial"], *named))),
        transitions,
        tuple(raw.get("byClients", [])),
        {state: tone for tone, states in raw.get("tones", {}).items() for state in states},
    )


def _transitions(name: str, raw: Mapping[str, Any]) -> Iterator[tuple[Pointer, Transition]]:
    """Yield one transition for each state in a ``from`` list, with the place of that state."""
    for index, row in enumerate(raw["transitions"]):
        for position, state in enumerate(row["from"]):
            pointer = ("machines", name, "transitions", index, "from", position)
            yield (
                pointer,
                Transition(row["trigger"], state, row["to"], row.get("event"), row["description"]),
            )


def _machine_problems(machine: Machine, raw: Mapping[str, Any]) -> Iterator[FileProblem]:
    written = list(_transitions(machine.name, raw))
    entrances: dict[str, Pointer] = {machine.initial: ("machines", machine.name, "initial")}
    for pointer, move in written:
        if move.to != PREVIOUS:
            entrances.setdefault(move.to, (*pointer[:-2], "to"))
    yield from _unreached_mentions(machine, raw, written, entrances)
    yield from _impossible_moves(machine, written)
    known = {move.trigger for move in machine.transitions}
    for index, trigger in enumerate(machine.by_clients):
        if trigger not in known:
            place = ("machines", machine.name, "byClients", index)
            yield FileProblem(place, f"there is no trigger '{trigger}'", suggestion(trigger, known))
    yield from _lost_states(machine, entrances)


def _unreached_mentions(
    machine: Machine,
    raw: Mapping[str, Any],
    written: Iterable[tuple[Pointer, Transition]],
    entrances: Mapping[str, Pointer],
) -> Iterator[FileProblem]:
    """Yield states in ``from``, ``terminal`` or ``tones`` that no transition leads to, once."""
    mentions: dict[str, Pointer] = {}
    for pointer, move in written:
        mentions.setdefault(move.from_, pointer)
    for index, state in enumerate(raw["terminal"]):
        mentions.setdefault(state, ("machines", machine.name, "terminal", index))
    for tone, states in raw.get("tones", {}).items():
        for index, state in enumerate(states):
            mentions.setdefault(state, ("machines", machine.name, "tones", tone, index))
    for state, pointer in mentions.items():
        if state not in entrances:
            yield FileProblem(
                pointer, f"no transition leads to '{state}'", suggestion(state, entrances)
            )


def _impossible_moves(
    machine: Machine, written: Iterable[tuple[Pointer, Transition]]
) -> Iterator[FileProblem]:
    seen = set()
    for pointer, move in written:
        if (move.from_, move.trigger) in seen:
            yield FileProblem(pointer, f"'{move.trigger}' from '{move.from_}' is listed twice")
        seen.add((move.from_, move.trigger))
        if move.from_ in machine.terminal:
            yield FileProblem(pointer, f"'{move.from_}' is terminal, so it can have no transition")
        if move.from_ == machine.initial and move.to == PREVIOUS:
            yield FileProblem(pointer, f"'{move.from_}' is initial, so it has no previous status")


def _lost_states(machine: Machine, entrances: Mapping[str, Pointer]) -> Iterator[FileProblem]:
    ahead = _situations(machine)
    ending = _ending(machine, ahead)
    reached = {state for state, _ in ahead}
    stuck = {state for state, previous in ahead if (state, previous) not in ending}
    for state, pointer in entrances.items():
        if state not in reached:
            yield FileProblem(pointer, f"'{state}' cannot be reached from '{machine.initial}'")
        if state in stuck:
            yield FileProblem(
                pointer,
                f"no terminal state can be reached from '{state}'",
                f"terminal: {', '.join(sorted(machine.terminal))}",
            )


_Situation = tuple[str, str | None]
"""A status and the one before it, which is the target of ``previous``."""


def _situations(machine: Machine) -> dict[_Situation, list[_Situation]]:
    """Return every situation that can be reached from the initial state, with its successors."""
    ahead: dict[_Situation, list[_Situation]] = {}
    waiting: list[_Situation] = [(machine.initial, None)]
    while waiting:
        here = waiting.pop()
        if here not in ahead:
            ahead[here] = list(_following(machine, *here))
            waiting += ahead[here]
    return ahead


def _following(machine: Machine, status: str, previous: str | None) -> Iterator[_Situation]:
    for move in machine.transitions:
        to = previous if move.to == PREVIOUS else move.to
        if move.from_ == status and to is not None:
            yield to, status


def _ending(machine: Machine, ahead: Mapping[_Situation, list[_Situation]]) -> set[_Situation]:
    """Return the situations from which a terminal state can be reached."""
    behind: dict[_Situation, list[_Situation]] = {here: [] for here in ahead}
    for here, following in ahead.items():
        for there in following:
            behind[there].append(here)
    ending: set[_Situation] = set()
    waiting = [here for here in ahead if here[0] in machine.terminal]
    while waiting:
        here = waiting.pop()
        if here not in ending:
            ending.add(here)
            waiting += behind[here]
    return ending


# Events ----------------------------------------------------------------------------------------


def _event_problems(document: Mapping[str, Any]) -> Iterator[FileProblem]:
    """Yield types in use that are not declared, and declared ones that nothing records."""
    declared, others = document["events"], document.get("otherEvents", [])
    recorded = list(_recorded(document["machines"]))
    listed = [(("otherEvents", index), type_) for index, type_ in enumerate(others)]
    for pointer, type_ in recorded + listed:
        if type_ not in declared:
            advice = suggestion(type_, declared, "add it to 'events', with a description")
            yield FileProblem(pointer, f"'{type_}' is not in 'events'", advice)
    used = {type_ for _, type_ in recorded}
    for pointer, type_ in listed:
        if type_ in used:
            yield FileProblem(
                pointer, f"'{type_}' is recorded by a machine", "remove it from otherEvents"
            )
    for type_ in declared:
        if type_ not in used and type_ not in others:
            yield FileProblem(
                ("events", type_), f"no machine records '{type_}'", "add it to otherEvents"
            )


def _recorded(machines: Mapping[str, Any]) -> Iterator[tuple[Pointer, str]]:
    for name, raw in machines.items():
        if "created" in raw:
            yield ("machines", name, "created"), raw["created"]
        for index, row in enumerate(raw["transitions"]):
            if "event" in row:
                yield ("machines", name, "transitions", index, "event"), row["event"]
