"""The product as a subprocess: started on a free port, always stopped, its log kept."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread, Timer
from typing import IO, Final

COMMAND: Final = (sys.executable, "-m", "tests.fuzz.two_workspaces")
"""How the server is started: same interpreter, same state and same instant at every run."""

START_LIMIT: Final = 60.0
"""Seconds after which a server that has not said it is ready is stopped."""

_URL: Final = re.compile(r"http://[\w.\-\[\]:]+:\d+")
_KEY: Final = re.compile(r"ilk_sandbox_[0-9A-Za-z]+")


class NotReadyError(Exception):
    """The server ended, or was stopped, before it printed its ready line."""


@dataclass(frozen=True)
class Server:
    """A server that answers at ``url`` to ``keys``, one for each of its workspaces."""

    url: str
    keys: tuple[str, ...]
    process: subprocess.Popen[str]
    log_file: Path

    @property
    def authorizations(self) -> tuple[str, ...]:
        """The values of an ``Authorization`` header that the server accepts."""
        return tuple(f"Bearer {key}" for key in self.keys)

    def exit_code(self) -> int | None:
        """The code with which the server ended by itself, or None while it runs."""
        return self.process.poll()

    def log(self) -> str:
        """What the server has written to standard error so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")


@contextmanager
def running_server() -> Iterator[Server]:
    """Start the server, wait for its ready line, and stop it whatever happens inside."""
    with tempfile.TemporaryDirectory() as directory:
        log_file = Path(directory, "stderr.log")
        with log_file.open("w") as log:
            process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            url, keys = _ready(process, log_file)
            yield Server(url, keys, process, log_file)
        finally:
            _stop(process)


def _ready(process: subprocess.Popen[str], log_file: Path) -> tuple[str, tuple[str, ...]]:
    output = process.stdout
    assert output is not None
    limit = Timer(START_LIMIT, process.kill)
    limit.start()
    try:
        for line in output:
            url, keys = _URL.search(line), tuple(_KEY.findall(line))
            if url and keys:
                Thread(target=_drain, args=(output,), daemon=True).start()
                return url.group(), keys
    finally:
        limit.cancel()
    raise NotReadyError(log_file.read_text(encoding="utf-8", errors="replace"))


def _drain(output: IO[str]) -> None:
    # A full pipe would block the server.
    for _ in output:
        pass


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
