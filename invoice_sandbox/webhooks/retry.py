"""The retry schedule of deliveries, on the workspace's clock, without jitter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

STANDARD: Final = "standard"

GAPS: Final[Mapping[str, Sequence[timedelta]]] = {
    STANDARD: (
        timedelta(),
        timedelta(seconds=5),
        timedelta(minutes=5),
        timedelta(minutes=30),
        timedelta(hours=2),
        timedelta(hours=5),
        timedelta(hours=10),
        timedelta(hours=10),
    ),
    "fast": tuple(timedelta(seconds=seconds) for seconds in (0, 1, 5, 15, 60)),
}
"""For each ``retryProfile`` of an endpoint the gaps before the first, second, … attempt."""

DISABLED_AFTER: Final = timedelta(days=5)
"""An endpoint that fails for this time without a success is disabled."""

_THROTTLED: Final = frozenset({429, 503})
_MAX_DIGITS: Final = 9


def retry_profile(value: Any) -> str:
    """``value`` if it is the name of a retry profile, else that of the standard one."""
    return value if isinstance(value, str) and value in GAPS else STANDARD


def next_gap(
    profile: str, failures: int, status: int | None, retry_after: timedelta | None
) -> timedelta | None:
    """The time from the ``failures``-th failed attempt to the next one; None: there is none.

    ``Retry-After`` of a 429 or 503 response delays it, at most until the attempt after it.
    """
    gaps = GAPS[profile]
    if failures >= len(gaps):
        return None
    gap = gaps[failures]
    if status not in _THROTTLED or retry_after is None or failures + 1 == len(gaps):
        return gap
    return min(max(gap, retry_after), gap + gaps[failures + 1])


def parse_retry_after(text: str | None, now: datetime) -> timedelta | None:
    """The time in a ``Retry-After`` header, in seconds or as a date; None: absent or invalid."""
    if text is None:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
        return timedelta(seconds=int(text))
    try:
        until = parsedate_to_datetime(text)
        return max(timedelta(), until - now) if until.tzinfo else None
    except (TypeError, ValueError, OverflowError):
        return None
