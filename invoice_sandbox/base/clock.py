"""Clocks, durations and instants. No other module of the product reads the machine's clock.

The clock of a workspace is live, which means real time with an offset, or frozen. Every time in a
response is of this clock. Real, monotonic seconds are for what must not stop on a frozen clock:
rate windows, durations, deadlines of downloads, idle listeners and the reload of scenarios.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import Final, Literal, Protocol

FROZEN_START: Final = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
"""The default instant of a frozen clock."""

FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)
LAST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""The last instant that can be written. No clock of a workspace gets there."""

_INSTANT: Final = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:[0-5]\d)", re.ASCII
)

_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d{1,6})D)?"
    r"(?:T(?:(?P<hours>\d{1,6})H)?(?:(?P<minutes>\d{1,6})M)?(?:(?P<seconds>\d{1,6}(?:\.\d{1,3})?)S)?)?",
    re.ASCII,
)
_ALMOST: Final = re.compile(
    r"-?P?T?-?([0-9]{1,9}([.,][0-9]{1,9})? ?"
    r"([A-Z]|ms|mins?|secs?|(second|minute|hour|day)s?)T?){1,4}",
    re.ASCII | re.IGNORECASE,
)

ClockMode = Literal["live", "frozen"]


class SystemClock(Protocol):
    """Real time, as an interface, so that tests can pass their own."""

    def now(self) -> datetime:
        """The instant, in UTC."""

    def calendar(self) -> datetime:
        """The machine's calendar, in UTC, for what others compare with theirs: signatures."""

    def monotonic(self) -> float:
        """Seconds that never decrease."""

    async def sleep(self, seconds: float) -> None:
        """Wait for this real time."""


_calendar: Final = partial(datetime.now, UTC)
_steady: Final = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)
"""Seconds that nobody can set; on Linux they go on while the machine sleeps."""


class OperatingSystemClock:
    """The machine's clocks. ``now`` runs on evenly from when this clock was made: whoever sets the
    machine's calendar neither delays what is due nor makes anything look idle."""

    def __init__(
        self, calendar: Callable[[], datetime] = _calendar, steady: Callable[[], float] = _steady
    ) -> None:
        self._calendar = calendar
        self._steady = steady
        self._start, self._started = calendar(), steady()

    def now(self) -> datetime:
        """The instant, in UTC."""
        return self._start + timedelta(seconds=self._steady() - self._started)

    def calendar(self) -> datetime:
        """The instant of the machine's calendar, in UTC."""
        return self._calendar()

    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Wait for this real time."""
        import asyncio  # slow to import, and most commands of the command line have no event loop

        await asyncio.sleep(seconds)


@dataclass(frozen=True)
class ClockState:
    """A workspace's clock as a value: ``live`` is real time + ``shift``, ``frozen`` is ``at``."""

    mode: ClockMode = "live"
    at: datetime = FROZEN_START
    shift: timedelta = timedelta()

    def __post_init__(self) -> None:
        """Keep only the milliseconds, which are all that clocks show."""
        object.__setattr__(self, "at", in_milliseconds(self.at))

    def now(self, system_clock: SystemClock) -> datetime:
        """The workspace's instant, to the millisecond, in UTC."""
        return self.at if self.mode == "frozen" else self.instant(system_clock.now())

    def instant(self, real: datetime) -> datetime:
        """The workspace's instant at a ``real`` one, to the millisecond, in UTC."""
        return self.at if self.mode == "frozen" else in_milliseconds(real + self.shift)

    def forward(self, span: timedelta) -> ClockState:
        """The clock moved forward by ``span``."""
        if self.mode == "frozen":
            return replace(self, at=self.at + span)
        return replace(self, shift=self.shift + span)


def clock_at(mode: ClockMode, instant: datetime, system_clock: SystemClock) -> ClockState:
    """A clock of that mode that shows ``instant`` at present."""
    if mode == "frozen":
        return ClockState("frozen", instant)
    return ClockState("live", shift=instant - system_clock.now())


def parse_duration(text: str) -> timedelta:
    """Parse an ISO 8601 duration of days to seconds, such as ``P3D`` or ``PT1.5S``.

    Raises ValueError for other texts, including those with months or years, and numbers of more
    than six digits.
    """
    match = _DURATION.fullmatch(text)
    if match is None or text.endswith(("P", "T")):
        reason = unsupported_reason(text)
        raise ValueError(f"invalid duration '{text}'{reason}; use ISO 8601 such as P3D or PT10S")
    return timedelta(**{name: float(value) for name, value in match.groupdict("0").items()})


def unsupported_reason(text: str) -> str:
    """Return ``: no clock goes back`` and the like for a duration that is not supported, and
    nothing for any other text."""
    if not is_almost_duration(text):
        return ""
    if "-" in text:
        return ": no clock goes back"
    if re.search("[YMW]", text.partition("T")[0]):
        return ": write weeks as days; months and years have no fixed length"
    return ""


def is_almost_duration(text: str) -> bool:
    """True if a text is meant as a duration, such as ``3D`` or ``3 days``: it is not a secret."""
    return _ALMOST.fullmatch(text) is not None


def duration_text(span: timedelta) -> str:
    """ISO 8601 in days, hours, minutes and seconds: ``PT1.5S``; nothing is ``PT0S``."""
    minutes, milliseconds = divmod(span // timedelta(milliseconds=1), 60_000)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    seconds = f"{milliseconds / 1000:g}"
    parts = [f"{hours}H" if hours else "", f"{minutes}M" if minutes else ""]
    parts += [f"{seconds}S" if milliseconds or not (days or hours or minutes) else ""]
    time_part = "".join(parts)
    return "P" + (f"{days}D" if days else "") + (f"T{time_part}" if time_part else "")


@lru_cache(maxsize=64)  # most texts of a request are of one instant
def instant_text(instant: datetime) -> str:
    """RFC 3339 in UTC with ``Z``; milliseconds only when there are any."""
    precision = "milliseconds" if instant.microsecond >= 1000 else "seconds"
    return instant.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def parse_instant(text: str) -> datetime:
    """Parse an RFC 3339 instant to UTC, in milliseconds. Raises ValueError.

    A leap second becomes the second before it. An instant outside the years 1 to 9999, which
    RFC 3339 can express, becomes the closest instant inside.
    """
    if not _INSTANT.fullmatch(text):
        raise ValueError(f"invalid instant '{text}'; use RFC 3339 such as 2026-11-23T09:30:00Z")
    if text[17:19] == "60":
        text = text[:17] + "59" + text[19:]
    year_zero = text.startswith("0000")
    try:
        instant = datetime.fromisoformat("0004" + text[4:].upper() if year_zero else text.upper())
    except ValueError as error:
        raise ValueError(f"invalid instant '{text}': {error}") from None
    instant = in_milliseconds(instant)  # as clocks show it
    try:
        return FIRST if year_zero else instant.astimezone(UTC)
    except OverflowError:
        return FIRST if instant.year == 1 else LAST


def start_of_day(text: str) -> datetime:
    """The first instant, in UTC, of the day that an RFC 3339 full-date names. Raises ValueError.

    A day of the year 0 counts as the first day of the year 1.
    """
    return parse_instant(f"{text}T00:00:00Z")


def in_milliseconds(instant: datetime) -> datetime:
    """``instant`` without the microseconds that no clock of a workspace shows."""
    beyond = instant.microsecond % 1000
    return instant - timedelta(microseconds=beyond) if beyond else instant


def later(instant: datetime, span: timedelta) -> datetime:
    """``span`` after ``instant``, at most ``LAST``."""
    return instant + min(span, LAST - instant)
