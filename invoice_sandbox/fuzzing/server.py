"""Starts ``invoice-sandbox serve`` on a free port, keeps its log, and always stops it."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Final

from invoice_sandbox.base.errors import UserError
from invoice_sandbox.state.credentials import DEMO_KEY

_SECONDS_TO_START: Final = 60.0
_SECONDS_TO_STOP: Final = 10.0
_READY: Final = re.compile(r"ready on (\S+) with key (\S+)")


class NotReadyError(UserError):
    """The server did not start; the message is the reason."""


@dataclass(frozen=True)
class Server:
    """A server at ``url`` for ``key``, with its process if it was started here."""

    url: str
    key: str
    process: subprocess.Popen[str] | None = None
    log_file: Path | None = None

    def exit_code(self) -> int | None:
        """The exit code of a started server that has ended by itself, or None."""
        return None if self.process is None else self.process.poll()

    def log(self) -> str:
        """The standard error output of a started server so far."""
        if self.log_file is None:
            return ""
        return self.log_file.read_text(encoding="utf-8", errors="replace")


@contextmanager
def serving(options: Mapping[str, str | None]) -> Iterator[Server]:
    """Start ``invoice-sandbox serve`` with these options, wait for it, and always stop it.

    Raises NotReadyError.
    """
    texts = {"port": "0", "clock": "frozen", "rate-limit": "off", "key": DEMO_KEY, **options}
    arguments = [f"--{name}={text}" for name, text in texts.items() if text is not None]
    with tempfile.TemporaryDirectory() as directory:
        log_file = Path(directory, "stderr.log")
        with log_file.open("w") as log:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "invoice_sandbox", "serve", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the command, which then stops it
            )
        try:
            url, key = _ready(process, log_file)
            yield Server(url, key, process, log_file)
        finally:
            _stop(process)


def _ready(process: subprocess.Popen[str], log_file: Path) -> tuple[str, str]:
    limit = Timer(_SECONDS_TO_START, process.kill)
    limit.start()
    try:
        for line in process.stdout or ():
            found = _READY.search(line)
            if found:
                return found.group(1), found.group(2)
    finally:
        limit.cancel()
    problem = log_file.read_text(encoding="utf-8", errors="replace").strip()
    raise NotReadyError(problem.removeprefix("Error: "))


def _stop(process: subprocess.Popen[str]) -> None:
    with process:  # closes what it writes to, and waits
        process.terminate()
        try:
            process.wait(timeout=_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
