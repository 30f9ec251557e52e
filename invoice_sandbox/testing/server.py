"""The server of a test run: started on a free port, shared, stopped when the last lease ends."""

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
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from invoice_sandbox.base.errors import UserError
from invoice_sandbox.control.client import ControlClient, SandboxError, checked_url
from invoice_sandbox.testing.child import ASKS_LOG, HELD

_SECONDS_TO_START: Final = 60
_SECONDS_TO_STOP: Final = 15
_STATE: Final = "invoice-sandbox.json"
_FILES: Final = ("project", "contract", "scenarios")
_SERVED: Final = (*_FILES, "stateful")
"""Options of a server that is started; the first are a folder or file each."""

_VARIABLE: Final = "INVOICE_SANDBOX_{}"
_ADVICE: Final = (
    "pass the URL of a running one with --sandbox-url, INVOICE_SANDBOX_URL or running(url=…)"
)
ONLY_CLIENT: Final = (
    "only its client is installed here, so install invoice-liquidity-sandbox instead of "
    "invoice-liquidity-sandbox-client"
)


@dataclass(frozen=True)
class Options:
    """Which server: the running one at ``url``, or a new one with these files and settings."""

    url: str | None = None
    key: str | None = field(default=None, repr=False)
    project: str | None = None
    contract: str | None = None
    scenarios: str | None = None
    stateful: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Address:
    """URL of a started server on this machine, its API key, and the port for leases."""

    url: str
    key: str = field(repr=False)
    lease_port: int

    def log(self) -> list[str]:
        """The last records of the log, without secrets; none if the server has stopped."""
        try:
            with socket.create_connection(("127.0.0.1", self.lease_port), timeout=10) as connection:
                connection.sendall(f"{self.key}{ASKS_LOG}\n".encode())
                return list(json.load(connection.makefile("rb")))
        except (OSError, ValueError):
            return []


@dataclass(frozen=True)
class StartedServer(ControlClient):
    """The client of a server that was started at ``address``."""

    address: Address | None = field(default=None, repr=False)

    def log(self) -> list[str]:
        """The last records of its log, without secrets."""
        return [] if self.address is None else self.address.log()


class NotStartedError(SandboxError, UserError):
    """A server cannot start with what it was given."""


class Lease:
    """A lease of a server, which stops when the last lease ends."""

    def __init__(self, address: Address) -> None:
        """Raises OSError when the server has stopped."""
        self.address = address
        self._connection = socket.create_connection(("127.0.0.1", address.lease_port), timeout=10)
        try:
            self._connection.sendall(f"{address.key}\n".encode())
            if self._connection.recv(len(HELD)) != HELD:
                raise ConnectionError("the server is stopping")
        except OSError:
            self._connection.close()
            raise

    def end(self) -> None:
        """End the lease. If it was the last one, wait until the server has stopped."""
        with self._connection as connection:
            connection.settimeout(_SECONDS_TO_STOP)
            try:
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)
            except OSError:
                pass  # the server was killed, or a request does not end


@contextmanager
def serving(options: Options, shared: Path | None = None) -> Iterator[ControlClient]:
    """The client of a server that is ready, for the duration of the block.

    Processes with the same folder ``shared`` use one server. Raises SandboxError.
    """
    if options.url is not None:
        from invoice_sandbox.state.credentials import DEMO_KEY

        yield ControlClient(checked_url(options.url), options.key or DEMO_KEY)
        return
    lease = Lease(_start(options)) if shared is None else _join(options, shared)
    try:
        yield StartedServer(lease.address.url, lease.address.key, address=lease.address)
    finally:
        lease.end()


def options_from(
    given: Mapping[str, str | None], environment: Mapping[str, str], spelt: str = "{}"
) -> Options:
    """The ``given`` options, which the user has ``spelt`` so; the environment has the others.

    Raises SandboxError.
    """
    from_environment = {
        name: environment.get(_VARIABLE.format(name.upper())) or None
        for name in ("url", "key", *_SERVED)
    }
    chosen = {name: given.get(name) or from_environment[name] for name in from_environment}
    options = Options(**chosen)  # type: ignore[arg-type]  # none of the names is 'settings'
    served = [spelt.format(name) for name in _SERVED if given.get(name)]
    url, variable = spelt.format("url"), _VARIABLE.format("URL")
    if options.url is not None and served:
        source = url if given.get("url") else variable
        remedy = "leave out one of them" if given.get("url") else f"unset {variable} for that"
        raise SandboxError(
            f"{source} names a running server, which already serves a project; "
            f"{' and '.join(served)} would start one: {remedy}"
        )
    if options.url is None and given.get("key"):
        raise SandboxError(
            f"{spelt.format('key')} needs the URL of a running server: {url} or {variable}"
        )
    return options


def _join(options: Options, shared: Path) -> Lease:
    with _locked(shared):
        state = shared / _STATE
        if state.exists():
            try:
                return Lease(Address(**json.loads(state.read_text())))
            except OSError:
                pass  # it has stopped with its last lease
        address = _start(options)
        state.touch(mode=0o600)
        state.write_text(json.dumps(asdict(address)))
        return Lease(address)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    import fcntl

    with (folder / f"{_STATE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _start(options: Options) -> Address:
    """Start a server and wait until it is ready. Raises SandboxError with the reason."""
    from invoice_sandbox.base.ids import new_key

    if not hasattr(os, "fork"):
        raise SandboxError(f"starting a sandbox needs Linux or macOS; {_ADVICE}")
    if find_spec("uvicorn") is None:
        raise SandboxError(f"there is no sandbox to start: {ONLY_CLIENT}, or {_ADVICE}")
    files = {name: getattr(options, name) for name in _FILES}
    texts = {
        "port": "0",
        "clock": "frozen",
        "rate-limit": "off",
        "max-workspaces": "10000",
        "key": new_key(),
        **{name: text and str(Path(text).absolute()) for name, text in files.items()},
        "stateful": options.stateful,
        **options.settings,
    }
    with tempfile.TemporaryFile() as errors:
        try:
            started = subprocess.run(
                [sys.executable, "-P", "-m", "invoice_sandbox.testing.child"],
                input=json.dumps(texts).encode(),
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the test run, which then ends its lease
                timeout=_SECONDS_TO_START,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SandboxError("the sandbox did not become ready within a minute") from None
        errors.seek(0)
        result = json.loads(started.stdout or b"{}")
        if "url" not in result:
            if "problem" in result:
                raise NotStartedError(f"the sandbox did not start: {result['problem']}")
            reason = errors.read().decode(errors="replace").strip()
            raise SandboxError(f"the sandbox did not start: {reason}")
    return Address(**result)
