"""Several server processes on one port, which share a store: ``--workers``."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from typing import Final

from invoice_sandbox.base.errors import UserError

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_MISUSE: Final = 2
_SECONDS_TO_STOP: Final = 30.0

log = logging.getLogger("invoice_sandbox")

Serve = Callable[[Callable[[], None] | None], None]
"""Serves until the process is stopped. The first process gets what it calls once it is ready."""


class Workers:
    """Processes that serve; one that ends is replaced. The others start when the first is ready."""

    def __init__(self, serve: Serve, count: int) -> None:
        self._serve = serve
        self._count = count
        self._processes: list[ForkProcess] = []
        self._stop, self._stopped = socket.socketpair()

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM. Ends this process if the first one cannot start."""
        for name in _STOP_SIGNALS:
            signal.signal(name, lambda *_: self._stop.send(b"\0"))
        ready, report = multiprocessing.Pipe(duplex=False)
        first = self._start(lambda: report.send(None))
        if first.sentinel in wait([ready, first.sentinel, self._stopped]):
            sys.exit(first.exitcode)
        while len(self._processes) < self._count:
            self._start()
        self._replace_until_stopped()
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join(_SECONDS_TO_STOP)
            process.kill()

    def _start(self, on_ready: Callable[[], None] | None = None) -> ForkProcess:
        process = multiprocessing.get_context("fork").Process(target=self._run, args=(on_ready,))
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)  # it has the handlers of this one
        process.start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
        self._processes.append(process)
        return process

    def _run(self, on_ready: Callable[[], None] | None) -> None:
        for name in _STOP_SIGNALS:
            signal.signal(name, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
        threading.Thread(target=_stop_with_parent, daemon=True).start()
        try:
            self._serve(on_ready)
        except UserError as error:
            sys.stderr.write(f"Error: {error}\n")
            sys.exit(_MISUSE)

    def _replace_until_stopped(self) -> None:
        while True:
            ended = wait([self._stopped, *(one.sentinel for one in self._processes)])
            if self._stopped in ended:
                return
            for process in [one for one in self._processes if one.sentinel in ended]:
                process.join()
                log.error("A server process ended (%s) and is replaced", process.exitcode)
                self._processes.remove(process)
                self._start()


def _stop_with_parent() -> None:
    """Stop when the process that replaces this one is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None  # noqa: S101  it was started as a child
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
