"""Read the body of an operation that declares one, whole, and never more than allowed.

This stands before the credentials, because the order of checks is path, body size,
authentication. A body that the contract does not declare is left unread.
"""

from __future__ import annotations

from asyncio import timeout, wait_for
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.http import Exchange, Message, Proceed, Reply

PATIENCE: Final = "invoice_sandbox.patience"
"""The extension of the ASGI scope in which our own server tells how patient it is."""

MOST_IGNORED: Final = 1024 * 1024
_PAUSE: Final = 0.25
"""Bytes, and seconds between two parts, for which a body that is too large is read on."""


@dataclass(frozen=True)
class Patience:
    """Seconds that the server waits for a client.

    ``head``: for a whole head, and for the rest of a body that nobody reads. ``silence``: between
    two parts of a body. ``body``: for a whole body. ``answer``: until a client takes more of its
    answer. ``whole_answer``: until it has taken all of it.
    """

    head: float = 30
    silence: float = 30
    body: float = 300
    answer: float = 30
    whole_answer: float = 300


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete."""


def too_slow(seconds: float) -> ApiError:
    """408: the client took more than ``seconds`` for its request. The connection ends with it."""
    return reject("too_slow", ("Connection", "close"), seconds=f"{seconds:g}")


async def read_body(exchange: Exchange, proceed: Proceed) -> Reply:
    """Collect the body, whether it comes with a length or in chunks. Raises ApiError 408, 413."""
    declared = exchange.routed[1].body
    if declared is not None:
        patience = exchange.scope.get("extensions", {}).get(PATIENCE, Patience())
        try:
            async with timeout(patience.body):
                exchange.raw_body = await _body(exchange, declared.limit, patience)
        except TimeoutError:
            raise too_slow(patience.body) from None
    return await proceed(exchange)


async def _body(exchange: Exchange, limit: int, patience: Patience) -> bytes:
    declared = exchange.header("content-length")
    if declared and declared.isdigit() and int(declared) > limit:
        raise await _too_large(exchange, limit)
    body = bytearray()
    while True:
        message = await _part(exchange, patience)
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
        if len(body) > limit:
            raise await _too_large(exchange, limit)
        if not message.get("more_body", False):
            return bytes(body)


async def _part(exchange: Exchange, patience: Patience) -> Message:
    try:
        async with timeout(patience.silence):
            return await exchange.receive()
    except TimeoutError:
        raise too_slow(patience.silence) from None


async def _too_large(exchange: Exchange, limit: int) -> ApiError:
    """The refusal, once what the client is still sending was read, within bounds.

    Else the connection would be reset under its hands, and it would never read why. A client that
    waits to be told before it sends (``Expect``) is told at once.
    """
    ignored = 0
    with suppress(TimeoutError):
        while ignored < MOST_IGNORED and not exchange.header("expect"):
            message = await wait_for(exchange.receive(), _PAUSE)
            ignored += len(message.get("body", b""))
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                break
    return reject("too_large", limit=limit)
