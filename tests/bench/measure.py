"""What is measured of each server: requests in alternation, start and memory."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from statistics import median
from typing import Final

import orjson

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.bench.load import Request, drive
from tests.bench.process import cpu_seconds, memory_mib
from tests.bench.servers import BARE, Command, Server, running
from tests.scenario_run import DATED

_ROUNDS: Final = 5


def invoice(number: int) -> bytes:
    """Return a body that creates an invoice like no other."""
    return orjson.dumps({**DATED, "invoiceNumber": f"BENCH-{number}"})


LIST: Final = "GET partners"
GET: Final = "GET one invoice"
POST: Final = "POST an invoice"
UNAUTHORIZED: Final = "401, no credential"
UNKNOWN: Final = "404, unknown path"
_POST: Final = Request("POST", "/api/invoices", 201, invoice, DEMO_KEY)
ROWS: Final = {
    LIST: Request("GET", "/api/partners", key=DEMO_KEY),
    GET: Request("GET", "/api/invoices/inv_sandbox_0001", key=DEMO_KEY),
    UNAUTHORIZED: Request("GET", "/api/invoices", 401),
    UNKNOWN: Request("GET", "/api/nothing", 404, key=DEMO_KEY),
    POST: _POST,
    "POST in two writes": replace(_POST, in_two=True),
}
"""The invoices are created last, as the other rows are measured with a small workspace."""

Table = dict[str, dict[str, float]]
"""The CPU microseconds of a request, user and system, of each row and server."""


def rates(commands: Mapping[str, Command], seconds: float) -> Table:
    """Measure every row for every server: the median of some rounds, in alternation."""
    with ExitStack() as stack:
        servers = {name: stack.enter_context(running(one)) for name, one in commands.items()}
        for name, server in servers.items():
            _cpu_us(name, server, POST, 60.0, first=10**6, most=1)
        return {row: _row(servers, row, seconds) for row in ROWS}


def _row(servers: Mapping[str, Server], row: str, seconds: float) -> dict[str, float]:
    """Measure a row. The first round warms up."""
    rounds = [
        {
            name: _cpu_us(name, server, row, seconds / _ROUNDS, first=_first(row, number))
            for name, server in servers.items()
        }
        for number in range(_ROUNDS + 1)
    ]
    return {name: median(one[name] for one in rounds[1:]) for name in servers}


def _first(row: str, number: int) -> int:
    return (list(ROWS).index(row) * (_ROUNDS + 1) + number + 1) * 10**7


def _cpu_us(
    name: str, server: Server, row: str, seconds: float, *, first: int, most: int = 10**9
) -> float:
    request = replace(ROWS[row], status=200) if name == BARE else ROWS[row]
    before = cpu_seconds(server.pid)
    count = asyncio.run(drive(server.port, request, seconds, first=first, most=most))
    return (cpu_seconds(server.pid) - before) / count * 1e6


def starts(commands: Mapping[str, Command], times: int) -> dict[str, float]:
    """Return the seconds from start to first good response: medians, in alternation."""
    rounds: list[dict[str, float]] = []
    for _ in range(times):
        rounds.append({})
        for name, command in commands.items():
            with running(command) as server:
                rounds[-1][name] = server.start
    return {name: median(one[name] for one in rounds) for name in commands}


def help_seconds(times: int) -> float:
    """Return the CPU seconds of ``--help``: the median of some times."""
    found = []
    for _ in range(times):
        before = os.times()
        command = [sys.executable, "-m", "invoice_sandbox", "--help"]
        subprocess.run(command, check=True, capture_output=True)
        after = os.times()
        found.append(sum(after[2:4]) - sum(before[2:4]))
    return median(found)


def memory(command: Command, requests: int) -> tuple[float, float]:
    """Return the resident MiB of a new server, idle and after requests for one record."""
    with running(command) as server:
        idle = memory_mib(server.pid)
        request = replace(ROWS[GET], status=200)
        asyncio.run(drive(server.port, request, 3600, most=requests))
        return idle, memory_mib(server.pid)
