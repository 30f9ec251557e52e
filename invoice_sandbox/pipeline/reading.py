"""Read the body of an operation that declares one, whole, and never more than allowed.

This stands before the credentials, because the order of checks is path, body size,
authentication. A body that the contract does not declare is left unread.
"""

from __future__ import annotations

from asyncio import wait_for
from contextlib import suppress
from typing import Final

from invoice_sandbox.errors import ApiError, refuse
from invoice_sandbox.pipeline import Exchange, Proceed, Reply

_MOST_IGNORED: Final = 1024 * 1024
_PATIENCE: Final = 0.25
"""Bytes, and seconds between two parts, for which a body that is too large is read on."""


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete."""


async def read_body(exchange: Exchange, proceed: Proceed) -> Reply:
    """Collect the body, whether it comes with a length or in chunks. Raises ApiError 413."""
    declared = exchange.routed[1].body
    if declared is not None:
        exchange.raw_body = await _body(exchange, declared.limit)
    return await proceed(exchange)


async def _body(exchange: Exchange, limit: int) -> bytes:
    declared = exchange.header("content-length")
    if declared and declared.isdigit() and int(declared) > limit:
        raise await _too_large(exchange, limit)
    body: bytes = b""
    while True:
        message = await exchange.receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
        if len(body) > limit:
            raise await _too_large(exchange, limit)
        if not message.get("more_body", False):
            return body


async def _too_large(exchange: Exchange, limit: int) -> ApiError:
    """The refusal, once what the client is still sending was read, within bounds.

    Else the connection would be reset under its hands, and it would never read why. A client that
    waits to be told before it sends (``Expect``) is told at once.
    """
    ignored = 0
    with suppress(TimeoutError):
        while ignored < _MOST_IGNORED and not exchange.header("expect"):
            message = await wait_for(exchange.receive(), _PATIENCE)
            ignored += len(message.get("body", b""))
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                break
    return refuse("too_large", limit=limit)
