"""How a server starts and rejects, and how a path finds its operation."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import httpx
import pytest

from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.http.endpoint import Endpoint, endpoint_of
from invoice_sandbox.http.request import Reply, Request, request_of
from invoice_sandbox.http.routing import Routing, Target, Unrouted, without_target
from invoice_sandbox.openapi.operation import (
    Contract,
    compile_contract,
)
from invoice_sandbox.project.loader import default_project, load_project
from tests.cases import in_turn
from tests.support import Running


@pytest.mark.parametrize(
    ("path", "policy"),
    [("/api/health", "sandbox; default-src 'none'"), ("/docs", "default-src 'none'; script-src")],
)
def test_only_pages_of_ours_may_run_anything(server: Running, path: str, policy: str) -> None:
    response = httpx.get(f"{server.url}{path}", follow_redirects=True)
    assert response.headers["content-security-policy"].startswith(policy)
    assert response.headers["x-content-type-options"] == "nosniff"


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
    "/k": ["post"],
}

FOUND: Final[dict[tuple[str, str], tuple[str, dict[str, str]]]] = {
    ("GET", "/a"): ("/a", {}),
    ("GET", "/a/1"): ("/a/{id}", {"id": "1"}),
    ("GET", "/a/mine"): ("/a/mine", {}),
    ("HEAD", "/a/mine"): ("/a/mine", {}),
    ("HEAD", "/a"): ("/a", {}),
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


@in_turn(("asked", "expected"), FOUND.items(), ids=map(" ".join, FOUND))
def test_a_path_finds_its_operation(
    asked: tuple[str, str], expected: tuple[str, dict[str, str]]
) -> None:
    method, raw = asked
    template, texts = expected
    found = routed(contract_of(PATHS), method, raw)
    assert isinstance(found, Request)
    declared = "get" if (method, template) == ("HEAD", "/a") else method.lower()
    assert found.target.operation.id == f"{declared} {template}"
    assert found.path_texts == texts
    connexion = found.scope["extensions"]["connexion_routing"]
    assert connexion["operation_id"] == found.target.operation.id


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
    ("PUT", "/a"): "GET, POST, HEAD, OPTIONS",
    ("DELETE", "/a/mine"): "GET, HEAD, OPTIONS",
    ("POST", "/a/b"): "GET, PUT, DELETE, HEAD, OPTIONS",
    ("PUT", "/c/a.json"): "GET, HEAD, OPTIONS, PATCH",
    ("HEAD", "/k"): "POST, OPTIONS",
}


@in_turn(("asked", "allowed"), NOT_FOUND.items(), ids=map(" ".join, NOT_FOUND))
def test_any_other_path_is_404_and_any_other_method_405(
    asked: tuple[str, str], allowed: str
) -> None:
    with pytest.raises(ApiError) as caught:
        routed(contract_of(PATHS), *asked)
    assert caught.value.status == (405 if allowed else 404)
    assert dict(caught.value.headers).get("Allow", "") == allowed


def test_options_lists_the_methods_where_it_is_not_declared() -> None:
    reply = routed(contract_of(PATHS), "OPTIONS", "/a")
    assert isinstance(reply, Reply)
    assert (reply.status, reply.headers) == (204, (("Allow", "GET, POST, HEAD, OPTIONS"),))


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


def routed(contract: Contract, method: str, raw: str) -> Request | Reply:
    """What the leaf behind Connexion's routing gets. Raises ApiError."""
    found: list[Request | Reply] = []

    async def leaf(target: Target, scope: Any, receive: Any, _send: Any) -> None:
        request = request_of(scope, receive)
        if isinstance(target, Unrouted):
            found.append(without_target(request, target))
        elif isinstance(target, Endpoint):
            request.endpoint = request.target = target
            request.path_texts = scope["path_params"]
            found.append(request)

    async def receive() -> dict[str, Any]:
        raise AssertionError("routing reads no body that is not declared")

    unused: Any = lambda *_: None  # noqa: E731  no request gets beyond routing
    routing, conventions = Routing(leaf), load_project(default_project()).conventions
    routing.add_contract(contract, str, partial(endpoint_of, conventions=conventions))
    target = scope(method, unquote(raw), {}) | {"raw_path": raw.encode()}
    asyncio.run(routing(target, receive, unused))
    return found[0]
