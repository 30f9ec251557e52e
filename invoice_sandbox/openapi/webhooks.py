"""The kinds of events that a contract declares under ``webhooks``, and what their payloads are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from invoice_sandbox.openapi.schema.compile import Checker, Problem

PUBLISHED: Final = "x-published"
"""Says of an entry of ``webhooks`` whether its kind is published; true where nothing is said."""


@dataclass(frozen=True)
class WebhookEvent:
    """One kind of event: its name, whether it is published, the schema of its payload, and the
    payload that the contract shows for it; each of the two may be missing."""

    kind: str
    published: bool
    checker: Checker | None = None
    example: Any = None

    def problems(self, payload: object) -> tuple[Problem, ...]:
        """Everything wrong with a payload, in the order of the schema; empty when it may be sent.

        Without a declared JSON payload, anything may be sent.
        """
        if self.checker is None or self.checker.is_valid(payload):
            return ()
        return self.checker.problems(payload)
