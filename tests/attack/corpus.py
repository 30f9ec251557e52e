"""The attacks. Each sends what one client can send, and returns the statuses of the responses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from tests.hostile.wire import Process, Wire
from tests.scenario_run import DATED

Target = tuple[Process, str]
"""A server, and the key of the workspace that is attacked."""

_UPLOAD: Final = 10 * 1024 * 1024
_BODY: Final = 256 * 1024
_FLOOD: Final = 250
"""Milliseconds that 400 connections at once may delay another one."""

_REFERENCE: Final = "#/components/schemas/L"


@dataclass(frozen=True)
class Attack:
    """``expected`` are the statuses that responses may have, ``seconds`` the CPU time of the server
    that it may cost, ``mebibytes`` the memory, ``stall`` the milliseconds of delay for another
    connection. ``document`` is served instead of the project, with ``options`` of the server."""

    name: str
    run: Callable[[Target], list[int]]
    expected: frozenset[int]
    seconds: float
    mebibytes: int
    document: dict[str, Any] | None = None
    options: tuple[str, ...] = ()
    stall: int = 50


def request(key: str, method: str, path: str, body: bytes | None = None, *lines: str) -> bytes:
    """A request, with a key unless that is empty; a ``body`` is JSON."""
    head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *lines]
    head += [f"Authorization: Bearer {key}"] if key else []
    head += [] if body is None else ["Content-Type: application/json"]
    head += [] if body is None else [f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "", ""]).encode() + (body or b"")


def _all(target: Target, requests: list[bytes]) -> list[int]:
    """The statuses of requests, one after the other."""
    process, _ = target
    with process.wire(120) as wire:
        return [_status(wire, one) for one in requests]


def _status(wire: Wire, request: bytes) -> int:
    wire.send(request)
    return wire.response().status


def _unfinished(target: Target, count: int, head: str, size: int) -> list[int]:
    """Many bodies of which the last byte is missing; those that are rejected meanwhile."""
    process, _ = target
    content = b" " * (size - 1)
    rejected = []
    with ExitStack() as stack:
        wires = [stack.enter_context(process.wire(5)) for _ in range(count)]
        for wire in wires:
            try:
                wire.send(f"{head}\r\nContent-Length: {size}\r\n\r\n".encode() + content)
            except TimeoutError:  # the server reads no more of it
                rejected.append(0)
        return [*rejected, *_statuses_so_far(wires)]


def _statuses_so_far(wires: list[Wire]) -> Iterator[int]:
    for wire in wires:
        wire.socket.settimeout(0.001)
        try:
            yield wire.response().status
        except (TimeoutError, EOFError):
            yield 0


def _uploads(target: Target) -> list[int]:
    path = "/sandbox/uploads/x?expires=1&signature=x"
    head = f"PUT {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/pdf"
    return _unfinished(target, 30, head, _UPLOAD)


def _slow_bodies(target: Target, *lines: str) -> list[int]:
    head = ["POST /api/invoices HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    return _unfinished(target, 400, "\r\n".join([*head, *lines]), _BODY)


def _slow_bodies_with_key(target: Target) -> list[int]:
    return _slow_bodies(target, f"Authorization: Bearer {target[1]}")


def _streams(target: Target) -> list[int]:
    """Streams of changes: only the first ones stay open."""
    process, key = target
    sent = request(key, "GET", "/console/events")
    with ExitStack() as stack:
        wires = [stack.enter_context(process.wire(120)) for _ in range(300)]
        statuses = [_status(wire, sent) for wire in wires]
        time.sleep(1)
        return statuses


def _dots(target: Target) -> list[int]:
    paths = ["/c/" + "." * 40_000 + end for end in ("/en", "/end", "")]
    return _all(target, [request("", "GET", path) for path in paths])


def _nested(target: Target) -> list[int]:
    bodies = [b'{"child":' * depth + b"1" + b"}" * depth for depth in (10, 16, 30, 200)]
    return _all(target, [request("", "POST", "/x", body) for body in bodies])


def _look_ahead(target: Target) -> list[int]:
    body = json.dumps(["a" * 70] * 3_000).encode()
    return _all(target, [request("", "POST", "/x", body)])


def _very_wrong(target: Target) -> list[int]:
    return _all(target, [request("", "POST", "/x", b"[" + b"0," * 120_000 + b"0]")])


def _secrets(target: Target) -> list[int]:
    cookies = "; ".join(f"word-{number:011d}" for number in range(800))
    lines = (f"Cookie: {cookies}",)
    queries = ["a=b&" * 12_000, "://" * 15_000 + "@", "?key" * 12_000 + "="]
    sent = [request(target[1], "GET", f"/api/invoices?{one}", None, *lines) for one in queries]
    return _all(target, [*sent * 5, request(target[1], "GET", "/sandbox/requests?limit=1000")])


def _push(target: Target, *bodies: bytes) -> list[int]:
    path = "/api/connectors/erp/invoices"
    return _all(target, [request(target[1], "POST", path, body) for body in bodies])


def _no_objects(target: Target) -> list[int]:
    return _push(target, b'{"invoices":[' + b"1," * 129_000 + b"1]}")


def _many_invoices(target: Target) -> list[int]:
    items = [{**DATED, "invoiceNumber": f"N-{number}"} for number in range(1_000)]
    advance = request(target[1], "POST", "/sandbox/clock/advance", b'{"by":"PT1H"}')
    pushed = _push(target, json.dumps({"invoices": items}).encode())
    return [*pushed, *_all(target, [advance])]


def _many_endpoints(target: Target) -> list[int]:
    hook = b'{"url":"https://partner.example/hooks"}'
    return _all(target, [request(target[1], "POST", "/api/webhooks", hook)] * 150)


def _many_workspaces(target: Target) -> list[int]:
    made = [request(target[1], "POST", "/sandbox/workspaces", b"{}")] * 200
    return _all(target, [*made, *[request(target[1], "GET", "/sandbox/workspaces")] * 20])


def _full_state(target: Target) -> list[int]:
    bodies = [{**DATED, "invoiceNumber": f"{number:0200000}"} for number in range(60)]
    path = "/api/invoices"
    return _all(
        target, [request(target[1], "POST", path, json.dumps(one).encode()) for one in bodies]
    )


def _many_changes(target: Target) -> list[int]:
    clear = request(target[1], "DELETE", "/sandbox/faults")
    return _all(target, [clear] * 6_100)


def _workspaces_in_workspaces(target: Target) -> list[int]:
    process, key = target
    statuses = []
    for _ in range(12):
        with process.wire(120) as wire:
            wire.send(request(key, "POST", "/sandbox/workspaces", b"{}"))
            response = wire.response()
        statuses.append(response.status)
        made = json.loads(response.body).get("data", {})
        key = made.get("key", key)
    return statuses


def _document(schema: Any, schemas: dict[str, Any] | None = None) -> dict[str, Any]:
    post = {
        "requestBody": {"content": {"application/json": {"schema": schema}}},
        "responses": {"204": {"description": "ok"}},
    }
    texts = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in ("base", "head")
    ]
    compare = {"parameters": texts, "responses": {"204": {"description": "ok"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Attacked", "version": "1"},
        "paths": {"/x": {"post": post}, "/c/{base}...{head}/end": {"get": compare}},
        "components": {"schemas": schemas or {}},
    }


def _chain(levels: int, applied: Callable[[Any], Any]) -> dict[str, Any]:
    """A document of schemas of which each applies the next one."""
    schemas = {f"L{one}": applied({"$ref": f"{_REFERENCE}{one + 1}"}) for one in range(levels)}
    return _document({"$ref": f"{_REFERENCE}0"}, {**schemas, f"L{levels}": {"type": "string"}})


def _twice(reference: Any) -> Any:
    return {"anyOf": [{"properties": {"child": reference}} for _ in range(2)]}


ATTACKS: Final = (
    Attack("uploads without a signature", _uploads, frozenset({0, 404}), 2, 32),
    Attack("slow bodies without a key", _slow_bodies, frozenset({0, 401}), 3, 128, stall=_FLOOD),
    Attack(
        "slow bodies with a key", _slow_bodies_with_key, frozenset({0, 503}), 3, 128, stall=_FLOOD
    ),
    Attack("300 consoles that show changes", _streams, frozenset({200}), 2, 32),
    Attack("secrets in headers and queries", _secrets, frozenset({200}), 3, 32),
    Attack("130,000 pushed items", _no_objects, frozenset({202}), 2, 64),
    Attack("1,000 pushed invoices", _many_invoices, frozenset({200, 202}), 6, 160),
    Attack("150 endpoints", _many_endpoints, frozenset({201, 429}), 2, 32),
    Attack("200 workspaces", _many_workspaces, frozenset({200, 201, 429}), 4, 64),
    Attack(
        "a full workspace",
        _full_state,
        frozenset({201, 429}),
        3,
        64,
        options=("--max-state", "8"),
    ),
    Attack(
        "6,100 changes by the control API",
        _many_changes,
        frozenset({200, 429}),
        6,
        32,
        options=("--rate-limit", "120"),
    ),
    Attack("workspaces in workspaces", _workspaces_in_workspaces, frozenset({201, 429}), 1, 16),
    Attack("paths of dots", _dots, frozenset({204, 404}), 1, 16, _document(True)),
    Attack("schemas that double", _nested, frozenset({204, 400}), 2, 32, _chain(30, _twice)),
    Attack(
        "look-ahead patterns",
        _look_ahead,
        frozenset({204, 400}),
        2,
        32,
        _document({"items": {"pattern": "^(?=(a|aa)+$)(?!b)a"}}),
    ),
    Attack(
        "120,000 errors",
        _very_wrong,
        frozenset({400}),
        2,
        64,
        _document({"items": {"type": "object"}}),
    ),
)

DOCUMENTS: Final = {
    "references 5,000 deep": _chain(5_000, lambda reference: reference),
    "allOf that doubles 40 times": _chain(40, lambda one: {"allOf": [one, one]}),
    "anyOf that doubles 25 times": _chain(25, lambda one: {"anyOf": [one, one]}),
    "300 levels": _document({"enum": json.loads("[" * 300 + "]" * 300)}),
    "a file of 65 MiB": _document({"description": "x" * (65 * 1024 * 1024)}),
    "1,000,001 values": _document({"enum": [0] * 1_000_001}),
    "a file outside of the folder": _document({"$ref": "../outside.json"}),
}
"""Documents that are errors at start, the last one with ``--strict`` only."""
