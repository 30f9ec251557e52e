"""Drawings for the console: the lifecycle of a record, and the steps of a scenario."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from invoice_sandbox.scenarios.descriptions import StepView
    from invoice_sandbox.scenarios.lifecycle import Machine, Transition

WIDTH: Final = 128
HEIGHT: Final = 26
"""The size of the box of a state."""

_COLUMN: Final = 146
_ROW: Final = 42
_MARGIN: Final = 8
_HALF: Final = (_COLUMN - WIDTH) // 2
_GAP: Final = 4
_LANE: Final = 7
_BACK: Final = 6
_ROUND: Final = 4
"""Pixels: of half a gap between columns, between the lines that begin in two rows, from a line to a
row, from a line that leads on to one that leads back, and of a round corner."""


@dataclass(frozen=True)
class State:
    """A state of a drawing, with its place; ``mark`` is ``now``, ``next``, ``over`` or empty."""

    name: str
    x: int
    y: int
    mark: str


@dataclass(frozen=True)
class Arrow:
    """A transition: its ``path`` as SVG draws it; ``is_next``: it is legal now."""

    trigger: str
    path: str
    is_next: bool


@dataclass(frozen=True)
class Drawing:
    """A state machine as boxes and arrows; those that are legal now come last, on top."""

    states: tuple[State, ...]
    arrows: tuple[Arrow, ...]
    width: int
    height: int


def drawing_of(machine: Machine, status: str, legal: Collection[str]) -> Drawing:
    """The machine in columns by the number of transitions from its initial state; ``legal`` are
    the triggers of those that lead on from ``status`` now."""
    places = _places(machine)
    next_ = [
        transition
        for transition in machine.transitions
        if transition.from_ == status and transition.trigger in legal
    ]
    following = {transition.to for transition in next_}
    states = tuple(
        State(state, *places[state], _mark(machine, state, status, following))
        for state in machine.states
    )
    arrows = [
        Arrow(
            transition.trigger,
            _path(places[transition.from_], places[transition.to]),
            transition in next_,
        )
        for transition in machine.transitions
        if transition.to in places and transition.to != transition.from_
    ]
    arrows.sort(key=lambda arrow: arrow.is_next)
    width = max(x for x, _ in places.values()) + _COLUMN
    height = max(y for _, y in places.values()) + HEIGHT + _MARGIN
    return Drawing(states, tuple(arrows), width, height)


def _mark(machine: Machine, state: str, status: str, following: set[str]) -> str:
    if state == status:
        return "now"
    if state in following:
        return "next"
    return "over" if state in machine.terminal else ""


def _places(machine: Machine) -> dict[str, tuple[int, int]]:
    """Return the place of each state; the terminal ones come below all others."""
    ranks, places, below = _ranks(machine), {}, 0
    for is_terminal in (False, True):
        rows: dict[int, int] = {}
        for state in machine.states:
            if (state in machine.terminal) is is_terminal:
                places[state] = _place(ranks.get(state, 0), rows, below)
        below = max(rows.values(), default=0)
    return places


def _place(column: int, rows: dict[int, int], below: int) -> tuple[int, int]:
    row = rows.get(column, 0)
    rows[column] = row + 1
    return _MARGIN + column * _COLUMN, _MARGIN + (below + row) * _ROW


def _path(start: tuple[int, int], end: tuple[int, int]) -> str:
    """A line from the side of one box to the side of another, between all boxes.

    One to the same or the next column is a curve. Any other runs in the gaps between columns and
    rows, beside those of other rows; one that leads back is lower than one that leads on.
    """
    (x1, y1), (x2, y2) = start, end
    is_back = x1 > x2
    middle = HEIGHT // 2 + is_back * _BACK
    x1, y1, x2, to = x1 + WIDTH * (not is_back), y1 + middle, x2 + WIDTH * is_back, y2 + middle
    if start[0] == end[0]:
        x = x2 + WIDTH
        return f"M{x} {y1}C{x + 20} {y1} {x + 20} {to} {x} {to}"
    if abs(start[0] - end[0]) == _COLUMN:
        bend = (x2 - x1) // 2
        return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {to} {x2} {to}"
    beside = _GAP + start[1] // _ROW % 3 * _GAP
    is_above = start[1] > end[1] or end[1] == _MARGIN
    lane = y2 + HEIGHT + _LANE if is_above else y2 - _LANE
    turns = [x1 - beside, x2 + _HALF] if is_back else [x1 + beside, x2 - _HALF]
    corners = [(turns[0], y1), (turns[0], lane), (turns[1], lane), (turns[1], to)]
    return _rounded([(x1, y1), *corners, (x2, to)])


def _rounded(points: Sequence[tuple[int, int]]) -> str:
    """A line through points, with round corners."""
    path = "M{} {}".format(*points[0])
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        (x1, y1), (x2, y2) = (_toward(corner, point) for point in (before, after))
        path += f"L{x1} {y1}Q{corner[0]} {corner[1]} {x2} {y2}"
    return path + "L{} {}".format(*points[-1])


def _toward(corner: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """The point of a line, of which one coordinate stays, where its round corner begins."""
    x, y = (
        start + max(-_ROUND, min(_ROUND, (two - start) // 2))
        for start, two in zip(corner, other, strict=True)
    )
    return x, y


def _ranks(machine: Machine) -> dict[str, int]:
    ranks, reached = {machine.initial: 0}, [machine.initial]
    outgoing: dict[str, list[Transition]] = {}
    for transition in machine.transitions:
        outgoing.setdefault(transition.from_, []).append(transition)
    for state in reached:
        for transition in outgoing.get(state, ()):
            if transition.to not in ranks and transition.to in machine.states:
                ranks[transition.to] = ranks[state] + 1
                reached.append(transition.to)
    return ranks


@dataclass(frozen=True)
class Link:
    """A step of a scenario: in words, why it comes then, and the state it leads to, if another."""

    when: str
    what: str
    why: str
    state: str | None


@dataclass(frozen=True)
class Chain:
    """The steps of a scenario from top to bottom, from the state ``start``."""

    start: str
    links: tuple[Link, ...]


def chain_of(views: Sequence[StepView]) -> Chain | None:
    """The steps in order; a state is drawn where a step leads to another one."""
    if not views:
        return None
    status, links = views[0].simulated.before, []
    for view in views:
        is_moved = view.simulated.possible and view.simulated.status != status
        status = view.simulated.status if is_moved else status
        links.append(Link(view.when, view.what, _reasons(view), status if is_moved else None))
    return Chain(views[0].simulated.before, tuple(links))


def _reasons(view: StepView) -> str:
    possible = view.simulated.possible
    parts = (
        view.why,
        f"or {', '.join(view.simulated.others)}" if view.simulated.others else "",
        f"records {', '.join(view.events)}" if view.events else "",
        "" if possible else view.leads,
    )
    return "; ".join(part for part in parts if part)
