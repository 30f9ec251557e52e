"""Work that has to be waited for before there is a response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Later:
    """``work`` is waited for, outside of any transaction; then ``then`` is called with its result.

    ``undo`` is called if the work fails, or nobody waits for it any more.
    """

    work: Callable[[], Awaitable[Any]]
    then: Callable[[Any], Any]
    undo: Callable[[], None] | None = None
