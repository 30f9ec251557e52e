"""Responses go wrong when, how and as often as was asked for, and never otherwise."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from invoice_sandbox.http.send import ALTERATIONS
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.loader import default_project, load_project
from invoice_sandbox.scenarios.checks import SCHEMA
from invoice_sandbox.scenarios.faults import ALTER_RESPONSE, REPLACE_RESPONSE, TAKE_TIME
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.scenario_run import INVOICE, until
from tests.support import FROZEN, PATIENCE, Running, serving
from tests.toy import contract, serving_contract

CONTROL_CONTRACT = Path(__file__).parents[1] / "invoice_sandbox" / "control" / "openapi.yaml"


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


def read_response(raw: socket.socket) -> bytes:
    """One response, of a connection that stays open."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += more(raw)
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length
    while len(body) < int(length[1]):
        body += more(raw)
    return head + body


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

    def test_two_seconds_unless_given(self, server: Running, client: httpx.Client) -> None:
        assert inject(client, "latency")["delay"] == "PT2S"
        before = server.system_clock.seconds
        client.get("/api/invoices")
        assert server.system_clock.seconds - before == 2

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

    @pytest.mark.process
    def test_real_time_passes(self, started: Started) -> None:
        with started.client() as client:
            inject(client, "latency", delay="PT0.25S")
            response = client.get("/api/invoices")
        assert response.elapsed.total_seconds() >= 0.25


STATUSES = {
    200: None,
    202: None,
    204: None,
    205: None,
    302: None,
    304: None,
    400: "invalid_request",
    401: "authentication_required",
    403: "insufficient_scope",
    404: "resource_not_found",
    409: "invalid_request",
    418: "invalid_request",
    429: "rate_limit_exceeded",
    500: "internal_error",
    502: "internal_error",
    503: "service_unavailable",
    599: "internal_error",
}


