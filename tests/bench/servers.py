"""The servers that are compared, each as a process of its own on a free port."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from tests.interop.node import UnavailableError, needed_node
from tests.receivers import free_port

OURS: Final = "sandbox"
PRISM: Final = "Prism"
WIREMOCK: Final = "WireMock"
MOCKSERVER: Final = "MockServer"
BARE: Final = "bare ASGI"

VERSIONS: Final = {PRISM: "5.16.0", WIREMOCK: "3.13.2", MOCKSERVER: "8.0.0"}
_PACKAGES: Final = {
    PRISM: ("@stoplight/prism-cli", "dist/index.js"),
    WIREMOCK: ("wiremock", "build/wiremock-standalone-3.13.2.jar"),
    MOCKSERVER: ("mockserver-node", "mockserver-netty-8.0.0-jar-with-dependencies.jar"),
}
"""The package of each server, and the program in it. Those of the Java servers carry the jar."""

_HEALTH: Final = "/api/health"
_PATIENCE: Final = 60.0
_CACHE: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")

_LIMITS: Final = ("--rate-limit=1000000000", "--max-steps=10000000", "--max-state=100000")
_OPTIONS: Final = ("--seed=7", "--clock=frozen", *_LIMITS)
SANDBOX: Final = ("-m", "invoice_sandbox", "serve", *_OPTIONS)
"""Everything is on. Limits are counted and never reached. On the frozen clock the steps of
scenarios are scheduled and not run: they are no part of a request."""


@dataclass(frozen=True)
class Server:
    """A running server, and the seconds from its start to its first good response."""

    port: int
    pid: int
    start: float


Command = Sequence[str | Path]


CONTRACT: Final = "contract.yaml"
WIREMOCK_STUBS: Final = "wiremock"
MOCKSERVER_STUBS: Final = "mockserver.json"
"""What ``commands`` reads in its folder."""

_WIREMOCK: Final = (
    *("--no-request-journal", "--disable-request-logging", "--disable-banner"),
    *("--disable-gzip", "--disable-response-templating", "--use-chunked-encoding=never"),
)
_QUIET: Final = "-Dmockserver.disableLogging=true"


def commands(folder: Path, programs: Mapping[str, Path]) -> dict[str, Command]:
    """How to start each server; its port is still to be added.

    ``programs`` are those of the servers that are installed. ``folder`` has the contract, and the
    stubs of the Java servers.
    """
    java, wiremock_stubs = shutil.which("java") or "java", folder / WIREMOCK_STUBS
    starts: dict[str, Callable[[Path], Command]] = {
        PRISM: lambda one: [
            *(needed_node(), one, "mock", folder / CONTRACT, "--verboseLevel", "silent", "--port"),
        ],
        WIREMOCK: lambda one: [
            *(java, "-jar", one, *_WIREMOCK, "--root-dir", wiremock_stubs, "--port"),
        ],
        MOCKSERVER: lambda one: [
            *("env", "--chdir", folder, java, _QUIET),  # it writes a certificate where it starts
            *("-jar", one, "--log-level", "OFF"),
            *("--init", folder / MOCKSERVER_STUBS, "--port"),
        ],
    }
    return {
        OURS: [sys.executable, *SANDBOX, "--port"],
        BARE: [sys.executable, "-m", "tests.bench.bare"],
        **{name: starts[name](program) for name, program in programs.items()},
    }


def programs() -> tuple[dict[str, Path], list[str]]:
    """The programs of the other servers, installed if need be, and why some are missing."""
    found: dict[str, Path] = {}
    missing: list[str] = []
    for name in VERSIONS:
        if name != PRISM and shutil.which("java") is None:
            missing.append(f"without {name}: Java is not there")
            continue
        try:
            found[name] = _installed(name)
        except UnavailableError as error:
            missing.append(f"without {name}: {error}")
    return found, missing


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


def _installed(name: str) -> Path:
    """The program of a server, installed outside the checkout. Raises UnavailableError."""
    package, program = _PACKAGES[name]
    folder = _CACHE / "invoice-liquidity-sandbox" / f"{name.lower()}-{VERSIONS[name]}"
    found = folder / "node_modules" / package / program
    if found.is_file():
        return found
    node = needed_node()
    npm = node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    wanted = f"{package}@{VERSIONS[name]}"
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
    return found
