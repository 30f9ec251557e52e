"""Requests that cost much: the CPU time and memory of the server, and how long others wait."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.attack.wire import Process, Wire, process
from tests.scenario_run import DATED

MAX_STALL: Final = 250
"""Milliseconds that others wait."""

_MEBIBYTE: Final = 1024 * 1024
_PUSH: Final = "/api/connectors/erp/invoices"
_UPLOAD: Final = "/sandbox/uploads/x?expires=1&signature=x"
_OPEN: Final = ("--rate-limit", "off", "--scenario", "auto-progress")


@dataclass(frozen=True)
class Attack:
    """``send`` gets the server and the key of a workspace, and returns the statuses, which must be
    ``expected``. It may cost ``seconds`` of CPU time and ``mebibytes`` of memory. ``schema`` is the
    body of a contract that is served instead of the project."""

    name: str
    send: Callable[[Process, str], list[int]]
    expected: frozenset[int]
    seconds: float
    mebibytes: int
    options: tuple[str, ...] = _OPEN
    schema: Any = None


@dataclass(frozen=True)
class Result:
    """What the runs of an attack cost; ``broke`` is empty if the server held."""

    name: str
    sent: int
    broke: str
    stall: float
    seconds: float
    mebibytes: float


def request(key: str, method: str, path: str, body: Any = None) -> bytes:
    """Return a request, with a key unless that is empty; a ``body`` that is not bytes is JSON."""
    content = b"" if body is None else body
    if not isinstance(content, bytes):
        content = json.dumps(content).encode()
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    head += [f"Authorization: Bearer {key}"] if key else []
    return "\r\n".join([*head, f"Content-Length: {len(content)}", "", ""]).encode() + content


def each(*requests: tuple[Any, ...]) -> Callable[[Process, str], list[int]]:
    """Return what sends requests of a workspace on one connection, one after the other."""

    def send(server: Process, key: str) -> list[int]:
        with server.wire(120) as wire:
            return [_status(wire, request(key, *parts)) for parts in requests]

    return send


def unfinished(count: int, path: str, size: int, *, has_key: bool) -> Callable[..., list[int]]:
    """Return what sends bodies side by side that lack their last byte."""

    def send(server: Process, key: str) -> list[int]:
        method = "PUT" if path == _UPLOAD else "POST"
        sent = request(key if has_key else "", method, path, b" " * size)[:-1]
        with ExitStack() as stack:
            wires = [stack.enter_context(server.wire(2)) for _ in range(count)]
            for wire in wires:
                with suppress(TimeoutError):  # the server reads no more of it
                    wire.send(sent)
            return [_status_so_far(wire) for wire in wires]

    return send


def _status(wire: Wire, sent: bytes) -> int:
    wire.send(sent)
    return wire.response().status


def _status_so_far(wire: Wire) -> int:
    wire.socket.settimeout(0.001)
    with suppress(EOFError, TimeoutError):
        return wire.response().status
    return 0


def streams(server: Process, key: str) -> list[int]:
    """Open streams of changes, of which only the first ones stay open."""
    with ExitStack() as stack:
        wires = [stack.enter_context(server.wire(120)) for _ in range(300)]
        return [_status(wire, request(key, "GET", "/console/events")) for wire in wires]


def never_read(server: Process, _key: str) -> list[int]:
    """Ask for much on many connections, and read nothing of it."""
    with ExitStack() as stack:
        for _ in range(100):
            wire = stack.enter_context(server.wire(1))
            with suppress(TimeoutError):
                wire.send(request("", "GET", "/openapi.json") * 20)
        time.sleep(1)
    return []


def _tree() -> dict[str, Any]:
    """Return a schema of which each level may be one of several that lead back to it."""
    child = {"type": "object", "properties": {"child": {"$ref": "#/components/schemas/Body"}}}
    others = ({**child, "required": [name]} for name in "abcdef")
    return {"oneOf": [{"type": "number"}, child, *others]}


_INVOICES: Final = [{**DATED, "invoiceNumber": f"N-{number}"} for number in range(1_000)]
_LONG: Final = [
    ("POST", "/api/invoices", {**DATED, "invoiceNumber": f"{number:0200000}"})
    for number in range(60)
]
_HOOK: Final = {"url": "https://partner.example/hooks"}
_DONE: Final = frozenset({200, 201, 202})
_LIMITED: Final = frozenset({200, 201, 429})
_PAIRS: Final = "&".join(f"p{number}=1" for number in range(8_000))
_WORKSPACE: Final[tuple[Any, ...]] = ("POST", "/sandbox/workspaces", {})

ATTACKS: Final = (
    Attack(
        "60 uploads without a signature",
        unfinished(60, _UPLOAD, 10 * _MEBIBYTE, has_key=False),
        frozenset({0, 404}),
        3,
        150,
    ),
    Attack(
        "400 slow bodies without a key",
        unfinished(400, "/api/invoices", 256 * 1024, has_key=False),
        frozenset({0, 401}),
        4,
        128,
    ),
    Attack(
        "400 slow bodies with a key",
        unfinished(400, "/api/invoices", 256 * 1024, has_key=True),
        frozenset({0, 503}),
        4,
        128,
    ),
    Attack("300 consoles that show changes", streams, frozenset({200}), 2, 32),
    Attack("documents that nobody reads", never_read, frozenset(), 4, 128),
    Attack("a query of 8,000 pairs", each(("GET", f"/api/invoices?{_PAIRS}")), _DONE, 1, 16),
    Attack(
        "130,000 pushed items",
        each(("POST", _PUSH, b'{"invoices":[' + b"1," * 129_000 + b"1]}")),
        _DONE,
        3,
        64,
    ),
    Attack(
        "1,000 pushed invoices",
        each(
            ("POST", _PUSH, {"invoices": _INVOICES}),
            ("POST", "/sandbox/clock/advance", {"by": "PT1H"}),
        ),
        _DONE,
        10,
        160,
    ),
    Attack("150 endpoints", each(*[("POST", "/api/webhooks", _HOOK)] * 150), _LIMITED, 2, 32),
    Attack(
        "200 workspaces",
        each(*[_WORKSPACE] * 200, *[("GET", "/sandbox/workspaces")] * 20),
        _LIMITED,
        5,
        64,
    ),
    Attack("a full workspace", each(*_LONG), _LIMITED, 3, 64, (*_OPEN, "--max-state", "8")),
    Attack(
        "6,100 changes by the control API",
        each(*[("DELETE", "/sandbox/faults")] * 6_100),
        _LIMITED,
        10,
        32,
        (),
    ),
    Attack(
        "paths of dots",
        each(*[("GET", "/c/" + "." * 40_000 + end) for end in ("/en", "/end", "")]),
        frozenset({204, 404}),
        1,
        16,
        schema=True,
    ),
    Attack(
        "bodies of 3 to 200 levels",
        each(
            *[
                ("POST", "/x", b'{"child":' * levels + leaf + b"}" * levels)
                for levels in (3, 4, 8, 16, 200)
                for leaf in (b"1", b"null")
            ]
        ),
        frozenset({204, 400}),
        1,
        32,
        schema=_tree(),
    ),
    Attack(
        "look-ahead patterns",
        each(("POST", "/x", ["a" * 70] * 3_000)),
        frozenset({204, 400}),
        2,
        32,
        schema={"items": {"pattern": "^(?=(a|aa)+$)(?!b)a"}},
    ),
    Attack(
        "120,000 errors",
        each(("POST", "/x", b"[" + b"0," * 120_000 + b"0]")),
        frozenset({400}),
        2,
        64,
        schema={"items": {"type": "object"}},
    ),
)


def _document(schema: Any) -> dict[str, Any]:
    done = {"responses": {"204": {"description": "Done."}}}
    reference = {"$ref": "#/components/schemas/Body"}
    body = {"requestBody": {"content": {"application/json": {"schema": reference}}}}
    texts = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in ("base", "head")
    ]
    paths = {
        "/x": {"post": {"operationId": "send", **body, **done}},
        "/c/{base}...{head}/end": {"get": {"operationId": "compare", "parameters": texts, **done}},
    }
    info = {"title": "Attacked", "version": "1"}
    return {
        "openapi": "3.1.0",
        "info": info,
        "paths": paths,
        "components": {"schemas": {"Body": schema}},
    }


@contextmanager
def served(attack: Attack) -> Iterator[Process]:
    """Serve what an attack is about."""
    options = attack.options
    with TemporaryDirectory() as folder:
        if attack.schema is not None:
            contract = Path(folder) / "openapi.json"
            contract.write_text(json.dumps(_document(attack.schema)))
            options = ("--contract", str(contract), "--rate-limit", "off")
        log = Path(folder) / "log"
        with process(log, "invoice_sandbox", "serve", "--port", "0", *options) as server:
            server.ask("GET", "/openapi.json")
            yield server
            assert "Traceback" not in log.read_text(), log.read_text()


def cpu_seconds(server: Process) -> float:
    """Return the CPU time of a server, user and system."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _seconds(server: Process) -> float:
    """Return seconds, without those in which the server or this thread had no free processor."""
    places = (f"/proc/{server.pid}/schedstat", "/proc/thread-self/schedstat")
    waited = sum(int(Path(place).read_text().split()[1]) for place in places)
    return time.monotonic() - waited / 1e9


