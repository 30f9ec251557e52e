"""uvicorn's HTTP/1.1 protocol, with errors in the envelope and bounds for a connection."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from invoice_sandbox.base.errors import reject
from invoice_sandbox.http.request import CONNECTION, INVALID

HEAD_LIMIT: Final = 64 * 1024
"""Bytes that may arrive before a head, a part of a body, or the trailers are complete."""

MAX_WAITING: Final = 100
"""Requests of a connection that may wait for the response to the one before."""

_PIECE: Final = 16 * 1024
_SECONDS_TO_READ: Final = 0.1
"""For so long, bytes after invalid ones are dropped, so that the client sees an error and not a
reset."""

_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


class _JoiningTransport:
    """A transport that sends what is written in one step of the event loop at once: uvicorn writes
    the head of a response and its body one after the other."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data, with what is written next."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        """Send what was written, and close the connection."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts:
            self._transport.write(b"".join(parts))


class Protocol(HttpToolsProtocol):
    """One connection. After an ``_error`` no more is read."""

    _running: RequestResponseCycle | None = None
    _error = ""
    _in_head, _is_continued, _incomplete = False, False, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin with a transport that sends a response at once."""
        super().connection_made(_JoiningTransport(transport, self.loop))  # type: ignore[arg-type]

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the current request, too: uvicorn cancels the last one that it received."""
        super().connection_lost(exc)
        self.pipeline.clear()
        if self._running is not None:
            _cancel(self._running)

    def data_received(self, data: bytes) -> None:
        """Read requests, up to the first error."""
        self._unset_keepalive_if_required()
        if self._error:
            return
        try:
            while data and not self._error:
                data = self._parse(data[:_PIECE]) + data[_PIECE:]
        except httptools.HttpParserInvalidMethodError:
            self._error = "unknown_method"
        except httptools.HttpParserError:
            self._error = "malformed_http"
        if self._error:
            self.loop.call_later(_SECONDS_TO_READ, self._reject)

    def _parse(self, piece: bytes) -> bytes:
        """Parse a piece. Return what follows the head of a request that asks for another protocol:
        there the parser stops, so a new one continues."""
        self._incomplete += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            headers = self.scope["headers"]
            framing = [b"%s: %s\r\n" % header for header in headers if header[0] in _FRAMING]
            self.parser, self._is_continued = httptools.HttpRequestParser(self), True
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%s\r\n" % b"".join(framing))
            self._is_continued = False
            return piece[upgrade.args[0] :]
        if self._incomplete > HEAD_LIMIT:
            self._error = "headers_too_large" if self._in_head else "malformed_http"
        elif len(self.pipeline) > MAX_WAITING:
            self._error = "too_many_waiting"
        return b""

    def on_message_begin(self) -> None:
        """Begin a request."""
        if not self._is_continued:
            super().on_message_begin()
            self.scope["extensions"] = {CONNECTION: self.transport}  # type: ignore[dict-item]
            self._in_head = True

    def on_headers_complete(self) -> None:
        """Carry the request out, after those before it. Trailers are ignored."""
        if not self._is_continued:
            if b"://" in self.url:
                self.headers[:] = _with_host_of(self.url, self.headers)
            super().on_headers_complete()
            self._in_head, self._incomplete, self.headers = False, 0, []

    def on_body(self, body: bytes) -> None:
        """Note a part of the body."""
        self._incomplete = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request, and with it the connection if a trailer says so."""
        if not self.parser.should_upgrade():
            super().on_message_complete()
            self._incomplete, self.cycle.more_body = 0, False
            self.cycle.keep_alive &= self.parser.should_keep_alive()
            if self.cycle.response_complete and not self.cycle.keep_alive:
                self.transport.close()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _reject(self) -> None:
        """Let the application respond with the error, in its turn: a request carries it there."""
        broken = self.cycle if self.cycle and self.cycle.more_body and not self._in_head else None
        if self.transport.is_closing() or (broken and broken.response_started):
            self.transport.close()
            return
        if broken:
            _cancel(broken)
            self.pipeline = deque(item for item in self.pipeline if item[0] is not broken)
            self.cycle = self._running or broken
        is_long = self._in_head and len(self.url) > HEAD_LIMIT // 2
        error = reject("target_too_long" if is_long else self._error, limit=HEAD_LIMIT)
        self.parser, self._is_continued = httptools.HttpRequestParser(self), False
        self.parser.feed_data(b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n")
        self.scope["extensions"][INVALID] = error  # type: ignore[assignment]
        self.scope["method"] = self.scope["path"] = "-"


def _with_host_of(url: bytes, headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers with the host of an absolute URL, which counts more than ``Host``."""
    scheme, separator, rest = url.partition(b"://")
    if not separator or not scheme.isalpha():
        return list(headers)
    host = re.split(rb"[/?#]", rest, maxsplit=1)[0]
    return [(b"host", host), *(header for header in headers if header[0] != b"host")]


def _cancel(cycle: RequestResponseCycle) -> None:
    """Let the application see that the client is gone."""
    cycle.disconnected = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    cycle.message_event.set()
