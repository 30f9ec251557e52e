"""Responses go wrong when, how and as often as was asked for, and never otherwise."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.loader import default_project, load_project
from tests.cases import in_turn
from tests.scenario_run import INVOICE, until
from tests.support import FROZEN, PATIENCE, Running, serving


def inject(client: httpx.Client, kind: str, **members: Any) -> dict[str, Any]:
    """A new fault, as the control endpoint returns it."""
    response = client.post("/sandbox/faults", json={"kind": kind, **members})
    assert response.status_code == 201, response.text
    fault: dict[str, Any] = response.json()["data"]
    return fault


def faults(client: httpx.Client) -> list[dict[str, Any]]:
    """The faults in force."""
    found: list[dict[str, Any]] = client.get("/sandbox/faults").json()["data"]
    return found


def statuses(client: httpx.Client, times: int, path: str = "/api/invoices") -> list[int]:
    """What so many requests get."""
    return [client.get(path).status_code for _ in range(times)]


def create(client: httpx.Client) -> httpx.Response:
    """An invoice, if no fault comes between."""
    return client.post("/api/invoices", json=INVOICE)


def created(client: httpx.Client) -> int:
    """How many invoices were created: the fixtures have other numbers."""
    invoices = client.get("/api/invoices").json()["data"]
    return sum(one["invoiceNumber"] == INVOICE["invoiceNumber"] for one in invoices)


def key_of(client: httpx.Client) -> str:
    """The key that a client sends."""
    return client.headers["authorization"].removeprefix("Bearer ")


def request(client: httpx.Client, method: str, path: str, body: Any = None) -> bytes:
    """A request as bytes, on a connection that is kept."""
    sent = b"" if body is None else json.dumps(body).encode()
    kind = "" if body is None else "Content-Type: application/json\r\n"
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {client.base_url.host}\r\n"
        f"Authorization: Bearer {key_of(client)}\r\n{kind}Content-Length: {len(sent)}\r\n\r\n"
    )
    return head.encode() + sent


@contextmanager
def connection(client: httpx.Client) -> Iterator[socket.socket]:
    """A connection of one's own to the server of a client."""
    address = (client.base_url.host, client.base_url.port or 0)
    with socket.create_connection(address, PATIENCE) as raw:
        yield raw


def more(raw: socket.socket) -> bytes:
    """What comes next of a response that has not ended."""
    part = raw.recv(65536)
    assert part, "the connection was closed within a response"
    return part


def read_all(raw: socket.socket) -> bytes:
    """Everything up to the end of the connection."""
    received = b""
    while part := raw.recv(65536):
        received += part
    return received


class TestLatency:
    def test_it_waits_and_then_responds(self, server: Running, client: httpx.Client) -> None:
        inject(client, "latency", delay="PT1.5S")
        before = server.system_clock.seconds
        assert create(client).status_code == 201
        assert server.system_clock.seconds - before == 1.5

    def test_after_the_request_it_waits_too(self, server: Running, client: httpx.Client) -> None:
        inject(client, "latency", delay="PT3S", when="after", count=2)
        before = server.system_clock.seconds
        assert create(client).status_code == 201
        assert client.get("/api/invoices/nothing").status_code == 404
        assert server.system_clock.seconds - before == 6

    def test_a_range_is_drawn_by_the_seed(self, server: Running) -> None:
        def waits(seed: int) -> list[float]:
            with server.client(server.new_workspace(seed)) as client:
                inject(client, "latency", delay="PT1S", upTo="PT5S", count=None)
                found = []
                for _ in range(8):
                    before = server.system_clock.seconds
                    client.get("/api/invoices")
                    found.append(round(server.system_clock.seconds - before, 6))
                return found

        first = waits(42)
        assert first == waits(42) != waits(43)
        assert all(1 <= one <= 5 for one in first)
        assert len(set(first)) == 8


STATUSES = {
    200: None,
    204: None,
    302: None,
    400: "invalid_request",
    401: "authentication_required",
    404: "resource_not_found",
    429: "rate_limit_exceeded",
    500: "internal_error",
    503: "service_unavailable",
}


