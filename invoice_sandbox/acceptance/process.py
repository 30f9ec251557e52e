"""The command of a client, as a process with its task in the environment."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from invoice_sandbox.acceptance.clients import Assignment, Ending, LocalClient, without_secrets

_SECONDS_TO_STOP: Final = 3.0
_SHOWN: Final = 4_000
_LISTENS: Final = "0A"
"""The way Linux writes the state of a socket that accepts connections."""


@dataclass(frozen=True, kw_only=True)
class CommandClient(LocalClient):
    """A client that is a command, and the folder that its output goes to."""

    command: Sequence[str]
    output: Path
    side_by_side: int = 8

    def start(self, assignment: Assignment) -> ClientProcess:
        """Run the command. Raises OSError."""
        port = assignment.endpoint.port if assignment.endpoint else None
        log = self.output / f"{assignment.name}.log"
        return ClientProcess(self.command, assignment.environment, log, port)


class ClientProcess:
    """A running client. Its output goes to a file; the process group is stopped at the end."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        port: int | None = None,
    ) -> None:
        """Raises OSError when the command cannot be started."""
        self._log = log
        self._port = port
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
    def has_ended(self) -> bool:
        """True if the command has ended."""
        return self._process.poll() is not None

    def has_begun(self, requests: Callable[[], int]) -> bool:  # noqa: ARG002 - begins by itself
        """True if it accepts connections, or need not."""
        return self._port is None or listens(self._port)

    def stop(self) -> None:
        """End it with SIGTERM, and with SIGKILL what is left of its group."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_SECONDS_TO_STOP)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def ending(self, secrets: Sequence[str]) -> Ending:
        """Its exit status, negative for a signal, and the end of what it printed."""
        printed = self._log.read_text(encoding="utf-8", errors="replace")
        text = without_secrets(printed, secrets)
        self._log.write_text(text, encoding="utf-8")
        return Ending(self._process.poll(), output=text[-_SHOWN:])

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


def listens(port: int) -> bool:
    """True if something accepts connections on a port of this machine.

    Linux says so without a connection, which a simple server could take for a broken request.
    """
    try:
        tables = [Path(f"/proc/net/{name}").read_text().splitlines() for name in ("tcp", "tcp6")]
    except OSError:
        return _accepts(port)
    rows = [line.split() for table in tables for line in table[1:]]
    return any(row[3] == _LISTENS and row[1].endswith(f":{port:04X}") for row in rows)


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
