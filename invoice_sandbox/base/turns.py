"""Waits of a request for others, which a replay repeats."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from invoice_sandbox.base.clock import readings_of_request

T = TypeVar("T")


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
