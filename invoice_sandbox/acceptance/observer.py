"""Reads from a running server what a client did in a workspace, and what a plan may name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from invoice_sandbox.conformance.observations import Observations, observations_of
from invoice_sandbox.conformance.plan import PlanVocabulary, vocabulary_of
from invoice_sandbox.control.client import ControlClient

_MAX_REQUESTS: Final = 1000


@dataclass
class Observer:
    """Reads what happened in the workspace of ``control``, and sets marks."""

    control: ControlClient
    marks: list[str] = field(default_factory=list)
    _periods: dict[str, int] = field(default_factory=dict)

    def mark(self, name: str) -> None:
        """Name this point of the run. Raises SandboxError."""
        self.observe()
        self.marks.append(name)

    def observe(self) -> Observations:
        """Everything until now. Raises SandboxError."""
        entries = self.control.ask("GET", f"/requests?limit={_MAX_REQUESTS}")
        deliveries = self.control.deliveries() or []
        return observations_of(entries[::-1], deliveries, self.marks, self._period)

    def periods(self) -> dict[str, int]:
        """The periods of requests and attempts, by their keys."""
        return dict(self._periods)

    def _period(self, key: str) -> int:
        return self._periods.setdefault(key, len(self.marks))


def served_vocabulary(control: ControlClient) -> PlanVocabulary:
    """Return the vocabulary of a running server. Raises SandboxError."""
    scenarios = [scenario["name"] for scenario in control.ask("GET", "/scenarios")]
    return vocabulary_of(control.whole("GET", "/openapi.json"), scenarios)
