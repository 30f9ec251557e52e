"""HTTP/1.1 as it comes in: uvicorn's protocol, with bounds on what a client can do to the server.

What never becomes a request is answered in the error envelope, after the answers to the requests
before it. No client can make the server wait for ever, or keep more than a little of what it sends.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any, Final

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import OperatingSystemClock
from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.base.ids import random_request_id
from invoice_sandbox.http.delivery import CONNECTION
from invoice_sandbox.http.read import PATIENCE, Patience, too_slow
from invoice_sandbox.project.conventions import Conventions

HEAD_LIMIT: Final = 64 * 1024
"""Bytes of a head, from the request line to the empty line, before the reading stops."""

FRAMING_LIMIT: Final = 64 * 1024
"""Bytes that the chunks of a body may take besides the body, trailers included."""

_FRAMING_OF_A_BYTE: Final = 8
"""What a chunk of one byte takes, and a little: nobody is refused for many small chunks."""

_PIECE: Final = 4 * 1024
_SECONDS_TO_READ: Final = 1
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})


class _Flow(FlowControl):
    """Reads on only while ``may_read``: uvicorn would take in requests faster than it answers."""

    def __init__(self, transport: asyncio.Transport, may_read: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._may_read = may_read

    def resume_reading(self) -> None:
        """Let more come in, if there is room."""
        if self._may_read():
            super().resume_reading()


class Protocol(HttpToolsProtocol):
    """One connection. It is also the ``Connection`` that injected faults end.

    ``_phase`` says what of a request is coming in: idle, head or body. ``_is_retelling``: a parser
    is told of a head that another one has read.
    """

    patience: Patience = Patience()
    conventions: Conventions = Conventions()

    _phase = "idle"
    _head_bytes = 0
    _body_bytes = 0
    _framing_bytes = 0
    _unread = b""
    _is_at_end = False
    _is_retelling = False
    _is_refused = False
    _refusal: ApiError | None = None
    _cycles: Sequence[RequestResponseCycle] = ()
    _watched: str | None = None
    _watch: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None
    _answer_due = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected; its first request must come soon."""
        super().connection_made(transport)
        self.flow = _Flow(transport, lambda: not self.pipeline and not self._unread)
        self._watch_client()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request of the connection: uvicorn tells only the last one that came in."""
        super().connection_lost(exc)
        self._unread = b""
        for timer in (self._watch, self._stall):
            if timer is not None:
                timer.cancel()
        for cycle in self._cycles:
            _abandon(cycle)

    def on_message_begin(self) -> None:
        """A head begins."""
        if self._is_retelling:
            return
        super().on_message_begin()
        extensions: dict[str, Any] = {CONNECTION: self, PATIENCE: self.patience}
        self.scope["extensions"] = extensions
        self._phase, self._head_bytes = "head", 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header of the head; what trails a body is no header."""
        if self._phase == "head" and not self._is_retelling:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """A head has ended."""
        if self._is_retelling:
            return
        super().on_headers_complete()
        self._phase, self._body_bytes, self._framing_bytes = "body", 0, 0
        self._cycles = [*self._unanswered(), self.cycle]

    def on_body(self, body: bytes) -> None:
        """Some of a body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has ended, unless its parser takes the body for another protocol's."""
        if self.parser.should_upgrade():
            return
        self._phase = "idle"
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with what the client sent meanwhile."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._expect_taking()
            return
        if self._is_refused:
            self._say_refusal()
            return
        self._read_on()
        self.flow.resume_reading()
        if self._is_at_end and not self._conclude():
            self.close()

    def data_received(self, data: bytes) -> None:
        """Read on, piece by piece, so that few requests wait behind the one being answered."""
        if self._is_refused:
            return  # a client that is still sending would not read the answer otherwise
        self._unread += data
        self._read_on()

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio has it
        """The client sends no more. What it has asked for is answered before it ends."""
        self._is_at_end = True
        return self._conclude()

    def pause_writing(self) -> None:
        """The client takes its answers more slowly than they come."""
        super().pause_writing()
        self._expect_taking()

    def resume_writing(self) -> None:
        """It has taken most of them: all that counts, unless they are the last."""
        super().resume_writing()
        if self._stall is not None and not self.transport.is_closing():
            self._stall.cancel()
            self._stall = None

    def timeout_keep_alive_handler(self) -> None:
        """Another request has not come in time."""
        self.close()

    def close(self) -> None:
        """Send what was written, then end the connection; by force if nobody takes it."""
        if not self.transport.is_closing():
            self.transport.close()
            self._expect_taking()

    def reset(self) -> None:
        """End the connection at once, so that the client is told of a reset."""
        connected = self.transport.get_extra_info("socket")
        with suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _unanswered(self) -> list[RequestResponseCycle]:
        return [one for one in self._cycles if not one.response_complete]

    def _read_on(self) -> None:
        while self._unread and not (
            self.pipeline or self._is_refused or self.transport.is_closing()
        ):
            piece, self._unread = self._unread[:_PIECE], self._unread[_PIECE:]
            self._read(piece)
        if self._unread:
            self.flow.pause_reading()
        self._watch_client()

    def _read(self, piece: bytes) -> None:
        before = self._body_bytes
        self._unset_keepalive_if_required()
        self._parse(piece)
        if self._phase == "head":
            self._head_bytes += len(piece)
            if self._head_bytes > HEAD_LIMIT:
                self._refuse(_too_large(self.url))
        elif self._phase == "body":
            self._framing_bytes += len(piece) - max(0, self._body_bytes - before)
            if self._framing_bytes > FRAMING_LIMIT + _FRAMING_OF_A_BYTE * self._body_bytes:
                self._refuse(reject("malformed_http"))

    def _parse(self, piece: bytes) -> None:
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as stopped:
            self._unread = piece[stopped.args[0] :] + self._unread
            self._decline_upgrade()
        except httptools.HttpParserError:
            is_long = self._phase == "head" and len(self.url) > HEAD_LIMIT // 2
            self._refuse(_too_large(self.url) if is_long else reject("malformed_http"))

    def _decline_upgrade(self) -> None:
        """Go on as if the client had not offered to speak another protocol, as Java's does.

        Its parser would take no body and no further request, so another one takes over: it is told
        how the body is framed, and nothing else of the head again.
        """
        self.parser = httptools.HttpRequestParser(self)
        framing = [b"%s: %s\r\n" % one for one in self.headers if one[0] in _FRAMING]
        self._is_retelling = True
        self._parse(b"POST / HTTP/1.1\r\n%s\r\n" % b"".join(framing))
        self._is_retelling = False

    def _conclude(self) -> bool:
        """The client sends no more: reject what it left unfinished.

        Whether there is still something to say to it.
        """
        if self._unread or self._is_refused:
            return True
        is_open = self._phase == "body" and not self.cycle.response_complete
        if self._phase == "head" or is_open:
            self._refuse(reject("malformed_http"))
            return True
        waiting = self._unanswered()
        return bool(waiting) and not waiting[0].response_started

    def _watch_client(self) -> None:
        """Give the client a while for what it has to send next; a byte now and then is not enough.

        The body of a request that waits for it is the pipeline's own concern.
        """
        phase = None if self._is_refused or self._unanswered() else self._phase
        if phase == self._watched:
            return
        if self._watch is not None:
            self._watch.cancel()
        self._watched = phase
        if phase is not None:
            self._watch = self.loop.call_later(self.patience.head, self._give_up)

    def _give_up(self) -> None:
        if self._phase == "head":
            self._refuse(too_slow(self.patience.head))
        else:
            self.close()

    def _expect_taking(self) -> None:
        """Give the client a while to take what was written."""
        if self._stall is None:
            self._answer_due = self.loop.time() + self.patience.whole_response
            self._watch_answer()

    def _watch_answer(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._stall = self.loop.call_later(self.patience.response, self._drop_if_stuck, left)

    def _drop_if_stuck(self, left: int) -> None:
        is_taken = self.transport.get_write_buffer_size() < left
        if is_taken and self.loop.time() < self._answer_due:
            self._watch_answer()
        else:
            self.reset()

    def _refuse(self, error: ApiError) -> None:
        """Answer ``error`` instead of what is coming in, in its turn, and read no more."""
        if self._is_refused:
            return
        self._is_refused, self._unread, self._refusal = True, b"", error
        if self._phase == "body":
            if self.cycle.response_started:
                self._refusal = None
            self.pipeline = deque(one for one in self.pipeline if one[0] is not self.cycle)
            self._cycles = [one for one in self._cycles if one is not self.cycle]
            _abandon(self.cycle)
        self._say_refusal()

    def _say_refusal(self) -> None:
        if self._unanswered() or self.transport.is_closing():
            return
        if self._refusal is None:
            self.close()
            return
        error, self._refusal = self._refusal, None
        names = self.conventions
        request_id = random_request_id(OperatingSystemClock().now(), names.request_id_prefix)
        media_type, content = next(names.error_bodies(error, request_id))
        body = jsonio.dumps(content)
        head = (
            f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n"
            f"content-type: {media_type}\r\n"
            f"content-length: {len(body)}\r\n"
            f"{names.request_id_header.lower()}: {request_id}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_SECONDS_TO_READ, self.close)


def _too_large(target: bytes) -> ApiError:
    is_target = len(target) > HEAD_LIMIT // 2
    return reject("target_too_long" if is_target else "headers_too_large", limit=HEAD_LIMIT)


def _abandon(cycle: RequestResponseCycle) -> None:
    """Tell a request that nobody waits for its answer."""
    cycle.disconnected = True
    cycle.message_event.set()


def protocol_with(patience: Patience, conventions: Conventions) -> type[Protocol]:
    """The protocol of a server with these limits and conventions."""
    return type("Protocol", (Protocol,), {"patience": patience, "conventions": conventions})
