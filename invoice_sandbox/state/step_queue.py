"""The scheduled steps of one lane, in the order in which they are due.

A step is stored as JSON text, which the garbage collector need not visit.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import Final

from invoice_sandbox.base.jsonio import Packed, unpacked
from invoice_sandbox.state import ScheduledStep

StoredStep = tuple[datetime, int, Packed]
"""When a step is due, its number, and its action, arguments, scenario and place."""

_FEW: Final = 16


class StepQueue(dict[int, StoredStep]):
    """Steps by number, and by due time, then by number.

    The heap may hold steps that were removed, but not many more of them than of the others.
    """

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[StoredStep] = []

    def add(self, step: StoredStep) -> None:
        """Add a step."""
        self[step[1]] = step
        heappush(self._heap, step)

    def remove(self, number: int) -> StoredStep | None:
        """Remove and return a step; None: there is none of that number."""
        removed = self.pop(number, None)
        if len(self._heap) > 2 * len(self) + _FEW:
            self._heap = list(self.values())
            heapify(self._heap)
        return removed

    def first(self) -> StoredStep:
        """The step that is due first; there must be one."""
        while self._heap[0][1] not in self:
            heappop(self._heap)
        return self._heap[0]

    def in_order(self, lane: str | None) -> Iterator[ScheduledStep]:
        """All steps; the queue is that of ``lane``."""
        return (scheduled_step(step, lane) for step in sorted(self.values()))

    def copy(self) -> StepQueue:
        """An independent copy."""
        copied = StepQueue()
        copied.update(self)
        copied._heap = self._heap.copy()
        return copied


def scheduled_step(stored: StoredStep, lane: str | None) -> ScheduledStep:
    """The step that was stored in a lane."""
    due, number, rest = stored
    action, arguments, scenario, place = unpacked(rest)
    return ScheduledStep(number, due, action, arguments, scenario, lane, place)