class TestStatus:
    @in_turn("status", [status for status, code in STATUSES.items() if code])
    def test_errors_have_the_envelope(self, client: httpx.Client, status: int) -> None:
        fault = inject(client, "status", status=status)
        response = client.get("/api/invoices")
        error = response.json()["error"]
        assert error["code"] == STATUSES[status]
        assert error["requestId"] == response.headers["x-request-id"]
        assert fault["id"] in error["message"]
        assert set(response.json()) == {"error", "mode"}

    @pytest.mark.parametrize("status", [429, 503])
    def test_the_response_has_retry_after(self, client: httpx.Client, status: int) -> None:
        inject(client, "status", status=status)
        assert client.get("/api/invoices").headers["retry-after"] == "1"

    def test_a_challenge_goes_with_401(self, client: httpx.Client) -> None:
        inject(client, "status", status=401)
        assert client.get("/api/invoices").headers["www-authenticate"] == 'Bearer realm="sandbox"'

    def test_before_nothing_is_done(self, client: httpx.Client) -> None:
        inject(client, "status")
        assert create(client).status_code == 503
        assert created(client) == 0

    def test_after_it_is_done_all_the_same(self, client: httpx.Client) -> None:
        inject(client, "status", when="after")
        assert create(client).status_code == 503
        assert created(client) == 1

    def test_an_integer_may_be_written_with_a_fraction(self, client: httpx.Client) -> None:
        """To JSON Schema 503.0 is an integer."""
        body = b'{"kind": "status", "status": 503.0, "count": 2.0}'
        headers = {"Content-Type": "application/json"}
        made = client.post("/sandbox/faults", content=body, headers=headers).json()["data"]
        assert (made["status"], made["count"]) == (503, 2)
        assert statuses(client, 3) == [503, 503, 200]


class TestError:
    def test_429_unless_given(self, client: httpx.Client) -> None:
        inject(client, "error", operation="listInvoices")
        response = client.get("/api/invoices")
        assert response.status_code == 429
        assert response.json()["error"]["code"] == "rate_limit_exceeded"

    def test_one_that_the_operation_declares(self, client: httpx.Client) -> None:
        inject(client, "error", operation="getInvoice", status=404)
        response = client.get("/api/invoices/inv_sandbox_0001")
        assert response.json()["error"]["code"] == "resource_not_found"

    def test_for_all_it_meets_those_that_declare_it(self, client: httpx.Client) -> None:
        """``error`` never returns what the contract of the operation does not know."""
        inject(client, "error", status=404)
        assert client.get("/api/invoices").status_code == 200
        assert client.get("/api/invoices/inv_sandbox_0001").status_code == 404

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_before_and_after(self, client: httpx.Client, when: str) -> None:
        inject(client, "error", operation="createInvoice", when=when)
        assert create(client).status_code == 429
        assert created(client) == (0 if when == "before" else 1)


class TestReset:
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_the_connection_is_reset(self, client: httpx.Client, when: str) -> None:
        inject(client, "reset", when=when)
        with connection(client) as raw:
            raw.sendall(request(client, "POST", "/api/invoices", INVOICE))
            with pytest.raises(ConnectionResetError):
                read_all(raw)
        assert created(client) == (0 if when == "before" else 1)

    def test_another_method_is_rejected_before_it(self, client: httpx.Client) -> None:
        """No fault is spent on a request without an operation."""
        fault = inject(client, "reset")
        assert client.put("/api/invoices").status_code == 405
        assert faults(client)[0]["id"] == fault["id"]


