"""``python -m tests.bench.growth``: CPU and memory of a workspace that grows, in this process.

Nothing here passes or fails by how fast it was: a machine that is busy proves nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import platform
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import click
import orjson

from invoice_sandbox.app import Sandbox, create_app
from invoice_sandbox.base.jsonio import fitted
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.scenario_run import DATED
from tests.support import FROZEN, in_transaction

PAGE: Final = Path(__file__).parents[2] / "docs" / "performance.md"
_BEGIN: Final = "<!-- results of make growth -->"
_END: Final = "<!-- end of growth -->"
_WHOLE: Final = 100_000
"""Invoices from which a run says enough to be written to the page."""

_ROUNDS: Final = 9
_REQUESTS: Final = 60
_LOGGED: Final = 5_100
"""Requests after which no log of a workspace grows any more."""

_SNAPSHOTS: Final = 20


class Client:
    """Requests to a sandbox in this process, with the demo key."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._numbers = count()

    async def request(self, method: str, target: str, body: bytes = b"") -> Any:
        """Send a request and return the value of its body. Raises ValueError for an error."""
        path, _, query = target.partition("?")
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.sandbox(_scope(method, path, query, body), receive, send)
        if sent[0]["status"] >= 400:
            raise ValueError(sent[1]["body"])
        return orjson.loads(sent[1]["body"])

    async def create(self) -> Any:
        """Create an invoice like no other."""
        return await self.request("POST", "/api/invoices", _invoice(next(self._numbers)))

    async def grow(self, size: int) -> None:
        """Create invoices until there are ``size``, each with an offer."""
        made = next(self._numbers)
        for _ in range(size - made):
            invoice = (await self.create())["data"]
            await self.add_offer(invoice["id"])

    async def add_offer(self, invoice_id: str) -> None:
        """Store an offer as it is, which is many times faster than to let a partner make it."""
        offer = {"id": f"off-{invoice_id}", "invoiceId": invoice_id, "status": "Indicative"}
        await in_transaction(self.sandbox, lambda state: state.put("offers", offer["id"], offer))

    async def fill_logs(self) -> None:
        """Send requests until the logs are as large as they get, of the same entries each time."""
        for _ in range(_LOGGED):
            await self.request("GET", "/api/partners")
        await asyncio.sleep(0)  # no loop that never goes on forgets its timers


def _scope(method: str, path: str, query: str, body: bytes) -> dict[str, Any]:
    headers = {
        "host": "127.0.0.1:8080",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "authorization": f"Bearer {DEMO_KEY}",
    }
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }


def _invoice(number: int) -> bytes:
    return fitted(orjson.dumps({**DATED, "invoiceNumber": f"GROWTH-{number}"}))


async def new_client(scenario: str = "manual") -> Client:
    """A client of a new sandbox whose clock stands still."""
    settings = replace(FROZEN, scenario=scenario, max_state=10**5, max_steps=10**7)
    return Client(await create_app(settings, url="http://127.0.0.1:8080"))


# --- CPU

Row = dict[str, float]
"""Microseconds of CPU by kind of request."""


async def cpu(sizes: list[int]) -> dict[int, Row]:
    """CPU per request among that many invoices."""
    client, results = await new_client(), {}
    for size in sizes:
        await client.grow(size)
        gc.collect()
        gc.freeze()  # as the server does not collect while a request is measured
        results[size] = {name: await _microseconds(one) for name, one in _kinds(client).items()}
    return results


def _kinds(client: Client) -> dict[str, Callable[[], Coroutine[Any, Any, Any]]]:
    def sending(method: str, target: str, body: bytes = b"") -> Any:
        return lambda: client.request(method, target, body)

    some = client.sandbox.engine.first_workspace.removeprefix("wsp_sandbox_")
    invoice = f"inv_sandbox_{some}_0005"
    return {
        "create an invoice": client.create,
        "get an invoice": sending("GET", f"/api/invoices/{invoice}"),
        "check for a duplicate": sending("POST", "/api/registry/fingerprint", _invoice(5)),
        "first page of invoices": sending("GET", "/api/invoices?limit=20"),
        "invoices, `status=`": sending("GET", "/api/invoices?limit=20&status=Registered"),
        "offers, `invoiceId=`": sending("GET", f"/api/offers?limit=20&invoiceId={invoice}"),
    }


async def _microseconds(do: Callable[[], Coroutine[Any, Any, Any]]) -> float:
    """The round with the least CPU: other processes can only add to it."""
    rounds = []
    for _ in range(_ROUNDS):
        start = time.process_time()
        for _ in range(_REQUESTS):
            await do()
        rounds.append((time.process_time() - start) / _REQUESTS * 1e6)
    return min(rounds)


# --- memory


