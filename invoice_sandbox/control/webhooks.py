"""Control functions of events, deliveries, the inbox, and listeners.

A listener sends webhooks to a connected client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta
from functools import partial
from typing import Final

from invoice_sandbox.base.errors import conflict, existing, reject
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.base.waiting import Later
from invoice_sandbox.project.api import Response
from invoice_sandbox.runtime.control_call import STREAM, ControlCall, PublicControlCall, Raw
from invoice_sandbox.state import Condition, NoWorkspaceError, Record, Transaction
from invoice_sandbox.webhooks.attempts import explained_delivery
from invoice_sandbox.webhooks.endpoints import (
    ENABLED,
    ENDPOINTS,
    all_endpoints,
    published_endpoint,
)
from invoice_sandbox.webhooks.inbox import (
    INBOX_LOG,
    SENT_AT,
    inbox_token,
    inbox_url,
    is_inbox,
    received_message,
    shown_messages,
)
from invoice_sandbox.webhooks.listeners import (
    MAX_LISTENERS,
    InUseError,
    Listener,
    NobodyListensError,
    QueueFullError,
    Reported,
)
from invoice_sandbox.webhooks.network import listener_url
from invoice_sandbox.webhooks.outbox import (
    DELIVERIES,
    EVENTS,
    published_delivery,
    remove,
    replay,
    type_of,
)

_DEFAULT_LIMIT: Final = 100


def get_inbox(call: ControlCall) -> Record:
    """The URL of the inbox, and its messages, newest first."""
    with call.engine.store.transaction(call.workspace.id) as state:
        token = inbox_token(state)
    log = call.engine.store.log(call.workspace.id, INBOX_LOG)
    return {
        "url": inbox_url(call.engine.url, token),
        "messages": shown_messages(log.entries)[: call.query.get("limit")],
        "count": len(log.entries),
        "dropped": log.dropped,
    }


def receive_webhook(call: PublicControlCall) -> Record:
    """Receive a message. Raises ApiError 404, and 401 for one that is not genuine."""
    engine, token = call.engine, call.path["token"]
    credential = engine.store.credential(key_digest(token))
    if credential is None or not is_inbox(credential):
        raise reject("unknown_resource", kind="inbox", member="address")
    try:
        with engine.store.transaction(credential.workspace_id) as state:
            now = SENT_AT.get() or state.workspace().clock.now(engine.system_clock)
            instant = now if engine.virtual_webhook_time else engine.system_clock.calendar()
            message = received_message(
                state,
                inbox_url(engine.url, token),
                call.headers,
                call.raw_body,
                now=now,
                second=int(instant.timestamp()),
            )
    except NoWorkspaceError:
        raise reject("unknown_resource", kind="inbox", member="address") from None
    size = len(call.raw_body)
    engine.store.append(credential.workspace_id, INBOX_LOG, message, size)
    if message["problem"] is not None:
        raise reject("invalid_signature", problem=message["problem"].capitalize())
    return {"accepted": True}


def list_events(call: ControlCall) -> list[Record]:
    """The recorded events, newest first, each with its deliveries."""
    subject = call.query.get("subject")
    where = () if subject is None else (Condition("subjects", "has", subject),)
    with call.engine.store.transaction(call.workspace.id) as state:
        limit = call.query.get("limit", _DEFAULT_LIMIT)
        events = state.page(EVENTS, limit=limit, where=where).records
        return [_with_deliveries(state, event) for event in events]


def _with_deliveries(state: Transaction, event: Record) -> Record:
    where = (Condition("eventId", "=", event["id"]),)
    deliveries = state.page(DELIVERIES, where=where).records
    return {**event, "deliveries": [published_delivery(delivery) for delivery in deliveries]}


def list_endpoints(call: ControlCall) -> list[Record]:
    """Return the webhook endpoints without their secrets, newest first."""
    with call.engine.store.transaction(call.workspace.id) as state:
        return [published_endpoint(record) for record in reversed(all_endpoints(state))]


def list_deliveries(call: ControlCall) -> Response:
    """Return a page of the deliveries that match every filter of the query, newest first, each with
    the ids of the records that its event is about."""
    query, limit = call.query, call.query.get("limit", _DEFAULT_LIMIT)
    with call.engine.store.transaction(call.workspace.id) as state:
        where = (
            *(Condition(name, "=", query[name]) for name in _EQUAL & query.keys()),
            *([Condition("status", "in", tuple(query["status"]))] if "status" in query else ()),
            *(_about(state, query["subject"]) if "subject" in query else ()),
        )
        page = state.page(DELIVERIES, limit=limit, before=query.get("cursor"), where=where)
        total = state.count(DELIVERIES, where)
        listed = [_with_subjects(state, delivery) for delivery in page.records]
    headers = [("X-Total-Count", str(total))]
    if page.next_position is not None:
        headers.append(call.link_to_next("/sandbox/deliveries", page.next_position))
    return Response(listed, tuple(headers))


def _with_subjects(state: Transaction, delivery: Record) -> Record:
    event = state.get(EVENTS, delivery["eventId"]) or {}
    return {**published_delivery(delivery), "subjects": event.get("subjects", [])}


_EQUAL: Final = frozenset({"endpointId", "eventId", "eventType"})
"""Filters of deliveries by a member of the same name."""


def _about(state: Transaction, subject: str) -> tuple[Condition, ...]:
    events = state.page(EVENTS, where=(Condition("subjects", "has", subject),), shared=True)
    return (Condition("eventId", "in", tuple(event["id"] for event in events.records)),)


def get_delivery(call: ControlCall) -> Record:
    """A delivery with its event and endpoint, what was signed, and with which secrets.

    Raises ApiError 404.
    """
    with call.engine.store.transaction(call.workspace.id) as state:
        delivery = _delivery(state, call)
        endpoint = state.get(ENDPOINTS, delivery["endpointId"])
        event = state.get(EVENTS, delivery["eventId"])
    cause = {name: event[name] for name in _CAUSE if name in event} if event else None
    return {
        **published_delivery(explained_delivery(delivery, event, endpoint)),
        "event": cause,
        "endpoint": published_endpoint(endpoint) if endpoint else None,
    }


_CAUSE: Final = ("id", "type", "at", "subjects", "requestId", "stepNumber")
"""Members of an event that show what it is about and what caused it."""


def replay_delivery(call: ControlCall) -> Later:
    """Attempt a delivery again and return it afterwards.

    Raises ApiError 404, and 409 for an endpoint that is disabled.
    """
    engine, workspace_id = call.engine, call.workspace.id
    with engine.store.transaction(workspace_id) as state:
        delivery = _delivery(state, call)
        endpoint = state.get(ENDPOINTS, delivery["endpointId"])
        if endpoint is None or endpoint["status"] != ENABLED:
            raise conflict(
                "The endpoint of the delivery is disabled",
                f"POST /sandbox/webhooks/{delivery['endpointId']}/enable first.",
            )
        now = state.workspace().clock.now(engine.system_clock)
        faults = [{"kind": call.body["fault"]}] if "fault" in (call.body or {}) else []
        delivery = replay(state, delivery, now, faults)
    finish = partial(engine.agenda.finish, workspace_id, delivery["lane"])
    return Later(finish, lambda _: _replayed(call, delivery))


def _delivery(state: Transaction, call: ControlCall) -> Record:
    return existing(state.get(DELIVERIES, call.path["id"]), "delivery", call.path["id"])


def _replayed(call: ControlCall, delivery: Record) -> Response:
    call.engine.agenda.start(call.workspace.id)
    with call.engine.store.transaction(call.workspace.id) as state:
        present = state.get(DELIVERIES, delivery["id"])
    return Response(published_delivery(present or delivery))


# Listeners


_IDLE: Final = 3600
"""Seconds without a message after which the stream of a listener ends."""


def create_listener(call: ControlCall) -> Record:
    """Open a listener, or the one of the token, whose ``endpoints`` stay. Raises ApiError 409."""
    engine = call.engine
    for workspace_id in engine.listeners.workspaces():
        if engine.store.workspace(workspace_id) is None:
            engine.listeners.remove_all(workspace_id)
    try:
        listener = engine.listeners.open(call.workspace.id, call.body.get("token"))
    except InUseError:
        raise conflict(
            f"The token is in use, or all {MAX_LISTENERS} listeners of the workspace are connected",
            "Omit the token, or delete a listener.",
        ) from None
    return {
        "id": listener.id,
        "url": listener_url(engine.url, listener.token),
        "token": listener.token,
        "endpoints": _endpoints(call, listener, call.body.get("endpoints")),
        "secondsToRespond": engine.listeners.patience,
    }


def delete_listener(call: ControlCall) -> Record:
    """Close a listener and delete its webhook endpoints. Raises ApiError 404."""
    listener = _listener(call)
    _endpoints(call, listener, ())
    call.engine.listeners.remove(listener)
    return {"id": listener.id, "deleted": True}


def stream_listener(call: ControlCall) -> Raw:
    """Return the deliveries to a listener as a stream. Raises ApiError 404.

    A client that does not accept a stream gets only the waiting messages.
    """
    listener = _listener(call)
    idle = timedelta(seconds=call.query.get("idle", _IDLE)) if call.wants_stream else timedelta()
    parts = listener.stream(call.last_event, idle, partial(call.engine.call, call.is_there))
    return Raw(200, STREAM, headers=(("Cache-Control", "no-store"),), stream=parts)


def receive_for_listener(call: PublicControlCall) -> Later:
    """Send a message to the client and return the reported response. Raises ApiError 404."""
    listener = existing(call.engine.listeners.at(call.path["address"]), "listener", None, "address")
    event_type = _event_type(call, listener)
    return Later(partial(_handed_over, call, listener, event_type), lambda response: response)


async def _handed_over(call: PublicControlCall, listener: Listener, event_type: str | None) -> Raw:
    listeners = call.engine.listeners
    try:
        async with asyncio.timeout(listeners.patience):
            reported = await listeners.hand_over(listener, call.headers, call.raw_body, event_type)
    except QueueFullError:
        return _text_response(503, "too many bytes wait for the listeners")
    except NobodyListensError:
        return _text_response(503, "no client is connected")
    except TimeoutError:
        return _text_response(504, "the client did not report a response in time")
    if reported.status is None:
        return _text_response(502, reported.error or "no response")
    retry_after = reported.retry_after
    headers = () if retry_after is None else (("Retry-After", retry_after),)
    return _text_response(reported.status, reported.body, headers)


def report_message_response(call: ControlCall) -> Record:
    """Accept a reported response. Raises ApiError 404 if no message waits for it."""
    body = call.body
    reported = Reported(
        status=body.get("status"),
        error=body.get("error"),
        body=body.get("body", ""),
        retry_after=body.get("retryAfter"),
    )
    if not _listener(call).report(body["message"], reported):
        raise reject("unknown_resource", kind="message that waits for a response", member="number")
    return {"accepted": True}


def _event_type(call: PublicControlCall, listener: Listener) -> str | None:
    """Return the type of the event that a message delivers; None if that is not known."""
    try:
        with call.engine.store.transaction(listener.workspace_id) as state:
            return type_of(state, call.headers, call.raw_body)
    except NoWorkspaceError:
        return None


def _endpoints(call: ControlCall, listener: Listener, kept: Collection[str] | None) -> list[str]:
    """Delete all webhook endpoints of a listener but the ``kept`` ones (None: all), and return the
    ids of those that are left."""
    engine = call.engine
    where = Condition("url", "=", listener_url(engine.url, listener.token))
    hook = engine.project.hooks.on_endpoint_removed
    with engine.store.transaction(call.workspace.id) as state:
        context = call.context(state)
        left = []
        for endpoint in all_endpoints(state, where):
            if kept is None or endpoint["id"] in kept:
                left.append(endpoint["id"])
                continue
            remove(state, endpoint, context.now)
            if hook is not None:
                hook(context, endpoint)
    return left


def _listener(call: ControlCall) -> Listener:
    return existing(call.engine.listeners.named(call.workspace.id, call.path["id"]), "listener")


def _text_response(status: int, text: str, headers: tuple[tuple[str, str], ...] = ()) -> Raw:
    return Raw(status, "text/plain", text.encode(errors="replace"), headers)
