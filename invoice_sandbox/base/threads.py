"""Calls that may block, in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """A number of threads; none: functions are called at once, because they block nobody."""

    def __init__(self, count: int = 0) -> None:
        self._pool = ThreadPoolExecutor(count, "store") if count else None
        self._loop = asyncio.get_running_loop() if count else None

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function returns, called in a thread."""
        if self._pool is None or self._loop is None:
            return function(*args, **kwargs)
        run: Callable[[], T] = partial(copy_context().run, partial(function, *args, **kwargs))
        return await self._loop.run_in_executor(self._pool, run)

    def on_loop(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function on the event loop: soon, if this is a thread."""
        if self._loop is None:
            function(*args)
        else:
            self._loop.call_soon_threadsafe(function, *args)

    def close(self) -> None:
        """Wait for what is being called."""
        if self._pool is not None:
            self._pool.shutdown()
