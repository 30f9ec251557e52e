"""Receivers that hand on what is delivered to a client which is connected."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Final

from invoice_sandbox.errors import refuse
from invoice_sandbox.levers.lever import Lever, Raw
from invoice_sandbox.store import Record
from invoice_sandbox.webhooks.addresses import listener_url
from invoice_sandbox.webhooks.listeners import (
    MOST,
    InUseError,
    Listener,
    NobodyListensError,
    Reported,
)

_STREAM: Final = "text/event-stream"
_IDLE: Final = 3600
_MOST_DIGITS: Final = 18


async def create_listener(lever: Lever) -> Record:
    """A listener, or the one whose token is sent. Raises ApiError 409."""
    engine = lever.engine
    for workspace_id in engine.listeners.workspaces():
        if await engine.store.workspace(workspace_id) is None:
            engine.listeners.remove_all(workspace_id)
    try:
        listener = engine.listeners.open(lever.workspace.id, lever.body.get("token"))
    except InUseError:
        raise refuse(
            "conflict",
            problem=f"The token is taken, or all {MOST} listeners of the workspace are connected",
            advice="Leave the token out, or delete a listener.",
        ) from None
    return {
        "id": listener.id,
        "url": listener_url(engine.url, listener.token),
        "token": listener.token,
        "secondsToAnswer": engine.listeners.patience,
    }


async def delete_listener(lever: Lever) -> Record:
    """Close a listener. Raises ApiError 404."""
    listener = _named(lever)
    lever.engine.listeners.remove(listener)
    return {"id": listener.id, "deleted": True}


async def stream_listener(lever: Lever) -> Raw:
    """What is delivered to a listener, as it comes. Raises ApiError 404.

    A client that does not ask for a stream gets what is waiting, and no more.
    """
    listener = _named(lever)
    asks = _STREAM in lever.headers.get("accept", "")
    idle = timedelta(seconds=lever.query.get("idle", _IDLE)) if asks else timedelta()
    parts = listener.stream(_number(lever.headers.get("last-event-id", "")), idle, lever.is_there)
    return Raw(200, _STREAM, headers=(("Cache-Control", "no-store"),), stream=parts)


async def receive_for_listener(lever: Lever) -> Raw:
    """Hand a message to the client, and answer what its own receiver did. Raises ApiError 404."""
    listeners = lever.engine.listeners
    listener = listeners.at(lever.path["address"])
    if listener is None:
        raise refuse("unknown_resource", kind="listener", member="address")
    try:
        async with asyncio.timeout(listeners.patience):
            reported = await listener.hand_over(lever.headers, lever.raw_body)
    except NobodyListensError:
        return _words(503, "nobody is listening")
    except TimeoutError:
        return _words(504, "the listener did not answer in time")
    if reported.status is None:
        return _words(502, reported.error or "no answer")
    asked = reported.retry_after
    headers = () if asked is None else (("Retry-After", asked),)
    return _words(reported.status, reported.body, headers)


async def answer_message(lever: Lever) -> Record:
    """Take in what a client's receiver answered. Raises ApiError 404 when nobody waits for it."""
    body = lever.body
    reported = Reported(
        status=body.get("status"),
        error=body.get("error"),
        body=body.get("body", ""),
        retry_after=body.get("retryAfter"),
    )
    if not _named(lever).report(body["message"], reported):
        raise refuse("unknown_resource", kind="message that waits for an answer", member="number")
    return {"accepted": True}


def _named(lever: Lever) -> Listener:
    found = lever.engine.listeners.named(lever.workspace.id, lever.path["id"])
    if found is None:
        raise refuse("unknown_resource", kind="listener", member="id")
    return found


def _words(status: int, text: str, headers: tuple[tuple[str, str], ...] = ()) -> Raw:
    return Raw(status, "text/plain", text.encode(errors="replace"), headers)


def _number(text: str) -> int:
    """The number of a message, as the client has it from the stream; 0 for anything else."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else 0