class TestCorruptedResponses:
    def test_truncate_promises_more_than_it_sends(self, client: httpx.Client) -> None:
        inject(client, "truncate")
        with connection(client) as raw:
            raw.sendall(request(client, "GET", "/api/invoices"))
            head, _, body = read_all(raw).partition(b"\r\n\r\n")
        promised = re.search(rb"content-length: (\d+)", head)
        assert promised
        assert len(body) == int(promised[1]) // 2
        assert head.startswith(b"HTTP/1.1 200")

    def test_malformed_is_complete_and_no_json(self, client: httpx.Client) -> None:
        inject(client, "malformed")
        response = create(client)
        assert response.status_code == 201
        assert len(response.content) == int(response.headers["content-length"])
        with pytest.raises(json.JSONDecodeError):
            response.json()
        assert created(client) == 1

    @pytest.mark.parametrize("example", [12, True, None, "text", [], {}, [[1]], 0.5])
    def test_no_value_stays_json(self, tmp_path: Path, example: Any) -> None:
        """Also one that would be JSON without its last character."""
        with serving_responses(tmp_path, example) as client:
            inject(client, "malformed")
            response = client.get("/value")
            assert len(response.content) == len(client.get("/value").content)
            with pytest.raises(json.JSONDecodeError):
                response.json()

    def test_content_type_calls_it_something_else(self, client: httpx.Client) -> None:
        inject(client, "content-type")
        response = create(client)
        assert response.headers.get_list("content-type") == ["text/html"]
        assert response.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.json()["data"]["status"]
        assert created(client) == 1

    def test_drip_arrives_complete_and_in_pieces(
        self, server: Running, client: httpx.Client
    ) -> None:
        inject(client, "drip", delay="PT1S")
        clock = server.system_clock
        before = clock.sleepers
        clock.is_running.clear()
        try:
            with client.stream(
                "GET", "/api/invoices"
            ) as response:  # the head comes, the body waits
                until(lambda: clock.sleepers > before, "the server waits before the first piece")
                clock.is_running.set()
                body = b"".join(response.iter_raw())
        finally:
            clock.is_running.set()
        assert clock.sleepers - before > 1
        assert len(body) == int(response.headers["content-length"])
        assert json.loads(body)["mode"] == "sandbox_mock"

    def test_drip_takes_its_time(self, server: Running, client: httpx.Client) -> None:
        inject(client, "drip", delay="PT10S")
        before = server.system_clock.seconds
        client.get("/api/invoices")
        assert server.system_clock.seconds - before == pytest.approx(10)

    def test_an_error_is_altered_like_any_response(self, client: httpx.Client) -> None:
        inject(client, "malformed", operation="getInvoice")
        response = client.get("/api/invoices/nothing")
        assert response.status_code == 404
        with pytest.raises(json.JSONDecodeError):
            response.json()


class TestWhichAndHowOften:
    def test_once_unless_given(self, client: httpx.Client) -> None:
        assert inject(client, "status")["count"] == 1
        assert statuses(client, 3) == [503, 200, 200]
        assert faults(client) == []

    def test_count(self, client: httpx.Client) -> None:
        inject(client, "status", count=3)
        assert statuses(client, 1) == [503]
        (left,) = faults(client)
        assert (left["count"], left["fired"]) == (2, 1)
        assert statuses(client, 4) == [503, 503, 200, 200]

    def test_null_means_until_it_is_removed(self, client: httpx.Client) -> None:
        fault = inject(client, "status", count=None)
        assert statuses(client, 10) == [503] * 10
        assert faults(client)[0]["fired"] == 10
        assert client.delete(f"/sandbox/faults/{fault['id']}").json()["data"] == {
            "id": fault["id"],
            "deleted": True,
        }
        assert statuses(client, 1) == [200]

    def test_a_share_of_the_requests(self, server: Running) -> None:
        with server.client(server.new_workspace(5)) as client:
            inject(client, "status", count=None, probability=0.25)
            assert 50 <= statuses(client, 300).count(503) <= 100

    def test_the_first_one_made_takes_effect_first(self, client: httpx.Client) -> None:
        for status in (500, 502, 504):
            inject(client, "status", status=status)
        assert statuses(client, 4) == [500, 502, 504, 200]

    def test_one_for_the_operation_before_one_for_all(self, client: httpx.Client) -> None:
        inject(client, "status", status=500, operation="listOffers")
        inject(client, "status", status=502)
        assert statuses(client, 2) == [502, 200]
        assert statuses(client, 2, "/api/offers") == [500, 200]

    def test_only_the_operation_that_was_named(self, client: httpx.Client) -> None:
        inject(client, "status", operation="listOffers", count=None)
        assert statuses(client, 1) == [200]
        assert create(client).status_code == 201
        assert statuses(client, 1, "/api/offers") == [503]

    def test_every_operation_if_none_was(self, client: httpx.Client) -> None:
        inject(client, "status", count=None)
        for path in ("/api/invoices", "/api/offers", "/api/partners", "/api/audit-log"):
            assert statuses(client, 1, path) == [503]


