"""Deliveries of events to webhook endpoints: which are due, and how each attempt is meant to end.

Nothing is sent. A delivery says what the sandbox intends, so that a story of failing, repeated,
late or forged deliveries can be read before anything goes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any, Final

from invoice_sandbox.handling import Condition, Context, Record, instant_text

from ._webhooks import ENABLED, ENDPOINTS, subscribes

DELIVERIES: Final = "webhook_deliveries"

SCHEDULES: Final[Mapping[str, Sequence[timedelta]]] = {
    "standard": (
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
"""By the endpoint's retry profile: how long after the attempt before it each attempt is made."""

LATENESS: Final = timedelta(hours=1)
"""So much later than its event a late delivery is sent, whatever happened in between."""

_FAILURE: Final = 500
_GONE: Final = 410


async def plan_deliveries(
    context: Context, event: Record, troubles: Sequence[Mapping[str, Any]]
) -> None:
    """Record one delivery of ``event`` for every enabled endpoint that subscribes to its kind."""
    for endpoint in await _enabled_endpoints(context):
        if subscribes(endpoint, event["type"]):
            delivery = await _delivery(context, endpoint, event, troubles)
            await context.state.put(DELIVERIES, delivery["id"], delivery)


def planned_attempts(
    start: datetime, profile: str, troubles: Sequence[Mapping[str, Any]]
) -> list[Record]:
    """The attempts of one delivery, each with its instant and its intended outcome.

    Troubles befall one attempt after the other, in their order; then one is ``Delivered``, unless
    the schedule has come to its end before. Repetitions go on along the schedule, and an endpoint
    that says it is gone is not tried again.
    """
    is_late = any(one["kind"] == "late" for one in troubles)
    first = start + LATENESS if is_late else start
    slots = [first + passed for passed in accumulate(SCHEDULES[profile])]
    outcomes = [
        *_failures(troubles, len(slots)),
        _attempt("Delivered", "late" if is_late else None),
        *_repetitions(troubles, len(slots)),
    ]
    planned = []
    for at, outcome in zip(slots, outcomes, strict=False):
        planned.append({"at": instant_text(at), **outcome})
        if outcome.get("responseStatus") == _GONE:
            break
    return planned


async def _enabled_endpoints(context: Context) -> Sequence[Record]:
    """The oldest first."""
    where = (Condition("status", "=", ENABLED),)
    most = await context.state.count(ENDPOINTS, where)
    return (await context.state.page(ENDPOINTS, limit=most, where=where)).records[::-1]


async def _delivery(
    context: Context, endpoint: Record, event: Record, troubles: Sequence[Mapping[str, Any]]
) -> Record:
    planned = planned_attempts(context.now, endpoint["retryProfile"], troubles)
    is_exhausted = planned[-1]["outcome"] == "Failed"
    return {
        "id": await context.new_id("dlv_sandbox"),
        "endpointId": endpoint["id"],
        "eventId": event["id"],
        "eventType": event["type"],
        "status": "Pending",
        "attempts": [],
        "planned": planned,
        **({"endpointThen": "Disabled"} if is_exhausted else {}),
        "simulated": True,
        "createdAt": context.timestamp,
    }


def _failures(troubles: Sequence[Mapping[str, Any]], most: int) -> Iterator[Record]:
    """What goes wrong first: the endpoint answers an error, or has to reject a forgery."""
    for trouble in troubles:
        kind = trouble["kind"]
        if kind == "fail":
            failure = {**_attempt("Failed"), "responseStatus": trouble.get("status", _FAILURE)}
            yield from [failure] * _times(trouble, most)
        elif kind not in {"late", "duplicate"}:
            yield from [_attempt("Failed", kind)] * _times(trouble, most)


def _repetitions(troubles: Sequence[Mapping[str, Any]], most: int) -> Iterator[Record]:
    for trouble in troubles:
        if trouble["kind"] == "duplicate":
            yield from [_attempt("Delivered", "duplicate")] * _times(trouble, most)


def _attempt(outcome: str, variation: str | None = None) -> Record:
    return {"outcome": outcome, **({} if variation is None else {"variation": variation})}


def _times(trouble: Mapping[str, Any], most: int) -> int:
    count = trouble.get("count", 1)
    return most if count is None else int(count)
