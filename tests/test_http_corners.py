"""What clients, proxies and attackers send: a clear response, never a 5xx."""

from __future__ import annotations

import gzip
import json
import re
import select
import socket
from asyncio.selector_events import _SelectorSocketTransport  # type: ignore[attr-defined]
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from invoice_sandbox.server import serving as serving_module
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.attack import wire
from tests.cases import in_turn
from tests.scenario_run import until
from tests.support import PATIENCE, Running, serving
from tests.toy import contract, serving_contract

pytestmark = pytest.mark.slow

REQUIRED = '"sellerId":"s","debtorId":"d","invoiceNumber":"n","currency":"EUR"'


def invoice(amount: str = "1", more: str = "") -> bytes:
    return f'{{{REQUIRED},"amount":{amount}{more}}}'.encode()


def nested(levels: int) -> bytes:
    return invoice(more=f',"x":{"[" * (levels - 1)}{"]" * (levels - 1)}')


BODIES: dict[str, tuple[bytes, int]] = {
    "plain": (invoice(), 201),
    "invalid UTF-8": (invoice().replace(b'"s"', b'"\xff"'), 400),
    "240 levels": (nested(240), 201),
    "241 levels": (nested(241), 400),
    "100,000 levels": (b"[" * 100_000, 400),
    "NaN": (invoice("NaN"), 400),
    "Infinity": (invoice("-Infinity"), 400),
    "a number without a double": (invoice("1e400"), 400),
    "the largest doubles": (invoice("1e300"), 201),
    "a number close to nothing": (invoice("1e-400"), 201),
    "an exponent beyond all reason": (invoice("1e-99999999999999999999"), 201),
    "half a surrogate pair": (invoice().replace(b'"s"', b'"\\ud800"'), 400),
    "a whole surrogate pair": (invoice().replace(b'"s"', b'"\\ud83d\\ude00"'), 201),
    "a NUL": (invoice().replace(b'"s"', b'"\\u0000"'), 201),
    "a key twice": (invoice(more=',"amount":2'), 201),
    "a byte order mark": (b"\xef\xbb\xbf" + invoice(), 400),
    "nothing": (b"", 400),
    "two values": (invoice() + invoice(), 400),
    "a member nobody knows": (invoice(more=',"x":{"y":[1]}'), 201),
}


@pytest.fixture
def raw(server: Running) -> Iterator[socket.socket]:
    """A connection on which a test writes what it likes."""
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), PATIENCE) as connection:
        yield connection


