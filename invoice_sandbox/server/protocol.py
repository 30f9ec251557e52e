"""HTTP/1.1: uvicorn's protocol, with bounds on what a client can make the server do.

Malformed requests get an error response, after the responses to the requests before them. No client
can make the server wait for ever, or hold more than a few KiB that nobody reads.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from math import inf
from typing import Any, Final
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import OperatingSystemClock
from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.base.ids import random_request_id
from invoice_sandbox.http.edge import MEMBERS, REQUESTS, STOPPING
from invoice_sandbox.http.pipeline import EXCHANGE
from invoice_sandbox.http.read import PATIENCE, Patience, too_slow
from invoice_sandbox.http.send import CONNECTION
from invoice_sandbox.project.conventions import Conventions
from invoice_sandbox.server.cycle import Cycle

HEAD_LIMIT: Final = 64 * 1024
"""Bytes of a head, from the request line to the empty line."""

FRAMING_LIMIT: Final = 64 * 1024
"""Bytes that the chunks of a body may take besides the body, trailers included."""

_FRAMING_OF_A_BYTE: Final = 8
"""What a chunk of one byte takes, and a little: many small chunks are allowed."""

HEALTH: Final = frozenset({"/sandbox/health", "/sandbox/health/live"})
"""The paths that also a connection beyond the limit may ask for."""

_BUSY: Final = 503
_TOO_MANY: Final = reject("too_many_connections")
_NOTHING: Final = memoryview(b"")
_PIECE: Final = 4 * 1024
_SECONDS_TO_READ: Final = 1
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class _Flow(FlowControl):
    """Reads only while ``may_read``: uvicorn would read requests faster than it responds."""

    def __init__(self, transport: asyncio.Transport, may_read: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._may_read = may_read

    def resume_reading(self) -> None:
        """Read again, if there is room."""
        if self.read_paused and self._may_read():
            super().resume_reading()


class Protocol(HttpToolsProtocol):
    """One connection. It is also the ``Connection`` that injected faults end.

    ``_phase`` is the part of a request that is being received: idle, head or body. While
    ``_is_replaying``, a new parser gets the head that another one has read. One timer, which runs
    on from request to request, sees when ``_deadline`` has passed. ``_pause`` are the seconds
    between two requests: no deadline is nearer when it is set.
    """

    patience: Patience = Patience()
    conventions: Conventions = Conventions()
    most_connections: float = inf
    is_stopping: bool = False

    _is_extra = False
    _phase = "idle"
    _head_bytes = 0
    _body_bytes = 0
    _framing_bytes = 0
    _unread = _NOTHING
    _is_at_end = False
    _is_replaying = False
    _is_rejected = False
    _error: ApiError | None = None
    _cycles: Sequence[Cycle] = ()
    _watched: str | None = None
    _deadline = inf
    _watch: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None
    _response_due = 0.0
    _pause = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected; its first request must arrive in time."""
        super().connection_made(transport)
        self.flow = _Flow(transport, lambda: not self.pipeline and not self._unread)
        self._pause = min(self.patience.head, float(self.timeout_keep_alive))
        self._is_extra = len(self.connections) > self.most_connections
        self._watch_client()
        if self._is_extra:
            self._deadline = self.loop.time() + self._pause  # it keeps one of the last files

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel every request of the connection: uvicorn cancels only the last one."""
        super().connection_lost(exc)
        self._unread = _NOTHING
        for timer in (self._watch, self._stall):
            if timer is not None:
                timer.cancel()
        for cycle in self._cycles:
            _abandon(cycle)

    def on_message_begin(self) -> None:
        """A head begins."""
        if self._is_replaying:
            return
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._phase, self._head_bytes = "head", 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the head; trailers of a body are ignored."""
        if self._phase != "head" or self._is_replaying:
            return
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """A head has ended: carry the request out, after those before it."""
        if self._is_replaying:
            return
        cycle = self._new_cycle()
        self.scope, before, self.cycle = cycle.scope, self.cycle, cycle
        app: Any = self.app
        if self._is_extra or self.is_stopping:
            cycle.keep_alive = False
            app = app if cycle.scope["path"] in HEALTH else self._respond_busy
        if before is None or before.response_complete:
            self._cycles = (cycle,)
            self._start_asgi_task(cycle, app)
        else:
            self._cycles = (*self._unfinished(), cycle)
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, app))
        self._phase, self._body_bytes, self._framing_bytes = "body", 0, 0

    def _new_cycle(self) -> Cycle:
        version, url = self.parser.get_http_version(), httptools.parse_url(self.url)
        path = url.path.decode("ascii")
        scope: Any = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": self.parser.get_method().decode("ascii"),
            "scheme": self.scheme,
            "path": unquote(path) if "%" in path else path,
            "raw_path": url.path,
            "query_string": url.query or b"",
            "root_path": "",
            "headers": self.headers,
            "client": self.client,
            "server": self.server,
            "extensions": {CONNECTION: self, PATIENCE: self.patience},
        }
        cycle = Cycle(  # without names, which take four times as long
            scope,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            False,  # no access log
            self.server_state.default_headers,
            asyncio.Event(),
            self.expect_100_continue,
            version != "1.0" and self.parser.should_keep_alive(),
            self.on_response_complete,
        )
        scope["extensions"][EXCHANGE] = cycle
        return cycle

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has ended, unless the parser expects another protocol after it."""
        if self.parser.should_upgrade():
            return
        self._phase = "idle"
        if not self.cycle.response_complete:
            self.cycle.more_body = False
            self.cycle.message_event.set()

    def on_response_complete(self) -> None:
        """Continue with what the client sent meanwhile."""
        self.server_state.total_requests += 1
        for cycle in self._cycles:
            if cycle.response_complete and cycle.body:
                cycle.body = bytearray()  # nobody reads it any more
        if self.transport.is_closing():
            self._watch_writing()
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        if self._is_rejected:
            self._send_error()
            return
        if self._unread:
            self._read_on()
        else:
            self._watch_client()
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self._is_at_end and not self._conclude():
            self.close()

    def data_received(self, data: bytes) -> None:
        """Read piece by piece, so that few requests wait behind the current one."""
        if self._is_rejected:
            return  # read and dropped: a client that still sends would not see the error otherwise
        self._unread = memoryview(b"".join((self._unread, data)) if self._unread else data)
        self._read_on()

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio has it
        """The client sends no more. Its requests get their responses before the connection ends."""
        self._is_at_end = True
        return self._conclude()

    def pause_writing(self) -> None:
        """The client reads its responses more slowly than they are written."""
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        """The client has read most of them; the last bytes of a connection are still watched."""
        super().resume_writing()
        if self._stall is not None and not self.transport.is_closing():
            self._stall.cancel()
            self._stall = None

    def close(self) -> None:
        """Send what was written, then end the connection; by force if the client reads nothing."""
        if not self.transport.is_closing():
            self.transport.close()
            self._watch_writing()

    def reset(self) -> None:
        """End the connection at once, so that the client sees a reset."""
        connected = self.transport.get_extra_info("socket")
        with suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _unfinished(self) -> list[Cycle]:
        return [one for one in self._cycles if not one.response_complete]

    def _read_on(self) -> None:
        while self._unread and not (
            self.pipeline or self._is_rejected or self.transport.is_closing()
        ):
            piece, self._unread = self._unread[:_PIECE], self._unread[_PIECE:]
            self._read(piece)
        if self._unread:
            self._unread = memoryview(bytes(self._unread))  # what was read can be freed
            self.flow.pause_reading()
        self._watch_client()

    def _read(self, piece: memoryview) -> None:
        before = self._body_bytes
        self._parse(piece)
        if self._phase == "head":
            self._head_bytes += len(piece)
            if self._head_bytes > HEAD_LIMIT:
                self._reject(_too_large(self.url))
        elif self._phase == "body":
            self._framing_bytes += len(piece) - max(0, self._body_bytes - before)
            if self._framing_bytes > FRAMING_LIMIT + _FRAMING_OF_A_BYTE * self._body_bytes:
                self._reject(reject("malformed_http"))

    def _parse(self, piece: memoryview) -> None:
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as stopped:
            self._unread = memoryview(b"".join((piece[stopped.args[0] :], self._unread)))
            self._decline_upgrade()
        except httptools.HttpParserInvalidMethodError:
            self._reject(reject("unknown_method"))
        except httptools.HttpParserError:
            is_long = self._phase == "head" and len(self.url) > HEAD_LIMIT // 2
            self._reject(_too_large(self.url) if is_long else reject("malformed_http"))

    def _decline_upgrade(self) -> None:
        """Continue as if the client had not offered another protocol, as Java's client does.

        The parser would accept no body and no further request, so a new one replaces it. Of the
        head it gets only the headers that frame the body.
        """
        self.parser = httptools.HttpRequestParser(self)
        framing = [b"%s: %s\r\n" % one for one in self.headers if one[0] in _FRAMING]
        self._is_replaying = True
        self._parse(memoryview(b"POST / HTTP/1.1\r\n%s\r\n" % b"".join(framing)))
        self._is_replaying = False

    def _conclude(self) -> bool:
        """The client sends no more: reject what it left unfinished.

        Returns whether something is still to be sent.
        """
        if self._unread or self._is_rejected:
            return True
        is_open = self._phase == "body" and not self.cycle.response_complete
        if self._phase == "head" or is_open:
            self._reject(reject("malformed_http"))
            return True
        waiting = self._unfinished()
        return bool(waiting) and not waiting[0].response_started

    def _watch_client(self) -> None:
        """Give the client some time to send a head, the rest of an unread body, or a next request.

        A byte now and then does not extend it. The pipeline itself limits the time of a body that a
        request waits for.
        """
        phase = None if self._is_rejected else self._phase
        for cycle in self._cycles:
            if not cycle.response_complete:
                phase = None
        if phase == self._watched:
            return
        self._watched, self._deadline = phase, inf
        if phase is not None:
            is_between = phase == "idle" and self.cycle is not None
            self._deadline = self.loop.time() + (self._pause if is_between else self.patience.head)
        if self._watch is None:
            self._watch_time()

    def _watch_time(self) -> None:
        now = self.loop.time()
        if now >= self._deadline:
            self._deadline = inf
            self._time_out()
        wait = min(self._deadline - now, self._pause)
        self._watch = self.loop.call_later(wait, self._watch_time)

    def _time_out(self) -> None:
        if self._phase == "head":
            self._reject(too_slow(self.patience.head))
        else:
            self.close()

    def _watch_writing(self) -> None:
        """Give the client some time to read what was written."""
        if self._stall is None:
            self._response_due = self.loop.time() + self.patience.whole_response
            self._watch_response()

    def _watch_response(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._stall = self.loop.call_later(self.patience.response, self._reset_if_stuck, left)

    def _reset_if_stuck(self, left: int) -> None:
        is_taken = self.transport.get_write_buffer_size() < left
        if is_taken and self.loop.time() < self._response_due:
            self._watch_response()
        else:
            self.reset()

    def _reject(self, error: ApiError) -> None:
        """Respond with ``error`` to the request being received, in its turn, and read no more."""
        if self._is_rejected:
            return
        self._is_rejected, self._unread, self._error = True, _NOTHING, error
        if self._phase == "body":
            if self.cycle.response_started:
                self._error = None
            self.pipeline = deque(one for one in self.pipeline if one[0] is not self.cycle)
            self._cycles = [one for one in self._cycles if one is not self.cycle]
            _abandon(self.cycle)
        self._send_error()

    async def _respond_busy(self, _scope: Any, _receive: Any, send: Any) -> None:
        """Respond that there are too many connections, or none soon. An ASGI application."""
        headers, body = self._written(STOPPING if self.is_stopping else _TOO_MANY)
        raw = [(name.encode(), text.encode()) for name, text in headers.items()]
        await send({"type": "http.response.start", "status": _BUSY, "headers": raw})
        await send({"type": "http.response.body", "body": body})

    def _written(self, error: ApiError) -> tuple[dict[str, str], bytes]:
        """The headers and the body of an error, which the log gets a line about."""
        names = self.conventions
        request_id = random_request_id(OperatingSystemClock().now(), names.request_id_prefix)
        reason = error.message()
        members = {"requestId": request_id, "status": error.status, "reason": reason}
        line = f"-  -  {error.status}  -  0 ms  {request_id}  {reason}"
        REQUESTS.info("%s", line, extra={MEMBERS: members})
        media_type, content = next(names.error_bodies(error, request_id))
        body = jsonio.dumps(content)
        headers = {
            "content-type": media_type,
            "content-length": str(len(body)),
            names.request_id_header.lower(): request_id,
            **{name.lower(): text for name, text in error.headers},
        }
        return headers, body

    def _send_error(self) -> None:
        if self._unfinished() or self.transport.is_closing():
            return
        if self._error is None:
            self.close()
            return
        error, self._error = self._error, None
        headers, body = self._written(error)
        lines = [f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}"]
        lines += [f"{name}: {text}" for name, text in headers.items()]
        head = "\r\n".join([*lines, "connection: close", "", ""])
        self.transport.write(head.encode() + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_SECONDS_TO_READ, self.close)


def _too_large(target: bytes) -> ApiError:
    is_target = len(target) > HEAD_LIMIT // 2
    return reject("target_too_long" if is_target else "headers_too_large", limit=HEAD_LIMIT)


def _abandon(cycle: RequestResponseCycle) -> None:
    """Cancel a request whose client is gone."""
    cycle.disconnected = True
    cycle.message_event.set()


def protocol_with(
    patience: Patience, conventions: Conventions, most_connections: float
) -> type[Protocol]:
    """The protocol of a server with these limits and conventions.

    Beyond ``most_connections`` a new connection gets only the health of the server, or 503.
    """
    return type(
        "Protocol",
        (Protocol,),
        {
            "patience": patience,
            "conventions": conventions,
            "most_connections": most_connections,
        },
    )
