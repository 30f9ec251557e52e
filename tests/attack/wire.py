"""A sandbox in a process of its own, and connections on which every byte is the test's."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.support import PATIENCE

_HERE: Final = Path(__file__).parents[2]


class NotReadyError(Exception):
    """The process ended, or said something else than that it is ready."""


@dataclass(frozen=True)
class Response:
    """What came back: status, headers in lower case, body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def envelope_problem(self) -> str | None:
        """What is wrong with the response to somebody who did something wrong."""
        if self.status < 400:
            return None
        if self.headers.get("content-type") != "application/json":
            return f"its type is {self.headers.get('content-type')}"
        try:
            reported = json.loads(self.body)
        except ValueError:
            return f"its body is {self.body[:80]!r}"
        error = reported.get("error", {})
        inputs = error.pop("problems", {"count": 1, "listed": [{}]})  # of the control API only
        if inputs["count"] < len(inputs["listed"]) or not inputs["listed"]:
            return f"its problems are {inputs}"
        if set(reported) != {"error", "mode"} or set(error) != {"code", "message", "requestId"}:
            return f"its members are {reported}"
        return (
            None if all(isinstance(one, str) and one for one in error.values()) else f"{reported}"
        )


class Wire:
    """One connection. It reads responses one after the other, as long as they come."""

    def __init__(self, port: int, patience: float = PATIENCE) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), patience)
        self._received = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Write ``data``, or as much as the server takes before it ends the connection."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def response(self, *, has_body: bool = True) -> Response:
        """The next final response. Raises EOFError when the connection ends, TimeoutError."""
        head = self._until(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        status = int(first.split()[1])
        if status == 100:
            return self.response(has_body=has_body)
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = int(headers.get("content-length", 0)) if has_body else 0
        while len(self._received) < length:
            self._more()
        body, self._received = self._received[:length], self._received[length:]
        return Response(status, headers, body)

    def is_closed(self) -> bool:
        """Whether the server ends the connection, with nothing more to say."""
        try:
            self._more()
        except EOFError:
            return True
        return False

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._received:
            self._more()
        found, _, self._received = self._received.partition(mark)
        return found

    def _more(self) -> None:
        try:
            part = self.socket.recv(1 << 16)
        except ConnectionResetError:
            raise EOFError from None
        if not part:
            raise EOFError(self._received[:80])
        self._received += part


@dataclass(frozen=True)
class Process:
    """A server as its users start it."""

    port: int
    pid: int
    log: Path

    def wire(self, patience: float = PATIENCE) -> Wire:
        """A new connection."""
        return Wire(self.port, patience)

    def ask(self, *parts: Any, **named: Any) -> Response:
        """The response to one request on a connection of its own."""
        with self.wire() as wire:
            wire.send(request(*parts, **named))
            return wire.response()

    def resident(self) -> int:
        """Return the bytes of memory in use."""
        return self._memory("VmRSS")

    def peak(self) -> int:
        """Return the most bytes of memory that were in use since ``forget_peak``."""
        return self._memory("VmHWM")

    def forget_peak(self) -> None:
        """Begin to look for the peak."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def _memory(self, name: str) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(rf"{name}:\s+(\d+) kB", status)
        assert found, status
        return int(found[1]) * 1024


def request(method: str, path: str, *lines: str, body: bytes | None = None) -> bytes:
    """A request with the demo key; a ``body`` is JSON and comes with its length."""
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {DEMO_KEY}"]
    if body is not None:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, *lines]).encode("latin-1") + b"\r\n\r\n" + (body or b"")


@contextmanager
def process(log: Path, *command: str) -> Iterator[Process]:
    """Run ``python -m command``, from its ready line until the end of the block."""
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, "-m", *command],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=_HERE,
            text=True,
        ) as child,
    ):
        try:
            assert child.stdout is not None
            ready = child.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:(\d+) ", ready)
            if not found:
                raise NotReadyError(ready)
            yield Process(int(found[1]), child.pid, log)
        finally:
            child.terminate()