def exchange(raw: socket.socket, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send a request that asks to close, and read the response to its end."""
    raw.sendall(request)
    received = b""
    while part := raw.recv(65536):
        received += part
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


def request(method: str, path: str, *lines: str) -> bytes:
    head = [
        f"{method} {path} HTTP/1.1",
        "Host: 127.0.0.1",
        "Connection: close",
        f"Authorization: Bearer {DEMO_KEY}",
        *lines,
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n"


@pytest.mark.parametrize(("body", "status"), BODIES.values(), ids=BODIES)
def test_a_body_is_read_as_json_to_the_letter(
    client: httpx.Client, body: bytes, status: int
) -> None:
    headers = {"Content-Type": "application/json"}
    response = client.post("/api/invoices", content=body, headers=headers)
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    json.loads(response.content.decode())


def test_what_was_sent_at_the_deepest_can_be_shown(client: httpx.Client) -> None:
    body = '{"name":' + "[" * 239 + "]" * 239 + "}"
    headers = {"Content-Type": "application/json", "Idempotency-Key": "deep"}
    for _ in range(2):
        made = client.post("/api/developer/api-keys", content=body, headers=headers)
        assert made.status_code == 201
    wrong = client.post("/api/invoices", content="[" * 240 + "]" * 240, headers=headers)
    assert wrong.status_code == 400
    for path in ("/api/developer/api-keys", "/sandbox/requests", "/sandbox/recording"):
        assert client.get(path).status_code == 200


def test_an_integer_keeps_all_its_digits(client: httpx.Client) -> None:
    digits = "1234567890123456789012345678901234567890"
    headers = {"Content-Type": "application/json"}
    response = client.post("/api/invoices", content=invoice(digits), headers=headers)
    assert f'"amount":{digits}' in response.text
    assert f'"amount":{digits}' in client.get(f"/api/invoices/{response.json()['data']['id']}").text


CHUNKED = ("Content-Type: application/json", "Transfer-Encoding: chunked")


def chunks(*parts: bytes) -> bytes:
    return b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in (*parts, b""))


def test_a_body_in_chunks_is_a_body(raw: socket.socket) -> None:
    whole = invoice()
    sent = request("POST", "/api/invoices", *CHUNKED) + chunks(whole[:9], whole[9:])
    assert exchange(raw, sent)[0] == 201


def test_too_many_chunks_are_413(raw: socket.socket) -> None:
    sent = request("POST", "/api/invoices", *CHUNKED) + chunks(*[b" " * 65536] * 5)
    assert exchange(raw, sent)[0] == 413


@pytest.mark.parametrize("method", ["TRACE", "QUERY", "PUT", "FOO"])
def test_a_method_that_is_not_declared_is_405(raw: socket.socket, method: str) -> None:
    status, headers, body = exchange(raw, request(method, "/api/invoices"))
    if method == "FOO":  # no method at all to the HTTP parser
        error = json.loads(body)["error"]
        assert (status, error["code"]) == (400, "invalid_request")
        assert "or its method is not known here" in error["message"]
    else:
        assert (status, headers["allow"]) == (405, "get, post, head, options")


@pytest.mark.parametrize(("encoding", "is_cause"), [("gzip", True), ("identity", False)])
def test_a_body_with_a_content_encoding_says_that_it_is_not_decoded(
    client: httpx.Client, encoding: str, is_cause: bool
) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
    response = client.post("/api/invoices", content=gzip.compress(b"{}"), headers=headers)
    assert response.status_code == 400
    message = response.json()["error"]["message"]
    assert ("and Content-Encoding is not decoded here." in message) == is_cause


def test_options_lists_the_declared_methods_head_and_options(
    server: Running, client: httpx.Client
) -> None:
    declared: dict[str, set[str]] = {}
    for operation in server.sandbox.engine.project.contract.operations.values():
        declared.setdefault(operation.path, set()).add(operation.method)
    for path, methods in declared.items():
        response = client.options(path)
        assert (response.status_code, response.content) == (204, b"")
        ours = {"OPTIONS", "HEAD"} if "GET" in methods else {"OPTIONS"}
        assert set(response.headers["allow"].split(", ")) == methods | ours


@pytest.mark.parametrize(
    "path", ["/api/invoices", "/api/invoices/none", "/api/health", "/sandbox/clock"]
)
def test_head_has_the_status_and_the_headers_of_get_and_no_body(
    client: httpx.Client, path: str
) -> None:
    get, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    of_each = {"date", "ratelimit", "x-request-id"}
    assert [one for one in head.headers.items() if one[0] not in of_each] == [
        one for one in get.headers.items() if one[0] not in of_each
    ]


def test_head_is_in_the_journal_without_the_body_that_was_not_sent(client: httpx.Client) -> None:
    client.head("/api/invoices/none")
    entry = client.get("/sandbox/requests").json()["data"][0]
    assert (entry["method"], entry["operation"], entry["status"]) == ("HEAD", "getInvoice", 404)
    assert entry["response"]["body"] is None


@in_turn(
    "path",
    ["/api", "/api/invoices/", "/api/health/", "//api/health", "/api/nothing", "/sandbox/x"],
)
def test_an_unknown_path_is_404_and_never_a_redirect(client: httpx.Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "resource_not_found"


@pytest.mark.parametrize("path", ["/api/invoices/a%2Fb", "/api/invoices/%00", "/api/invoices/%FF"])
def test_a_strange_id_is_an_unknown_one(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 404


def test_an_encoded_slash_stays_inside_its_parameter(client: httpx.Client) -> None:
    data = client.get("/api/assignment-rules/a%2Fb").json()["data"]
    assert (data["country"], data["supported"]) == ("A/B", False)


STRANGE = {
    "line feed": "a%0Ab",
    "line feed at the end": "a%0A",
    "carriage return": "a%0D%0Ab",
    "zero byte": "%00",
    "line separator": "a%E2%80%A8b",
    "next line": "a%C2%85b",
    "slash": "a%2Fb",
    "backslash": "a%5Cb",
    "dots": "%2E%2E",
    "dots and a slash": "%2E%2E%2Fa",
    "a dot": "%2E",
    "no UTF-8": "%FF",
    "percent": "%25",
    "question mark": "%3F%23",
    "semicolon": ";a=b",
    "blank": "%20",
}
"""Texts of one segment of a path."""


@in_turn("text", STRANGE.values(), ids=STRANGE)
def test_no_text_in_a_path_leads_to_an_undeclared_response(server: Running, text: str) -> None:
    """The request is one of the operation, and its response is one that the operation declares."""
    project, asked = server.sandbox.engine.project, 0
    with server.client(server.new_workspace()) as client:
        for contract in (project.contract, project.control):
            for operation in contract.operations.values():
                if "{" not in operation.path:
                    continue
                path = contract.base_path + re.sub(r"\{[^}]*\}", text, operation.path)
                reply = client.request(operation.method, path, json={})
                asked += 1
                declared = operation.response_for(reply.status_code)
                assert declared is not None, (operation.id, path, reply.text)
                unknown = reply.status_code == 404 and "No operation has this path" in reply.text
                assert not unknown, (operation.id, path, reply.text)
    assert asked > 20


QUERIES = {
    "limit=1&limit=2": 400,
    "limit=0": 400,
    "limit=101": 400,
    "limit=1.0": 400,
    "limit=%31": 200,
    "limit=+1": 400,
    "limit=1_0": 400,
    "limit=": 400,
    "status=%ff": 400,
    "%ff=1": 400,
    "unknown=1&unknown=2": 200,
    "cursor=nonsense": 200,
    "cursor=": 200,
}


@in_turn(("query", "status"), QUERIES.items(), ids=QUERIES)
def test_query_parameters_are_checked(client: httpx.Client, query: str, status: int) -> None:
    assert client.get(f"/api/invoices?{query}").status_code == status


def test_bytes_that_are_no_http_get_a_response_in_the_envelope(raw: socket.socket) -> None:
    status, headers, body = exchange(raw, b"nonsense\r\n\r\n")
    response = json.loads(body)
    assert (status, response["error"]["code"]) == (400, "invalid_request")
    assert headers["x-request-id"] == response["error"]["requestId"].lower()


@pytest.mark.parametrize(("length", "status"), [(16_384, 200), (16_385, 431), (1_000_000, 431)])
def test_headers_beyond_16_kib_are_431(raw: socket.socket, length: int, status: int) -> None:
    """``length`` counts the characters of all names and values."""
    others = request("GET", "/api/health", "X-Long: ").decode().splitlines()[1:-1]
    left = length - len("".join(others).replace(": ", ""))
    response = exchange(raw, request("GET", "/api/health", f"X-Long: {'x' * left}"))
    assert response[0] == status
    assert json.loads(response[2])["mode"] == "sandbox_mock"


POSTED = ("Content-Type: application/json", "Content-Length: 2")


def test_a_client_that_expects_100_continue_gets_it(raw: socket.socket) -> None:
    raw.sendall(request("POST", "/api/offers", *POSTED, "Expect: 100-continue"))
    assert raw.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert exchange(raw, b"{}")[0] == 201


HOSTS = {
    "127.0.0.1": 200,
    "localhost:8080": 200,
    "LOCALHOST": 200,
    "[::1]:80": 200,
    "evil.example": 421,
    "127.0.0.1.evil.example": 421,
    "": 421,
    "[": 400,
    "evil@127.0.0.1": 400,
    "127.0.0.1/evil": 400,
    "127.0.0.1#.evil.example": 400,
    "127.0.0.1:abc": 400,
    "127.0.0.1:99999": 400,
}


@in_turn(("host", "status"), HOSTS.items(), ids=HOSTS)
def test_only_hosts_of_this_machine_get_a_response(
    client: httpx.Client, host: str, status: int
) -> None:
    """A page that re-binds its own name to 127.0.0.1 could use the public demo key otherwise."""
    assert client.get("/api/health", headers={"Host": host}).status_code == status


ORIGINS = {
    "http://localhost:3000": True,
    "http://127.0.0.1": True,
    "https://[::1]:8443": True,
    "https://evil.example": False,
    "http://localhost.evil.example": False,
    "ftp://localhost": False,
    "null": False,
    "http://[": False,
}


@in_turn(("origin", "may_read"), ORIGINS.items(), ids=ORIGINS)
def test_only_pages_of_this_machine_may_read(
    client: httpx.Client, origin: str, may_read: bool
) -> None:
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    for response in (
        client.get("/api/health", headers=headers),
        client.options("/api/invoices", headers=headers),
        client.get("/api/nothing", headers=headers),
    ):
        allowed = response.headers.get("access-control-allow-origin")
        assert allowed == (origin if may_read else None)
        assert "Origin" in response.headers["vary"]
    assert client.get("/api/invoices", headers={"Origin": origin}).status_code == 200


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/invoices", "/api/invoices"),
        ("//api/invoices", "/api/invoices"),
        ("/api/invoices/", "/api/invoices"),
        ("/API/invoice", "/api/invoices"),
        ("/invoices/inv_1/history", "/api/invoices/..."),
        ("/api/invoices/inv_1/history", None),
        ("/nothing", None),
    ],
)
def test_a_path_like_a_known_one_is_told_which(
    client: httpx.Client, path: str, meant: str | None
) -> None:
    response = client.get(httpx.URL(str(client.base_url)).copy_with(raw_path=path.encode()))
    assert response.status_code == 404
    message = response.json()["error"]["message"]
    expected = f"No operation has this path; did you mean {meant}?" if meant else "this path. See"
    assert expected in message


def test_a_misspelt_member_is_named_beside_what_is_missing(client: httpx.Client) -> None:
    response = client.post("/api/invoices", json={"sellerID": "x"})
    message = response.json()["error"]["message"]
    assert "currency are required; undeclared member 'sellerID' (did you mean sellerId?)" in message


def test_a_preflight_names_methods_and_headers(client: httpx.Client) -> None:
    headers = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"}
    response = client.options("/api/invoices", headers=headers)
    assert (response.status_code, "content-length" in response.headers) == (204, False)
    assert response.headers["access-control-allow-methods"] == "POST"


ASKED = "authorization, traceparent, x-request-id"


def test_a_page_may_send_any_header(client: httpx.Client) -> None:
    page = {"Origin": "http://localhost:3000"}
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": ASKED}
    response = client.options("/api/auth/login", headers=page | asked)
    assert response.headers["access-control-allow-headers"] == ASKED
    assert "access-control-allow-credentials" not in response.headers


def test_a_header_that_is_none_is_not_repeated(client: httpx.Client) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "a; b"}
    response = client.options("/api/invoices", headers={"Origin": "http://localhost"} | asked)
    assert "access-control-allow-headers" not in response.headers


def test_a_preflight_is_not_asked_of_a_document_that_declares_options(tmp_path: Path) -> None:
    document = contract({})
    declared = {"operationId": "opts", "responses": {"200": {"description": "declared"}}}
    document["paths"]["/check"]["options"] = declared
    page = {"Origin": "http://localhost:3000"}
    with serving_contract(tmp_path, document) as client:
        asked = page | {"Access-Control-Request-Method": "PUT"}
        preflight = client.options("/check", headers=asked)
        assert preflight.headers["access-control-allow-methods"] == "PUT"
        assert client.options("/check", headers=page).status_code == 200


def test_only_a_preflight_names_methods_and_headers(client: httpx.Client) -> None:
    origin, asked = {"Origin": "http://localhost:3000"}, {"Access-Control-Request-Method": "POST"}
    for response in (
        client.options("/api/invoices", headers=origin),
        client.options("/api/invoices", headers=asked),
        client.get("/api/invoices", headers=origin | asked),
    ):
        assert response.is_success
        assert not [one for one in response.headers if one.startswith("access-control-allow-m")]


def test_a_client_that_hangs_up_in_its_body_hurts_nobody(
    raw: socket.socket, client: httpx.Client
) -> None:
    lines = ("Content-Type: application/json", "Content-Length: 1000")
    raw.sendall(request("POST", "/api/invoices", *lines) + b'{"seller')
    raw.close()
    assert client.get("/api/invoices").status_code == 200


@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT", "OPTIONS"]),
    path=st.sampled_from(["/api/invoices", "/api/offers", "/api/webhooks", "/api/auth/login"])
    | st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), max_size=30),
    body=st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(json.dumps),
    headers=st.dictionaries(
        st.sampled_from(["Content-Type", "Accept", "Prefer", "Cookie", "Origin", "Range"]),
        st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30),
        max_size=3,
    ),
)
@settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_request_whatsoever_yields_a_5xx(
    client: httpx.Client, method: str, path: str, body: Any, headers: dict[str, str]
) -> None:
    target = quote(path if path.startswith("/") else f"/api/{path}")
    response = client.request(method, target, content=body, headers=headers)
    assert response.status_code < 500


TOKENS = st.sampled_from([b"GET", b"POST", b"DELETE", b"HEAD", b"QUERY"]) | st.binary(max_size=8)
TARGETS = st.sampled_from([b"", b"api/invoices", b"api/invoices?limit=", b"docs", b"openapi.json"])
LINES = st.sampled_from([b"Host: ", b"Cookie: ", b"Authorization: Bearer ", b"Origin: ", b""])


@given(
    method=TOKENS,
    target=st.tuples(TARGETS, st.binary(max_size=20)).map(b"".join),
    lines=st.lists(st.tuples(LINES, st.binary(max_size=30)).map(b"".join), max_size=3),
    body=st.binary(max_size=100),
)
@settings(max_examples=40, derandomize=True, deadline=None)
def test_no_bytes_whatsoever_yield_a_5xx(
    server: Running, method: bytes, target: bytes, lines: list[bytes], body: bytes
) -> None:
    """There is always a response, so that nobody waits, and then the server is as well as ever."""
    fixed = [b"Host: 127.0.0.1", b"Connection: close", b"Content-Length: %d" % len(body)]
    head = b"\r\n".join([method + b" /" + target + b" HTTP/1.1", *fixed, *lines])
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), PATIENCE) as connection:
        connection.sendall(head + b"\r\n\r\n" + body)
        response = connection.recv(65536)
    assert re.match(rb"HTTP/1\.1 [234]\d\d ", response)
    with server.client(None) as client:
        assert client.get("/api/health").status_code == 200


def test_a_trailer_that_closes_the_connection_does_so_after_the_response(
    raw: socket.socket,
) -> None:
    """A proxy would use the connection for its next client otherwise."""
    head = b"POST /api/auth/login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
    sent = head + b"Content-Type: application/json\r\n\r\n2\r\n{}\r\n0\r\n"
    status, headers, _ = exchange(raw, sent + b"Connection: close\r\n\r\n")
    assert (status, headers["connection"]) == (401, "close")


def test_a_head_request_for_a_stream_ends_with_its_head(raw: socket.socket) -> None:
    sent = f"HEAD /console/events HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: {DEMO_KEY}\r\n\r\n"
    status, _, rest = exchange(raw, sent.encode() + request("GET", "/api/health"))
    assert (status, rest.count(b"HTTP/1.1 200 ")) == (200, 1)


def test_more_requests_than_may_wait_end_the_connection(server: Running) -> None:
    with wire.Wire(server.port) as client:
        client.send(plain("/api/health") * 2_000)
        statuses = [client.response().status]
        while statuses[-1] == 200:
            response = client.response()
            statuses.append(response.status)
        assert (response.status, response.envelope_problem()) == (503, None)
        assert len(statuses) < 1_000
        assert client.is_closed()


def plain(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


@pytest.mark.parametrize(("path", "status"), [("/api/health", 503), ("/sandbox/health", 200)])
def test_beyond_the_requests_at_a_time_only_health_responds(
    monkeypatch: pytest.MonkeyPatch, client: httpx.Client, path: str, status: int
) -> None:
    monkeypatch.setattr("invoice_sandbox.http.asgi.MAX_REQUESTS", 0)
    response = client.get(path)
    assert response.status_code == status
    if status == 503:
        assert "as many requests as it may" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("target", "status"),
    [("http://127.0.0.1:80/api/health", 200), ("http://evil.example/api/health", 421)],
)
def test_the_host_of_an_absolute_target_counts(
    raw: socket.socket, target: str, status: int
) -> None:
    assert exchange(raw, request("GET", target))[0] == status


def test_a_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_module, "_TICKS_BETWEEN_LOOKS", 2)
    with serving() as running, wire.Wire(running.port) as silent:
        assert silent.is_closed()


def test_a_client_that_takes_nothing_of_its_responses_loses_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving_module, "_TICKS_BETWEEN_LOOKS", 2)
    with serving() as running, wire.Wire(running.port) as client:
        client.send(plain("/openapi.json") * 50)
        events = select.poll()
        events.register(client.socket, 0)
        until(lambda: bool(events.poll(0)), "the connection is still there")


def test_head_and_body_of_a_response_are_sent_in_one_write(
    monkeypatch: pytest.MonkeyPatch, client: httpx.Client
) -> None:
    written, write = [], _SelectorSocketTransport.write

    def noted(transport: Any, data: bytes) -> None:
        written.append(bytes(data))
        write(transport, data)

    monkeypatch.setattr(_SelectorSocketTransport, "write", noted)
    body = client.get("/api/health").content
    assert [data.partition(b"\r\n\r\n")[2] for data in written] == [body]
