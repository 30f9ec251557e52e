"""Requests as fast as a server responds, over 32 connections that stay open.

Written for this, as no package of PyPI brings ``wrk`` or ``oha``, and as every invoice of a run
needs another number.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

CONNECTIONS: Final = 32
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


@dataclass(frozen=True)
class Request:
    """``body`` returns that of the nth request, so that no two need be the same.

    ``in_two``: head and body are sent in two writes, as most clients do.
    """

    method: str
    path: str
    status: int = 200
    body: Callable[[int], bytes] = lambda _: b""
    key: str | None = None
    in_two: bool = False

    def writes(self, number: int) -> list[bytes]:
        """Return the request as it is written to the socket."""
        body = self.body(number)
        key = f"Authorization: Bearer {self.key}\r\n" if self.key else ""
        head = (
            f"{self.method} {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n"
            f"{key}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return [head.encode(), body] if self.in_two else [head.encode() + body]


class _Run:
    """One run: until a moment, or for a number of requests. ``first`` numbers the first one."""

    def __init__(
        self, request: Request, first: int, until: float, most: int, connections: int
    ) -> None:
        self.request, self.until, self.most = request, until, most
        self.sent, self.first = 0, first
        self.received = 0
        self.open = connections
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def next(self) -> list[bytes]:
        """Return what is written for the next request; nothing at the end, but for each connection
        there is one."""
        is_over = time.perf_counter() >= self.until and self.sent >= self.open
        if is_over or self.sent >= self.most:
            return []
        self.sent += 1
        return self.request.writes(self.first + self.sent)

    def end(self, problem: str | None = None) -> None:
        """A connection is done, or the run has failed."""
        self.open -= 1
        if self.ended.done():
            return
        if problem is not None:
            self.ended.set_exception(ValueError(problem))
        elif self.open == 0:
            self.ended.set_result(None)


class _Connection(asyncio.Protocol):
    """Sends a request, waits for its response, and so on."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._unread = b""
        self._is_done = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        """Send the next request once the response is complete."""
        self._unread += data
        head, end, body = self._unread.partition(b"\r\n\r\n")
        if not end:
            return
        length = _LENGTH.search(head + b"\r\n")
        if len(body) < (int(length.group(1)) if length else 0):
            return
        if int(head[9:12]) != self._run.request.status:
            self._end(f"{self._run.request.path}: {head[9:12]!r} {body[:200]!r}")
            return
        self._unread = b""
        self._run.received += 1
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        """The server should not close a connection."""
        self._end(f"the connection was closed: {exc}")

    def _send(self) -> None:
        writes = self._run.next()
        for part in writes:
            self._transport.write(part)
        if not writes:
            self._end(None)

    def _end(self, problem: str | None) -> None:
        if not self._is_done:
            self._is_done = True
            self._transport.close()
            self._run.end(problem)


async def drive(
    port: int,
    request: Request,
    seconds: float,
    *,
    first: int = 0,
    most: int = 10**9,
    connections: int = CONNECTIONS,
) -> int:
    """Send requests for some seconds, at most ``most``, and return how many got a response.

    Raises ValueError at another status.
    """
    run = _Run(request, first, time.perf_counter() + seconds, most, connections)
    loop = asyncio.get_running_loop()
    for _ in range(connections):
        await loop.create_connection(lambda: _Connection(run), "127.0.0.1", port)
    await run.ended
    return run.received