@contextmanager
def stalls(server: Process) -> Iterator[list[float]]:
    """Ask for the health again and again meanwhile; collect the milliseconds of the responses."""
    found: list[float] = []
    end = threading.Event()

    def ask() -> None:
        with server.wire(120) as wire:
            while not end.wait(0.005):
                started = _seconds(server)
                _status(wire, request("", "GET", "/sandbox/health"))
                found.append(1000 * (_seconds(server) - started))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield found
    finally:
        end.set()
        asking.join()


def cost(attack: Attack, count: int) -> Result:
    """Run an attack ``count`` times, each in a workspace of its own."""
    runs, statuses = list[tuple[float, float, float]](), list[int]()
    with served(attack) as server:
        for _ in range(count):
            made = json.loads(server.ask("POST", "/sandbox/workspaces", body=b"{}").body)
            key = made.get("data", made)["key"]
            seconds, memory = cpu_seconds(server), server.resident()
            server.forget_peak()
            with stalls(server) as found:
                statuses += attack.send(server, key)
                time.sleep(0.1)
            runs.append((max(found), cpu_seconds(server) - seconds, server.peak() - memory))
    stall, used, more = (median(run[column] for run in runs) for column in range(3))
    unexpected = {*statuses} - attack.expected
    problems = {
        f"statuses {sorted(unexpected)}": bool(unexpected),
        f"others waited {stall:.0f} ms": stall > MAX_STALL,
        f"{used:.1f} s of CPU": used > attack.seconds,
        f"{more / _MEBIBYTE:.0f} MiB": more > attack.mebibytes * _MEBIBYTE,
    }
    broke = ", ".join(text for text, is_true in problems.items() if is_true)
    return Result(attack.name, len(statuses), broke, stall, used, more / _MEBIBYTE)
