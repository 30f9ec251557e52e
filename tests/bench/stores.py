"""``python -m tests.bench.stores``: what it costs to keep the state.

Nothing here passes or fails by how fast it was: a machine that is busy proves nothing.
"""

from __future__ import annotations

import asyncio
import math
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
import httpx

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.bench.load import CONNECTIONS, Request, Result, drive
from tests.bench.measure import POST, ROWS, Figures
from tests.bench.page import WHOLE, aims, at_least, machine, table, write
from tests.bench.process import cpu_seconds
from tests.bench.servers import SANDBOX, Server, running
from tests.connections import Connections
from tests.databases import empty_server
from tests.interop.checks import bearer
from tests.support import PATIENCE

MEMORY: Final = "memory"
SQLITE: Final = "SQLite"
POSTGRESQL: Final = "PostgreSQL"
STORES: Final = (MEMORY, SQLITE, POSTGRESQL)

_GET: Final = "GET one invoice"
_WORKSPACES: Final = 8
RECEIVERS: Final = 200
_ROUNDS: Final = 2
_WARM: Final = 0.25
_BEGIN: Final = "<!-- results of make bench: stores -->"
_END: Final = "<!-- end of stores -->"


@dataclass
class Deployment:
    """A server on a store, and the keys of its workspaces."""

    server: Server
    keys: list[str] = field(default_factory=list)

    @property
    def cpu(self) -> float:
        """CPU seconds of the server so far; those of PostgreSQL are not counted."""
        return cpu_seconds(self.server.pid)

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.server.port}"

    async def drive(self, request: Request, seconds: float, first: int) -> Result:
        """Send requests of all workspaces side by side."""
        began = time.perf_counter()
        runs = [
            drive(
                self.server.port,
                replace(request, key=key),
                seconds,
                first=first,
                connections=CONNECTIONS // len(self.keys),
            )
            for key in self.keys
        ]
        results = await asyncio.gather(*runs)
        latencies = [one for result in results for one in result.latencies]
        return Result(latencies, time.perf_counter() - began)


@contextmanager
def deployed(store: str | None) -> Iterator[Deployment]:
    """A server that responds, with workspaces."""
    command = [sys.executable, *SANDBOX, "--allow-webhooks-to=127.0.0.0/8"]
    command += [f"--store={store}"] if store else []
    with running([*command, "--port"]) as server, _CONNECTIONS.open():
        deployment = Deployment(server)
        for _ in range(_WORKSPACES):
            made = _send(deployment.url, "POST", "/sandbox/workspaces", DEMO_KEY, {})
            deployment.keys.append(made["key"])
        yield deployment


_CONNECTIONS: Final = Connections()
_CLIENT: Final = httpx.Client(transport=_CONNECTIONS, timeout=PATIENCE)


def _send(url: str, method: str, path: str, key: str, body: object = None) -> dict[str, str]:
    reply = _CLIENT.request(method, url + path, headers=bearer(key), json=body)
    found: dict[str, str] = reply.raise_for_status().json()["data"]
    return found


