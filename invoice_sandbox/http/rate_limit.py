"""Fixed windows of requests per caller (specification, Limits: 120 a minute per key).

Windows run on real, monotonic seconds that are handed in. The headers are those of the IETF draft
``draft-ietf-httpapi-ratelimit-headers``; ``Retry-After`` names the same moment as ``t``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from invoice_sandbox.base.clock import SystemClock
from invoice_sandbox.base.errors import reject

WINDOW_SECONDS: Final = 60
_FEW_CALLERS: Final = 10_000
"""Windows that may be open before those that have ended are swept out."""


@dataclass
class _Window:
    ends: float
    used: int = 0


class RateLimiter:
    """Counts requests; one window per caller, beginning with its first request."""

    def __init__(self, limit: int, system_clock: SystemClock) -> None:
        self._limit = limit
        self._wall = system_clock
        self._windows: dict[tuple[str, str], _Window] = {}
        self._sweep_at = _FEW_CALLERS

    def count(self, policy: str, caller: str) -> list[tuple[str, str]]:
        """Count one request and answer its rate-limit headers. Raises ApiError 429."""
        now = self._wall.monotonic()
        window = self._windows.get((policy, caller))
        if window is None or window.ends <= now:
            window = self._open(policy, caller, now)
        window.used += 1
        left = max(0, self._limit - window.used)
        seconds = max(1, math.ceil(window.ends - now))
        headers = [
            ("RateLimit-Policy", f'"{policy}";q={self._limit};w={WINDOW_SECONDS}'),
            ("RateLimit", f'"{policy}";r={left};t={seconds}'),
        ]
        if window.used > self._limit:
            raise reject(
                "rate_limited",
                *headers,
                ("Retry-After", str(seconds)),
                limit=self._limit,
                window=WINDOW_SECONDS,
                retry_after=seconds,
            )
        return headers

    def _open(self, policy: str, caller: str, now: float) -> _Window:
        if len(self._windows) >= self._sweep_at:
            self._windows = {key: one for key, one in self._windows.items() if one.ends > now}
            self._sweep_at = max(_FEW_CALLERS, 2 * len(self._windows))
        window = self._windows[policy, caller] = _Window(ends=now + WINDOW_SECONDS)
        return window
