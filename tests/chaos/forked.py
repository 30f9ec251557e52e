"""Servers that start within milliseconds: each is a fork of a process that has loaded everything.

That process is the fork server of ``multiprocessing``, which imports this module and nothing else.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from typing import Any, Final

from invoice_sandbox.base import clock
from invoice_sandbox.cli import main

_STDOUT, _STDERR = 1, 2
_PRELOADED: Final = "INVOICE_SANDBOX_PRELOADED"


class Forked:
    """``invoice-sandbox`` with these arguments, without what it logs.

    ``skew``: by how many seconds the calendar of its machine is off. The clock module is the only
    one that reads the calendar, so it is enough that it reads another one.
    """

    def __init__(self, arguments: Sequence[str], *, skew: float = 0) -> None:
        context: Any = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        reader, writer = context.Pipe(duplex=False)
        started = (arguments, writer, skew)
        self._process = context.Process(target=_run, args=started)
        os.environ[_PRELOADED] = "1"
        try:
            self._process.start()
        finally:
            del os.environ[_PRELOADED]
        writer.close()
        self.stdout = os.fdopen(os.dup(reader.fileno()))
        reader.close()
        self.pid: int = self._process.pid

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended."""
        self._process.join(timeout)


def _run(arguments: Sequence[str], writer: Connection, skew: float) -> None:
    os.dup2(writer.fileno(), _STDOUT)
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDERR)
    writer.close()
    if skew:
        made = clock.OperatingSystemClock.__init__

        def calendar() -> datetime:
            return datetime.now(UTC) + timedelta(seconds=skew)

        made.__defaults__ = (calendar, *(made.__defaults__ or ())[1:])
    sys.exit(main(list(arguments)))


def _load() -> None:
    """Compile the contract, and import what a server needs."""
    import invoice_sandbox.server.serving  # noqa: F401
    import invoice_sandbox.state.shared  # noqa: F401
    import invoice_sandbox.state.sqlite  # noqa: F401
    import invoice_sandbox.state.upgrade  # noqa: F401
    import invoice_sandbox.webhooks.transport  # noqa: F401
    from invoice_sandbox.app import create_app
    from invoice_sandbox.settings import read_settings

    asyncio.run(create_app(read_settings({}), url="http://127.0.0.1"))


if os.environ.get(_PRELOADED):
    _load()
