"""Serve a sandbox with uvicorn: a real port, a ready line, a graceful stop."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn

from invoice_sandbox.app import Sandbox, create_app
from invoice_sandbox.http.send import reset
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.server.protocol import Protocol
from invoice_sandbox.settings import SettingError, Settings

OnReady = Callable[[Engine], None]

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MAX_FILES: Final = 65_536
"""Open files that the server asks the operating system for."""

SECONDS_BETWEEN: Final = 5
"""Seconds from a response to the next request of a connection."""

_TICKS_BETWEEN_LOOKS: Final = 300
"""Ticks of uvicorn, ten a second, after which a client that does nothing has lost its connection:
at the first look it is noted, at the second one dropped."""

_BACKLOG: Final = 2048
_SECONDS_TO_FINISH: Final = 5
_YOUNG_OBJECTS: Final = 5_000
"""Objects after which the garbage collector looks for cycles: those of some dozen requests."""

_YOUNG_ROUNDS: Final = 5
"""Rounds after which it looks for cycles in what was left by each."""


class _Server(uvicorn.Server):
    """uvicorn's server: reports when it is ready, and exits with success when it is stopped."""

    def __init__(
        self, config: uvicorn.Config, on_ready: Callable[[], None], on_stop: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._left: dict[Any, int] = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, then report it."""
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        """Now and then, drop the connections of clients that take no response or send no head."""
        if counter % _TICKS_BETWEEN_LOOKS == 0:
            left: dict[Any, int] = {
                connection: connection.transport.get_write_buffer_size()
                for connection in self.server_state.connections
            }
            for connection, size in left.items():
                is_stuck = connection.cycle is None or 0 < size == self._left.get(connection)
                if is_stuck and connection in self._left:
                    reset(connection.transport)
            self._left = left
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End endless streams, then stop as uvicorn does."""
        self._on_stop()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop gracefully on a signal, without raising it again afterwards: the process ends then,
        and further ones do not interrupt that."""
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
    """Serve until SIGINT, SIGTERM or SIGHUP. ``on_ready`` gets the engine, which knows the URL and
    the passwords that were made, once the server accepts requests.

    Raises SettingError when the address cannot be listened on, and ProjectError.
    """
    _raise_file_limit()
    with listen(settings) as listener:
        asyncio.run(_serve(settings, listener, on_ready))


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


async def _serve(settings: Settings, listener: socket.socket, on_ready: OnReady) -> None:
    with _lasting_objects():
        sandbox = await create_app(settings, url=settings.url(listener.getsockname()[1]))
    server = make_server(sandbox, lambda: on_ready(sandbox.engine), settings.trusted_proxy)
    await server.serve(sockets=[listener])


@contextmanager
def _lasting_objects() -> Iterator[None]:
    """Exclude from garbage collection what is created here: it lasts as long as the process."""
    gc.disable()
    try:
        yield
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_ROUNDS)
        gc.callbacks.append(_keep_survivors)
    finally:
        gc.enable()


def _keep_survivors(phase: str, info: dict[str, int]) -> None:
    """Exclude what two rounds of garbage collection have left from further ones.

    It is the state of workspaces, which has no cycles. Looking through all of it, again and again,
    would take hundreds of milliseconds each time, in which nobody gets a response.
    """
    if phase == "stop" and info["generation"] > 0:
        gc.freeze()


def make_server(
    sandbox: Sandbox,
    on_ready: Callable[[], None],
    proxies: Collection[object] = (),
    seconds_between: int = SECONDS_BETWEEN,
) -> uvicorn.Server:
    """Return a uvicorn server for ``sandbox``; ``on_ready`` is called once it accepts requests.

    The client of a request from one of the ``proxies``, addresses or networks, is the last one in
    its ``X-Forwarded-For`` that is no proxy.
    """
    config = uvicorn.Config(
        sandbox,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=[str(network) for network in proxies],
        timeout_keep_alive=seconds_between,
        timeout_graceful_shutdown=_SECONDS_TO_FINISH,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return _Server(config, on_ready, sandbox.engine.end_streams)


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
