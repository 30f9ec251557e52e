"""The limits of docs/limits.md that are reached through HTTP, and what is beyond them."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final

from tests.attack.corpus import Target, request
from tests.hostile.wire import Response
from tests.scenario_run import DATED

Requests = Generator[bytes, Response, None]
"""Requests on one connection, each after the response to the one before."""

_DONE: Final = frozenset({200, 201, 202, 204})
_LOWERED: Final = ("--max-state", "1", "--max-steps", "12", "--max-deliveries", "3")
_OPEN: Final = ("--rate-limit", "off")
_QUOTA: Final = "rate_limit_exceeded"
_HOOK: Final = {"url": "http://127.0.0.1:9/hooks", "events": ["invoice.registered"]}
_DROPPED: Final = ("GET", "/sandbox/workspaces")
_LONG: Final = "x" * 300
_USER: Final = {"email": "ann@corp.example", "password": "correct horse", "role": "auditor"}


@dataclass(frozen=True)
class Limit:
    """A row of docs/limits.md, and the number ``at`` which it is tried: that of the page, unless
    ``options`` lower it, because it would take long to reach. Every response but the last one has a
    status of ``filling``; the last one has ``status``, and ``says`` in its headers or its body.
    Limits with the same options share a server."""

    row: str
    at: str
    requests: Callable[[Target], Requests]
    status: int
    says: str
    filling: frozenset[int] = _DONE
    options: tuple[str, ...] = _OPEN


def problem_of(limit: Limit, target: Target) -> tuple[int, str]:
    """How many requests were sent, and what is wrong with the responses, if anything is."""
    responses = list(_responses(limit.requests(target), target))
    *before, last = responses
    found = f"{last.headers} {last.body.decode()}"
    if {one.status for one in before} - limit.filling:
        return len(responses), f"statuses {sorted({one.status for one in before})}"
    if last.status != limit.status or limit.says not in found:
        return len(responses), f"{last.status} {found[-120:]}"
    return len(responses), ""


def _responses(requests: Requests, target: Target) -> Generator[Response]:
    with target[0].wire(120) as wire:
        sent = next(requests)
        while True:
            wire.send(sent)
            yield (response := wire.response())
            try:
                sent = requests.send(response)
            except StopIteration:
                return


def _json(target: Target, method: str, path: str, body: Any = None, *lines: str) -> bytes:
    return request(target[1], method, path, json.dumps(body or {}).encode(), *lines)


def _repeated(
    count: int, method: str, path: str, body: Any = None, last: tuple[str, str] | None = None
) -> Callable[[Target], Requests]:
    """The same request ``count`` times, then ``last`` (None: that request once more)."""

    def requests(target: Target) -> Requests:
        for _ in range(count):
            yield _json(target, method, path, body)
        yield request(target[1], *last) if last else _json(target, method, path, body)

    return requests


def _head(method: str, path: str, *lines: str) -> Callable[[Target], Requests]:
    """One request with these header lines."""

    def requests(target: Target) -> Requests:
        yield request(target[1], method, path, None, *lines)

    return requests


def _invoice(number: object, **members: Any) -> dict[str, Any]:
    return {**DATED, "invoiceNumber": f"N-{number}", **members}


def _long_invoices(target: Target) -> Requests:
    for number in range(3):
        yield _json(target, "POST", "/api/invoices", _invoice(f"{number:0200000}"))


def _snapshots_of_long_invoices(target: Target) -> Requests:
    yield _json(target, "POST", "/api/invoices", _invoice(f"{0:0200000}"))
    for _ in range(3):
        yield _json(target, "POST", "/sandbox/snapshots")


def _invoices(target: Target) -> Requests:
    for number in range(4):
        yield _json(target, "POST", "/api/invoices", _invoice(number))


def _invoices_with_webhook(target: Target) -> Requests:
    yield _json(target, "PUT", "/sandbox/scenario", {"name": "manual"})
    yield _json(target, "POST", "/api/webhooks", _HOOK)
    yield from _invoices(target)


def _upload(target: Target) -> Requests:
    made = yield _json(target, "POST", "/api/storage/invoices/upload-url")
    address = json.loads(made.body)["data"]["url"].partition("//")[2]
    lines = ("Content-Type: application/pdf", f"Content-Length: {10 * 1024 * 1024 + 1}")
    yield request("", "PUT", "/" + address.partition("/")[2], None, *lines)


def _chunks(target: Target) -> Requests:
    lines = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    yield request(target[1], "POST", "/api/invoices", None, *lines) + (b"1;" + b"x" * 70_000)


def _nested(target: Target) -> Requests:
    for levels in (240, 241):
        yield request(target[1], "POST", "/api/invoices", b"[" * levels + b"]" * levels)


def _idempotency_key(target: Target) -> Requests:
    for length in (255, 256):
        line = f"Idempotency-Key: {'x' * length}"
        yield _json(target, "POST", "/api/invoices", _invoice(length), line)


def _idempotency_keys(target: Target) -> Requests:
    for number in range(10_005):
        yield _json(
            target, "POST", "/api/registry/fingerprint", _invoice(1), f"Idempotency-Key: {number}"
        )
    yield request(target[1], *_DROPPED)


def _wrong_passwords(target: Target) -> Requests:
    yield _json(target, "POST", "/sandbox/users", _USER)
    for _ in range(11):
        yield _json(target, "POST", "/api/auth/login", {**_USER, "password": "wrong password"})


def _wrong_logins(target: Target) -> Requests:
    yield _json(target, "POST", "/sandbox/users", _USER)
    for number in range(61):
        login = {"email": f"{number}@corp.example", "password": "wrong password"}
        yield _json(target, "POST", "/api/auth/login", login)


def _user_agent(target: Target) -> Requests:
    yield _json(target, "POST", "/api/invoices", _invoice(1), f"User-Agent: {_LONG}")
    yield request(target[1], "GET", "/api/audit-log")


def _name_of_a_key(target: Target) -> Requests:
    yield _json(target, "POST", "/api/developer/api-keys", {"name": _LONG})


def _responses_of_faults(target: Target) -> Requests:
    error = {"code": "invalid_request", "requestId": "req_1"}
    for size in (65_000, 66_000):
        body = {"error": {**error, "message": "x" * size}, "mode": "sandbox_mock"}
        fault = {"kind": "response", "operation": "listInvoices", "status": 400, "body": body}
        yield _json(target, "POST", "/sandbox/faults", fault)


def _without_scope(target: Target) -> Requests:
    """Of two keys, so that neither uses up its own limit."""
    for _ in range(2):
        body = {"name": "reads", "scopes": ["invoices:read"]}
        made = yield _json(target, "POST", "/api/developer/api-keys", body)
        key = json.loads(made.body)["data"]["secret"]
        for _ in range(60):
            yield request(key, "POST", "/api/invoices", b"{}")
    yield request(key, "POST", "/api/invoices", b"{}")


def _wrong_keys(_: Target) -> Requests:
    for number in range(121):
        yield request(f"wrong{number}", "GET", "/api/invoices")


def _rest_of_a_body(target: Target) -> Requests:
    """The connection stays usable as long as the rest is read."""
    yield request(target[1], "POST", "/api/invoices", b" " * 1_000_000)
    yield request(target[1], "GET", "/api/invoices")


def _descendants(target: Target) -> Requests:
    process, key = target
    for _ in range(8):
        made = yield _json((process, key), "POST", "/sandbox/workspaces")
        key = json.loads(made.body).get("data", {}).get("key", key)


def _grandchildren(target: Target) -> Requests:
    for _ in range(101):
        yield _json(target, "POST", "/sandbox/workspaces")


def _first_listener(target: Target) -> Requests:
    """One more listener than there may be; then the stream of the first one."""
    first = yield _json(target, "POST", "/sandbox/listeners")
    for _ in range(16):
        yield _json(target, "POST", "/sandbox/listeners")
    yield request(
        target[1], "GET", f"/sandbox/listeners/{json.loads(first.body)['data']['id']}/stream"
    )


LIMITS: Final = (
    Limit(
        "Request line and headers", "64 KiB", _head("GET", "/", "X: " + "x" * 70_000), 431, "error"
    ),
    Limit("Headers", "16 KiB", _head("GET", "/", "X: " + "x" * 17_000), 431, "error"),
    Limit(
        "Body",
        "256 KiB",
        _head("POST", "/api/invoices", "Content-Type: application/json", "Content-Length: 262145"),
        413,
        "error",
    ),
    Limit(
        "Rest of a body that is too large, read before the response",
        "1 MiB",
        _rest_of_a_body,
        200,
        "data",
        frozenset({413}),
    ),
    Limit("Body of an upload", "10 MiB", _upload, 413, "error"),
    Limit("Chunk framing and trailers of a body", "64 KiB", _chunks, 400, "error"),
    Limit("Nesting of JSON", "240", _nested, 400, "240", frozenset({400})),
    Limit("`Idempotency-Key`", "255 characters", _idempotency_key, 400, "255"),
    Limit("Items of a page", "at most 100", _head("GET", "/api/invoices?limit=101"), 400, "100"),
    Limit("User-Agent in the audit log", "256 characters", _user_agent, 200, f'"{"x" * 256}"'),
    Limit(
        "Wrong passwords per minute for one e-mail address, from one client address",
        "10",
        _wrong_passwords,
        429,
        _QUOTA,
        frozenset({201, 401}),
    ),
    Limit(
        "Wrong passwords per minute from one client address, in a workspace",
        "60",
        _wrong_logins,
        429,
        _QUOTA,
        frozenset({201, 401}),
    ),
    Limit("Name of an API key", "256 characters", _name_of_a_key, 201, f'"{"x" * 256}"'),
    Limit(
        "Workspaces created from one that was created with the first key",
        "100",
        _grandchildren,
        429,
        "100 workspaces created from it",
    ),
    Limit("Generations of workspaces after the first", "8", _descendants, 429, "8 generations"),
    Limit(
        "Webhook endpoints",
        "100",
        _repeated(100, "POST", "/api/webhooks", _HOOK),
        429,
        "100 webhook endpoints",
    ),
    Limit(
        "API keys, revoked ones included",
        "1,000",
        _repeated(998, "POST", "/api/developer/api-keys", {"name": "x"}),
        429,
        "1,000 API keys",
    ),
    Limit(
        "Faults",
        "100",
        _repeated(100, "POST", "/sandbox/faults", {"kind": "status", "status": 503}),
        429,
        "100 faults",
    ),
    Limit(
        "Body and headers of a fault `response`",
        "64 KiB",
        _responses_of_faults,
        400,
        "longer than 65536 bytes",
    ),
    Limit("Snapshots", "50", _repeated(50, "POST", "/sandbox/snapshots"), 409, "50"),
    Limit("Listeners", "16", _first_listener, 404, "error"),
    Limit("Responses stored at a time", "10,000", _idempotency_keys, 200, '"idempotency_order":5'),
    Limit(
        "Requests in a journal",
        "1,000",
        _repeated(1_003, "GET", "/api/invoices", last=("GET", "/sandbox/requests?limit=1")),
        200,
        "'x-journal-dropped': '3'",
    ),
    Limit(
        "Waiting scenario steps", "12", _invoices, 429, "12 due steps", options=(*_OPEN, *_LOWERED)
    ),
    Limit(
        "Waiting webhook deliveries",
        "3",
        _invoices_with_webhook,
        429,
        "3 pending deliveries",
        _DONE | {429},  # once an attempt has failed, the end of its endpoint waits, too
        options=(*_OPEN, *_LOWERED),
    ),
    Limit(
        "State, and again all snapshots together",
        "1 MiB",
        _long_invoices,
        429,
        "1,048,576 bytes of state",
        options=(*_OPEN, *_LOWERED),
    ),
    Limit(
        "State, and again all snapshots together",
        "1 MiB",
        _snapshots_of_long_invoices,
        429,
        "1,048,576 bytes of state",
        options=(*_OPEN, *_LOWERED),
    ),
    Limit(
        "Workspaces",
        "10",
        _repeated(8, "POST", "/sandbox/workspaces"),
        409,
        "error",
        options=(*_OPEN, "--max-workspaces", "10"),
    ),
    Limit(
        "Requests per minute and key",
        "120",
        _repeated(120, "GET", "/api/invoices"),
        429,
        _QUOTA,
        options=(),
    ),
    Limit(
        "Requests per minute of a workspace and all created from it",
        "6,000",
        _repeated(6_000, "DELETE", "/sandbox/faults"),
        429,
        _QUOTA,
        options=(),
    ),
    Limit(
        "Missing scopes (403) per minute and workspace",
        "120",
        _without_scope,
        429,
        _QUOTA,
        frozenset({201, 403}),
        (),
    ),
    Limit(
        "Rejected credentials (401) per minute and address",
        "120",
        _wrong_keys,
        429,
        _QUOTA,
        frozenset({401}),
        (),
    ),
)
