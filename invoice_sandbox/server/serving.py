"""Serve a sandbox with uvicorn: a real port, a ready line, a graceful stop."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any, Final

import uvicorn

from invoice_sandbox.app import Sandbox, create_app
from invoice_sandbox.http.read import Patience
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.server.protocol import Protocol, protocol_with
from invoice_sandbox.server.workers import Workers
from invoice_sandbox.settings import SettingError, Settings

OnReady = Callable[[Engine], None]

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
MAX_FILES: Final = 65_536
"""Open files that the server asks the operating system for."""

RESERVED_FILES: Final = 1024
"""Of these, the most that are not for connections; at most a quarter."""

_BACKLOG: Final = 2048
_SECONDS_TO_FINISH: Final = 5
_SECONDS_TO_CANCEL: Final = 1
_ROUNDS_TO_ABORT: Final = 4
"""A connection that was accepted last is known a moment later, and closed another one later."""

_SECONDS_BETWEEN_LOOKS: Final = 0.1
_YOUNG_OBJECTS: Final = 20_000
"""Objects after which the garbage collector looks for cycles: those of some hundred requests."""


class _Server(uvicorn.Server):
    """uvicorn's server: reports when it is ready, and exits with success when it is stopped."""

    def __init__(
        self,
        config: uvicorn.Config,
        protocol: type[Protocol],
        on_ready: Callable[[], None],
        on_stop: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._protocol = protocol
        self._on_ready = on_ready
        self._on_stop = on_stop

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, then report it."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End endless streams, and wait for the requests that have begun; new ones get 503.

        Then the application ends, and last of all connections: until everything is written and
        other servers may run the workspaces, this one can be reached.
        """
        self._protocol.is_stopping = True
        self._on_stop()
        await self._finish()
        if not self.force_exit:
            await self.lifespan.shutdown()
        await super().shutdown(sockets)
        for _ in range(_ROUNDS_TO_ABORT):
            for connection in list(self.server_state.connections):
                connection.transport.abort()
            await asyncio.sleep(0)

    async def _finish(self) -> None:
        """Wait for what runs now, and cancel what takes too long."""
        running, loop = set(self.server_state.tasks), asyncio.get_running_loop()
        deadline = loop.time() + _SECONDS_TO_FINISH
        while running and loop.time() < deadline and not self.force_exit:
            _, running = await asyncio.wait(running, timeout=_SECONDS_BETWEEN_LOOKS)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=_SECONDS_TO_CANCEL)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop gracefully on SIGINT and SIGTERM, without raising them again afterwards: the process
        ends then, and further ones do not interrupt that."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread receives signals
            return
        loop = asyncio.get_running_loop()
        for name in _STOP_SIGNALS:
            loop.add_signal_handler(name, self.handle_exit, name, None)
        try:
            yield
        finally:
            for name in _STOP_SIGNALS:
                loop.remove_signal_handler(name)
                signal.signal(name, signal.SIG_IGN)


def serve(settings: Settings, on_ready: OnReady) -> None:
    """Serve until SIGINT or SIGTERM. ``on_ready`` gets the engine, which knows the URL and the
    passwords that were made, once the server accepts requests.

    Raises SettingError when the address cannot be listened on, and ProjectError.
    """
    _raise_file_limit()
    with listen(settings) as listener:
        if settings.workers == 1:
            _runner()(_serve(settings, [listener], on_ready))
        else:
            work = partial(_work, settings, listener, on_ready)
            Workers(work, settings.workers).run()


def _work(
    settings: Settings,
    listener: socket.socket,
    on_ready: OnReady,
    report: Callable[[], None] | None,
) -> None:
    """Serve as one of several processes, which others reach at a port of its own."""

    def report_ready(engine: Engine) -> None:
        if report is not None:
            on_ready(engine)
            report()

    with listen(replace(settings, port=0)) as own:
        _runner()(_serve(settings, [listener, own], report_ready))


def _raise_file_limit() -> None:
    """Let the process open as many files as it may, up to MAX_FILES: each connection is one."""
    try:
        import resource
    except ImportError:  # not on Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections() -> float:
    """Connections beyond which new ones are rejected: the other files are for those responses,
    webhooks and name servers."""
    try:
        import resource
    except ImportError:
        return inf
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return inf if soft == resource.RLIM_INFINITY else soft - min(soft // 4, RESERVED_FILES)


async def _serve(settings: Settings, listeners: list[socket.socket], on_ready: OnReady) -> None:
    """``listeners``: the first is for clients, the last also for other servers."""
    ports = [one.getsockname()[1] for one in listeners]
    with _lasting_objects():
        sandbox = await create_app(
            settings, url=settings.url(ports[0]), address=settings.address(ports[-1])
        )
    server = make_server(sandbox, lambda: on_ready(sandbox.engine))
    await server.serve(sockets=listeners)


@contextmanager
def _lasting_objects() -> Iterator[None]:
    """What is created here lasts as long as the process, so the garbage collector skips it."""
    gc.disable()
    try:
        yield
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS)
    finally:
        gc.enable()


def make_server(
    sandbox: Sandbox, on_ready: Callable[[], None], patience: Patience | None = None
) -> uvicorn.Server:
    """A uvicorn server for ``sandbox``; ``on_ready`` is called once it accepts requests."""
    patience = patience or Patience()
    protocol = protocol_with(patience, sandbox.engine.project.conventions, most_connections())
    config = uvicorn.Config(
        sandbox,
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=patience.between,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return _Server(config, protocol, on_ready, sandbox.engine.end_streams)


def listen(settings: Settings) -> socket.socket:
    """A socket bound to the host and port of ``settings``. Raises SettingError."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is explicit because asyncio sets TCP_NODELAY only where it sees TCP.
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
