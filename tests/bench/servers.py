"""The servers that are compared, each as a process of its own on a free port."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from tests.interop.node import UnavailableError, needed_node
from tests.receivers import free_port

OURS: Final = "sandbox"
ON_SQLITE: Final = "sandbox on SQLite"
PRISM: Final = "Prism"
BARE: Final = "bare ASGI"

VERSIONS: Final = {PRISM: "5.16.0"}

_HEALTH: Final = "/api/health"
_PATIENCE: Final = 60.0
_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")

_LIMITS: Final = ("--rate-limit=1000000000", "--max-state=100000")
_OPTIONS: Final = ("--seed=7", "--scenario=manual", *_LIMITS)
SANDBOX: Final = (sys.executable, "-m", "invoice_sandbox", "serve", *_OPTIONS)
"""Everything is on, but nothing happens by itself. Limits are counted and never reached."""


@dataclass(frozen=True)
class Server:
    """A running server, and the seconds from its start to its first good response."""

    port: int
    pid: int
    start: float


Command = Sequence[str | Path]


CONTRACT: Final = "contract.yaml"
"""The file in its folder that Prism reads."""


def commands(folder: Path, prism: Path | None) -> dict[str, Command]:
    """Return how to start each server; its port is still to be added. None: without Prism."""
    found: dict[str, Command] = {
        OURS: [*SANDBOX, "--port"],
        ON_SQLITE: [*SANDBOX, f"--store=sqlite:///{folder / 'state.db'}", "--port"],
        BARE: [sys.executable, "-m", "tests.bench.bare"],
    }
    if prism is not None:
        mock = ("mock", folder / CONTRACT, "--verboseLevel", "silent", "--port")
        found[PRISM] = [needed_node(), prism, *mock]
    return found


@contextmanager
def running(command: Command) -> Iterator[Server]:
    """A server that responds. It is stopped at the end."""
    port, began = free_port(), time.perf_counter()
    process = subprocess.Popen(
        [*command, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with process:
        try:
            _wait(process, port)
            yield Server(port, process.pid, time.perf_counter() - began)
        finally:
            process.kill()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.perf_counter() + _PATIENCE
    while process.poll() is None and time.perf_counter() < deadline:
        connection = HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", _HEALTH)
            if connection.getresponse().status == 200:
                return
        except (OSError, HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.005)
    raise UnavailableError("a server did not start")


def installed_prism() -> Path:
    """Return the program of Prism, installed outside the checkout. Raises UnavailableError."""
    wanted = f"@stoplight/prism-cli@{VERSIONS[PRISM]}"
    folder = _CACHE / "invoice-liquidity-sandbox" / f"prism-{VERSIONS[PRISM]}"
    program = folder / "node_modules" / "@stoplight/prism-cli" / "dist/index.js"
    if program.is_file():
        return program
    node = needed_node()
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    options = ("--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund")
    path = os.pathsep.join([str(node.parent), os.environ["PATH"]])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(
            [node, npm, "install", *options, wanted],
            env=os.environ | {"PATH": path},
            check=True,
            capture_output=True,
            timeout=2 * _PATIENCE,
        )
    except (subprocess.SubprocessError, OSError) as error:
        raise UnavailableError(f"npm install {wanted} failed: {error}") from None
    return program
