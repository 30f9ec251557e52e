"""Serve a sandbox with uvicorn: a real port, a ready line, a graceful stop."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from invoice_sandbox import jsonio
from invoice_sandbox.app import Sandbox, create_app
from invoice_sandbox.clock import SystemWall
from invoice_sandbox.errors import ApiError, refuse
from invoice_sandbox.ids import random_request_id
from invoice_sandbox.pipeline.delivery import CONNECTION
from invoice_sandbox.settings import SettingError, Settings

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_BACKLOG: Final = 2048
_SECONDS_TO_READ: Final = 1
_HEAD_LIMIT: Final = 64 * 1024
_SECONDS_TO_FINISH: Final = 5


class _Connection:
    """A client's connection, as injected faults treat it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def reset(self) -> None:
        """Drop it at once, so that the client is told of a reset."""
        connected = self._transport.get_extra_info("socket")
        with suppress(OSError):
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def close(self) -> None:
        """Send what was written, then close it."""
        self._transport.close()


class _Protocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, with what never becomes a request answered in the error envelope."""

    _head_is_open = False
    _head_bytes = 0
    _is_refused = False
    _cycles: Sequence[RequestResponseCycle] = ()

    def on_message_begin(self) -> None:
        """A head begins."""
        super().on_message_begin()
        extensions: dict[str, Any] = {CONNECTION: _Connection(self.transport)}
        self.scope["extensions"] = extensions
        self._head_is_open, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """A head has ended."""
        self._head_is_open = False
        super().on_headers_complete()
        self._cycles = [one for one in (*self._cycles, self.cycle) if not one.response_complete]

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request of the connection: uvicorn tells only the last one that came in."""
        super().connection_lost(exc)
        for cycle in self._cycles:
            cycle.disconnected = True
            cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Read on, unless a head goes on for ever: the pipeline sees only complete ones."""
        if self._is_refused:
            return  # a client that is still sending would not read the answer otherwise
        super().data_received(data)
        if self._head_is_open:
            self._head_bytes += len(data)
            if self._head_bytes > _HEAD_LIMIT:
                self._refuse(refuse("headers_too_large", limit=_HEAD_LIMIT))

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP."""
        _ = msg
        self._refuse(refuse("malformed_http"))

    def _refuse(self, error: ApiError) -> None:
        self._head_is_open = False
        request_id = random_request_id(SystemWall().now())
        body = jsonio.dumps(error.envelope(request_id))
        head = (
            f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\n"
            "content-type: application/json\r\n"
            f"content-length: {len(body)}\r\n"
            f"x-request-id: {request_id}\r\n"
            "connection: close\r\n\r\n"
        )
        self._is_refused = True
        self.transport.write(head.encode() + body)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(_SECONDS_TO_READ, self.transport.close)


class _Server(uvicorn.Server):
    """uvicorn's server: says when it is ready, and ends with success when asked to stop."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], on_stop: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to answer, then say so."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what would go on for ever, then let the other requests come to their end."""
        self._on_stop()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop gracefully on SIGINT and SIGTERM, without raising them again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread is told of signals
            return
        loop = asyncio.get_running_loop()
        for name in _STOP_SIGNALS:
            loop.add_signal_handler(name, self.handle_exit, name, None)
        try:
            yield
        finally:
            for name in _STOP_SIGNALS:
                loop.remove_signal_handler(name)


def serve(settings: Settings, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. ``on_ready`` is told the URL once requests are answered.

    Raises SettingError when the address cannot be listened on, and ProjectError.
    """
    _runner()(_serve(settings, on_ready))


async def _serve(settings: Settings, on_ready: Callable[[str], None]) -> None:
    with listen(settings) as listener:
        url = settings.url(listener.getsockname()[1])
        server = make_server(await create_app(settings, url=url), lambda: on_ready(url))
        await server.serve(sockets=[listener])


def make_server(sandbox: Sandbox, on_ready: Callable[[], None]) -> uvicorn.Server:
    """A uvicorn server for ``sandbox``; ``on_ready`` is called once requests are answered."""
    config = uvicorn.Config(
        sandbox,
        http=_Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return _Server(config, on_ready, sandbox.engine.listeners.remove_all)


def listen(settings: Settings) -> socket.socket:
    """A socket bound to the host and port of ``settings``. Raises SettingError."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Named in full: asyncio sends small answers without delay only where it sees TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)
    except (OSError, TypeError, ValueError) as error:
        listener.close()
        taken = isinstance(error, OSError) and error.errno in {errno.EADDRINUSE, errno.EACCES}
        address = f"{settings.host}:{settings.port}"
        reason = f"cannot listen on {address}: {getattr(error, 'strerror', None) or error}"
        if taken:
            raise SettingError(f"--port: {reason} (--port 0 picks a free one)") from None
        raise SettingError(f"--host: {reason}") from None
    return listener


def _runner() -> Callable[[Any], None]:
    try:
        import uvloop
    except ImportError:
        return asyncio.run
    return uvloop.run