class TestControlAPI:
    def test_a_fault_is_reported_as_it_was_made(self, client: httpx.Client) -> None:
        asked = {
            "operation": "listOffers",
            "kind": "latency",
            "delay": "PT0.25S",
            "upTo": "PT90.5S",
            "when": "after",
            "count": 5,
            "probability": 0.5,
        }
        made = client.post("/sandbox/faults", json=asked).json()["data"]
        assert made == {**asked, "id": made["id"], "fired": 0}
        assert faults(client) == [made]

    def test_all_are_removed_at_once(self, client: httpx.Client) -> None:
        inject(client, "status")
        inject(client, "reset")
        assert client.delete("/sandbox/faults").json()["data"] == []
        assert faults(client) == []

    def test_one_is_removed_and_the_others_stay(self, client: httpx.Client) -> None:
        first, second = inject(client, "status", status=500), inject(client, "status", status=502)
        client.delete(f"/sandbox/faults/{first['id']}")
        assert [one["id"] for one in faults(client)] == [second["id"]]

    def test_one_that_is_not_there(self, server: Running, client: httpx.Client) -> None:
        with server.client(server.new_workspace()) as other:
            theirs = inject(other, "status")["id"]
        for fault_id in ("flt_sandbox_nothing", theirs):
            response = client.delete(f"/sandbox/faults/{fault_id}")
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "resource_not_found"

    def test_at_most_a_hundred(self, client: httpx.Client) -> None:
        for _ in range(100):
            inject(client, "status", operation="listOffers")
        response = client.post("/sandbox/faults", json={"kind": "status"})
        assert response.status_code == 429
        assert "100 faults" in response.json()["error"]["message"]

    @in_turn(
        ("body", "problem"),
        [
            ({"kind": "latency", "status": 503}, "'latency' cannot have 'status'"),
            ({"kind": "patch"}, "'patch' needs a 'patch'"),
            ({"kind": "patch", "patch": {}, "when": "before"}, "'when' must be 'after'"),
            ({"kind": "status", "delay": "PT1S"}, "'status' cannot have 'delay'"),
            ({"kind": "drip", "upTo": "PT1S"}, "'drip' cannot have 'upTo'"),
            ({"kind": "latency", "delay": "PT3S", "upTo": "PT1S"}, "'upTo' must not be shorter"),
            ({"kind": "truncate", "when": "before"}, "'when' must be 'after'"),
            ({"kind": "error", "status": 418}, "No operation declares an error 418"),
            (
                {"kind": "error", "status": 404, "operation": "listInvoices"},
                "listInvoices declares no error 404; use kind 'status', which can return any",
            ),
            ({"kind": "status", "operation": "getHealth"}, "getHealth needs no key"),
            ({"kind": "status", "body": {}}, "'status' cannot have 'body'; only 'response' can"),
            ({"kind": "response", "body": {}}, "'response' needs an 'operation'"),
        ],
        ids=lambda value: None if isinstance(value, str) else "-".join(map(str, value.values())),
    )
    def test_nonsense(self, client: httpx.Client, body: Mapping[str, Any], problem: str) -> None:
        response = client.post("/sandbox/faults", json=body)
        assert response.status_code == 409
        assert problem in response.json()["error"]["message"]
        assert faults(client) == []

    @pytest.mark.parametrize(
        ("members", "problem"),
        [
            ({"status": 418}, "getInvoice declares no response 418, only 200, 400"),
            ({"body": {"data": {}}}, "mode is required"),
            ({"body": {"data": [], "mode": "sandbox_mock"}}, "data must be an object"),
            ({"status": 404, "body": {"data": {}, "mode": "sandbox_mock"}}, "error is required"),
            (
                {"headers": {"Content-Length": "1"}},
                "sets the header Content-Length",
            ),
            ({"headers": {"A b": "1"}}, "headers"),
            (
                {"status": 429, "headers": {"retry-after": "soon"}},
                "not a 429 of getInvoice: the header Retry-After must be a whole number",
            ),
            ({"status": 429, "headers": {"retry-after": "7"}}, None),
            ({"headers": {"A": "1\r\nB: 2"}}, "headers"),
            ({"headers": {"A": "x" * 4000, "B": "x" * 4000}}, None),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_response_follows_the_contract(
        self, client: httpx.Client, members: Mapping[str, Any], problem: str | None
    ) -> None:
        fault = {"kind": "response", "operation": "getInvoice", **members}
        response = client.post("/sandbox/faults", json=fault)
        if problem is None:
            assert response.status_code == 201
        else:
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (400, "invalid_request")
            assert problem in error["message"]
            assert faults(client) == []

    @in_turn(
        "body",
        [
            {},
            {"kind": "explode"},
            {"kind": "status", "operation": "noSuchOperation"},
            {"kind": "status", "status": 199},
            {"kind": "status", "count": 0},
            {"kind": "status", "probability": 1.1},
            {"kind": "status", "when": "during"},
            {"kind": "status", "colour": "red"},
            {"kind": "latency", "delay": "2s"},
        ],
        ids=json.dumps,
    )
    def test_what_the_contract_does_not_know(self, client: httpx.Client, body: Any) -> None:
        response = client.post("/sandbox/faults", json=body)
        assert response.status_code == 400
        assert "/sandbox/openapi.json" in response.json()["error"]["message"]
        assert faults(client) == []

    def test_the_control_endpoints_are_never_covered(self, client: httpx.Client) -> None:
        for kind in ("status", "reset", "latency"):
            inject(client, kind, count=None)
        for path in ("clock", "faults", "requests", "workspaces", "scenarios", "health"):
            assert client.get(f"/sandbox/{path}").status_code == 200
        assert client.post("/sandbox/reset").status_code == 200

    def test_another_workspace_is_never_changed(
        self, server: Running, client: httpx.Client
    ) -> None:
        with server.client(server.new_workspace()) as other:
            inject(other, "status", count=None)
            assert statuses(client, 3) == [200, 200, 200]
            assert faults(client) == []
            assert statuses(other, 3) == [503, 503, 503]

    def test_reset_removes_them(self, client: httpx.Client) -> None:
        inject(client, "status", count=None)
        client.post("/sandbox/reset")
        assert faults(client) == []
        assert statuses(client, 1) == [200]

    def test_a_snapshot_keeps_them(self, client: httpx.Client) -> None:
        kept = inject(client, "status", count=2)
        snapshot = client.post("/sandbox/snapshots").json()["data"]["id"]
        assert statuses(client, 3) == [503, 503, 200]
        inject(client, "status", status=500)
        client.post(f"/sandbox/snapshots/{snapshot}/restore")
        assert faults(client) == [kept]
        assert statuses(client, 3) == [503, 503, 200]


class TestOrderOfChecks:
    def test_what_is_rejected_before_spends_no_fault(self, client: httpx.Client) -> None:
        kept = inject(client, "status", operation="listApiKeys")
        assert client.get("/api/nothing").status_code == 404
        assert client.put("/api/developer/api-keys").status_code == 405
        bad = {"Authorization": "Bearer nothing"}
        assert client.get("/api/developer/api-keys", headers=bad).status_code == 401
        body = {"scopes": ["invoices:read"]}
        weak = client.post("/api/developer/api-keys", json=body).json()["data"]["secret"]
        headers = {"Authorization": f"Bearer {weak}"}
        assert client.get("/api/developer/api-keys", headers=headers).status_code == 403
        assert faults(client) == [kept]
        assert client.get("/api/developer/api-keys").status_code == 503

    def test_the_rate_limit_comes_first(self) -> None:
        with serving(replace(FROZEN, rate_limit=2)) as running, running.client() as client:
            inject(client, "status", count=None)
            assert statuses(client, 4) == [503, 503, 429, 429]
            assert faults(client)[0]["fired"] == 2

    def test_a_fault_comes_before_validation(self, client: httpx.Client) -> None:
        inject(client, "status", operation="createInvoice")
        assert client.post("/api/invoices", json={}).status_code == 503
        assert client.post("/api/invoices", json={}).status_code == 400


@contextmanager
def serving_responses(folder: Path, example: Any) -> Iterator[httpx.Client]:
    """A client of a contract that returns ``example`` at one path, and no body at another."""
    media = {"application/json": {"example": example, "schema": {}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Values", "version": "1"},
        "security": [{"key": []}],
        "paths": {
            "/value": {"get": {"responses": {"200": {"description": "x", "content": media}}}},
            "/nothing": {"get": {"responses": {"204": {"description": "x"}}}},
        },
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
    }
    file = folder / "contract.json"
    file.write_text(json.dumps(document))
    with serving(replace(FROZEN, contract=file)) as running, running.client() as client:
        yield client


@pytest.mark.parametrize(
    ("members", "header"),
    [({}, "1"), ({"retryAfter": "PT2.5S"}, "3"), ({"retryAfter": None}, None)],
    ids=["default", "rounded up", "without it"],
)
def test_retry_after_of_a_fault(
    client: httpx.Client, members: dict[str, Any], header: str | None
) -> None:
    inject(client, "status", **members)
    assert client.get("/api/invoices").headers.get("retry-after") == header


def test_a_gateway_returns_an_html_page(client: httpx.Client) -> None:
    inject(client, "html", status=504)
    response = client.get("/api/invoices")
    assert response.status_code == 504
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.text.startswith("<!doctype html>")


def test_a_patch_changes_adds_and_removes_members_of_a_response(client: httpx.Client) -> None:
    plain = client.get("/api/invoices/inv_sandbox_0001").json()
    inject(client, "patch", patch={"data": {"status": "Curated", "future": [1], "dueDate": None}})
    patched = client.get("/api/invoices/inv_sandbox_0001").json()
    assert patched["data"].pop("future") == [1]
    assert patched["data"].pop("status") == "Curated"
    assert patched["data"] == {
        name: value for name, value in plain["data"].items() if name not in {"status", "dueDate"}
    }
    assert client.get("/api/invoices/inv_sandbox_0001").json() == plain


def test_a_patch_leaves_an_error_response_as_it_is(client: httpx.Client) -> None:
    inject(client, "patch", patch={"data": {"status": "Curated"}})
    response = client.get("/api/invoices/inv_sandbox_9999")
    assert (response.status_code, "data" in response.json()) == (404, False)


class TestResponse:
    def test_the_next_request_gets_it_and_no_other(self, client: httpx.Client) -> None:
        made = create(client).json()["data"]
        body = {"data": {**made, "status": "Paid", "amount": 1.50}, "mode": "sandbox_mock"}
        injected = inject(
            client,
            "response",
            operation="getInvoice",
            body=body,
            headers={"ETag": '"7"', "X-Request-Id": "mine"},
        )
        assert (injected["body"], injected["headers"]["ETag"]) == (body, '"7"')
        path = f"/api/invoices/{made['id']}"
        given = client.get(path)
        assert (given.status_code, given.json(), given.headers["etag"]) == (200, body, '"7"')
        assert given.headers["content-type"] == "application/json"
        assert given.headers.get_list("x-request-id") != ["mine"]
        assert len(given.headers.get_list("x-request-id")) == 1
        assert client.get(path).json() == {"data": made, "mode": "sandbox_mock"}

    def test_numbers_keep_their_digits(self, client: httpx.Client) -> None:
        text = b'{"data":[{"amount":1.10,"total":12345678901234567890.5}],"mode":"sandbox_mock"}'
        fault = b'{"kind":"response","operation":"listOffers","body":' + text + b"}"
        headers = {"Content-Type": "application/json"}
        assert client.post("/sandbox/faults", content=fault, headers=headers).status_code == 201
        assert client.get("/api/offers").content == text

    def test_a_scenario_may_have_one(self, tmp_path: Path) -> None:
        (tmp_path / "own.yaml").write_text(
            "name: own\npurpose: A response of its own.\nfaults:\n- operation: listOffers\n"
            "  kind: response\n  headers: {X-Own: one}\n"
            "  body: {data: [{id: off_1}], mode: sandbox_mock}\n"
        )
        settings = replace(FROZEN, scenarios=tmp_path, scenario="own")
        with serving(settings) as running, running.client() as client:
            given = client.get("/api/offers")
            assert (given.json()["data"], given.headers["x-own"]) == ([{"id": "off_1"}], "one")

    def test_a_scenario_may_have_no_other_than_the_contract_has(self, tmp_path: Path) -> None:
        (tmp_path / "own.yaml").write_text(
            "name: own\npurpose: A response of its own.\nfaults:\n- operation: listOffers\n"
            "  kind: response\n  body: {data: {}}\n"
        )
        with pytest.raises(ProjectError, match="not a 200 of listOffers: mode is required"):
            load_project(default_project(), tmp_path)
