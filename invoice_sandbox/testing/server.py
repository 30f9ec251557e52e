"""The server of a test run: started on a free port, stopped at the end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Timer
from typing import IO, Final

from invoice_sandbox.base.errors import UserError
from invoice_sandbox.base.ids import new_key
from invoice_sandbox.control.client import ControlClient, SandboxError, checked_url

_SECONDS_TO_START: Final = 60
_SECONDS_TO_STOP: Final = 15
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
    """A choice: the running server at ``url``, or a new one with these files and settings."""

    url: str | None = None
    key: str | None = field(default=None, repr=False)
    project: str | None = None
    contract: str | None = None
    scenarios: str | None = None
    stateful: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StartedServer(ControlClient):
    """The client of a server that was started, with the file of its log."""

    log_file: Path = field(default=Path(), repr=False)

    def log(self) -> list[str]:
        """Return the records of the log, without secrets."""
        lines = self.log_file.read_bytes().splitlines()
        return [json.loads(line) for line in lines if line.startswith(b'"')]


class NotStartedError(SandboxError, UserError):
    """A server cannot start with what it was given."""


@contextmanager
def serving(options: Options) -> Iterator[ControlClient]:
    """Return the client of a server that is ready, for the duration of the block.

    Raises SandboxError.
    """
    if options.url is not None:
        from invoice_sandbox.state.credentials import DEMO_KEY

        yield ControlClient(checked_url(options.url), options.key or DEMO_KEY)
        return
    key = new_key()
    with NamedTemporaryFile() as log, _process(log) as process:
        url = _start(process, _settings(options, key), Path(log.name))
        yield StartedServer(url, key, log_file=Path(log.name))


def options_from(
    given: Mapping[str, str | None], environment: Mapping[str, str], spelt: str = "{}"
) -> Options:
    """The ``given`` options, which the user has ``spelt`` so; the environment has the others.

    Raises SandboxError.
    """
    chosen = {
        name: given.get(name) or environment.get(_VARIABLE.format(name.upper())) or None
        for name in ("url", "key", *_SERVED)
    }
    options = Options(**chosen)  # type: ignore[arg-type]  # none of the names is 'settings'
    served = [spelt.format(name) for name in _SERVED if given.get(name)]
    url = f"{spelt.format('url')} or {_VARIABLE.format('URL')}"
    if options.url is not None and served:
        raise SandboxError(
            f"the running server of {url} serves a project already; "
            f"leave out {' and '.join(served)}, or the URL"
        )
    if options.url is None and given.get("key"):
        raise SandboxError(f"{spelt.format('key')} needs the URL of a running server: {url}")
    return options


def _settings(options: Options, key: str) -> dict[str, str | None]:
    """Return the settings of a new server."""
    files = {name: getattr(options, name) for name in _FILES}
    return {
        "port": "0",
        "clock": "frozen",
        "rate-limit": "off",
        "max-workspaces": "10000",
        "key": key,
        **{name: _absolute(text) for name, text in files.items()},
        "stateful": options.stateful,
        **options.settings,
    }


def _absolute(text: str | None) -> str | None:
    """Return the path of a file or folder from the root; an address as it is."""
    is_path = text and not text.startswith(("http://", "https://"))
    return str(Path(text).absolute()) if text and is_path else text


@contextmanager
def _process(log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Return the process of a new server, which has stopped at the end of the block."""
    if find_spec("uvicorn") is None:
        raise SandboxError(f"there is no sandbox to start: {ONLY_CLIENT}, or {_ADVICE}")
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "invoice_sandbox.testing.server_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,  # Ctrl-C is for the test run, which then stops the server
    )
    with process:
        try:
            yield process
        finally:
            _stop(process)


def _start(process: subprocess.Popen[bytes], settings: Mapping[str, str | None], log: Path) -> str:
    """Return the URL of a server when it is ready. Raises SandboxError with the reason."""
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101
    timer = Timer(_SECONDS_TO_START, process.kill)
    timer.start()
    with suppress(BrokenPipeError):  # then the log has the reason
        process.stdin.write(json.dumps(settings).encode() + b"\n")
        process.stdin.flush()
    result = json.loads(process.stdout.readline() or b"{}")
    timer.cancel()
    if "url" in result:
        return str(result["url"])
    if "problem" in result:
        raise NotStartedError(f"the sandbox did not start: {result['problem']}")
    process.wait()
    reason = log.read_text(errors="replace").strip()
    raise SandboxError(f"the sandbox did not start: {reason or 'it took more than a minute'}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Close the input of a server, which stops it, and wait for that."""
    try:
        process.communicate(timeout=_SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