async def plain_invoice(size: int) -> float:
    """Bytes of one more invoice with its event and audit event."""
    client = await new_client()
    await client.grow(size // 10)
    await client.fill_logs()
    before = _allocated()
    for _ in range(size):
        await client.create()
    await client.fill_logs()
    return (_allocated() - before) / size


async def invoice_with_history(size: int) -> float:
    """Bytes of one more invoice that the scenario auto-progress has taken to its end."""
    client = await new_client("auto-progress")
    await progress(client, size // 10)
    await client.fill_logs()
    before = _allocated()
    await progress(client, size)
    await client.fill_logs()
    return (_allocated() - before) / size


async def progress(client: Client, size: int) -> None:
    """Create invoices, and do their scheduled steps in time for the limit of an advance."""
    for number in range(1, size + 1):
        await client.create()
        if number % 1000 == 0 or number == size:
            await client.request("POST", "/sandbox/clock/advance", b'{"by":"PT1M"}')


async def idle_workspace(size: int) -> float:
    """Bytes of one more workspace without a request."""
    client = await new_client()
    await client.fill_logs()
    for _ in range(size // 10):
        await client.request("POST", "/sandbox/workspaces", b"{}")
    await client.fill_logs()
    before = _allocated()
    for _ in range(size):
        await client.request("POST", "/sandbox/workspaces", b"{}")
    await client.fill_logs()
    return (_allocated() - before) / size


async def snapshot(size: int) -> float:
    """Bytes of one more snapshot among that many invoices, with the invoice created after it."""
    client = await new_client()
    await client.grow(size)
    await client.fill_logs()
    before = _allocated()
    for _ in range(_SNAPSHOTS):
        await client.request("POST", "/sandbox/snapshots")
        await client.create()
    await client.fill_logs()
    return (_allocated() - before) / _SNAPSHOTS


class _Allocated(ctypes.Structure):
    """The result of ``mallinfo2`` of the GNU C library."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    )


def _allocated() -> int:
    """Bytes that are allocated, by Python and by its extensions."""
    gc.collect()
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _Allocated
    result = mallinfo()
    return int(result.hblkhd + result.uordblks)


# --- the table


def _run(work: Callable[[Any], Coroutine[Any, Any, Any]], argument: Any) -> Any:
    return asyncio.run(work(argument))


def _apart(work: Callable[[Any], Coroutine[Any, Any, Any]], argument: Any) -> Any:
    """The result of ``work`` in a process of its own, whose memory nothing else has used."""
    os.environ["PYTHONMALLOC"] = "pymalloc" if work is cpu else "malloc"  # so that C counts all
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        return process.submit(_run, work, argument).result()


def markdown(sizes: list[int]) -> str:
    """All results, with a description of the machine that names neither it nor its folders."""
    return "\n".join([*_machine(), "", *_cpu_table(sizes), "", *_memory_table(sizes[-1])])


def _machine() -> Iterator[str]:
    yield (
        f"Measured on {os.cpu_count()} CPUs ({platform.machine()}, {platform.system()}) with "
        f"Python {platform.python_version()}, in one process without a network."
    )


def _cpu_table(sizes: list[int]) -> Iterator[str]:
    results = _apart(cpu, sizes)
    ratio = f"{sizes[-1]:,} / {sizes[0]:,}"
    heads = ["CPU per request, microseconds", *(f"{one:,} invoices" for one in sizes), ratio]
    yield f"| {' | '.join(heads)} |"
    yield f"|---|{'---:|' * (len(sizes) + 1)}"
    for name in results[sizes[0]]:
        row = [results[size][name] for size in sizes]
        cells = [name, *(f"{one:.0f}" for one in row), f"{row[-1] / row[0]:.2f}"]
        yield f"| {' | '.join(cells)} |"


def _memory_table(size: int) -> Iterator[str]:
    some = max(size // 50, 20)
    rows = {
        "an invoice, with its event and audit event": _apart(plain_invoice, size // 5),
        "an invoice that auto-progress has taken to its end": _apart(invoice_with_history, some),
        "an idle workspace": _apart(idle_workspace, max(size // 200, 10)),
        f"a snapshot of {size // 10:,} invoices, and one new invoice": _apart(snapshot, size // 10),
    }
    yield "| Memory, allocated | KB |"
    yield "|---|---:|"
    for name, size_in_bytes in rows.items():
        yield f"| {name} | {size_in_bytes / 1000:.1f} |"


def _write(text: str) -> None:
    before, _, rest = PAGE.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    PAGE.write_text(f"{before}{_BEGIN}\n\n{text}\n\n{_END}{after}")


@click.command()
@click.argument("sizes", nargs=-1, type=int)
def main(sizes: tuple[int, ...]) -> None:
    """Measure with SIZES invoices, print the tables, and write a whole run to the page."""
    chosen = sorted(sizes) or [100, 10_000, _WHOLE]
    text = markdown(chosen)
    click.echo(text)
    if chosen[-1] >= _WHOLE:
        _write(text)
        click.echo(f"written to docs/{PAGE.name}")


if __name__ == "__main__":
    main()
