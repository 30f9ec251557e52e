"""Read the body of an operation that declares one, whole, and never more than allowed.

This stands before the credentials, because the order of checks is path, body size,
authentication. A body that the contract does not declare is left unread.
"""

from __future__ import annotations

from invoice_sandbox.errors import refuse
from invoice_sandbox.pipeline import Exchange, Proceed, Reply


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
        raise refuse("too_large", limit=limit)
    body: bytes = b""
    while True:
        message = await exchange.receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        body += message.get("body", b"")
        if len(body) > limit:
            raise refuse("too_large", limit=limit)
        if not message.get("more_body", False):
            return body
