"""A timeline as lanes: one for each who acts, in simulated time, with folded gaps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from invoice_sandbox.console.timeline import CLIENT_LANE, STATUS_LANE, STEPS_LANE, Mark

_MOST_PAST: Final = 12
_MOST_AHEAD: Final = 4
"""Columns of a timeline; instants that are close to each other share one."""

_FOLDED: Final = timedelta(minutes=1)
_FIRST: Final = (CLIENT_LANE, STATUS_LANE, STEPS_LANE)


@dataclass(frozen=True)
class Slot:
    """A column: from the instant ``start`` to ``end``, after a folded ``gap``, or none (empty)."""

    start: datetime
    end: datetime
    gap: str
    is_ahead: bool


@dataclass(frozen=True)
class Lane:
    """A row: its title, and for each column the marks in it."""

    title: str
    cells: tuple[tuple[Mark, ...], ...]


@dataclass(frozen=True)
class Lanes:
    """The columns and rows of a timeline."""

    slots: tuple[Slot, ...]
    lanes: tuple[Lane, ...]


def lanes_of(marks: Sequence[Mark], last: Sequence[str]) -> Lanes:
    """The lanes of the marks that are in one; those with the titles ``last`` come last, and are
    there also if they are empty. A mark without an instant, such as an opening balance, is in
    none."""
    placed = [mark for mark in marks if mark.lane and _is_dated(mark)]
    past = _slots([mark for mark in placed if not mark.is_ahead], _MOST_PAST, is_ahead=False)
    ahead = _slots([mark for mark in placed if mark.is_ahead], _MOST_AHEAD, is_ahead=True)
    between = [mark.lane for mark in placed if mark.lane not in last]
    titles = dict.fromkeys([*_FIRST, *between, *last])
    slots = (*past, *ahead)
    return Lanes(slots, tuple(Lane(title, _cells(title, placed, slots)) for title in titles))


def _cells(
    title: str, marks: Iterable[Mark], slots: Iterable[Slot]
) -> tuple[tuple[Mark, ...], ...]:
    own = [mark for mark in marks if mark.lane == title]
    return tuple(
        tuple(
            mark
            for mark in own
            if mark.is_ahead is slot.is_ahead and slot.start <= _instant(mark) <= slot.end
        )
        for slot in slots
    )


def _slots(marks: Iterable[Mark], most: int, *, is_ahead: bool) -> list[Slot]:
    """Columns that begin after the largest gaps."""
    instants = sorted({_instant(mark) for mark in marks})
    gaps = sorted(((later - earlier, later) for earlier, later in pairwise(instants)), reverse=True)
    begins = {later for _, later in gaps[: most - 1]}
    groups: list[list[datetime]] = []
    for instant in instants:
        if not groups or instant in begins:
            groups.append([])
        groups[-1].append(instant)
    ends = [None, *(group[-1] for group in groups)]
    return [
        Slot(group[0], group[-1], _gap(end, group[0]), is_ahead)
        for end, group in zip(ends, groups, strict=False)
    ]


def _gap(end: datetime | None, start: datetime) -> str:
    """The time between two columns in its largest unit; empty if it is short."""
    gap = timedelta() if end is None else start - end
    if gap < _FOLDED:
        return ""
    for unit, length in (("d", timedelta(days=1)), ("h", timedelta(hours=1))):
        if gap >= length:
            return f"{gap // length} {unit}"
    return f"{gap // timedelta(minutes=1)} min"


def _is_dated(mark: Mark) -> bool:
    try:
        return _instant(mark).tzinfo is not None
    except ValueError:
        return False


def _instant(mark: Mark) -> datetime:
    return datetime.fromisoformat(mark.at)