class Receivers:
    """Webhook receivers, each on a port of its own, in a thread."""

    def __init__(self) -> None:
        self.count = 0
        self.ports: list[int] = []
        self._loop = asyncio.new_event_loop()
        self._is_ready = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()
        self._is_ready.wait(PATIENCE)

    def _run(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._is_ready.set()
        self._loop.run_forever()

    async def _listen(self) -> None:
        for _ in range(RECEIVERS):
            server = await asyncio.start_server(self._receive, "127.0.0.1", 0)
            self.ports.append(server.sockets[0].getsockname()[1])

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                self.count += 1
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def wait_for(self, count: int) -> None:
        """Until so many webhooks have arrived."""
        deadline = time.perf_counter() + PATIENCE
        while self.count < count and time.perf_counter() < deadline:
            time.sleep(0.002)
        if self.count < count:
            raise ValueError(f"{self.count} of {count} webhooks arrived")


@dataclass(frozen=True)
class Measured:
    """What was measured of one store."""

    get: Figures
    post: Figures
    deliveries: float


def measure(seconds: float) -> dict[str, Measured]:
    """Every row for every store, the stores in alternation; ``seconds`` for each."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        places = {
            MEMORY: None,
            SQLITE: f"sqlite:///{folder / 'state.db'}",
            POSTGRESQL: stack.enter_context(empty_server()),
        }
        setups = {name: stack.enter_context(deployed(places[name])) for name in STORES}
        rows = {row: _row(setups, ROWS[row], seconds) for row in (_GET, POST)}
        receivers = Receivers()
        sent = {
            name: deliveries(one, receivers, math.ceil(seconds)) for name, one in setups.items()
        }
    return {name: Measured(rows[_GET][name], rows[POST][name], sent[name]) for name in setups}


def _row(setups: Mapping[str, Deployment], request: Request, seconds: float) -> dict[str, Figures]:
    found = {name: Figures() for name in setups}
    for one in setups.values():
        asyncio.run(one.drive(request, seconds * _WARM, 10**7))
    for turn in range(_ROUNDS):
        for name, one in setups.items():
            before = one.cpu
            result = asyncio.run(one.drive(request, seconds / _ROUNDS, (turn + 2) * 10**7))
            found[name].cpu += one.cpu - before
            found[name].result.add(result)
    return found


def deliveries(deployment: Deployment, receivers: Receivers, invoices: int) -> float:
    """Webhooks per second: invoices of all workspaces are announced to all their receivers."""
    of_each = RECEIVERS // _WORKSPACES
    for number, key in enumerate(deployment.keys):
        for port in receivers.ports[number * of_each : (number + 1) * of_each]:
            hook = {"url": f"http://127.0.0.1:{port}/", "events": ["invoice.registered"]}
            _send(deployment.url, "POST", "/api/webhooks", key, hook)
    began, before = time.perf_counter(), receivers.count
    clients = [
        threading.Thread(target=_announce, args=(deployment.url, key, invoices))
        for number, key in enumerate(deployment.keys)
    ]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    expected = invoices * RECEIVERS
    receivers.wait_for(before + expected)
    return expected / (time.perf_counter() - began)


def _announce(url: str, key: str, invoices: int) -> None:
    headers = bearer(key) | {"Content-Type": "application/json"}
    for number in range(invoices):
        content = ROWS[POST].body(9 * 10**8 + number)
        _CLIENT.post(f"{url}/api/invoices", content=content, headers=headers).raise_for_status()


def markdown(results: Mapping[str, Measured]) -> str:
    """The results as two tables."""
    base = results[MEMORY]
    head = ["Store", "GET/s", "of memory", "POST/s", "of memory", "CPU µs of a POST"]
    rows = []
    for name, one in results.items():
        get, post = one.get.result, one.post.result
        row = [name, f"{get.per_second:.0f}", f"{get.per_second / base.get.result.per_second:.2f}"]
        row += [f"{post.per_second:.0f}", f"{post.per_second / base.post.result.per_second:.2f}"]
        row += [f"{one.post.cpu_us:.0f}", f"{post.percentile(0.99):.0f}", f"{one.deliveries:.0f}"]
        rows.append(row)
    figures = [
        (
            f"POST/s, {name} / {MEMORY}",
            results[name].post.result.per_second / base.post.result.per_second,
            "≥",
            aim,
            at_least,
        )
        for name, aim in ((SQLITE, 0.5), (POSTGRESQL, 0.25))
    ]
    head += ["p99 ms of a POST", f"Deliveries/s to {RECEIVERS} receivers"]
    return "\n\n".join([machine(), table(head, rows), aims(figures)]) + "\n"


@click.command()
@click.option("--seconds", default=5.0, show_default=True, help="For each row and store.")
def main(seconds: float) -> None:
    """Measure, print the tables, and write them to docs/performance.md after a whole run."""
    text = markdown(measure(seconds))
    click.echo(text)
    if seconds >= WHOLE:
        write(text, _BEGIN, _END)


if __name__ == "__main__":
    main()
