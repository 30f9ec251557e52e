"""Time, handed to whoever needs it. No other module of the product reads the machine's clock.

A workspace's clock either flows with real time or stands still. Everything a client can observe
in a body is this virtual time; only rate windows run on real, monotonic seconds, because a frozen
workspace would otherwise be usable for one window and never again.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, Protocol

FROZEN_START: Final = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
"""Where a frozen clock stands unless it is told otherwise."""

_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_INSTANT: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:[0-5]\d)", re.ASCII
)


class Wall(Protocol):
    """Real time, so that a test can hand in its own."""

    def now(self) -> datetime:
        """The instant, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow."""
        ...


class SystemWall:
    """The machine's clocks."""

    def now(self) -> datetime:
        """The machine's instant, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """The machine's monotonic seconds."""
        return time.monotonic()


@dataclass(frozen=True)
class ClockState:
    """A workspace's clock as a value: ``live`` is real time and ``shift``, ``frozen`` is ``at``."""

    mode: Literal["live", "frozen"] = "live"
    at: datetime = FROZEN_START
    shift: timedelta = timedelta()

    def now(self, wall: Wall) -> datetime:
        """The workspace's instant, to the millisecond, in UTC."""
        instant = self.at if self.mode == "frozen" else wall.now() + self.shift
        return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def instant_text(instant: datetime) -> str:
    """RFC 3339 in UTC with ``Z``; milliseconds only when there are any."""
    precision = "milliseconds" if instant.microsecond >= 1000 else "seconds"
    return instant.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def parse_instant(text: str) -> datetime:
    """The instant that an RFC 3339 ``text`` names, in UTC. Raises ValueError.

    A leap second is taken for the second before it, and an instant outside the years 1 to 9999,
    which RFC 3339 can write, for the nearest one inside.
    """
    if not _INSTANT.fullmatch(text):
        raise ValueError("an instant looks like 2026-11-21T09:30:00Z")
    if text[17:19] == "60":
        text = text[:17] + "59" + text[19:]
    year_zero = text.startswith("0000")
    instant = datetime.fromisoformat("0004" + text[4:].upper() if year_zero else text.upper())
    try:
        return _FIRST if year_zero else instant.astimezone(UTC)
    except OverflowError:
        return _FIRST if instant.year == 1 else _LAST
