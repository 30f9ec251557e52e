"""Live verdicts: the invariants of a plan over what a workspace has recorded so far."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.acceptance.observer import served_vocabulary
from invoice_sandbox.acceptance.verdicts import as_text
from invoice_sandbox.base import jsonio
from invoice_sandbox.conformance.observations import Observations, observations_of, statuses_shown
from invoice_sandbox.conformance.plan import Rule, listed, load_plan, plan_of
from invoice_sandbox.conformance.rules import Outcome, Result, evaluate
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.project.loader import default_project

_MAX_REQUESTS: Final = 1000


class State(Enum):
    """The state of an invariant, worst first. NOT_SEEN: nothing happened that it is about."""

    BROKEN = "broken"
    NOT_SEEN = "notSeen"
    KEPT = "kept"


@dataclass(frozen=True)
class LiveVerdict:
    """The state of the invariant ``id``, and the result that shows it."""

    id: str
    state: State
    result: Result

    @property
    def requirement(self) -> str:
        """The invariant as a sentence."""
        return str(self.result.rule["that"])

    @property
    def found(self) -> str:
        """What the client did, as a sentence; empty if nothing was seen."""
        return "" if self.state is State.NOT_SEEN else as_text(self.result)

    def shown(self) -> dict[str, Any]:
        """Return the verdict as JSON, with the exchanges that break the invariant."""
        exchanges = self.result.evidence if self.state is State.BROKEN else ()
        return {
            "id": self.id,
            "verdict": self.state.value,
            "requirement": self.requirement,
            "found": self.found,
            "exchanges": [*exchanges],
        }


def live_verdicts(control: ControlClient, file: Path | None = None) -> list[LiveVerdict]:
    """Return the verdict on each invariant of a plan, in its order.

    ``file`` None: the plan of the project. Raises SandboxError, UserError, DocumentError.
    """
    plan = load_plan(file or plan_of(default_project()), served_vocabulary(control))
    seen = _recorded(control)
    return [_verdict(name, rule, seen) for name, rule in plan.invariants.items()]


def _recorded(control: ControlClient) -> Observations:
    """Everything recorded, without deliveries to the inbox, which no client responds to."""
    inbox = {message["endpointId"] for message in control.ask("GET", "/inbox")["messages"]}
    entries = control.ask("GET", f"/requests?limit={_MAX_REQUESTS}")
    deliveries = [sent for sent in control.deliveries() or [] if sent["endpointId"] not in inbox]
    return observations_of(entries[::-1], deliveries)


def _verdict(name: str, rule: Rule, seen: Observations) -> LiveVerdict:
    result = evaluate(rule, seen)
    state = State.NOT_SEEN
    if result.outcome is Outcome.BROKEN:
        state = State.BROKEN
    elif result.outcome is Outcome.KEPT and _has_occurred(rule, result, seen):
        state = State.KEPT
    return LiveVerdict(name, state, result)


def _has_occurred(rule: Rule, result: Result, seen: Observations) -> bool:
    """True if something happened in which a client could have broken a rule that it kept."""
    if "atMost" in rule:
        return bool(seen.requests)
    if "leaves" in rule:
        bodies = (jsonio.parsed(request.response) for request in seen.requests)
        wanted = set(listed(rule["leaves"]))
        return any(wanted & set(statuses_shown(body).values()) for body in bodies)
    return bool(result.evidence)
