"""An attempt of a delivery: prepare the signed request, evaluate the response, explain both."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import instant_text
from invoice_sandbox.state import Record, ScheduledStep, Transaction
from invoice_sandbox.webhooks.endpoints import ENABLED, ENDPOINTS, signing_secrets
from invoice_sandbox.webhooks.outbox import (
    CANCELLED,
    DELIVER,
    DELIVERED,
    DELIVERIES,
    EVENTS,
    EXHAUSTED,
    FAILED,
    UNFINISHED,
    disable,
    payload_for,
)
from invoice_sandbox.webhooks.retry import DISABLED_AFTER, STANDARD, next_gap
from invoice_sandbox.webhooks.signing import SECRET_PREFIX, headers, sign

CLOSE_ENDPOINT: Final = "close-endpoint"
"""The action that disables a failing endpoint, in its lane; without a lane it reports that."""

_GONE: Final = 410
_SUCCESS: Final = range(200, 300)
_FAILURE: Final = 500
_SHOWN: Final = 512
_SHIFTS: Final = {"stale-timestamp": -600, "future-timestamp": 600}
"""By fault: how many seconds the timestamp differs from the time of the attempt."""

_FAIL: Final = "fail"
_PREVIOUS_SECRET: Final = "previous-secret"  # noqa: S105 - the name of a fault
_CHANGED_BODY: Final = "changed-body"
_ALTERING: Final = frozenset({"patch", _CHANGED_BODY})
"""Faults that send another payload than that of the event."""

WRONG_SECRET: Final = SECRET_PREFIX + base64.b64encode(b"not the secret of this endpoint!").decode()
"""Signs attempts with the faults ``bad-signature`` and ``other-version``."""


@dataclass(frozen=True)
class Outgoing:
    """A signed request with its exact bytes."""

    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Outcome:
    """The result of a request: a status and the beginning of the body, or an ``error``.

    ``reason`` is a sentence about the error, if more is known. ``took`` is the duration in real
    time, ``retry_after`` the value of that header.
    """

    status: int | None = None
    error: str | None = None
    took: timedelta = timedelta()
    body: bytes = b""
    retry_after: timedelta | None = None
    reason: str | None = None

    @property
    def is_success(self) -> bool:
        """True if the receiver accepted the delivery."""
        return self.status in _SUCCESS


TIMEOUT: Final = "timeout"
"""The error of an attempt to a receiver that did not respond in time."""

NO_HTTP: Final = "no_http"
"""The error of an attempt to a receiver that closed the connection, or responded no HTTP."""

KEPT_ATTEMPTS: Final = 100
"""Attempts of a delivery that are kept; their numbers show how many were dropped."""


@dataclass(frozen=True)
class Attempt:
    """An attempt that is due ``at`` an instant of the workspace's clock.

    ``variation`` is the fault that alters the request, if any. An attempt that fails by a fault has
    an ``outcome`` and no ``request``: nothing is sent. ``differs`` is true if the endpoint includes
    members that the payload of the event does not have.
    """

    step: ScheduledStep
    lane: str
    delivery: Record
    event: Record
    url: str
    at: datetime
    request: Outgoing | None
    variation: str | None = None
    outcome: Outcome | None = None
    differs: bool = False


def prepare(
    state: Transaction, step: ScheduledStep, lane: str, at: datetime, second: int
) -> Attempt | None:
    """The attempt that ``step`` makes; None when there is nothing to send any more.

    ``second`` is its timestamp, in seconds since the epoch.
    """
    if step.action == CLOSE_ENDPOINT:
        _close_failing(state, step)
        return None
    delivery = state.get(DELIVERIES, str(step.arguments["subject"]))
    endpoint = delivery and state.get(ENDPOINTS, delivery["endpointId"])
    event = delivery and state.get(EVENTS, delivery["eventId"])
    if delivery is None or endpoint is None or event is None or endpoint["status"] != ENABLED:
        return None
    fault = next(iter(delivery["before"]), None)
    if fault is not None and fault["kind"] == _FAIL:
        outcome = Outcome(fault["status"] or _FAILURE)
        return Attempt(step, lane, delivery, event, endpoint["url"], at, None, _FAIL, outcome)
    variation = fault["kind"] if fault else _repeated(delivery)
    secrets = signing_secrets(endpoint, at)
    if variation == _PREVIOUS_SECRET:
        secrets = (endpoint.get("previousSecret", WRONG_SECRET),)
    payload = payload_for(event, endpoint)
    differs = payload is not event["payload"]
    sent = {**event, "payload": payload} if differs else event
    sent = sent if fault is None else _patched(sent, fault.get("patch"))
    request = Outgoing(endpoint["url"], *_signed(sent, secrets, second, variation))
    url = endpoint["url"]
    return Attempt(step, lane, delivery, event, url, at, request, variation, differs=differs)


def signed_request(event: Record, secrets: tuple[str, ...], second: int) -> Record:
    """The request for ``event``: method, headers, and the exact body that was signed.

    Each of ``secrets`` gives one signature; a receiver accepts the request if one is valid.
    """
    sent, body = _signed(event, secrets, second, None)
    return {"method": "POST", "headers": sent, "body": body.decode()}


def note(
    state: Transaction, attempt: Attempt, outcome: Outcome, *, time_flows: bool
) -> Record | None:
    """Store the outcome of an attempt, schedule the next one, and return the delivery.

    With ``time_flows`` the duration of the attempt delays the next one. None: the workspace was
    restored in the meantime, and does not contain the attempt.
    """
    delivery = state.get(DELIVERIES, attempt.delivery["id"])
    endpoint = state.get(ENDPOINTS, attempt.delivery["endpointId"])
    event = state.get(EVENTS, attempt.delivery["eventId"])
    url = attempt.url if endpoint is None else endpoint["url"]
    if delivery is None or (event, url) != (attempt.event, attempt.url):
        return None
    is_due = state.discard_step(attempt.step.number, attempt.lane)
    if endpoint is None or not is_due:  # deleted, cancelled or replayed
        return _note_late(state, delivery, attempt, outcome)
    delivery = _with_attempt(delivery, attempt, outcome)
    over = attempt.at + (outcome.took if time_flows else timedelta())
    due = None
    if attempt.variation in {None, _FAIL} and delivery["status"] in UNFINISHED:
        delivery, due = _judged(delivery, endpoint, outcome, over)
        endpoint = _note_health(state, endpoint, outcome, attempt.at)
    elif delivery["status"] in UNFINISHED:  # the request was altered; the next one may be genuine
        due = over
    if delivery["before"]:
        delivery["before"] = _consumed(delivery["before"])
    if delivery["status"] == DELIVERED and delivery["repeats"]:
        delivery["repeats"] -= 1
        due = over
    delivery["nextAttemptAt"] = None if due is None else instant_text(due)
    state.put(DELIVERIES, delivery["id"], delivery)
    if due is not None:
        subject = {"subject": delivery["id"]}
        state.schedule(due, DELIVER, subject, lane=attempt.lane, is_retry=True)
    if outcome.status == _GONE and endpoint["status"] == ENABLED:
        _close(state, endpoint, "gone", attempt.at)
    return delivery


def _note_late(
    state: Transaction, delivery: Record, attempt: Attempt, outcome: Outcome
) -> Record | None:
    """Add an attempt to a delivery that was cancelled or replayed while it was in flight.

    An accepted one makes the delivery Delivered. None: the attempt is not part of the delivery.
    """
    was = attempt.delivery
    is_stopped = delivery["nextAttemptAt"] is None and delivery["attempt"] == was["attempt"]
    if (delivery["replays"], is_stopped) <= (was["replays"], False):
        return None
    delivery = _with_attempt(delivery, attempt, outcome)
    if delivery["status"] == CANCELLED and outcome.is_success and attempt.variation is None:
        delivery["status"] = DELIVERED
    state.put(DELIVERIES, delivery["id"], delivery)
    return delivery


def _close_failing(state: Transaction, step: ScheduledStep) -> None:
    """Disable an endpoint, unless it has succeeded since, or is disabled already."""
    endpoint = state.get(ENDPOINTS, str(step.arguments["subject"]))
    if endpoint is None or endpoint["status"] != ENABLED:
        return
    if endpoint.get("failingSince") == step.arguments["since"]:
        _close(state, endpoint, "failing", step.due)


def _close(state: Transaction, endpoint: Record, reason: str, at: datetime) -> None:
    disable(state, endpoint, reason, at)
    state.schedule(at, CLOSE_ENDPOINT, {"subject": endpoint["id"]}, is_retry=True)


def _judged(
    delivery: Record, endpoint: Record, outcome: Outcome, over: datetime
) -> tuple[Record, datetime | None]:
    """The delivery after an unaltered attempt, and when the next one is due."""
    if outcome.is_success:
        return {**delivery, "status": DELIVERED}, None
    failures = delivery["failures"] + 1
    profile = endpoint.get("retryProfile", STANDARD)
    gap = next_gap(profile, failures, outcome.status, outcome.retry_after)
    if gap is None or delivery["once"]:
        return {**delivery, "failures": failures, "status": EXHAUSTED}, None
    return {**delivery, "failures": failures, "status": FAILED}, over + gap


def _note_health(state: Transaction, endpoint: Record, outcome: Outcome, at: datetime) -> Record:
    """Store since when the endpoint only fails, and schedule a check after DISABLED_AFTER."""
    since = endpoint.get("failingSince")
    if outcome.is_success and since is not None:
        endpoint = {name: value for name, value in endpoint.items() if name != "failingSince"}
    elif not outcome.is_success and since is None:
        endpoint = {**endpoint, "failingSince": instant_text(at)}
        arguments = {"subject": endpoint["id"], "since": endpoint["failingSince"]}
        state.schedule(
            at + DISABLED_AFTER, CLOSE_ENDPOINT, arguments, lane=endpoint["id"], is_retry=True
        )
    else:
        return endpoint
    state.put(ENDPOINTS, endpoint["id"], endpoint)
    return endpoint


def _repeated(delivery: Record) -> str | None:
    return "duplicate" if delivery["status"] == DELIVERED else None


def _consumed(faults: list[Record]) -> list[Record]:
    first, *rest = faults
    if first["left"] is None:
        return faults
    left = {**first, "left": first["left"] - 1}
    return [left, *rest] if left["left"] else rest


def _patched(event: Record, patch: Mapping[str, Any] | None) -> Record:
    """The event with a changed payload; if that has another id, so has the event."""
    if patch is None:
        return event
    payload = jsonio.merge_patch(event["payload"], patch)
    names = [name for name, value in event["payload"].items() if value == event["id"]]
    ids = (payload[name] for name in names if isinstance(payload.get(name), str))
    return {**event, "id": next(ids, event["id"]), "payload": payload}


def _signed(
    event: Record, secrets: tuple[str, ...], second: int, variation: str | None
) -> tuple[dict[str, str], bytes]:
    body = jsonio.dumps(event["payload"])
    signing = secrets
    if variation in {"bad-signature", "other-version"}:
        signing = (WRONG_SECRET,)
    elif variation == "two-signatures":
        signing = (WRONG_SECRET, *secrets)
    sent = headers(signing, event["id"], second + _SHIFTS.get(variation or "", 0), body)
    if variation == _CHANGED_BODY:
        body = jsonio.dumps({**event["payload"], "changed": True})
    return _altered(sent, variation), b"" if variation == "empty-body" else body


def _altered(sent: dict[str, str], variation: str | None) -> dict[str, str]:
    """Return the headers of a signed request as a fault alters them."""
    match variation:
        case "no-signature" | "no-timestamp":
            missing = f"webhook-{variation.removeprefix('no-')}"
            return {name: value for name, value in sent.items() if name != missing}
        case "empty-signature":
            return {**sent, "webhook-signature": ""}
        case "other-version":
            signature = sent["webhook-signature"].replace("v1,", "v2,")
            return {**sent, "webhook-signature": signature}
        case "changed-id":
            return {**sent, "webhook-id": f"{sent['webhook-id']}_changed"}
    return sent


def _with_attempt(delivery: Record, attempt: Attempt, outcome: Outcome) -> Record:
    milliseconds = outcome.took // timedelta(milliseconds=1)
    number = delivery["attempt"] + 1
    entry: Record = {
        "attempt": number,
        "at": instant_text(attempt.at),
        "status": DELIVERED if outcome.is_success else FAILED,
        "responseStatus": outcome.status,
        "error": outcome.error,
        "reason": outcome.reason,
        "durationMs": milliseconds,
        "variation": attempt.variation,
        "sent": attempt.request is not None,
        "request": None if attempt.request is None else _shown_request(attempt, attempt.request),
        "response": {"body": outcome.body[:_SHOWN].decode(errors="replace")},
    }
    return {
        **delivery,
        "attempt": number,
        "responseStatus": outcome.status,
        "durationMs": milliseconds,
        "attemptedAt": entry["at"],
        "attempts": [*delivery["attempts"], entry][-KEPT_ATTEMPTS:],
    }


def _shown_request(attempt: Attempt, request: Outgoing) -> Record:
    """A request with its ``payload`` if that is not the one of the event."""
    digest = hashlib.sha256(request.body).hexdigest()
    is_altered = attempt.differs or attempt.variation in _ALTERING
    payload = {"payload": jsonio.loads(request.body)} if is_altered else {}
    return {
        "url": request.url,
        "headers": dict(request.headers),
        "bodyDigest": f"sha256:{digest}",
        "bodySize": len(request.body),
        **payload,
    }


def explained_delivery(delivery: Record, event: Record | None, endpoint: Record | None) -> Record:
    """Return a delivery with its ``body``, and what each attempt ``signed``.

    Without the event or the endpoint nothing is known about the signatures.
    """
    if event is None or endpoint is None:
        return {**delivery, "body": None}
    body = jsonio.dumps(payload_for(event, endpoint))
    secrets = {"current": endpoint["secret"], "wrong": WRONG_SECRET}
    if "previousSecret" in endpoint:
        secrets["previous"] = endpoint["previousSecret"]
    attempts = [
        {**attempt, "signed": _explained_headers(attempt["request"]["headers"], body, secrets)}
        if attempt["request"]
        else attempt
        for attempt in delivery["attempts"]
    ]
    return {**delivery, "body": body.decode(), "attempts": attempts}


def _explained_headers(sent: Mapping[str, str], body: bytes, secrets: Mapping[str, str]) -> Record:
    """Return the text that was signed, None if it is not this body, and the secret of each
    signature: ``current``, ``previous``, ``wrong``, or None."""
    message_id, second = sent["webhook-id"], int(sent.get("webhook-timestamp", 0))
    names = {sign(secret, message_id, second, body): name for name, secret in secrets.items()}
    signatures = []
    for signature in sent.get("webhook-signature", "").split():
        name = names.get(signature)
        shown = None if name is None else f"{SECRET_PREFIX}…{secrets[name][-4:]}"
        signatures.append({"signature": signature, "secret": name, "shown": shown})
    is_known = any(signature["secret"] for signature in signatures)
    content = f"{message_id}.{second}.{body.decode()}" if is_known else None
    return {"content": content, "signatures": signatures}
