"""Servers that start within milliseconds: each is a fork of a process that has loaded everything.

That process is the fork server of ``multiprocessing``, which has imported ``tests.chaos.loaded``.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from invoice_sandbox.base import clock
from invoice_sandbox.cli import main
from tests.chaos.disk import cache_writes

_STDOUT, _STDERR = 1, 2


class Forked:
    """``invoice-sandbox`` with these arguments, without what it logs.

    ``skew``: by how many seconds the calendar of its machine is off. The clock module is the only
    one that reads the calendar, so it is enough that it reads another one. ``cached``: the folder
    of a store whose disk caches writes, and the seed of what it writes by itself.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        skew: float = 0,
        cached: tuple[Path, int] | None = None,
    ) -> None:
        context: Any = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.chaos.loaded"])
        reader, writer = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(arguments, writer, skew, cached))
        self._process.start()
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


def _run(
    arguments: Sequence[str], writer: Connection, skew: float, cached: tuple[Path, int] | None
) -> None:
    os.dup2(writer.fileno(), _STDOUT)
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STDERR)
    writer.close()
    if skew:
        made = clock.OperatingSystemClock.__init__

        def calendar() -> datetime:
            return datetime.now(UTC) + timedelta(seconds=skew)

        made.__defaults__ = (calendar, *(made.__defaults__ or ())[1:])
    if cached is not None:
        cache_writes(*cached)
    sys.exit(main(list(arguments)))
