"""One record on one timeline in the workspace's time, and its lifecycle as a drawing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

from invoice_sandbox.console.client import Client
from invoice_sandbox.console.records import Records, Source
from invoice_sandbox.http.pages import CONSOLE
from invoice_sandbox.scenarios.lifecycle import Machine

_JOURNAL: Final = 100


@dataclass(frozen=True)
class Mark:
    """Something at an instant: its ``source`` in a word, what it was, details, and its page."""

    at: str
    source: str
    text: str
    detail: Any = None
    link: str | None = None
    is_ahead: bool = False


def timeline_of(client: Client, records: Records, record_id: str, ids: Set[str]) -> list[Mark]:
    """Everything about a record, oldest first; ``ids`` are those of what belongs to it, too."""
    steps = client.get("/sandbox/agenda").data
    marks = [
        *_requests(client, ids),
        *_steps(steps, ids),
        *_of_sources(client, records, record_id),
    ]
    return sorted(marks, key=lambda one: (one.is_ahead, _sortable(one.at)))


def _sortable(at: str) -> str:
    """An instant with milliseconds comes after the same second without."""
    return at.removesuffix("Z")


def _requests(client: Client, ids: Set[str]) -> Iterator[Mark]:
    found: dict[str, Any] = {}
    for wanted in ids:
        rows = client.get("/sandbox/requests", {"limit": _JOURNAL, "text": wanted}).rows
        found |= {one["requestId"]: one for one in rows}
    for one in sorted(found.values(), key=lambda one: (one["at"], one["requestId"])):
        text = f"{one['method']} {one['path']} → {one['status']}"
        yield Mark(one["at"], "request", text, link=f"{CONSOLE}/requests/{one['requestId']}")


def _steps(agenda: Any, ids: Set[str]) -> Iterator[Mark]:
    if not isinstance(agenda, Mapping) or "done" not in agenda:
        return
    for one in reversed(agenda["done"]):
        if _is_about(one, ids):
            outcome = "" if one["outcome"] == "done" else f" ({one['outcome']}: {one['reason']})"
            events = "".join(f", {event}" for event in one["events"])
            yield Mark(one["at"], "step", f"{one['do']}{outcome}{events}", one["with"] or None)
    for one in agenda["due"]:
        if _is_about(one, ids):
            yield Mark(one["at"], "step", one["do"], one["with"] or None, is_ahead=True)


def _is_about(step: Mapping[str, Any], ids: Set[str]) -> bool:
    return step["subject"] in ids or any(one in ids for one in step["with"].values())


def _of_sources(client: Client, records: Records, record_id: str) -> Iterator[Mark]:
    for source in records.timeline:
        if source.by is None:
            data = client.get(source.address.path(record_id)).data
            rows = data.get(source.member, []) if isinstance(data, Mapping) else []
        else:
            rows = client.get(source.address.path(), {source.by: record_id, "limit": 100}).rows
        yield from _marks(source, rows)


def _marks(source: Source, rows: Any) -> Iterator[Mark]:
    for row in reversed(rows) if source.by else rows:
        detail = {key: one for key, one in row.items() if key not in {source.at, source.what}}
        yield Mark(row.get(source.at) or "", source.title.lower(), str(row[source.what]), detail)


@dataclass(frozen=True)
class State:
    """A state of a drawing, with its place; ``mark`` is ``now``, ``next`` or empty."""

    name: str
    x: int
    y: int
    mark: str


@dataclass(frozen=True)
class Drawing:
    """A state machine as boxes and arrows. An arrow is its trigger and the places of its ends."""

    states: tuple[State, ...]
    arrows: tuple[tuple[str, int, int, int, int, bool], ...]
    width: int
    height: int


_COLUMN: Final = 170
_ROW: Final = 44
BOX: Final = (146, 28)


def drawing_of(machine: Machine, status: str) -> Drawing:
    """The machine in columns by the number of transitions from its initial state."""
    ranks = _ranks(machine)
    following = {one.to for one in machine.transitions if one.from_ == status}
    places: dict[str, tuple[int, int]] = {}
    heights: dict[int, int] = {}
    for state in machine.states:
        column = ranks.get(state, 0)
        row = heights.get(column, 0)
        heights[column] = row + 1
        places[state] = 12 + column * _COLUMN, 12 + row * _ROW
    states = tuple(
        State(one, *places[one], "now" if one == status else "next" * (one in following))
        for one in machine.states
    )
    arrows = tuple(
        (
            one.trigger,
            places[one.from_][0] + BOX[0] // 2,
            places[one.from_][1] + BOX[1] // 2,
            places[one.to][0] + BOX[0] // 2,
            places[one.to][1] + BOX[1] // 2,
            one.from_ == status,
        )
        for one in machine.transitions
        if one.to in places
    )
    columns = max(heights) + 1
    return Drawing(states, arrows, 12 + columns * _COLUMN, 12 + max(heights.values()) * _ROW)


def _ranks(machine: Machine) -> dict[str, int]:
    ranks, reached = {machine.initial: 0}, [machine.initial]
    for state in reached:
        for one in machine.transitions:
            if one.from_ == state and one.to not in ranks and one.to in machine.states:
                ranks[one.to] = ranks[state] + 1
                reached.append(one.to)
    return ranks
