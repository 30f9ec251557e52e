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

COMMAND: Final = (
    *(sys.executable, "-m", "invoice_sandbox", "serve"),
    *("--port", "0", "--rate-limit", "off", "--seed", "7", "--clock", "frozen"),
)
"""How the server is started: same interpreter, same state and same instant at every run."""

START_LIMIT: Final = 60.0
"""Seconds after which a server that has not said it is ready is stopped."""

_URL: Final = re.compile(r"http://[\w.\-\[\]:]+:\d+")
_KEY: Final = re.compile(r"ilk_sandbox_[0-9A-Za-z]+")


class NotReadyError(Exception):
    """The server ended, or was stopped, before it printed its ready line."""


@dataclass(frozen=True)
class Server:
    """A server that answers at ``url`` to ``key``."""

    url: str
    key: str
    process: subprocess.Popen[str]
    log_file: Path

    @property
    def authorization(self) -> str:
        """The value of an ``Authorization`` header that the server accepts."""
        return f"Bearer {self.key}"

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
            url, key = _ready(process, log_file)
            yield Server(url, key, process, log_file)
        finally:
            _stop(process)


def _ready(process: subprocess.Popen[str], log_file: Path) -> tuple[str, str]:
    output = process.stdout
    assert output is not None
    limit = Timer(START_LIMIT, process.kill)
    limit.start()
    try:
        for line in output:
            url, key = _URL.search(line), _KEY.search(line)
            if url and key:
                Thread(target=_drain, args=(output,), daemon=True).start()
                return url.group(), key.group()
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
