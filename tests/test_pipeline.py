"""The pipeline itself: its length, what Connexion resolves, and how a path finds its operation."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import httpx
import pytest

from invoice_sandbox.app import Sandbox, create_app
from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.http.handling import ContractViolationError, JsonResponses
from invoice_sandbox.http.pipeline import (
    CONNECTION,
    Endpoint,
    Head,
    InjectedFault,
    OperationStages,
    ParsedRequest,
    Reply,
    Request,
    RoutedRequest,
    Trace,
    response_start,
)
from invoice_sandbox.http.respond import Responses
from invoice_sandbox.http.route import (
    Router,
    operation_routes,
)
from invoice_sandbox.http.send import SendReply
from invoice_sandbox.openapi.operation import (
    Contract,
    DeclaredResponse,
    Operation,
    compile_contract,
)
from invoice_sandbox.project.api import Response
from invoice_sandbox.project.conventions import Conventions
from invoice_sandbox.runtime.control_call import PublicControlCall, Raw
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.scenario_run import DATED
from tests.support import FROZEN, ManualSystemClock, Running

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


def test_a_caller_in_this_process_that_gives_up_gets_no_response() -> None:
    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    async def give_up() -> None:
        app = await create_app(FROZEN, url="http://127.0.0.1:8080")
        is_waiting = asyncio.Event()

        async def receive() -> dict[str, Any]:
            is_waiting.set()
            return await asyncio.Future()

        login = scope("POST", "/api/auth/login", {"host": "127.0.0.1:8080"})
        request = asyncio.ensure_future(app(login, receive, send))
        await is_waiting.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request

    asyncio.run(give_up())
    assert messages == []


def test_an_error_beside_the_request_has_the_envelope() -> None:
    """Here the journal of a rejected credential has no workspace any more."""
    messages: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        messages.append(message)

    async def serve() -> None:
        app = await create_app(FROZEN, url="http://127.0.0.1:8080")
        await app.engine.store.delete_workspace(app.engine.first_workspace)
        unknown = {"host": "127.0.0.1:8080", "authorization": "Bearer unknown"}
        await app(scope("GET", "/api/invoices", unknown), receive, send)

    asyncio.run(serve())
    assert messages[0]["status"] == 500
    error = json.loads(messages[1]["body"])["error"]
    assert (error["code"], error["requestId"]) == (
        "internal_error",
        dict(messages[0]["headers"])[b"x-request-id"].decode(),
    )


@pytest.mark.parametrize(
    ("path", "policy"),
    [("/api/health", "sandbox; default-src 'none'"), ("/docs", "default-src 'none'; script-src")],
)
def test_only_pages_of_ours_may_run_anything(server: Running, path: str, policy: str) -> None:
    response = httpx.get(f"{server.url}{path}", follow_redirects=True)
    assert response.headers["content-security-policy"].startswith(policy)
    assert response.headers["x-content-type-options"] == "nosniff"


async def create_invoice(app: Sandbox, number: int) -> int:
    status, _ = await post_invoice(app, {**DATED, "invoiceNumber": f"A-{number}"})
    return status


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


def test_what_one_contract_does_not_have_may_be_anothers() -> None:
    first = contract_of({"/a": ["get"]})
    second = contract_of({"/a": ["get", "put"], "/b": ["get"]})
    router = routes(first, second)
    endpoints = router.targets(request("POST", "/a"))
    assert list(endpoints) == ["GET", "PUT"]
    assert isinstance(endpoints["GET"], Endpoint)
    assert endpoints["GET"].contract is first
    assert isinstance(asyncio.run(router(request("GET", "/b"))), RoutedRequest)


def responses_of(declared: Mapping[str, list[str]]) -> JsonResponses:
    """Those of an operation with these media types by status."""
    (operation,) = contract_of({"/a": ["post"]}).operations.values()
    responses = {
        status: DeclaredResponse(dict.fromkeys(types), {}) for status, types in declared.items()
    }
    return JsonResponses(replace(operation, responses=responses), Conventions())


def test_a_handler_responds_in_the_declared_json_type_or_not_at_all() -> None:
    types = {"200": ["text/plain", "application/hal+json", "application/json"], "204": []}
    responses = responses_of({**types, "202": ["text/plain", "application/hal+json"]})
    headers = (("X-Own", "1"),)
    empty = responses.reply(Response(None, status=204, headers=headers))
    assert (empty.status, empty.body, empty.headers) == (204, b"", headers)
    whole = responses.reply(Response(None, status=200, headers=headers))
    assert whole == Reply(200, b"null", "application/json", headers)
    assert responses.reply(Response(1, status=202)).media_type == "application/hal+json"
    hal = Response(1, status=200, media_type="application/hal+json")
    assert responses.reply(hal).media_type == "application/hal+json"
    other = Response(1, status=200, media_type="application/problem+json")
    wrongs = (Response(1, status=204), Response(1, status=418), other)
    for wrong in (*wrongs, Response("a", status=200, media_type="text/plain")):
        with pytest.raises(ContractViolationError):
            responses.reply(wrong)
    with pytest.raises(ContractViolationError, match="JSON is not declared"):
        responses_of({"200": ["text/plain"]}).reply(Response(1, status=200))


def test_the_same_data_have_an_envelope_or_none() -> None:
    (operation,) = contract_of({"/a": ["post"]}).operations.values()
    declared = {"200": DeclaredResponse({"application/json": None}, {})}
    responses = JsonResponses(
        replace(operation, responses=declared), Conventions(envelope={"data": "{data}"})
    )
    bodies = [
        responses.reply(Response(1, status=200, bare=bare)).body for bare in (True, False, True)
    ]
    assert bodies == [b"1", b'{"data":1}', b"1"]


RAW: Final = {"200": DeclaredResponse({"text/plain": None}, {})}


def raw_reply(
    server: Running, given: Raw | ApiError, declared: Mapping[str, DeclaredResponse]
) -> Reply:
    """What the health of the sandbox responds, if its function returns or raises ``given``."""

    async def function(_: PublicControlCall) -> Raw:
        if isinstance(given, ApiError):
            raise given
        return given

    engine = server.sandbox.engine
    contract = engine.project.control
    operation = replace(contract.operations["getSandboxHealth"], responses=declared)
    respond = Responses(engine, {operation.id: function}).compile(contract, operation)
    parsed = ParsedRequest(
        request=Request({}, nothing_more, "GET", "/", Head(), Trace()),
        endpoint=None,  # type: ignore[arg-type]
        path_texts={},
        credential=None,
        workspace=None,
        scenario=None,
        path={},
        query={},
        body=None,
        media_type="",
        idempotency=None,
    )
    reply: Reply = server.run(respond(parsed))
    return reply


async def nothing_more() -> dict[str, Any]:
    return {"type": "http.disconnect"}


def test_a_control_function_returns_only_what_its_contract_declares(server: Running) -> None:
    assert raw_reply(server, Raw(200, "text/plain", b"x"), RAW).body == b"x"
    for undeclared in (Raw(200, "text/html", b"x"), Raw(418, "text/plain", b"x")):
        with pytest.raises(ContractViolationError):
            raw_reply(server, undeclared, RAW)


@pytest.mark.parametrize(("status", "body"), [(204, b""), (205, b"x"), (304, b""), (305, b"x")])
def test_no_body_is_sent_with_a_status_that_has_none(
    server: Running, status: int, body: bytes
) -> None:
    declared = {"default": DeclaredResponse({"text/plain": None}, {})}
    assert raw_reply(server, Raw(status, "text/plain", b"x"), declared).body == body


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, 0),
        ("9" * 5000, 0),
        ("", 0),
        ("-1", 0),
        ("²", 0),
    ],
)
def test_the_last_event_of_a_client_is_a_number_of_at_most_18_digits(
    server: Running, text: str, number: int
) -> None:
    call = PublicControlCall(server.sandbox.engine, {}, {}, {"last-event-id": text}, None, b"")
    assert call.last_event == number


@pytest.mark.parametrize(
    ("status", "has_length"), [(200, True), (204, False), (205, True), (304, False), (305, True)]
)
def test_a_response_that_cannot_have_a_body_has_no_length(status: int, has_length: bool) -> None:
    names = {name for name, _ in response_start(Reply(status))["headers"]}
    assert (b"content-length" in names) is has_length


def test_a_public_operation_may_respond_with_403(server: Running) -> None:
    """No caller is known then whom the audit log could name."""
    forbidden = reject("scope_missing", scope="any")
    with pytest.raises(ApiError) as raised:
        raw_reply(server, forbidden, {"403": DeclaredResponse({}, {})})
    assert raised.value is forbidden


def test_a_stream_ends_before_its_request_does_when_the_client_is_gone() -> None:
    """Also one that waits at that time for what comes next."""
    is_waiting, done, sent = asyncio.Event(), list[str](), list[bytes]()

    async def parts() -> AsyncGenerator[bytes, None]:
        try:
            yield b"first"
            is_waiting.set()
            await asyncio.Event().wait()
        finally:
            done.append("the stream")

    async def receive() -> dict[str, Any]:
        await is_waiting.wait()
        return {"type": "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message.get("body", b""))

    async def run() -> None:
        request = Request({}, receive, "GET", "/", Head(), Trace())
        await SendReply(ManualSystemClock())(request, Reply(200, stream=parts()), send)
        done.append("the request")

    asyncio.run(run())
    assert done == ["the stream", "the request"]
    assert sent == [b"", b"first", b""]


@pytest.mark.parametrize("kind", ["reset", "truncate"])
def test_a_request_whose_connection_a_fault_ends_lasts_until_that_has_ended(kind: str) -> None:
    order: list[str] = []

    class OwnConnection:
        def get_extra_info(self, _: str) -> Any:
            raise OSError

        def abort(self) -> None:
            order.append("reset")

        def close(self) -> None:
            order.append("truncate")

    async def receive() -> dict[str, Any]:
        order.append("wait")
        return {"type": "http.request" if order.count("wait") == 1 else "http.disconnect"}

    async def send(message: Mapping[str, Any]) -> None:
        order.append(message.get("body", b"").decode() or "head")

    scope = {"extensions": {CONNECTION: OwnConnection()}}
    trace = Trace(injected_fault=InjectedFault(kind, 0))
    request = Request(scope, receive, "GET", "/", Head(), trace)
    asyncio.run(SendReply(ManualSystemClock())(request, Reply(200, b"12345"), send))
    sent = ["head", "12"] if kind == "truncate" else []
    assert order == [*sent, kind, "wait", "wait"]


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
