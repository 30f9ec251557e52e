"""What only grows has a maximum: the oldest records are dropped, and counted."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from invoice_sandbox.http import idempotency
from invoice_sandbox.state import credentials
from invoice_sandbox.webhooks import attempts, outbox
from tests.receivers import deliveries, receiving, response
from tests.scenario_run import DATED, data
from tests.support import serving
from tests.test_capacity import HOOK, invoice
from tests.test_uploads import FILE, address

LOGIN = {"email": "seller@demo.example", "password": "demo-password"}


def dropped(client: httpx.Client) -> Any:
    """How many records the client's own workspace has dropped."""
    shown = data(client.get("/sandbox/workspaces"))
    return next(one for one in shown if one["current"]).get("dropped")


def test_the_oldest_audit_events_are_dropped_and_counted(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "KEPT", 3)
    made = [data(invoice(client, number), 201)["id"] for number in range(5)]
    events = data(client.get("/api/audit-log"))
    assert [event["targets"][0]["id"] for event in events] == made[:1:-1]
    assert dropped(client) == {"audit_events": 2, "events": 2}


def test_nothing_is_counted_as_long_as_nothing_is_dropped(client: httpx.Client) -> None:
    assert invoice(client, 1).status_code == 201
    assert dropped(client) is None


@pytest.mark.parametrize(("is_accepted", "left"), [(True, 2), (False, 4)])
def test_the_oldest_delivery_is_dropped_if_it_is_finished(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, is_accepted: bool, left: int
) -> None:
    monkeypatch.setattr(outbox, "KEPT", 2)
    url = data(client.get("/sandbox/inbox"))["url"] if is_accepted else "http://127.0.0.1:9/hooks"
    client.post("/api/webhooks", json={**HOOK, "url": url})
    for number in range(4):
        invoice(client, number)
        client.post("/sandbox/clock/advance", json={"by": "PT1S"})
    assert len(deliveries(client)) == left


def test_a_delivery_whose_event_was_dropped_is_not_sent_again(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "KEPT", 1)
    with receiving(response(503)) as receiver:
        client.post("/api/webhooks", json={**HOOK, "url": receiver.url})
        invoice(client, 1)
        client.post("/sandbox/clock/advance", json={"by": "PT0S"})
        receiver.responses(response())
        for number in (2, 3):
            invoice(client, number)
            client.post("/sandbox/clock/advance", json={"by": "P1D"})
        sent = [one.id for one in receiver.messages]
    waiting, sent_last = deliveries(client)
    assert len(sent) == 3
    assert (waiting["eventId"], waiting["status"], waiting["attempt"]) == (sent[0], "Failed", 1)
    assert (sent_last["eventId"], sent_last["status"]) == (sent[2], "Delivered")


def test_a_delivery_has_its_last_attempts(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "KEPT_ATTEMPTS", 2)
    client.post("/api/webhooks", json={**HOOK, "url": "http://127.0.0.1:9/hooks"})
    invoice(client, 1)
    client.post("/sandbox/clock/advance", json={"by": "P30D"})
    [delivery] = [one for one in deliveries(client) if one["eventType"] == "invoice.registered"]
    assert delivery["attempt"] > 2
    assert [one["attempt"] for one in delivery["attempts"]] == [
        delivery["attempt"] - 1,
        delivery["attempt"],
    ]


def test_the_oldest_stored_response_is_dropped_and_its_request_runs_again(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "KEPT_RESPONSES", 2)

    def create(key: str) -> httpx.Response:
        body = {**DATED, "invoiceNumber": key}
        return client.post("/api/invoices", json=body, headers={"Idempotency-Key": key})

    first, *_ = [create(key).json()["data"]["id"] for key in ("a", "b", "c")]
    assert create("c").headers["idempotent-replayed"] == "true"
    assert create("a").json()["data"]["id"] != first
    assert create("c").headers["idempotent-replayed"] == "true"
    assert dropped(client) == {"idempotency_order": 2}


def test_dropping_an_expired_response_leaves_the_newer_one_of_its_key(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "KEPT_RESPONSES", 2)

    def create(key: str) -> httpx.Response:
        body = {**DATED, "invoiceNumber": key}
        return client.post("/api/invoices", json=body, headers={"Idempotency-Key": key})

    create("a")
    client.post("/sandbox/clock/advance", json={"by": "P2D"})
    again = create("a").json()["data"]["id"]
    create("b")
    assert create("a").json()["data"]["id"] == again


def test_the_oldest_session_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "MAX_OPEN", 2)
    with serving() as server, ExitStack() as stack:
        client = stack.enter_context(server.client())
        browsers = [stack.enter_context(server.client(None)) for _ in range(3)]
        for browser in browsers:
            assert browser.post("/api/auth/login", json=LOGIN).status_code == 200
            client.post("/sandbox/clock/advance", json={"by": "PT1S"})
        statuses = [browser.get("/api/auth/session").status_code for browser in browsers]
        assert statuses == [401, 200, 200]
        assert dropped(client) == {"sessions": 1}


def test_the_oldest_upload_address_ends_and_the_inbox_stays(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "MAX_OPEN", 2)
    inbox = data(client.get("/sandbox/inbox"))["url"]
    uploads = []
    for _ in range(3):
        uploads.append(address(client))
        client.post("/sandbox/clock/advance", json={"by": "PT1S"})
    statuses = [
        client.put(one["url"], content=FILE, headers=one["headers"]).status_code for one in uploads
    ]
    assert statuses == [404, 200, 200]
    assert dropped(client) == {"capabilities": 1}
    assert client.post(inbox, json={}).status_code != 404
