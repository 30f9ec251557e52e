"""The last step of an answer: its bytes, or what an injected fault makes of them.

What a fault does to a connection goes through ``CONNECTION``, an extension of the ASGI scope that
our own server provides; this module and that one are all that knows of connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, Protocol

from invoice_sandbox.base.clock import SystemClock
from invoice_sandbox.http import Exchange, Reply, Send
from invoice_sandbox.scenarios.faults import delay_seconds

CONNECTION: Final = "invoice_sandbox.connection"
_PIECES: Final = 20


class Connection(Protocol):
    """The client's connection, to be ended in a way that no server would by itself."""

    def reset(self) -> None:
        """Drop it at once, so that the client is told of a reset."""
        ...

    def close(self) -> None:
        """Send what was written, then close it."""
        ...


async def deliver(exchange: Exchange, reply: Reply, send: Send, system_clock: SystemClock) -> None:
    """Send ``reply``, spoilt if a fault says so."""
    fault = exchange.spoilt_by
    if reply.stream is not None:
        await _send_stream(exchange, reply, reply.stream, send)
    elif fault is None:
        await _send_all(exchange, reply, send)
    else:
        await _SPOILERS[fault.kind](exchange, reply, send, system_clock)


async def _send_all(exchange: Exchange, reply: Reply, send: Send) -> None:
    await _start(reply, send)
    body = b"" if exchange.method == "HEAD" else reply.body
    await send({"type": "http.response.body", "body": body})


async def _start(reply: Reply, send: Send) -> None:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers]
    if reply.body or reply.stream is not None:
        raw.append((b"content-type", reply.media_type.encode("latin-1")))
    if reply.stream is None and reply.status not in {204, 304}:
        raw.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": raw})


async def _send_stream(
    exchange: Exchange, reply: Reply, parts: AsyncGenerator[bytes, None], send: Send
) -> None:
    """Send each part as it comes, until there are no more or the client is gone."""
    await _start(reply, send)
    gone = asyncio.ensure_future(_wait_for_end(exchange))
    try:
        while (body := await _next(parts, gone)) is not None:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        await parts.aclose()


async def _next(parts: AsyncGenerator[bytes, None], gone: asyncio.Future[None]) -> bytes | None:
    """The next part; None when there is none, or the client is gone before it comes."""
    part = asyncio.ensure_future(anext(parts, None))
    try:
        either: set[asyncio.Future[Any]] = {gone, part}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return part.result() if part.done() else None
    finally:
        if part.cancel():
            await asyncio.wait({part})


async def _reset(exchange: Exchange, _reply: Reply, _send: Send, _wall: SystemClock) -> None:
    _connection(exchange).reset()
    await _wait_for_end(exchange)


async def _truncate(exchange: Exchange, reply: Reply, send: Send, _wall: SystemClock) -> None:
    if not reply.body:
        await _send_all(exchange, reply, send)
        return
    await _start(reply, send)
    half = reply.body[: len(reply.body) // 2]
    await send({"type": "http.response.body", "body": half, "more_body": True})
    _connection(exchange).close()
    await _wait_for_end(exchange)


async def _malformed(exchange: Exchange, reply: Reply, send: Send, _wall: SystemClock) -> None:
    # Its length stays right; with a comma at its end no JSON value is complete.
    broken = reply.body[:-1] + b"," if reply.body else b""
    await _send_all(exchange, replace(reply, body=broken), send)


async def _content_type(exchange: Exchange, reply: Reply, send: Send, _wall: SystemClock) -> None:
    await _send_all(exchange, replace(reply, media_type="text/html"), send)


async def _drip(exchange: Exchange, reply: Reply, send: Send, system_clock: SystemClock) -> None:
    fault, workspace = exchange.spoilt_by, exchange.workspace
    assert fault is not None  # noqa: S101  who calls this has looked
    assert workspace is not None  # noqa: S101  faults belong to one
    pieces = _pieces(reply.body)
    await _start(reply, send)
    gone = asyncio.ensure_future(_wait_for_end(exchange))
    try:
        for piece in pieces:
            pause = asyncio.ensure_future(
                system_clock.sleep(delay_seconds(workspace, fault) / len(pieces))
            )
            await asyncio.wait({gone, pause}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                pause.cancel()
                return
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()


def _pieces(body: bytes) -> list[bytes]:
    size = max(1, -(-len(body) // _PIECES))
    return [body[start : start + size] for start in range(0, len(body), size)] or [b""]


def _connection(exchange: Exchange) -> Connection:
    connection: Connection = exchange.scope["extensions"][CONNECTION]
    return connection


async def _wait_for_end(exchange: Exchange) -> None:
    """Until the server has seen that the connection is gone."""
    while (await exchange.receive())["type"] != "http.disconnect":
        pass


_Spoiler = Callable[[Exchange, Reply, Send, SystemClock], Awaitable[None]]
_SPOILERS: Final[dict[str, _Spoiler]] = {
    "reset": _reset,
    "truncate": _truncate,
    "malformed": _malformed,
    "drip": _drip,
    "content-type": _content_type,
}
