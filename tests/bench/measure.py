"""What is measured of each server: requests in alternation, start and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

import orjson

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.bench.load import Request, Result, drive
from tests.bench.process import cpu_seconds, memory_mib
from tests.bench.servers import BARE, Command, Server, running
from tests.scenario_run import DATED

_ROUNDS: Final = 2
_WARM: Final = 0.25
"""Share of the time of a row for which requests are sent before they are measured."""

_LISTED: Final = 20


def _invoice(number: int) -> bytes:
    """A body that creates an invoice like no other."""
    return orjson.dumps({**DATED, "invoiceNumber": f"BENCH-{number}"})


POST: Final = "POST an invoice"
ROWS: Final = {
    "GET health": Request("GET", "/api/health"),
    "GET partners": Request("GET", "/api/partners", key=DEMO_KEY),
    "GET 20 invoices": Request("GET", f"/api/invoices?limit={_LISTED}", key=DEMO_KEY),
    "GET one invoice": Request("GET", "/api/invoices/inv_sandbox_0001", key=DEMO_KEY),
    "400, invalid body": Request("POST", "/api/invoices", 400, lambda _: b"{}", DEMO_KEY),
    "401, no credential": Request("GET", "/api/invoices", 401),
    "404, unknown path": Request("GET", "/api/nothing", 404, key=DEMO_KEY),
    POST: Request("POST", "/api/invoices", 201, _invoice, DEMO_KEY),
}
"""The invoices are created last, as the other rows are measured with a small workspace."""

_READ: Final = ROWS["GET one invoice"]


@dataclass
class Figures:
    """What was measured of one server and one row."""

    result: Result = field(default_factory=Result)
    cpu: float = 0.0

    @property
    def cpu_us(self) -> float:
        """CPU microseconds per request, user and system."""
        return self.cpu / len(self.result.latencies) * 1e6


@dataclass(frozen=True)
class Memory:
    """Resident MiB of an idle server, which took ``start`` seconds, and after some requests."""

    start: float
    idle: float
    after: float
    requests: int


Table = dict[str, dict[str, Figures]]


def rates(commands: Mapping[str, Command], seconds: float) -> Table:
    """Every row for every server, the servers in alternation."""
    with ExitStack() as stack:
        servers = {name: stack.enter_context(running(one)) for name, one in commands.items()}
        for name, server in servers.items():
            _send(name, server, POST, _PATIENT, first=10**6, most=_LISTED)
        return {row: _row(servers, row, seconds) for row in ROWS}


_PATIENT: Final = 60.0


def _row(servers: Mapping[str, Server], row: str, seconds: float) -> dict[str, Figures]:
    found = {name: Figures() for name in servers}
    for name, server in servers.items():
        _send(name, server, row, seconds * _WARM, first=10**7)
    for number in range(_ROUNDS):
        for name, server in servers.items():
            before = cpu_seconds(server.pid)
            first = (number + 2) * 10**7
            result = _send(name, server, row, seconds / _ROUNDS, first=first)
            found[name].cpu += cpu_seconds(server.pid) - before
            found[name].result.add(result)
    return found


def _send(
    name: str, server: Server, row: str, seconds: float, *, first: int, most: int = 10**9
) -> Result:
    request = replace(ROWS[row], status=200) if name == BARE else ROWS[row]
    return asyncio.run(drive(server.port, request, seconds, first=first, most=most))


def starts(commands: Mapping[str, Command], times: int) -> dict[str, float]:
    """Seconds from start to first good response: the median of some starts, in alternation."""
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(times):
        for name, command in commands.items():
            with running(command) as server:
                found[name].append(server.start)
    return {name: median(some) for name, some in found.items()}


def memories(commands: Mapping[str, Command], requests: int) -> dict[str, Memory]:
    """Memory of a new server, idle and after requests for one record."""
    return {name: _memory(one, requests) for name, one in commands.items()}


def _memory(command: Command, requests: int) -> Memory:
    with running(command) as server:
        idle = memory_mib(server.pid)
        request = replace(_READ, status=200)
        asyncio.run(drive(server.port, request, 3600, most=requests))
        return Memory(server.start, idle, memory_mib(server.pid), requests)