class TestStatus:
    @pytest.mark.parametrize("status", STATUSES)
    def test_any_status_gets_a_response(self, client: httpx.Client, status: int) -> None:
        inject(client, "status", status=status)
        response = client.get("/api/invoices")
        assert response.status_code == status
        if status in {204, 205, 304}:
            assert response.content == b""
        else:
            assert response.json()["mode"] == "sandbox_mock"
            assert response.headers["content-type"] == "application/json"

    @pytest.mark.parametrize("status", [status for status, code in STATUSES.items() if code])
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

    def test_503_unless_given(self, client: httpx.Client) -> None:
        inject(client, "status")
        assert statuses(client, 2) == [503, 200]

    def test_before_nothing_is_done(self, client: httpx.Client) -> None:
        inject(client, "status")
        assert create(client).status_code == 503
        assert created(client) == 0

    def test_after_it_is_done_all_the_same(self, client: httpx.Client) -> None:
        inject(client, "status", when="after")
        assert create(client).status_code == 503
        assert created(client) == 1

    def test_after_an_error_it_gets_a_response_too(self, client: httpx.Client) -> None:
        inject(client, "status", when="after")
        assert client.get("/api/invoices/nothing").status_code == 503

    def test_an_integer_may_be_written_with_a_fraction(self, client: httpx.Client) -> None:
        """To JSON Schema 503.0 is an integer."""
        body = b'{"kind": "status", "status": 503.0, "count": 2.0}'
        headers = {"Content-Type": "application/json"}
        made = client.post("/sandbox/faults", content=body, headers=headers).json()["data"]
        assert (made["status"], made["count"]) == (503, 2)
        assert statuses(client, 3) == [503, 503, 200]

    def test_the_next_request_on_the_connection_gets_a_response(self, client: httpx.Client) -> None:
        """A status without a body leaves nothing on the wire that would be taken for a response."""
        for status in (204, 205, 304):
            inject(client, "status", status=status)
        with connection(client) as raw:
            wanted = request(client, "GET", "/api/invoices")
            raw.sendall(wanted * 3 + wanted.replace(b"HTTP/1.1", b"HTTP/1.1\r\nConnection: close"))
            received = read_all(raw)
        assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"204", b"205", b"304", b"200"]
        assert b"content-length" not in received.partition(b"HTTP/1.1 205")[0].lower()


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

    @pytest.mark.parametrize("when", ["before", "after"])
    def test_httpx_sees_a_broken_connection(self, client: httpx.Client, when: str) -> None:
        inject(client, "reset", when=when)
        with pytest.raises(httpx.ReadError):
            create(client)
        assert created(client) == (0 if when == "before" else 1)

    def test_what_was_pipelined_behind_it_is_not_done(self, client: httpx.Client) -> None:
        inject(client, "reset", operation="createInvoice", when="after")
        with connection(client) as raw:
            one = request(client, "POST", "/api/invoices", INVOICE)
            raw.sendall(one * 3)
            with pytest.raises(ConnectionResetError):
                read_all(raw)
        assert created(client) == 1

    def test_what_was_sent_before_arrives(self, client: httpx.Client) -> None:
        """Two requests on one connection; only the second one meets the fault."""
        inject(client, "reset", operation="createInvoice")
        with connection(client) as raw:
            raw.sendall(request(client, "GET", "/api/invoices"))
            assert read_response(raw).startswith(b"HTTP/1.1 200")
            raw.sendall(request(client, "POST", "/api/invoices", INVOICE))
            with pytest.raises(ConnectionResetError):
                read_all(raw)

    def test_other_connections_do_not_notice(self, client: httpx.Client) -> None:
        inject(client, "reset", operation="createInvoice", count=20)
        with connection(client) as kept:
            wanted = request(client, "GET", "/api/offers")
            for _ in range(20):
                with pytest.raises(httpx.ReadError):
                    create(client)
                kept.sendall(wanted)
                assert read_response(kept).startswith(b"HTTP/1.1 200")

    def test_head_is_rejected_before_it(self, client: httpx.Client) -> None:
        """HEAD is no method of the contract, so no fault is spent on it."""
        fault = inject(client, "reset")
        assert client.head("/api/invoices").status_code == 405
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

    def test_truncate_is_an_error_to_a_client(self, client: httpx.Client) -> None:
        inject(client, "truncate")
        with pytest.raises(httpx.RemoteProtocolError, match="IncompleteRead"):
            create(client)
        assert created(client) == 1

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

    def test_drip_takes_its_time_also_when_a_pause_was_too_long(
        self, server: Running, client: httpx.Client
    ) -> None:
        inject(client, "drip", delay="PT10S")
        clock = server.system_clock
        before, sleepers = clock.seconds, clock.sleepers
        clock.is_running.clear()
        try:
            with client.stream("GET", "/api/invoices") as response:
                until(lambda: clock.sleepers > sleepers, "the server waits before the first piece")
                clock.seconds += 5
                clock.is_running.set()
                response.read()
        finally:
            clock.is_running.set()
        assert clock.seconds - before == pytest.approx(10)

    def test_drip_takes_its_time_for_a_few_bytes_too(self, tmp_path: Path) -> None:
        with serving_responses(tmp_path, 12) as client:
            inject(client, "drip", delay="PT0.2S")
            response = client.get("/value")
        assert response.content == b"12"

    def test_an_error_is_altered_like_any_response(self, client: httpx.Client) -> None:
        inject(client, "malformed", operation="getInvoice")
        response = client.get("/api/invoices/nothing")
        assert response.status_code == 404
        with pytest.raises(json.JSONDecodeError):
            response.json()

    @pytest.mark.parametrize("kind", ["truncate", "malformed", "drip", "content-type"])
    def test_long_bodies(self, client: httpx.Client, kind: str) -> None:
        """Far more than what fits into a socket's buffer."""
        for _ in range(12):
            client.post("/api/invoices", json={**INVOICE, "sellerId": "x" * 200_000})
        inject(
            client, kind, operation="listInvoices", **({"delay": "PT0S"} if kind == "drip" else {})
        )
        if kind == "truncate":
            with pytest.raises(httpx.RemoteProtocolError):
                client.get("/api/invoices")
        else:
            response = client.get("/api/invoices")
            assert len(response.content) == int(response.headers["content-length"]) > 2_000_000
        assert client.get("/api/invoices").json()["mode"] == "sandbox_mock"

    @pytest.mark.parametrize("kind", ["truncate", "malformed", "drip", "content-type", "reset"])
    def test_a_response_without_a_body(self, tmp_path: Path, kind: str) -> None:
        """There is nothing to corrupt, and nothing else goes wrong either."""
        with serving_responses(tmp_path, 12) as client:
            inject(client, kind, **({"delay": "PT0S"} if kind == "drip" else {}))
            if kind == "reset":
                with pytest.raises(httpx.ReadError):
                    client.get("/nothing")
            else:
                assert client.get("/nothing").content == b""
            assert client.get("/value").json() == 12


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

    def test_the_same_seed_gives_the_same_outcomes(self, server: Running) -> None:
        def outcomes(seed: int) -> list[int]:
            with server.client(server.new_workspace(seed)) as client:
                inject(client, "status", count=None, probability=0.5)
                return statuses(client, 40)

        assert outcomes(11) == outcomes(11) != outcomes(12)

    def test_a_share_of_the_requests(self, server: Running) -> None:
        with server.client(server.new_workspace(5)) as client:
            inject(client, "status", count=None, probability=0.25)
            assert 50 <= statuses(client, 300).count(503) <= 100

    def test_never_and_always(self, client: httpx.Client) -> None:
        inject(client, "status", count=None, probability=0)
        assert statuses(client, 20) == [200] * 20
        inject(client, "status", count=None, probability=1)
        assert statuses(client, 20) == [503] * 20

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

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            ({"kind": "latency", "status": 503}, "'latency' cannot have 'status'"),
            ({"kind": "reset", "status": 503}, "'reset' cannot have 'status'"),
            ({"kind": "reset", "retryAfter": "PT2S"}, "'reset' cannot have 'retryAfter'"),
            ({"kind": "patch"}, "'patch' needs a 'patch'"),
            ({"kind": "status", "patch": {}}, "'status' cannot have 'patch'; only 'patch' can"),
            ({"kind": "patch", "patch": {}, "when": "before"}, "'when' must be 'after'"),
            ({"kind": "status", "delay": "PT1S"}, "'status' cannot have 'delay'"),
            ({"kind": "malformed", "delay": "PT1S"}, "'malformed' cannot have 'delay'"),
            ({"kind": "drip", "upTo": "PT1S"}, "'drip' cannot have 'upTo'"),
            ({"kind": "latency", "upTo": "PT1S"}, "'upTo' must not be shorter than 'delay'"),
            ({"kind": "latency", "delay": "PT3S", "upTo": "PT1S"}, "'upTo' must not be shorter"),
            ({"kind": "truncate", "when": "before"}, "'when' must be 'after'"),
            ({"kind": "malformed", "when": "before"}, "'when' must be 'after'"),
            ({"kind": "drip", "when": "before"}, "'when' must be 'after'"),
            ({"kind": "content-type", "when": "before"}, "'when' must be 'after'"),
            ({"kind": "error", "status": 418}, "No operation declares an error 418"),
            ({"kind": "error", "status": 200}, "No operation declares an error 200"),
            (
                {"kind": "error", "status": 404, "operation": "listInvoices"},
                "listInvoices declares no error 404; use kind 'status', which can return any",
            ),
            ({"kind": "status", "operation": "getHealth"}, "getHealth needs no key"),
            ({"kind": "status", "body": {}}, "'status' cannot have 'body'; only 'response' can"),
            ({"kind": "reset", "headers": {}}, "'reset' cannot have 'headers'"),
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

    def test_a_response_has_a_limit(self, client: httpx.Client) -> None:
        body = {"data": [{"note": "x" * 65_536}], "mode": "sandbox_mock"}
        fault = {"kind": "response", "operation": "listOffers", "body": body}
        response = client.post("/sandbox/faults", json=fault)
        assert response.status_code == 400
        assert "longer than 65536 bytes" in response.json()["error"]["message"]

    @pytest.mark.parametrize(
        "body",
        [
            {},
            [],
            {"kind": "explode"},
            {"kind": None},
            {"kind": "status", "operation": "noSuchOperation"},
            {"kind": "status", "operation": "listFaults"},
            {"kind": "status", "operation": None},
            {"kind": "status", "status": 199},
            {"kind": "status", "status": 600},
            {"kind": "status", "status": "503"},
            {"kind": "status", "count": 0},
            {"kind": "status", "count": -1},
            {"kind": "status", "count": 1.5},
            {"kind": "status", "probability": 1.1},
            {"kind": "status", "probability": True},
            {"kind": "status", "when": "during"},
            {"kind": "status", "colour": "red"},
            {"kind": "latency", "delay": 2},
            {"kind": "latency", "delay": "2s"},
            {"kind": "latency", "delay": "PT1000S"},
            {"kind": "latency", "delay": "P1D"},
            {"kind": "latency", "delay": "PT-1S"},
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

    def test_the_project_s_control_endpoints_are_never_covered(self, client: httpx.Client) -> None:
        invoice = create(client).json()["data"]["id"]
        inject(client, "status", count=None)
        body = {"trigger": "start-verification"}
        response = client.post(f"/sandbox/invoices/{invoice}/transition", json=body)
        assert response.status_code == 200

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

    def test_a_body_that_is_too_large_comes_first(self, client: httpx.Client) -> None:
        inject(client, "status", operation="createInvoice")
        assert client.post("/api/invoices", content=b" " * 300_000).status_code == 413
        assert len(faults(client)) == 1


BROKEN = """
openapi: 3.1.0
info: {title: Broken, version: "1"}
security: [{key: []}]
paths:
  /broken:
    get:
      operationId: getBroken
      responses:
        '200':
          description: An object with a number.
          content:
            application/json:
              schema:
                type: object
                properties: {data: {type: integer}}
components:
  securitySchemes:
    key: {type: http, scheme: bearer}
"""


def test_only_injected_responses_are_exempt_from_the_contract(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An undeclared status is fine when it was asked for; the handler's own response is checked."""
    (tmp_path / "openapi").mkdir()
    (tmp_path / "openapi" / "openapi.yaml").write_text(BROKEN)
    (tmp_path / "handlers").mkdir()
    (tmp_path / "handlers" / "__init__.py").write_text("")
    handler = "async def get_broken(call):\n    return 'no number'\n"
    (tmp_path / "handlers" / "things.py").write_text(handler)
    with serving(replace(FROZEN, project=tmp_path)) as running, running.client() as client:
        caplog.clear()
        inject(client, "status", status=418)
        inject(client, "status", status=418, when="after")
        assert statuses(client, 1, "/broken") == [418]
        assert caplog.records == []
        assert statuses(client, 1, "/broken") == [500]
        assert "getBroken" in caplog.text
        assert statuses(client, 1, "/broken") == [500]


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


@dataclass(frozen=True)
class Started:
    """A server process in real time, whose log can be read."""

    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def client(self) -> httpx.Client:
        """A client with the demo key."""
        headers = {"Authorization": f"Bearer {DEMO_KEY}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE)

    def stop(self) -> str:
        """End it as a user would, and read its log."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0
        return self.log.read_text()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """A server as a user starts it."""
    log = tmp_path / "stderr.log"
    command = [sys.executable, "-m", "invoice_sandbox", "serve", "--port", "0"]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [*command, "--rate-limit", "off", "--scenario", "manual"],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=Path(__file__).parents[1],
            env={**os.environ, "PYTHONWARNINGS": "error::ResourceWarning"},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], PATIENCE)[0], "no ready line"
            found = re.search(r"http://\S+:\d+", process.stdout.readline().decode())
            assert found, log.read_text()
            yield Started(process, found[0], log)
        finally:
            process.kill()


@pytest.mark.process
def test_no_fault_is_an_error_of_the_server(started: Started) -> None:
    """Whatever goes wrong on purpose, the log says nothing, and the server ends well."""
    with started.client() as client:
        for kind in ("reset", "truncate", "malformed", "drip", "content-type", "latency"):
            waits = {"delay": "PT0.05S"} if kind in {"drip", "latency"} else {}
            for path in ("/api/invoices", "/api/invoices/nothing"):
                inject(client, kind, **waits)
                try:
                    client.get(path)
                except httpx.TransportError:
                    assert kind in {"reset", "truncate"}
        for kind in ("status", "error", "reset", "latency"):
            for when in ("before", "after"):
                inject(client, kind, when=when, **({"delay": "PT0S"} if kind == "latency" else {}))
                try:
                    create(client)
                except httpx.TransportError:
                    assert kind == "reset"
        assert faults(client) == []
        assert client.get("/sandbox/health").status_code == 200
    assert started.stop() == ""


LEAVING = [(kind, leave) for kind in ("drip", "latency") for leave in ("close", "reset")]


@pytest.mark.process
def test_nothing_is_left_behind(started: Started) -> None:
    """Clients leave in the middle, or send more on a connection that ends: nothing hangs.

    So the server can be stopped at once, and its log is empty.
    """
    with started.client() as client:
        for kind, leave in LEAVING:
            inject(client, kind, delay="PT60S" if kind == "drip" else "PT0.3S")
            with connection(client) as raw:
                raw.sendall(request(client, "GET", "/api/invoices"))
                if kind == "drip":
                    assert raw.recv(100).startswith(b"HTTP/1.1 200")
                if leave == "reset":
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        for kind in ("reset", "truncate", "drip"):
            inject(client, kind, **({"delay": "PT60S"} if kind == "drip" else {}))
            with connection(client) as raw, suppress(ConnectionResetError):
                raw.sendall(request(client, "GET", "/api/invoices") * 3)
                assert raw.recv(100).startswith(b"HTTP/1.1 200")
        assert faults(client) == []
        assert statuses(client, 1) == [200]
    assert started.stop() == ""


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


def test_a_patch_leaves_a_response_that_is_no_json_as_it_is(tmp_path: Path) -> None:
    document = contract({})
    media = {"application/json": {"example": {}}, "text/plain": {"example": "a text"}}
    document["paths"]["/check"]["post"]["responses"]["200"] = {"description": "x", "content": media}
    with serving_contract(tmp_path, document) as client:
        for status, text in ((204, ""), (200, "a text")):
            inject(client, "patch", patch={"future": 1})
            headers = {"Prefer": f"code={status}", "Accept": "text/plain"}
            response = client.post("/check", json={}, headers=headers)
            assert (response.status_code, response.text) == (status, text)


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

    def test_without_a_body_it_is_that_of_the_contract(self, client: httpx.Client) -> None:
        inject(client, "response", operation="getInvoice", status=404, headers={"X-A": "b"})
        inject(client, "response", operation="listInvoices")
        given = client.get("/api/invoices/inv_sandbox_0001")
        assert (given.status_code, given.headers["x-a"]) == (404, "b")
        assert given.json()["error"]["code"] == "resource_not_found"
        preferred = client.get("/api/invoices", headers={"Prefer": "code=200"})
        assert client.get("/api/invoices").status_code == 200
        assert preferred.json()["data"]

    def test_after_the_request_its_changes_are_kept(self, client: httpx.Client) -> None:
        inject(client, "response", operation="createInvoice", status=400, when="after")
        assert create(client).status_code == 400
        assert created(client) == 1

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


def test_scenario_files_have_the_fault_types_of_the_control_api(server: Running) -> None:
    declared = httpx.get(f"{server.url}/sandbox/openapi.json", timeout=PATIENCE).json()[
        "components"
    ]["schemas"]
    in_files = json.loads(SCHEMA.read_text())["$defs"]["fault"]["properties"]
    assert in_files["kind"]["enum"] == declared["FaultKind"]["enum"]


def test_every_fault_type_of_the_contract_has_its_effect_in_a_table() -> None:
    declared = load_document(CONTROL_CONTRACT)["components"]["schemas"]["FaultKind"]["enum"]
    effects = [{"latency", "patch"}, REPLACE_RESPONSE, ALTERATIONS]
    assert sorted(declared) == sorted(kind for kinds in effects for kind in kinds)
    assert (ALTERATIONS.keys() - {"reset"}) | {"patch"} == ALTER_RESPONSE
    assert {*declared} >= TAKE_TIME
