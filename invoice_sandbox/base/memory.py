"""Memory that is free, but that the process still has."""

from __future__ import annotations

import asyncio
import ctypes
import gc
from collections.abc import Callable
from functools import cache
from typing import Final

_PAUSE: Final = 1.0
"""Seconds until memory is given back: deletions that follow each other cost it once."""


class FreeMemory:
    """Gives free memory back to the operating system after much was deleted."""

    def __init__(self) -> None:
        self._planned: asyncio.TimerHandle | None = None

    def give_back_soon(self) -> None:
        """Give it back in a moment, unless that is planned already."""
        if self._planned is None:
            self._planned = asyncio.get_running_loop().call_later(_PAUSE, self._give_back)

    def _give_back(self) -> None:
        self._planned = None
        gc.collect()
        _trim()(0)


@cache
def _trim() -> Callable[[int], object]:
    """``malloc_trim`` of glibc, or what does nothing where it is absent."""
    try:
        found: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return lambda _: None
    return found
