"""``python -m tests.bench``: everything side by side on this machine; only the ratios travel.

Nothing here passes or fails by how fast it was: a machine that is busy proves nothing.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import click
import httpx
import orjson

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.bench.load import CONNECTIONS, Request, requests_a_second
from tests.scenario_run import DATED

BARE: Final = ("-m", "tests.bench.bare")
SANDBOX: Final = ("-m", "invoice_sandbox", "serve", "--port=0", "--rate-limit=off", "--seed=7")
MANY: Final = 1000


def invoice(number: int) -> bytes:
    """A body that makes an invoice like no other."""
    return orjson.dumps({**DATED, "invoiceNumber": f"BENCH-{number}"})


ROWS: Final = {
    "GET a list of ten invoices": Request("GET", "/api/invoices?limit=10"),
    "GET one invoice": Request("GET", "/api/invoices/inv_sandbox_0001"),
    "POST an invoice (validated, stored)": Request("POST", "/api/invoices", 201, invoice),
    "POST a body that is refused": Request("POST", "/api/invoices", 400, lambda _: b"{}"),
}


@contextmanager
def started(*command: str) -> Iterator[int]:
    """The port of a server in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            found = re.search(r":(\d+)", process.stdout.readline())
            if found is None:
                raise click.ClickException(f"{' '.join(command)} did not start")
            yield int(found.group(1))
        finally:
            process.terminate()


def seconds_of(do: Callable[[], Any]) -> float:
    """How long something takes."""
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


@click.command()
@click.option("--seconds", default=5.0, show_default=True, help="For each row.")
def main(seconds: float) -> None:
    """Measure the sandbox beside a server that does nothing, and print the ratios."""
    click.echo(f"{CONNECTIONS} connections that stay open, {seconds:g} s a row")
    with started(*BARE) as bare, started(*SANDBOX, "--scenario=manual") as port:
        for name, request in ROWS.items():
            nothing = Request(request.method, request.path, 200, request.body)
            most = asyncio.run(requests_a_second(bare, DEMO_KEY, nothing, seconds))
            ours = asyncio.run(requests_a_second(port, DEMO_KEY, request, seconds))
            click.echo(f"{ours / most:6.0%}  of a bare server: {name} ({ours:,.0f} a second)")
    with started(*SANDBOX, "--clock=frozen", "--scenario=manual") as port:
        _whole_workspace(port)
    _start()


def _whole_workspace(port: int) -> None:
    """What a restore of many invoices costs, in ordinary requests."""
    headers = {"Authorization": f"Bearer {DEMO_KEY}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client:
        for number in range(MANY):
            client.post("/api/invoices", content=invoice(number), headers=_JSON).raise_for_status()
        taken = client.post("/sandbox/snapshots").json()["data"]["id"]
        path = f"/sandbox/snapshots/{taken}/restore"
        restores = seconds_of(lambda: [client.post(path).raise_for_status() for _ in range(20)])
        ordinary = seconds_of(lambda: [client.get("/api/invoices") for _ in range(20)])
    click.echo(f"{restores / ordinary:6.1f}  requests is what a restore of {MANY} invoices costs")


def _start() -> None:
    """What a start costs, in imports of Connexion alone."""

    def serve() -> None:
        with started(*SANDBOX):
            pass

    imported = [sys.executable, "-W", "ignore", "-c", "import connexion"]
    ours = min(seconds_of(serve) for _ in range(3))
    least = min(seconds_of(lambda: subprocess.run(imported, check=True)) for _ in range(3))
    click.echo(f"{ours / least:6.1f}  imports of Connexion is what a start and a stop cost")


_JSON: Final = {"Content-Type": "application/json"}


if __name__ == "__main__":
    main()
