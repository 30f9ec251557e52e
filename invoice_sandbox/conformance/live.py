"""Live verdicts: the invariants of a plan over everything that a workspace has recorded.

Those of a running workspace, of a bundle, and of the assertion of a test are all made here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from invoice_sandbox.base.clock import parse_instant
from invoice_sandbox.conformance.observations import Attempt, Observations, observations_of
from invoice_sandbox.conformance.plan import NONE, Plan, Rule, listed
from invoice_sandbox.conformance.rules import Outcome, Result, evaluate, is_status

_REJECTED: Final = ("rejected", "not-")
"""Responses of rules that a receiver keeps also when it rejects everything."""

_BEGIN_AGAIN: Final = ("resetWorkspace", "restoreSnapshot")
"""Operations of the control API after which ids and keys may mean something else."""


class State(Enum):
    """The state of an invariant, worst first. NOT_SEEN: nothing happened that it is about."""

    BROKEN = "broken"
    NOT_SEEN = "not-seen"
    KEPT = "kept"


@dataclass(frozen=True)
class LiveVerdict:
    """The state of the invariant ``id``, and the result that shows it."""

    id: str
    state: State
    result: Result

    @property
    def found(self) -> str | None:
        """The deeds of the client, as a sentence; None if nothing was seen."""
        nothing = self.state is State.NOT_SEEN and self.result.outcome is not Outcome.ABSENT
        return None if nothing else f"{self.result.actual}."


def live_verdicts(plan: Plan, seen: Observations) -> list[LiveVerdict]:
    """Return the verdict on each invariant of a plan, the worst first."""
    found = [_verdict(name, rule, seen) for name, rule in plan.invariants.items()]
    order = [*State]
    return sorted(found, key=lambda verdict: order.index(verdict.state))


def recorded(
    journal: Iterable[Mapping[str, Any]],
    deliveries: Iterable[Mapping[str, Any]],
    inboxes: Iterable[str] = (),
) -> Observations:
    """Return what a whole journal and its deliveries show, both oldest first.

    A request that is not listed is one of the operator: it changed the workspace, so a client may
    repeat after it what failed before. What was before the last reset is left out, and so are
    deliveries to the endpoints ``inboxes``, which the sandbox itself responds to.
    """
    entries, periods, steps = [], dict[str, int](), 0
    for entry in journal:
        if entry["isListed"]:
            entries.append(entry)
            periods[entry["requestId"]] = steps
        elif entry["operation"] in _BEGIN_AGAIN and is_status("2xx", entry["status"]):
            entries.clear()
        else:
            steps += 1
    own = set(inboxes)
    sent = [delivery for delivery in deliveries if delivery["endpointId"] not in own]
    return observations_of(entries, sent, period_of=lambda key: periods.get(key, 0))


def _verdict(name: str, rule: Rule, seen: Observations) -> LiveVerdict:
    result = evaluate(rule, seen)
    state = State.NOT_SEEN
    if result.outcome is Outcome.BROKEN:
        state = State.BROKEN
    elif result.is_kept and _has_occurred(rule, result, seen):
        state = State.KEPT
    return LiveVerdict(name, state, result)


def _has_occurred(rule: Rule, result: Result, seen: Observations) -> bool:
    """True if something happened in which a client could have broken a rule that it kept."""
    if rule.get("atMost") == 0:
        return bool(seen.requests)
    if str(rule.get("response", "")).startswith(_REJECTED):
        return _is_between_accepted(rule, seen.attempts)
    return bool(result.evidence)


def _is_between_accepted(rule: Rule, attempts: Sequence[Attempt]) -> bool:
    """True if the client accepted a genuine event before and after all that it must reject: one
    that rejects everything shows nothing."""
    ordered = sorted(attempts, key=lambda attempt: parse_instant(attempt.at))
    places = [*_places(ordered, listed(rule["kind"]))]
    accepted = [
        place for place in _places(ordered, [NONE]) if is_status("2xx", ordered[place].status)
    ]
    return bool(places and accepted) and accepted[0] < places[0] <= places[-1] < accepted[-1]


def _places(attempts: Sequence[Attempt], kinds: Sequence[str]) -> Iterator[int]:
    for place, attempt in enumerate(attempts):
        if (attempt.kind or NONE) in kinds:
            yield place
