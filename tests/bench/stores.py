"""What work on many records costs, and PostgreSQL: POSTs a second."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Final

import httpx

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.bench.load import CONNECTIONS, drive
from tests.bench.measure import POST, ROWS, invoice
from tests.bench.process import cpu_seconds
from tests.bench.servers import SANDBOX, Server, running
from tests.chaos.__main__ import Outcome, database, kill, run
from tests.connections import Connections
from tests.databases import empty_server
from tests.interop.checks import bearer
from tests.support import PATIENCE

WORKSPACES: Final = 8
_LISTS: Final = 9


@dataclass(frozen=True)
class Workspace:
    """A new workspace of a server of its own."""

    server: Server
    client: httpx.Client
    key: str

    def send(self, method: str, path: str, body: object = None, content: bytes = b"") -> Any:
        """Return the data of a response. Raises httpx.HTTPStatusError."""
        options: dict[str, Any] = {"content": content} if content else {"json": body}
        headers = bearer(self.key) | {"Content-Type": "application/json"}
        url = f"http://127.0.0.1:{self.server.port}{path}"
        response = self.client.request(method, url, headers=headers, **options)
        return response.raise_for_status().json()["data"]

    def cpu(self, work: Callable[[], object]) -> float:
        """Return the CPU seconds that the server needs for some work."""
        before = cpu_seconds(self.server.pid)
        work()
        return cpu_seconds(self.server.pid) - before


@contextmanager
def workspaces(count: int, *options: str, **body: str) -> Iterator[list[Workspace]]:
    """A server with new workspaces."""
    connections = Connections()
    with running([*SANDBOX, *options, "--port"]) as server, connections.open():
        client = httpx.Client(transport=connections, timeout=PATIENCE)
        first = Workspace(server, client, DEMO_KEY)
        made = [first.send("POST", "/sandbox/workspaces", body) for _ in range(count)]
        yield [replace(first, key=workspace["key"]) for workspace in made]


@dataclass(frozen=True)
class Many:
    """CPU seconds of an advance over invoices, and of a list after a write; and the longest seconds
    that another client waited meanwhile."""

    advance: float
    wait: float
    listed: float


def many(invoices: int) -> Many:
    """Let invoices run their course at once, and list them."""
    with workspaces(1, clock="frozen", scenario="auto-progress") as (workspace,):
        other = replace(workspace, key=DEMO_KEY)
        for number in range(invoices):
            workspace.send("POST", "/api/invoices", content=invoice(number))
        with _waiting(other) as waits:
            body = {"by": "P90D"}
            advance = workspace.cpu(lambda: workspace.send("POST", "/sandbox/clock/advance", body))
        lists = [_list_after_write(workspace, invoices + number) for number in range(_LISTS)]
    return Many(advance, max(waits), median(lists))


def _list_after_write(workspace: Workspace, number: int) -> float:
    workspace.send("POST", "/api/invoices", content=invoice(number))
    return workspace.cpu(lambda: workspace.send("GET", "/api/invoices"))


@contextmanager
def _waiting(workspace: Workspace) -> Iterator[list[float]]:
    """Another client reads a record again and again. Yields how long it waits each time."""
    waits: list[float] = []
    is_done = threading.Event()

    def read() -> None:
        while not is_done.is_set():
            began = time.perf_counter()
            workspace.send("GET", "/api/invoices/inv_sandbox_0001")
            waits.append(time.perf_counter() - began)

    client = threading.Thread(target=read)
    client.start()
    try:
        yield waits
    finally:
        is_done.set()
        client.join()


def postgresql(seconds: float) -> tuple[float, float]:
    """Return the POSTs a second in one workspace, and in WORKSPACES, of one server."""
    with empty_server() as url, workspaces(WORKSPACES, f"--store={url}") as made:
        asyncio.run(_posts(made, seconds / 4, 1))  # warms up
        return asyncio.run(_posts(made[:1], seconds, 2)), asyncio.run(_posts(made, seconds, 3))


def kills(times: int) -> Outcome:
    """Kill one of two servers on PostgreSQL again and again, while clients write to both."""
    try:
        with database() as store:
            return run(store, kill, times, 2, random.Random(1))  # noqa: S311  not for secrets
    except AssertionError as error:  # the machine is busy, or something is lost
        return Outcome(problems=[f"not within the time: {error}"])


async def _posts(made: list[Workspace], seconds: float, turn: int) -> float:
    began, connections = time.perf_counter(), CONNECTIONS // len(made)
    runs = [
        drive(
            workspace.server.port,
            replace(ROWS[POST], key=workspace.key),
            seconds,
            first=turn * 10**7,
            connections=connections,
        )
        for workspace in made
    ]
    return sum(await asyncio.gather(*runs)) / (time.perf_counter() - began)
