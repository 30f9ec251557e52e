"""Deliveries: one for each event and subscribed endpoint, stored with the workspace's state.

A delivery is scheduled as a step in the lane of its endpoint until its next attempt is due.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import instant_text
from invoice_sandbox.base.ids import resource_id
from invoice_sandbox.state import Condition, Record, Transaction, count_dropped
from invoice_sandbox.webhooks.endpoints import DISABLED, ENABLED, ENDPOINTS, subscribes

EVENTS: Final = "events"
"""The collection of events, by id."""

DELIVERIES: Final = "webhook_deliveries"
"""The collection of deliveries, by id."""

INDEXES: Final = {
    EVENTS: ("subjects",),
    ENDPOINTS: ("status",),
    DELIVERIES: ("endpointId", "eventId", "status"),
}
"""The fields by which events, endpoints and deliveries are looked up."""

DELIVER: Final = "deliver"
"""The action that makes the next attempt of the delivery that is its subject."""

LATENESS: Final = timedelta(hours=1)
"""The delay of a delivery with the fault ``late``."""

KEPT: Final = 100_000
"""Records of a collection that only grows; the oldest are dropped."""

PENDING: Final = "Pending"
FAILED: Final = "Failed"
DELIVERED: Final = "Delivered"
EXHAUSTED: Final = "Exhausted"
CANCELLED: Final = "Cancelled"
UNFINISHED: Final = (PENDING, FAILED)

_INTERNAL: Final = frozenset({"number", "lane", "failures", "replays", "once", "before", "repeats"})
_ENABLED: Final = (Condition("status", "=", ENABLED),)
_LATE: Final = "late"
_DUPLICATE: Final = "duplicate"


class PayloadError(Exception):
    """An event that violates the contract; the message gives the reason. It is not recorded."""


def published_delivery(record: Mapping[str, Any]) -> Record:
    """A delivery as lists show it."""
    return {name: value for name, value in record.items() if name not in _INTERNAL}


def type_of(state: Transaction, headers: Mapping[str, str], body: bytes) -> str | None:
    """The type of the event that a message delivers; None for another message, and for an altered
    payload, which may have another type."""
    event = state.get(EVENTS, headers.get("webhook-id", ""))
    if event is None or body not in map(jsonio.dumps, _payloads(event)):
        return None
    return str(event["type"])


def payload_for(event: Mapping[str, Any], endpoint: Mapping[str, Any]) -> Record:
    """The payload of an event with the optional members that an endpoint includes."""
    included = {name: event["optional"][name] for name in _included(event, endpoint)}
    return {**event["payload"], **included} if included else event["payload"]


def _included(event: Mapping[str, Any], endpoint: Mapping[str, Any]) -> list[str]:
    return [name for name in event.get("optional", ()) if name in endpoint.get("include", ())]


def _payloads(event: Mapping[str, Any]) -> Iterator[Record]:
    """Yield the payload with each choice of the optional members."""
    names = event.get("optional", {})
    for number in range(len(names) + 1):
        for chosen in combinations(names, number):
            yield payload_for(event, {"include": chosen})


def drop_oldest(
    state: Transaction, collection: str, newest: str, kept: int | None = None
) -> Record | None:
    """Drop and count the record whose id is ``kept`` (None: KEPT) numbers before that of the newest
    one. A delivery that is not finished stays. Returns the record."""
    stem, _, number = newest.rpartition("_")
    old = int(number) - (KEPT if kept is None else kept)
    if old <= 0:
        return None
    key = f"{stem}_{old:04d}"
    record = state.get(collection, key)
    if record is None or record.get("status") in UNFINISHED:
        return None
    state.delete(collection, key)
    count_dropped(state, collection)
    return record


def enqueue(
    state: Transaction, event: Record, faults: Sequence[Mapping[str, Any]], now: datetime
) -> None:
    """Schedule deliveries of ``event`` to all enabled endpoints that subscribe to its type.

    ``faults`` are the delivery faults of a scenario for this event.
    """
    enabled = state.page(ENDPOINTS, where=_ENABLED, oldest_first=True)
    for endpoint in enabled.records:
        if subscribes(endpoint, event["type"]):
            plan(state, endpoint, event, now, faults=faults)


def plan(
    state: Transaction,
    endpoint: Record,
    event: Record,
    now: datetime,
    *,
    faults: Sequence[Mapping[str, Any]] = (),
    single_attempt: bool = False,
) -> Record:
    """Schedule one delivery, due now. The event must be stored.

    With ``single_attempt`` it does not wait for other deliveries of its endpoint, and has no retry.
    """
    workspace = state.workspace()
    number = state.next_number("dlv_sandbox")
    delivery_id = resource_id("dlv_sandbox", workspace.token, number)
    due, alterations = _altered(faults, state.not_before(now))  # in the order of events
    delivery: Record = {
        "id": delivery_id,
        "endpointId": endpoint["id"],
        "eventId": event["id"],
        "eventType": event["type"],
        "status": PENDING,
        "attempt": 0,
        "responseStatus": None,
        "durationMs": None,
        "attemptedAt": None,
        "nextAttemptAt": instant_text(due),
        "attempts": [],
        "simulated": True,
        "createdAt": instant_text(now),
        "number": number,
        "lane": delivery_id if single_attempt else endpoint["id"],
        "failures": 0,
        "replays": 0,
        "once": single_attempt,
        **alterations,
    }
    state.put(DELIVERIES, delivery_id, delivery)
    drop_oldest(state, DELIVERIES, delivery_id)
    state.schedule(due, DELIVER, {"subject": delivery_id}, lane=delivery["lane"])
    return delivery


def _altered(faults: Sequence[Mapping[str, Any]], now: datetime) -> tuple[datetime, Record]:
    """Return when a delivery with these faults is due, and the members that they alter."""
    is_late = any(fault["kind"] == _LATE for fault in faults)
    before = [_counted(fault) for fault in faults if fault["kind"] not in {_LATE, _DUPLICATE}]
    repeats = sum(fault.get("count", 1) or 0 for fault in faults if fault["kind"] == _DUPLICATE)
    return now + LATENESS if is_late else now, {"before": before, "repeats": repeats}


def replay(
    state: Transaction, delivery: Record, now: datetime, faults: Sequence[Mapping[str, Any]] = ()
) -> Record:
    """Schedule a delivery again, due now, under the same id and with all retries."""
    due, alterations = _altered(faults, now)
    fresh = {
        **delivery,
        "status": PENDING,
        "nextAttemptAt": instant_text(due),
        "failures": 0,
        "once": False,
        **alterations,
        "replays": delivery["replays"] + 1,
        # a late one takes its turn after newer ones, any other one waits for none
        "lane": delivery["id"] if due == now else delivery["endpointId"],
    }
    _unschedule(state, delivery)
    state.put(DELIVERIES, delivery["id"], fresh)
    state.schedule(due, DELIVER, {"subject": delivery["id"]}, lane=fresh["lane"])
    return fresh


def disable(state: Transaction, endpoint: Record, reason: str, now: datetime) -> Record:
    """Disable an endpoint and cancel its unfinished deliveries."""
    disabled = {
        **endpoint,
        "status": DISABLED,
        "disabledReason": reason,
        "disabledAt": instant_text(now),
    }
    state.put(ENDPOINTS, endpoint["id"], disabled)
    for step in state.steps(endpoint["id"]):  # also repeats and scheduled checks
        state.discard_step(step.number, endpoint["id"])
        if (repeated := state.get(DELIVERIES, str(step.arguments["subject"]))) is not None:
            state.put(DELIVERIES, repeated["id"], {**repeated, "nextAttemptAt": None})
    where = (Condition("endpointId", "=", endpoint["id"]), Condition("status", "in", UNFINISHED))
    for delivery in state.page(DELIVERIES, where=where).records:
        _unschedule(state, delivery)
        cancelled = {**delivery, "status": CANCELLED, "nextAttemptAt": None}
        state.put(DELIVERIES, delivery["id"], cancelled)
    return disabled


def remove(state: Transaction, endpoint: Record, now: datetime) -> None:
    """Delete an endpoint and cancel its unfinished deliveries. The delivery log stays."""
    disable(state, endpoint, "removed", now)
    state.delete(ENDPOINTS, endpoint["id"])


def enable(state: Transaction, endpoint: Record) -> Record:
    """Enable an endpoint for future events."""
    outdated = {"disabledReason", "disabledAt", "failingSince"}
    enabled = {name: value for name, value in endpoint.items() if name not in outdated}
    enabled["status"] = ENABLED
    state.put(ENDPOINTS, endpoint["id"], enabled)
    return enabled


def _unschedule(state: Transaction, delivery: Record) -> None:
    for step in state.steps(delivery["lane"]):
        if step.arguments.get("subject") == delivery["id"]:
            state.discard_step(step.number, delivery["lane"])


def _counted(fault: Mapping[str, Any]) -> Record:
    """A fault with the number of attempts that it still affects; None: all."""
    return {
        "kind": fault["kind"],
        "status": fault.get("status"),
        "patch": fault.get("patch"),
        "left": fault.get("count", 1),
    }
