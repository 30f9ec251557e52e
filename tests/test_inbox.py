"""The built-in receiver: it takes in what it is sent, and judges it as a careful client would."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from invoice_sandbox.webhooks.attempts import signed_request
from tests.scenario_run import (
    INVOICE,
    advance,
    choose,
    data,
    error,
    make_workspace,
    restore,
    snapshot,
)
from tests.support import FROZEN, Running, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(replace(FROZEN, scenario="auto-progress")) as running:
        yield running


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    with server.client() as first:
        made = make_workspace(first)
    with server.client(made["key"]) as client:
        yield client


def inbox(client: httpx.Client) -> Any:
    return data(client.get("/sandbox/inbox"), 200)


def messages(client: httpx.Client) -> list[Any]:
    """What the inbox received, the first one first."""
    return list(reversed(inbox(client)["messages"]))


def subscribe(client: httpx.Client, **members: Any) -> Any:
    """The inbox as an endpoint."""
    body = {"url": inbox(client)["url"], **members}
    return data(client.post("/api/webhooks", json=body), 201)


def send(client: httpx.Client, secret: str, second: int, **changes: str) -> httpx.Response:
    """The response to a message that was signed with this secret, or changed since."""
    payload = {"id": "evt_1", "type": "invoice.verified"}
    request = signed_request({**payload, "payload": payload}, (secret,), second)
    body = changes.pop("body", request["body"])
    headers = {**request["headers"], **{k.replace("_", "-"): v for k, v in changes.items()}}
    headers = {name: value.encode("latin-1") for name, value in headers.items()}
    return client.post(inbox(client)["url"], content=body, headers=headers)


def now(server: Running) -> int:
    return int(server.system_clock.now().timestamp())


def test_at_first_it_is_empty_and_has_an_address(server: Running, client: httpx.Client) -> None:
    shown = inbox(client)
    assert (shown["messages"], shown["dropped"]) == ([], 0)
    assert shown["url"].startswith(f"{server.url}/sandbox/inbox/")
    assert inbox(client)["url"] == shown["url"]


def test_both_published_events_arrive_in_one_advance(client: httpx.Client) -> None:
    endpoint = subscribe(client)
    invoice = data(client.post("/api/invoices", json=INVOICE), 201)
    happened = advance(client, by="PT10S")["happened"]
    assert [one["do"] for one in happened if one["outcome"] == "done"].count("deliver") == 2
    first, second = messages(client)
    for message in (first, second):
        assert (message["verified"], message["problem"], message["duplicate"]) == (
            True,
            None,
            False,
        )
        assert message["endpointId"] == endpoint["id"]
        assert message["headers"]["user-agent"] == "InvoiceLiquiditySandbox-Webhooks/0.1.0"
    verified, received = json.loads(first["body"]), json.loads(second["body"])
    assert (verified["type"], received["type"]) == ("invoice.verified", "offer.received")
    assert verified["data"] == {**invoice, "status": "Verified"}
    assert received["data"] in data(client.get("/api/offers"))
    assert first["headers"]["webhook-id"] == verified["id"]


def test_a_message_has_the_instant_of_its_delivery(client: httpx.Client) -> None:
    subscribe(client)
    client.post("/api/invoices", json=INVOICE)
    advance(client, by="PT10S")
    instants = [one["receivedAt"] for one in messages(client)]
    assert instants == ["2026-11-23T09:30:02Z", "2026-11-23T09:30:06Z"]


def test_a_long_advance_in_virtual_time_leaves_signatures_valid() -> None:
    settings = replace(FROZEN, scenario="auto-progress", webhook_time="virtual")
    with serving(settings) as running, running.client() as client:
        subscribe(client, events=["*"])
        client.post("/api/invoices", json=INVOICE)
        happened = advance(client, by="P90D")["happened"]
        assert "failed" not in {one["outcome"] for one in happened}
        assert [one["problem"] for one in messages(client)] == [None] * len(messages(client))
        assert "offer.expired" in {json.loads(one["body"])["type"] for one in messages(client)}


def test_forgeries_are_kept_and_rejected(client: httpx.Client) -> None:
    subscribe(client, events=["invoice.verified"])
    choose(client, "webhook-bad-signature")
    client.post("/api/invoices", json=INVOICE)
    advance(client, by="PT10S")
    problems = [one["problem"] for one in messages(client)]
    wrong = "the signature is wrong"
    assert problems == [wrong, "the timestamp is too far from now", wrong, None]
    types = [one["type"] for one in messages(client)]
    assert types == ["invoice.verified", "invoice.verified", None, "invoice.verified"]
    (delivery,) = data(client.get("/api/webhooks"))["deliveries"]
    responses = [(one["variation"], one["responseStatus"]) for one in delivery["attempts"]]
    forged = ["bad-signature", "stale-timestamp", "changed-body"]
    assert responses == [*((one, 401) for one in forged), (None, 200)]


def test_what_comes_again_is_a_duplicate(client: httpx.Client) -> None:
    subscribe(client, events=["invoice.verified"])
    choose(client, "webhook-duplicate")
    client.post("/api/invoices", json=INVOICE)
    advance(client, by="PT10S")
    assert [(one["verified"], one["duplicate"]) for one in messages(client)] == [
        (True, False),
        (True, True),
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, None),
        ({"body": "{}"}, "the signature is wrong"),
        ({"webhook_id": "evt_2"}, "the signature is wrong"),
        ({"webhook_timestamp": "1795426201"}, "the signature is wrong"),
        ({"webhook_timestamp": "yesterday"}, "the signature is wrong"),
        ({"webhook_timestamp": "9" * 5000}, "the signature is wrong"),
        ({"webhook_timestamp": "\xb9\xb2"}, "the signature is wrong"),
        ({"webhook_signature": "v1,AAAA"}, "the signature is wrong"),
        ({"webhook_signature": "\xff"}, "the signature is wrong"),
        ({"webhook_signature": ""}, "the signature is wrong"),
    ],
)
def test_a_message_is_judged(
    server: Running, client: httpx.Client, changes: dict[str, str], problem: str | None
) -> None:
    secret = subscribe(client)["secret"]
    response = send(client, secret, 1795426200, **changes)
    assert response.status_code == (200 if problem is None else 401)
    assert [one["problem"] for one in messages(client)] == [problem]
    assert now(server) == 1795426200


@pytest.mark.parametrize(("off", "status"), [(300, 200), (-300, 200), (301, 401), (-301, 401)])
def test_a_timestamp_may_be_five_minutes_off(
    server: Running, client: httpx.Client, off: int, status: int
) -> None:
    secret = subscribe(client)["secret"]
    assert send(client, secret, now(server) + off).status_code == status


@pytest.mark.parametrize(
    ("second", "problem"),
    [
        (10**12 - 1, "the timestamp is too far from now"),
        (10**12, "the signature is wrong"),
    ],
)
def test_a_timestamp_of_more_than_twelve_digits_is_none(
    client: httpx.Client, second: int, problem: str
) -> None:
    assert send(client, subscribe(client)["secret"], second).status_code == 401
    assert [one["problem"] for one in messages(client)] == [problem]


def test_without_an_endpoint_of_its_address_nothing_is_genuine(
    server: Running, client: httpx.Client
) -> None:
    response = send(client, "whsec_c2FuZGJveC1wbGFjZWhvbGRlci1zZWNyZXQtMDAwMSE=", now(server))
    assert error(response) == (401, "authentication_required")
    assert [one["problem"] for one in messages(client)] == ["no endpoint has this address"]


def test_after_a_rotation_both_secrets_are_good_for_a_day(
    server: Running, client: httpx.Client
) -> None:
    endpoint = subscribe(client)
    path = f"/sandbox/webhooks/{endpoint['id']}/rotate-secret"
    rotated = data(client.post(path), 200)
    assert error(client.post(path)) == (409, "invalid_request")
    for secret in (endpoint["secret"], rotated["secret"]):
        assert send(client, secret, now(server)).status_code == 200
    advance(client, by="P1D")
    assert send(client, endpoint["secret"], now(server)).status_code == 401
    assert send(client, rotated["secret"], now(server)).status_code == 200


def test_an_unknown_address_is_404(client: httpx.Client) -> None:
    for token in ("nothing", "0" * 64, client.headers["Authorization"].split()[1]):
        response = client.post(f"/sandbox/inbox/{token}", json={})
        assert error(response) == (404, "resource_not_found")


def test_an_inbox_is_of_one_workspace(server: Running, client: httpx.Client) -> None:
    with server.client(server.new_workspace()) as other:
        assert inbox(other)["url"] != inbox(client)["url"]
        secret = subscribe(other)["secret"]
        assert send(client, secret, now(server)).status_code == 401
        assert messages(other) == []


def test_no_snapshot_takes_back_what_was_received(server: Running, client: httpx.Client) -> None:
    secret = subscribe(client)["secret"]
    taken, address = snapshot(client), inbox(client)["url"]
    send(client, secret, now(server))
    restore(client, taken)
    assert len(messages(client)) == 1
    assert inbox(client)["url"] == address
    assert send(client, secret, now(server)).status_code == 200


@pytest.mark.slow
def test_old_messages_make_room_and_are_counted(server: Running, client: httpx.Client) -> None:
    subscribe(client)
    address = inbox(client)["url"]
    for _ in range(5):
        body = {"filler": "x" * 250_000}
        assert client.post(address, json=body).status_code == 401
    for _ in range(1000):
        client.post(address, json={})
    shown = inbox(client)
    assert (len(shown["messages"]), shown["dropped"]) == (1000, 5)
    assert now(server) == 1795426200


def test_signatures_of_virtual_time_are_judged_by_it() -> None:
    settings = replace(FROZEN, scenario="auto-progress", webhook_time="virtual")
    with serving(settings) as running, running.client() as client:
        subscribe(client)
        advance(client, by="P3D")
        client.post("/api/invoices", json=INVOICE)
        advance(client, by="PT10S")
        assert [one["verified"] for one in messages(client)] == [True, True]
        assert messages(client)[0]["headers"]["webhook-timestamp"] == "1795685402"
