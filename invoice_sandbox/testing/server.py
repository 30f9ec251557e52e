"""The server of a test run: started on a free port, shared, stopped with the last who holds it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from invoice_sandbox.control.client import ControlClient, SandboxError, checked_url
from invoice_sandbox.testing.child import HELD

_SECONDS_TO_START: Final = 60
_SECONDS_TO_STOP: Final = 15
_STATE: Final = "invoice-sandbox.json"


@dataclass(frozen=True)
class Options:
    """Which server: one that is running at ``url``, or a new one with these folders."""

    url: str | None = None
    key: str | None = field(default=None, repr=False)
    project: str | None = None
    scenarios: str | None = None


@dataclass(frozen=True)
class Address:
    """Where a server of ours is, and its gate, at which leases are held."""

    url: str
    key: str = field(repr=False)
    gate: int


class Lease:
    """A share in a server, which stops when the last one has ended."""

    def __init__(self, address: Address) -> None:
        """Raises OSError when the server has gone."""
        self.address = address
        self._connection = socket.create_connection(("127.0.0.1", address.gate), timeout=10)
        self._connection.sendall(f"{address.key}\n".encode())
        if self._connection.recv(len(HELD)) != HELD:
            self._connection.close()
            raise ConnectionError("the server is stopping")

    def end(self) -> None:
        """Let go. If it was the last one, return when the server has stopped."""
        with self._connection as connection:
            connection.settimeout(_SECONDS_TO_STOP)
            try:
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)
            except OSError:
                pass  # the server was killed, or somebody's request goes on and on


@contextmanager
def serving(options: Options, shared: Path | None = None) -> Iterator[ControlClient]:
    """A server that is ready, for as long as the block runs.

    Several processes that name the same folder as ``shared`` have one server. Raises SandboxError.
    """
    if options.url is not None:
        from invoice_sandbox.state.credentials import DEMO_KEY

        yield ControlClient(checked_url(options.url), options.key or DEMO_KEY)
        return
    lease = Lease(_start(options)) if shared is None else _join(options, shared)
    try:
        yield ControlClient(lease.address.url, lease.address.key)
    finally:
        lease.end()


def options_from(given: Mapping[str, str | None], environment: Mapping[str, str]) -> Options:
    """What was ``given``, and what the environment says of the rest. Raises SandboxError."""
    from_environment = {
        name: environment.get(f"INVOICE_SANDBOX_{name.upper()}") or None
        for name in ("url", "key", "project", "scenarios")
    }
    options = Options(
        **{name: given.get(name) or from_environment[name] for name in from_environment}
    )
    folders = [name for name in ("project", "scenarios") if given.get(name)]
    if options.url is not None and folders:
        raise SandboxError(f"a server that is running has its own {' and '.join(folders)}")
    if options.url is None and given.get("key"):
        raise SandboxError("a key is for a server that is running; name its address too")
    return options


def _join(options: Options, shared: Path) -> Lease:
    with _alone(shared):
        state = shared / _STATE
        if state.exists():
            try:
                return Lease(Address(**json.loads(state.read_text())))
            except OSError:
                pass  # it has stopped, as everybody had gone
        address = _start(options)
        state.touch(mode=0o600)
        state.write_text(json.dumps(asdict(address)))
        return Lease(address)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    import fcntl

    with (folder / f"{_STATE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _start(options: Options) -> Address:
    """Start a server; return when it is ready. Raises SandboxError with its reason."""
    from invoice_sandbox.base.ids import new_key

    if not hasattr(os, "fork"):
        raise SandboxError("starting a sandbox needs Linux or macOS; name one that is running")
    folders = {"project": options.project, "scenarios": options.scenarios}
    texts = {
        "port": "0",
        "clock": "frozen",
        "rate-limit": "off",
        "max-workspaces": "10000",
        "key": new_key(),
        **{name: text and str(Path(text).absolute()) for name, text in folders.items()},
        "coverage": os.environ.get("INVOICE_SANDBOX_COVERAGE"),
    }
    with tempfile.TemporaryFile() as complaints:
        try:
            started = subprocess.run(
                [sys.executable, "-P", "-m", "invoice_sandbox.testing.child"],
                input=json.dumps(texts).encode(),
                stdout=subprocess.PIPE,
                stderr=complaints,
                start_new_session=True,  # Ctrl-C is for the test run, which then lets go of it
                timeout=_SECONDS_TO_START,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SandboxError("the sandbox did not become ready within a minute") from None
        complaints.seek(0)
        told = json.loads(started.stdout or b"{}")
        if "url" not in told:
            reason = told.get("problem") or complaints.read().decode(errors="replace").strip()
            raise SandboxError(f"the sandbox did not start: {reason}")
    return Address(**told)
