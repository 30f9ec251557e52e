"""Long work in small pieces, which takes turns with the long work of others.

In one iteration of the event loop all tasks go on that can, so a hundred tasks that each give way
after two milliseconds would delay a request by 200. Of those that wait for a turn one goes on.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from invoice_sandbox.base.clock import readings_of_request

MAX_TURN: Final = 0.002
"""Real seconds of work after which others get their turn."""

T = TypeVar("T")

_Turns = deque[asyncio.Future[None]]
_WAITING: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, dict[object, _Turns]]] = (
    WeakKeyDictionary()
)
"""Who waits for a turn: by event loop, and by owner in the order of their next turns."""


async def next_turn(owner: object) -> None:
    """Wait until it is this task's turn. Owners take turns, however many tasks each of them has."""
    loop = asyncio.get_running_loop()
    waiting = _WAITING.setdefault(loop, {})
    if not waiting:
        loop.call_soon(_begin_turn, loop, waiting)
    turn = loop.create_future()
    waiting.setdefault(owner, deque()).append(turn)
    await turn


def _begin_turn(loop: asyncio.AbstractEventLoop, waiting: dict[object, _Turns]) -> None:
    owner = next(iter(waiting))
    turns = waiting.pop(owner)
    turn = turns.popleft()
    if not turn.done():  # as it is when its task was cancelled
        turn.set_result(None)
    if turns:
        waiting[owner] = turns
    if waiting:
        loop.call_soon(_begin_turn, loop, waiting)


class Turn:
    """One long work: between two of its pieces other requests go on."""

    def __init__(self, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._since = seconds()

    async def give_way(self) -> None:
        """Let others go on, if the work has taken longer than a turn since they last did."""
        gives_way = self._seconds() - self._since > MAX_TURN
        if await waited(gives_way, partial(next_turn, self)):
            self._since = self._seconds()


async def waited(will_wait: bool, wait: Callable[[], Awaitable[None]]) -> bool:
    """Wait if a request ``will_wait`` for others, and return whether it did.

    A replay waits whenever the recorded request did, and until it went on.
    """
    readings = readings_of_request()
    place = 0
    if readings is not None:
        readings.places = place = readings.places + 1
        if readings.gate is not None:
            return await readings.gate(place)
    if will_wait:
        await wait()
        if readings is not None:
            await readings.has_waited(place)
    return will_wait


async def waited_for(work: Awaitable[T]) -> T:
    """What ``work`` returns, while others go on. A replay works, and waits as long."""
    result = await work
    await waited(True, partial(asyncio.sleep, 0))
    return result
