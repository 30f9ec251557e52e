"""The command of a client, as a process with its task in the environment."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

_SECONDS_TO_STOP: Final = 3.0
_POLL: Final = 0.03
_SHOWN: Final = 4_000


class ClientProcess:
    """A running client. Its output goes to a file; the process group is stopped at the end."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Raises OSError when the command cannot be started."""
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - the command of the user
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the run, which then stops the client
            )

    @property
    def exit_status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """End it with SIGTERM, and with SIGKILL what is left of its group."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_SECONDS_TO_STOP)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def output(self, secrets: Sequence[str]) -> str:
        """The end of its output, without ``secrets``."""
        text = self._log.read_text(encoding="utf-8", errors="replace")
        for secret in secrets:
            text = text.replace(secret, "[redacted]")
        self._log.write_text(text, encoding="utf-8")
        return text[-_SHOWN:]

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def free_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    """Whether something accepts connections on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def sleep_a_little() -> None:
    """Wait until it is worth to look again."""
    time.sleep(_POLL)


def seconds_now() -> float:
    """Real seconds, for deadlines."""
    return time.monotonic()
