"""How a server starts and rejects, and how a path finds its operation."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import httpx
import pytest

from invoice_sandbox.app import Sandbox, create_app
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.http.pipeline import (
    Head,
    OperationStages,
    Reply,
    Request,
    RoutedRequest,
    Trace,
)
from invoice_sandbox.http.route import (
    Router,
    operation_routes,
)
from invoice_sandbox.openapi.operation import (
    Contract,
    Operation,
    compile_contract,
)
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.scenario_run import DATED
from tests.support import FROZEN, Running

ROOT: Final = Path(__file__).resolve().parent.parent
_PART: Final = 64 * 1024
"""Bytes of a part of a body."""


def test_a_sandbox_starts_and_stops_with_its_server() -> None:
    async def run() -> list[str]:
        app = await create_app(FROZEN, url="http://127.0.0.1:8080")
        sent: list[str] = []
        events = iter(["lifespan.startup", "lifespan.shutdown"])

        async def receive() -> dict[str, Any]:
            return {"type": next(events)}

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message["type"])

        await app({"type": "lifespan"}, receive, send)
        return sent

    assert asyncio.run(run()) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_a_request_without_the_optional_members_of_asgi_is_served() -> None:
    """The operating system forgets the address of a client that is gone."""
    unknown = {"client": None, "raw_path": None}
    body = json.dumps(DATED).encode().ljust(_PART)
    host = {"host": "127.0.0.1:8080"}
    key = {**host, "authorization": f"Bearer {DEMO_KEY}", "content-type": "application/json"}
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        messages.append(message)

    async def serve() -> None:
        app = await create_app(FROZEN, url="http://127.0.0.1:8080")
        await app(scope("GET", "/api/auth/session", host) | unknown, receive, send)
        await app(scope("POST", "/api/invoices", key) | unknown, receive, send)
        await app(scope("GET", "/api/audit-log", key), receive, send)

    asyncio.run(serve())
    assert [one["status"] for one in messages if "status" in one] == [401, 201, 200]
    audited = json.loads(messages[-1]["body"])["data"]
    assert {one["context"]["ip"] for one in audited} == {None}


@pytest.mark.parametrize(
    ("path", "policy"),
    [("/api/health", "sandbox; default-src 'none'"), ("/docs", "default-src 'none'; script-src")],
)
def test_only_pages_of_ours_may_run_anything(server: Running, path: str, policy: str) -> None:
    response = httpx.get(f"{server.url}{path}", follow_redirects=True)
    assert response.headers["content-security-policy"].startswith(policy)
    assert response.headers["x-content-type-options"] == "nosniff"


async def post_invoice(
    app: Sandbox,
    invoice: Mapping[str, Any],
    wait: Callable[[], object] = lambda: None,
    **more: str,
) -> tuple[int, Any]:
    """Status and content of the response. ``wait`` is called before each message of the request."""
    body = json.dumps(invoice).encode()
    headers = {
        "host": "127.0.0.1:8080",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "authorization": f"Bearer {DEMO_KEY}",
        **more,
    }
    sent: list[Any] = []
    parts = iter([body[at : at + _PART] for at in range(0, len(body), _PART)])
    left = len(body)

    async def receive() -> dict[str, Any]:
        nonlocal left
        wait()
        part = next(parts)
        left -= len(part)
        return {"type": "http.request", "body": part, "more_body": left > 0}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope("POST", "/api/invoices", headers), receive, send)
    return int(sent[0]["status"]), json.loads(sent[1]["body"])


@pytest.mark.parametrize(("headers", "received"), [({}, 6), ({"expect": "100-continue"}, 0)])
def test_the_rest_of_a_body_that_is_too_large_is_read_unless_the_client_waits(
    headers: dict[str, str], received: int
) -> None:
    """A client that is still sending would not read the response."""
    read: list[None] = []

    async def status() -> int:
        app = await create_app(FROZEN, url="http://127.0.0.1:8080")
        large = {**DATED, "invoiceNumber": "x" * 5 * _PART}
        found, _ = await post_invoice(app, large, partial(read.append, None), **headers)
        return found

    assert (asyncio.run(status()), len(read)) == (413, received)


def scope(method: str, path: str, headers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }


PATHS: Final = {
    "/a": ["get", "post"],
    "/a/{id}": ["get", "delete", "options"],
    "/a/mine": ["get", "head"],
    "/{kind}/b": ["put", "get"],
    "/c/{name}": ["get", "patch"],
    "/c/{name}.{type}": ["get"],
    "/c/{name}.json": ["get"],
    "/g/{base}...{head}": ["get"],
    "/d/": ["get"],
    "/e/{x}{y}": ["get"],
    "/f/{id}/g/{id2}": ["get"],
    "/h/{a}/{b}": ["get"],
    "/h/{a}/{b}.json": ["get"],
    "/h/{a}.json/{b}": ["get"],
    "/h/{a}/b.json": ["get"],
    "/i/{a}": ["get"],
    "/i/x{a}": ["get"],
    "/j/{a}": ["get"],
    "/j/{a}x": ["get"],
}

FOUND: Final[dict[tuple[str, str], tuple[str, dict[str, str]]]] = {
    ("GET", "/a"): ("/a", {}),
    ("GET", "/a/1"): ("/a/{id}", {"id": "1"}),
    ("GET", "/a/mine"): ("/a/mine", {}),
    ("HEAD", "/a/mine"): ("/a/mine", {}),
    ("GET", "/a/b"): ("/a/{id}", {"id": "b"}),
    ("PUT", "/a/b"): ("/{kind}/b", {"kind": "a"}),
    ("OPTIONS", "/a/1"): ("/a/{id}", {"id": "1"}),
    ("GET", "/a/x%2Fy"): ("/a/{id}", {"id": "x/y"}),
    ("GET", "/a/x%252Fy"): ("/a/{id}", {"id": "x%2Fy"}),
    ("GET", "/a/%20"): ("/a/{id}", {"id": " "}),
    ("GET", "/%61"): ("/a", {}),
    ("GET", "/c/a.json"): ("/c/{name}.json", {"name": "a"}),
    ("GET", "/c/a.txt"): ("/c/{name}.{type}", {"name": "a", "type": "txt"}),
    ("GET", "/c/.json"): ("/c/{name}", {"name": ".json"}),
    ("PATCH", "/c/a.json"): ("/c/{name}", {"name": "a.json"}),
    ("GET", "/g/v1...v2"): ("/g/{base}...{head}", {"base": "v1", "head": "v2"}),
    ("GET", "/d/"): ("/d/", {}),
    ("GET", "/e/abc"): ("/e/{x}{y}", {"x": "ab", "y": "c"}),
    ("GET", "/f/1/g/2"): ("/f/{id}/g/{id2}", {"id": "1", "id2": "2"}),
    ("GET", "/h/1/2"): ("/h/{a}/{b}", {"a": "1", "b": "2"}),
    ("GET", "/h/1/2.json"): ("/h/{a}/{b}.json", {"a": "1", "b": "2"}),
    ("GET", "/h/1/b.json"): ("/h/{a}/b.json", {"a": "1"}),
    ("GET", "/h/1.json/b.json"): ("/h/{a}.json/{b}", {"a": "1", "b": "b.json"}),
    ("GET", "/i/xy"): ("/i/x{a}", {"a": "y"}),
    ("GET", "/j/yx"): ("/j/{a}x", {"a": "y"}),
}


@pytest.mark.parametrize(("asked", "expected"), FOUND.items(), ids=map(" ".join, FOUND))
def test_a_path_finds_its_operation(
    asked: tuple[str, str], expected: tuple[str, dict[str, str]]
) -> None:
    method, raw = asked
    template, texts = expected
    routed = asyncio.run(routes(contract_of(PATHS))(request(method, raw)))
    assert isinstance(routed, RoutedRequest)
    assert routed.endpoint.operation.id == f"{method.lower()} {template}"
    assert routed.path_texts == texts


NOT_FOUND: Final[dict[tuple[str, str], str]] = {
    ("GET", "/"): "",
    ("GET", "/a/"): "",
    ("GET", "//a"): "",
    ("GET", "/a/1/2"): "",
    ("GET", "/a%2F1"): "",
    ("GET", "/a%2Fmine"): "",
    ("GET", "/a%0A"): "",
    ("GET", "/d"): "",
    ("GET", "/e/a"): "",
    ("HEAD", "/a"): "GET, POST",
    ("PUT", "/a"): "GET, POST",
    ("DELETE", "/a/mine"): "GET, HEAD",
    ("POST", "/a/b"): "GET, PUT, DELETE, OPTIONS",
    ("PUT", "/c/a.json"): "GET, PATCH",
}


@pytest.mark.parametrize(("asked", "allowed"), NOT_FOUND.items(), ids=map(" ".join, NOT_FOUND))
def test_any_other_path_is_404_and_any_other_method_405(
    asked: tuple[str, str], allowed: str
) -> None:
    with pytest.raises(ApiError) as caught:
        asyncio.run(routes(contract_of(PATHS))(request(*asked)))
    assert caught.value.status == (405 if allowed else 404)
    assert dict(caught.value.headers).get("Allow", "") == allowed


def test_options_lists_the_methods_where_it_is_not_declared() -> None:
    reply = asyncio.run(routes(contract_of(PATHS))(request("OPTIONS", "/a")))
    assert isinstance(reply, Reply)
    assert (reply.status, reply.headers) == (204, (("Allow", "GET, POST"),))


def contract_of(paths: Mapping[str, list[str]]) -> Contract:
    return compile_contract(document_of(paths))


def document_of(paths: Mapping[str, list[str]]) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "Routes", "version": "1"},
        "paths": {
            path: {
                method: {
                    "operationId": f"{method} {path}",
                    "parameters": [
                        {"in": "path", "name": name, "required": True, "schema": True}
                        for name in re.findall(r"\{([^}]*)\}", path)
                    ],
                    "responses": {"200": {"description": "OK"}},
                }
                for method in methods
            }
            for path, methods in paths.items()
        },
    }


def routes(*contracts: Contract) -> Router:
    unused: Any = lambda *_: None  # noqa: E731  no request gets beyond routing
    stages = OperationStages(admit=unused, read=unused, respond=resolve)
    return Router([operation_routes(one, stages, is_control=False) for one in contracts])


RESPONDERS: dict[tuple[int, str], Any] = {}


def resolve(contract: Contract, operation: Operation) -> Any:
    async def respond(_parsed: object) -> Reply:
        return Reply(200)

    return RESPONDERS.setdefault((id(contract), operation.id), respond)


def request(method: str, raw: str) -> Request:
    target = {**scope(method, unquote(raw), {}), "raw_path": raw.encode()}

    async def receive() -> dict[str, Any]:
        raise AssertionError("routing reads no body that is not declared")

    return Request(target, receive, method, unquote(raw), Head(()), Trace())
