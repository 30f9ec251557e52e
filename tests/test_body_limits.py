"""Bodies cost nothing before the caller is known, and only so much memory at a time."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from select import select

import pytest

from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.http.read import BODIES_OF_A_WORKSPACE, MAX_PARSED
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.attack.wire import Response, Wire
from tests.scenario_run import DATED, until
from tests.support import FROZEN, PATIENCE, Running, serving

BODY = 256 * 1024
MORE_THAN_ITS_SHARE = BODIES_OF_A_WORKSPACE // BODY + 2


@pytest.fixture
def server() -> Iterator[Running]:
    """A server of its own, as a test fills what all its callers share."""
    with serving() as running:
        yield running


def head(method: str, path: str, *lines: str, length: int = BODY) -> bytes:
    """A request head with a body of ``length`` bytes to follow."""
    first = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}"]
    return "\r\n".join([*first, "Content-Type: application/json", *lines, "", ""]).encode()


def invoice_head(key: str, length: int = BODY) -> bytes:
    return head("POST", "/api/invoices", f"Authorization: Bearer {key}", length=length)


def response_to_head(server: Running, sent: bytes) -> Response:
    with Wire(server.port) as wire:
        wire.send(sent)
        return wire.response()


def test_a_request_without_a_valid_key_is_rejected_before_its_body_is_sent(server: Running) -> None:
    assert response_to_head(server, head("POST", "/api/invoices")).status == 401


def test_a_file_for_an_unknown_address_is_rejected_before_it_is_sent(server: Running) -> None:
    path = "/sandbox/uploads/x?expires=1&signature=x"
    response = response_to_head(server, head("PUT", path))
    assert response.status == 404
    assert b"no open upload with this address" in response.body


def test_a_missing_scope_is_reported_before_the_body_is_sent(server: Running) -> None:
    with server.client(server.new_workspace()) as client:
        made = client.post("/api/developer/api-keys", json={"name": "x", "scopes": ["offers:read"]})
    key = made.json()["data"]["secret"]
    assert response_to_head(server, invoice_head(key)).status == 403


def test_a_workspace_holds_only_its_share_of_bodies_in_flight(server: Running) -> None:
    key, other = server.new_workspace(), server.new_workspace()
    with ExitStack() as stack:
        wires = [stack.enter_context(Wire(server.port)) for _ in range(MORE_THAN_ITS_SHARE)]
        for wire in wires:
            wire.send(invoice_head(key) + b" " * (BODY - 1))
        full = first_response(wires)
        assert (full.status, full.headers["retry-after"]) == (503, "1")
        assert full.envelope_problem() is None
        assert rejected_for_its_content(server, other)
        assert not rejected_for_its_content(server, key)
    until(lambda: rejected_for_its_content(server, key), "it is read")


def first_response(wires: list[Wire]) -> Response:
    """The response on the connection that gets one; the others wait for the rest of a body."""
    ready, _, _ = select([one.socket for one in wires], [], [], 60)
    return next(one for one in wires if one.socket in ready).response()


def rejected_for_its_content(server: Running, key: str, length: int = BODY) -> bool:
    """Whether a whole body is read: it is only spaces."""
    return response_to_head(server, invoice_head(key, length) + b" " * length).status == 400


def test_what_a_request_does_happens_when_its_body_has_arrived() -> None:
    body = json.dumps(DATED).encode()
    settings = replace(FROZEN, clock=ClockState())
    with (
        serving(settings) as live,
        live.client() as client,
        socket.create_connection(("127.0.0.1", live.port), PATIENCE) as raw,
    ):
        key = f"Authorization: Bearer {DEMO_KEY}"
        raw.sendall(head("POST", "/api/invoices", key, "Expect: 100-continue", length=len(body)))
        assert raw.recv(65536).startswith(b"HTTP/1.1 100 ")
        live.system_clock.pass_seconds(3)
        raw.sendall(body)
        assert raw.recv(65536).startswith(b"HTTP/1.1 201 ")
        logged = client.get("/api/audit-log").json()["data"]
    assert {item["occurredAt"] for item in logged} == {"2026-11-23T09:30:03Z"}


def test_json_is_parsed_up_to_2_mib_whatever_the_document_says(tmp_path: Path) -> None:
    """Others wait while it is parsed and validated."""
    body = {"x-max-bytes": 4 * 1024 * 1024, "content": {"application/json": {}}}
    post = {"requestBody": body, "responses": {"204": {"description": "Done."}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Large", "version": "1"},
        "paths": {"/x": {"post": post}},
    }
    contract = tmp_path / "openapi.json"
    contract.write_text(json.dumps(document))
    with serving(replace(FROZEN, contract=contract)) as running, running.client(None) as client:
        headers = {"Content-Type": "application/json"}
        for size, status in ((MAX_PARSED, 204), (MAX_PARSED + 1, 413)):
            content = b"[" + b" " * (size - 2) + b"]"
            assert client.post("/x", content=content, headers=headers).status_code == status
