"""The benchmark: its load generator, and the tables that it writes. Nothing here is timed."""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from tests.bench import stores
from tests.bench.load import CONNECTIONS, Request, Result, drive
from tests.bench.measure import ROWS, Figures, Memory
from tests.bench.page import Results, markdown
from tests.bench.process import cpu_seconds, memory_mib
from tests.bench.servers import BARE, OURS, PRISM

SERVERS = (OURS, BARE, PRISM)
FIGURES = {OURS: 100.0, BARE: 50.0, PRISM: 250.0}


def results() -> Results:
    """A run in which the sandbox needs 100 microseconds and Prism 250 for every request."""
    result = Result([0.001, 0.002], 1.0)
    rates = {
        row: {name: Figures(result, FIGURES[name] * 2 / 1e6) for name in SERVERS} for row in ROWS
    }
    memory = {name: Memory(1.5, 80, 88, 5) for name in SERVERS}
    return Results(rates, dict.fromkeys(SERVERS, 1.5), memory)


def drive_a_server(status: bytes, most: int) -> Result:
    """Send requests to a server that returns ``status`` to all of them."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.CancelledError):
            while await reader.read(1000):
                writer.write(b"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\n{}" % status)
        writer.close()

    async def run() -> Result:
        server = await asyncio.start_server(respond, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await drive(port, Request("GET", "/"), 60, most=most)

    return asyncio.run(run())


def test_the_load_generator_sends_as_many_requests_as_asked() -> None:
    assert len(drive_a_server(b"200 OK", 2 * CONNECTIONS).latencies) == 2 * CONNECTIONS


def test_the_load_generator_rejects_another_status() -> None:
    with pytest.raises(ValueError, match="500"):
        drive_a_server(b"500 Oh", 1)


def test_cpu_time_and_memory_are_those_of_the_process() -> None:
    assert cpu_seconds(os.getpid()) > 0
    assert memory_mib(os.getpid()) > 1


def test_the_table_has_every_request_and_server() -> None:
    text = markdown(results())
    assert [row for row in ROWS for name in SERVERS if f"| {row} | {name} |" not in text] == []


def test_every_aim_is_compared_with_its_figure() -> None:
    text = markdown(results())
    assert "| CPU, Prism / sandbox: GET one invoice | ≥ 3 | 2.50 | **no** |" in text
    assert "| CPU, Prism / sandbox: POST an invoice | ≥ 2 | 2.50 | yes |" in text


def test_a_run_without_prism_has_no_aims() -> None:
    whole = results()
    rates = {row: {OURS: servers[OURS]} for row, servers in whole.rates.items()}
    text = markdown(Results(rates, {OURS: 1.5}, whole.memories))
    assert PRISM not in text.partition("\n")[2]
    assert "Aim" not in text


def test_the_description_of_the_machine_has_no_name_of_it() -> None:
    text = markdown(results())
    assert socket.gethostname() not in text
    assert str(Path.cwd()) not in text


def test_the_table_of_stores_compares_each_with_memory() -> None:
    def measured(per_second: float) -> stores.Measured:
        figures = Figures(Result([0.001] * 10, 10 / per_second), 0.004)
        return stores.Measured(figures, figures, 50.0)

    slower = {name: 100.0 / (turn + 1) for turn, name in enumerate(stores.STORES)}
    text = stores.markdown({name: measured(one) for name, one in slower.items()})
    assert f"| {stores.SQLITE} | 50 | 0.50 | 50 | 0.50 | 400 | 1 | 50 |" in text
    assert f"| POST/s, {stores.SQLITE} / memory | ≥ 0.5 | 0.50 | yes |" in text
    assert f"| POST/s, {stores.POSTGRESQL} / memory | ≥ 0.25 | 0.33 | yes |" in text


@pytest.mark.process
def test_webhooks_are_counted_when_they_have_arrived() -> None:
    receivers = stores.Receivers()
    with stores.deployed(None) as deployment:
        assert len(deployment.keys) == 8
        assert stores.deliveries(deployment, receivers, 1) > 0
    assert receivers.count == stores.RECEIVERS
