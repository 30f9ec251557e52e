"""Control functions of listeners, which send webhooks to a connected client."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from datetime import timedelta
from functools import partial
from typing import Final

from invoice_sandbox.base.errors import reject
from invoice_sandbox.base.later import Later
from invoice_sandbox.runtime.control_call import STREAM, ControlCall, PublicControlCall, Raw
from invoice_sandbox.state import Condition, NoWorkspaceError, Record
from invoice_sandbox.webhooks.endpoints import all_endpoints
from invoice_sandbox.webhooks.listeners import (
    MAX_LISTENERS,
    InUseError,
    Listener,
    NobodyListensError,
    QueueFullError,
    Reported,
)
from invoice_sandbox.webhooks.network import listener_url
from invoice_sandbox.webhooks.outbox import remove, type_of

_IDLE: Final = 3600


def create_listener(call: ControlCall) -> Record:
    """Open a listener, or the one of the token, whose ``endpoints`` stay. Raises ApiError 409."""
    engine = call.engine
    for workspace_id in engine.listeners.workspaces():
        if engine.store.workspace(workspace_id) is None:
            engine.listeners.remove_all(workspace_id)
    try:
        listener = engine.listeners.open(call.workspace.id, call.body.get("token"))
    except InUseError:
        raise reject(
            "conflict",
            problem="The token is in use, or all "
            f"{MAX_LISTENERS} listeners of the workspace are connected",
            advice="Omit the token, or delete a listener.",
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
    listener = _named(call)
    _endpoints(call, listener, ())
    call.engine.listeners.remove(listener)
    return {"id": listener.id, "deleted": True}


def stream_listener(call: ControlCall) -> Raw:
    """Return the deliveries to a listener as a stream. Raises ApiError 404.

    A client that does not accept a stream gets only the waiting messages.
    """
    listener = _named(call)
    idle = timedelta(seconds=call.query.get("idle", _IDLE)) if call.wants_stream else timedelta()
    parts = listener.stream(call.last_event, idle, call.is_there)
    return Raw(200, STREAM, headers=(("Cache-Control", "no-store"),), stream=parts)


def receive_for_listener(call: PublicControlCall) -> Later:
    """Send a message to the client and return the reported response. Raises ApiError 404."""
    listener = call.engine.listeners.at(call.path["address"])
    if listener is None:
        raise reject("unknown_resource", kind="listener", member="address")
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
    if not _named(call).report(body["message"], reported):
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


def _named(call: ControlCall) -> Listener:
    listener = call.engine.listeners.named(call.workspace.id, call.path["id"])
    if listener is None:
        raise reject("unknown_resource", kind="listener", member="id")
    return listener


def _text_response(status: int, text: str, headers: tuple[tuple[str, str], ...] = ()) -> Raw:
    return Raw(status, "text/plain", text.encode(errors="replace"), headers)
