"""Sends streams and fault-altered responses.

A fault ends a connection by its transport, which our server passes on as an extension of the ASGI
scope.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from msgspec import structs

from invoice_sandbox.base.clock import SystemClock
from invoice_sandbox.http.request import CONNECTION, InjectedFault, Message, Reply, Request, Send

_PIECES: Final = 20

_INERT: Final = (
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "sandbox; default-src 'none'"),
)
"""Headers of every response that is not a page of ours: a browser runs nothing of what a client
stored, even where an injected fault declares it as HTML."""


async def send_reply(system_clock: SystemClock, request: Request, reply: Reply, send: Send) -> None:
    """Send a response, a stream, or what a fault makes of it."""
    if reply.stream is not None:
        await _send_stream(request, reply, reply.stream, send)
    elif request.fault is None:
        await _send_whole(request, reply, send)
    else:
        altered = _AlteredReply(request, reply, send, request.fault, system_clock)
        await ALTERATIONS[request.fault.kind](altered)


async def _send_whole(request: Request, reply: Reply, send: Send) -> None:
    """Send a response in one piece."""
    body = b"" if request.method == "HEAD" else reply.body
    await send(_response_start(reply))
    await send({"type": "http.response.body", "body": body})


def _response_start(reply: Reply) -> Message:
    """Return the ASGI message with status and headers."""
    headers = [(_written(name), value.encode("latin-1")) for name, value in _headers(reply)]
    return {"type": "http.response.start", "status": reply.status, "headers": headers}


@lru_cache(maxsize=256)
def _written(name: str) -> bytes:
    return name.lower().encode()


def _headers(reply: Reply) -> list[tuple[str, str]]:
    headers = list(reply.headers)
    if not reply.is_page:
        headers += _INERT
    if reply.body or reply.stream is not None:
        headers.append(("content-type", reply.media_type))
    if reply.stream is None and reply.status not in {204, 304}:
        headers.append(("content-length", str(len(reply.body))))
    return headers


async def _send_stream(
    request: Request, reply: Reply, parts: AsyncGenerator[bytes, None], send: Send
) -> None:
    """Send each part at once, until there are no more or the client is gone."""
    await send(_response_start(reply))
    if request.method == "HEAD":
        await parts.aclose()
        await send({"type": "http.response.body", "body": b""})
        return
    gone = asyncio.ensure_future(_wait_for_end(request))
    try:
        while (body := await _next(parts, gone)) is not None:
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        await parts.aclose()


async def _next(parts: AsyncGenerator[bytes, None], gone: asyncio.Future[None]) -> bytes | None:
    """The next part; None at the end, or when the client is gone first."""
    part = asyncio.ensure_future(anext(parts, None))
    try:
        either: set[asyncio.Future[Any]] = {gone, part}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return part.result() if part.done() else None
    finally:
        if part.cancel():
            await asyncio.wait({part})


@dataclass(frozen=True)
class _AlteredReply:
    """A response that an injected fault alters."""

    request: Request
    reply: Reply
    send: Send
    fault: InjectedFault
    system_clock: SystemClock

    async def reset(self) -> None:
        """Drop the connection instead."""
        reset(_connection(self.request))
        await _wait_for_end(self.request)

    async def truncate(self) -> None:
        """Send half of the body, then close the connection."""
        body = self.reply.body
        if not body:
            await _send_whole(self.request, self.reply, self.send)
            return
        await self.send(_response_start(self.reply))
        await self._send_part(body[: len(body) // 2])
        _connection(self.request).close()
        await _wait_for_end(self.request)

    async def malformed(self) -> None:
        """Send invalid JSON of the same length: a body that ends with a comma."""
        broken = self.reply.body[:-1] + b"," if self.reply.body else b""
        await _send_whole(self.request, structs.replace(self.reply, body=broken), self.send)

    async def content_type(self) -> None:
        """Declare the body as HTML."""
        await _send_whole(
            self.request, structs.replace(self.reply, media_type="text/html"), self.send
        )

    async def drip(self) -> None:
        """Send the body in pieces, until all are sent or the client is gone. A pause is shorter
        when the one before it was too long."""
        pieces = _pieces(self.reply.body)
        started = self.system_clock.monotonic()
        await self.send(_response_start(self.reply))
        gone = asyncio.ensure_future(_wait_for_end(self.request))
        try:
            for number, piece in enumerate(pieces, 1):
                due = started + self.fault.seconds * number / len(pieces)
                sleep = self.system_clock.sleep(max(0.0, due - self.system_clock.monotonic()))
                pause = asyncio.ensure_future(sleep)
                await asyncio.wait({gone, pause}, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    pause.cancel()
                    return
                await self._send_part(piece)
            await self.send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()

    async def _send_part(self, body: bytes) -> None:
        await self.send({"type": "http.response.body", "body": body, "more_body": True})


def _pieces(body: bytes) -> list[bytes]:
    size = max(1, -(-len(body) // _PIECES))
    return [body[start : start + size] for start in range(0, len(body), size)] or [b""]


def _connection(request: Request) -> asyncio.Transport:
    connection: asyncio.Transport = request.scope["extensions"][CONNECTION]
    return connection


def reset(connection: asyncio.Transport) -> None:
    """Drop a connection at once, so that the client sees a reset."""
    with suppress(OSError):
        connection.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
    connection.abort()


async def _wait_for_end(request: Request) -> None:
    """Wait until the server has seen that the connection is closed."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


ALTERATIONS: Final[Mapping[str, Callable[[_AlteredReply], Awaitable[None]]]] = {
    "reset": _AlteredReply.reset,
    "truncate": _AlteredReply.truncate,
    "malformed": _AlteredReply.malformed,
    "drip": _AlteredReply.drip,
    "content-type": _AlteredReply.content_type,
}
"""The alterations of a response, by type of fault."""
