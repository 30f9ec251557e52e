"""Rate windows: how many requests a caller may make in a minute."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from invoice_sandbox.base.clock import SystemClock
from invoice_sandbox.base.errors import reject

WINDOW_SECONDS: Final = 60
_FEW_CALLERS: Final = 10_000
"""Number of windows from which those that have ended are removed."""


@dataclass(slots=True)
class _Window:
    ends: float
    used: int = 0


class RateLimiter:
    """Counts requests: one window per policy and caller, beginning with its first request.

    ``limits`` has for each policy the most in a window. Windows are fixed (specification, Limits:
    120 requests a minute per key) and run on real, monotonic seconds. The headers are those of the
    IETF draft ``draft-ietf-httpapi-ratelimit-headers``; ``Retry-After`` names the same moment as
    ``t``.
    """

    def __init__(self, limits: Mapping[str, int], system_clock: SystemClock) -> None:
        self._limits = limits
        self._system_clock = system_clock
        self._policies = {
            name: ("RateLimit-Policy", f'"{name}";q={most};w={WINDOW_SECONDS}')
            for name, most in self._limits.items()
        }
        self._windows: dict[tuple[str, str], _Window] = {}
        self._sweep_at = _FEW_CALLERS

    def count(self, policy: str, caller: str, *, is_shown: bool = True) -> list[tuple[str, str]]:
        """Count one request and return its rate-limit headers, none unless it ``is_shown``.

        Raises ApiError 429 with the headers.
        """
        now = self._system_clock.monotonic()
        window = self._windows.get((policy, caller))
        if window is None or window.ends <= now:
            window = self._open(policy, caller, now)
        window.used += 1
        limit = self._limits[policy]
        if not is_shown and window.used <= limit:
            return []
        left = limit - window.used if window.used < limit else 0
        seconds = math.ceil(window.ends - now) or 1
        headers = [self._policies[policy], ("RateLimit", f'"{policy}";r={left};t={seconds}')]
        if window.used > limit:
            raise reject(
                "rate_limited",
                *headers,
                ("Retry-After", str(seconds)),
                limit=limit,
                window=WINDOW_SECONDS,
                retry_after=seconds,
            )
        return headers

    def take_back(self, policy: str, caller: str) -> None:
        """Do not count the last request after all."""
        window = self._windows.get((policy, caller))
        if window is not None and window.used:
            window.used -= 1

    def _open(self, policy: str, caller: str, now: float) -> _Window:
        if len(self._windows) >= self._sweep_at:
            self._windows = {
                key: window for key, window in self._windows.copy().items() if window.ends > now
            }
            self._sweep_at = max(_FEW_CALLERS, 2 * len(self._windows))
        window = self._windows[policy, caller] = _Window(ends=now + WINDOW_SECONDS)
        return window
