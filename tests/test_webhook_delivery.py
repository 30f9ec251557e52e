"""Events arrive at receivers, signed, once, in order; and what is reported of it afterwards."""

from __future__ import annotations

import re
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from invoice_sandbox.base.clock import parse_instant
from tests.receivers import (
    Manner,
    Message,
    Receiver,
    Streams,
    deliveries,
    delivery,
    endpoint,
    hang,
    held,
    receiving,
    replay,
    response,
    subscribe,
    switch,
    trigger,
)
from tests.scenario_run import (
    START,
    START_INSTANT,
    advance,
    agenda,
    audited,
    choose,
    data,
    error,
    make_workspace,
    new_invoice,
    register_new,
    restore,
    snapshot,
    until,
)
from tests.support import FROZEN, PATIENCE, Running, serving

PUBLISHED = ["invoice.verified", "offer.received"]
SERVE = [sys.executable, "-m", "invoice_sandbox", "serve", "--port", "0"]


@pytest.fixture(scope="module")
def today() -> Iterator[Running]:
    """A server whose wall clock shows the real time, with which receivers compare."""
    with serving(at=datetime.now(UTC), receiver_seconds=2 * PATIENCE) as running:
        yield running


@pytest.fixture
def client(today: Running) -> Iterator[httpx.Client]:
    """A client in a new workspace of its own."""
    with today.client(today.new_workspace()) as client:
        yield client


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Holds back what a receiver returns; open in the end."""
    gate = threading.Event()
    yield gate
    gate.set()


@contextmanager
def started(*options: str) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """A server in a process of its own, by the real clock, and a client with its key."""
    with subprocess.Popen(
        [*SERVE, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], PATIENCE)[0], "no ready line"
            found = re.search(r"ready on (\S+) with key (\S+)", process.stdout.readline())
            assert found
            url, key = found.groups()
            headers = {"Authorization": f"Bearer {key}"}
            with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) as client:
                yield process, client
        finally:
            process.kill()


# The promise


def test_on_a_frozen_clock_both_arrive_within_one_advance(
    client: httpx.Client, receiver: Receiver
) -> None:
    choose(client, "auto-progress")
    secret = subscribe(client, receiver.url)["secret"]
    register_new(client)
    moved = advance(client, by="PT6S")
    assert receiver.kinds() == PUBLISHED
    for message, one in zip(receiver.messages, deliveries(client), strict=True):
        event = message.verified(secret)
        assert (message.id, event["type"]) == (one["eventId"], one["eventType"])
        assert (one["status"], one["responseStatus"]) == ("Delivered", 200)
        assert event["timestamp"] == one["attemptedAt"] == one["createdAt"]
        assert message.headers["content-type"] == "application/json"
        assert message.headers["user-agent"] == "InvoiceLiquiditySandbox-Webhooks/0.1.0"
    assert [(one["at"][11:-1], one["do"]) for one in moved["happened"]] == [
        ("09:30:01", "start-verification"),
        ("09:30:02", "finish-verification"),
        ("09:30:02", "deliver"),
        ("09:30:04", "request-financing"),
        ("09:30:06", "make-offer"),
        ("09:30:06", "deliver"),
    ]


SUBSCRIPTIONS: dict[str, tuple[list[str] | None, list[str]]] = {
    "published, unless others are named": (None, PUBLISHED),
    "a family": (
        ["invoice.*"],
        ["invoice.registered", "invoice.verification_started", "invoice.verified"],
    ),
    "everything": (
        ["*"],
        [
            "invoice.registered",
            "invoice.verification_started",
            "invoice.verified",
            "financing_request.created",
            "financing_request.routed",
            "offer.received",
        ],
    ),
    "each event once": (["*", "invoice.*", "offer.received", "offer.received"], []),
}
SUBSCRIPTIONS["each event once"][1].extend(SUBSCRIPTIONS["everything"][1])


@pytest.mark.parametrize(("events", "kinds"), SUBSCRIPTIONS.values(), ids=SUBSCRIPTIONS)
def test_an_endpoint_gets_what_it_subscribes_to_and_nothing_else(
    client: httpx.Client, receiver: Receiver, events: list[str] | None, kinds: list[str]
) -> None:
    choose(client, "auto-progress")
    subscribe(client, receiver.url, **({} if events is None else {"events": events}))
    register_new(client)
    advance(client, by="PT6S")
    assert receiver.kinds() == kinds


def test_what_happened_before_an_endpoint_was_registered_is_not_sent(
    client: httpx.Client, receiver: Receiver
) -> None:
    register_new(client)
    subscribe(client, receiver.url, events=["*"])
    advance(client, by="P1D")
    assert receiver.messages == deliveries(client) == []


def test_the_delivery_log_shows_what_was_sent_but_no_secret(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(200, b"thanks \xff" + b"x" * 1000))
    secret = subscribe(client, receiver.url + "/hooks?a=1")["secret"]
    register_new(client)
    trigger(client)
    advance(client, by="PT0S")
    (attempt,) = delivery(client)["attempts"]
    (message,) = receiver.messages
    assert message.path == "/hooks?a=1"
    shown = attempt["request"]["headers"]
    assert shown == {name: message.headers[name] for name in shown}
    assert attempt["request"]["bodySize"] == len(message.body)
    assert attempt["response"]["body"] == "thanks \ufffd" + "x" * 504
    assert secret not in client.get("/api/webhooks").text


# Events on demand


def test_every_type_can_be_had_once_there_is_something_to_report(
    today: Running, client: httpx.Client, receiver: Receiver
) -> None:
    kinds = list(today.sandbox.engine.project.lifecycle.events)
    for kind in kinds:
        if kind.startswith("webhook_endpoint."):  # of the others there are fixtures
            too_early = client.post("/sandbox/events", json={"type": kind})
            assert error(too_early) == (404, "resource_not_found"), kind
    secret = subscribe(client, receiver.url)["secret"]
    other = subscribe(client, receiver.url + "/all", events=["*"])
    choose(client, "auto-progress")
    register_new(client)
    advance(client, by="PT6S")
    choose(client, "manual")
    receiver.messages.clear()
    for kind in kinds:
        event = trigger(client, kind)
        assert event["type"] == kind
    advance(client, by="PT0S")
    got = [message for message in receiver.messages if message.path == "/all"]
    assert [message.kind for message in got] == kinds
    for message in got:
        message.verified(other["secret"])
    published = [message for message in receiver.messages if message.path == "/"]
    assert [message.kind for message in published] == PUBLISHED
    for message in published:
        message.verified(secret)
    assert {one["do"] for one in agenda(client)["due"]} <= {
        "end-validity",
        "pass-date",
    }  # nothing has moved


def test_an_event_is_about_the_invoice_that_was_named(
    client: httpx.Client, receiver: Receiver
) -> None:
    first, _ = register_new(client), register_new(client)
    subscribe(client, receiver.url)
    trigger(client, invoiceId=first)
    advance(client, by="PT0S")
    shown = client.get(f"/api/invoices/{first}").json()
    event = receiver.messages[0].event
    assert {"data": event["data"], "mode": event["mode"]} == shown
    unknown = {"type": "invoice.verified", "invoiceId": "inv_sandbox_unknown"}
    assert error(client.post("/sandbox/events", json=unknown)) == (404, "resource_not_found")
    without = {"type": "offer.received", "invoiceId": first}
    assert error(client.post("/sandbox/events", json=without)) == (404, "resource_not_found")
    strange = {"type": "invoice.eaten"}
    assert error(client.post("/sandbox/events", json=strange)) == (400, "invalid_request")


# POST /api/webhooks/test


def test_a_test_is_sent_and_returns_what_was_sent_and_what_came_back(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(202))
    one = subscribe(client, receiver.url, events=["invoice.paid"])
    result = data(client.post("/api/webhooks/test", json={}))
    (message,) = receiver.messages
    assert (result["webhookFired"], result["endpointId"]) == (True, one["id"])
    assert result["request"]["body"].encode() == message.body
    sent = result["request"]["headers"]
    assert sent == {name: message.headers[name] for name in sent}
    assert message.verified(one["secret"])["type"] == "invoice.verified"
    shown = result["delivery"]
    assert (shown["status"], shown["attempt"], shown["responseStatus"]) == ("Delivered", 1, 202)
    assert shown == delivery(client)


def test_a_test_that_fails_is_not_repeated(client: httpx.Client, receiver: Receiver) -> None:
    receiver.responses(response(500))
    subscribe(client, receiver.url)
    result = data(client.post("/api/webhooks/test", json={"eventType": "offer.received"}))
    assert (result["webhookFired"], result["delivery"]["status"]) == (True, "Exhausted")
    advance(client, by="P2D")
    assert receiver.kinds() == ["offer.received"]


NOT_SENT: dict[str, tuple[dict[str, Any] | None, dict[str, Any]]] = {
    "not to be delivered": ({}, {"deliver": False}),
    "no endpoint": (None, {}),
    "a disabled endpoint": ({"enabled": False}, {}),
    "one that cannot be called": ({"url": "https://10.0.0.1/"}, {}),
}


@pytest.mark.parametrize(("members", "body"), NOT_SENT.values(), ids=NOT_SENT)
def test_a_test_that_is_not_sent_shows_what_would_be(
    client: httpx.Client,
    receiver: Receiver,
    members: dict[str, Any] | None,
    body: dict[str, Any],
) -> None:
    secret = "whsec_c2FuZGJveC1wbGFjZWhvbGRlci1zZWNyZXQtMDAwMSE="
    if members is not None:
        secret = subscribe(client, **{"url": receiver.url, **members})["secret"]
    result = data(client.post("/api/webhooks/test", json=body))
    assert (result["webhookFired"], result["delivery"]) == (False, None)
    Webhook(secret).verify(result["request"]["body"], result["request"]["headers"])
    advance(client, by="P1D")
    assert receiver.messages == deliveries(client) == []


def test_a_test_of_a_receiver_that_hangs_is_a_timeout(receiver: Receiver) -> None:
    receiver.responses(hang)
    with serving(receiver_seconds=0.5) as hasty, hasty.client() as client:
        subscribe(client, receiver.url)
        result = data(client.post("/api/webhooks/test", json={}))
        (attempt,) = result["delivery"]["attempts"]
        assert (result["delivery"]["status"], attempt["error"]) == ("Exhausted", "timeout")
        assert result["request"]["headers"]["webhook-id"] == delivery(client)["eventId"]


def test_a_test_that_is_repeated_with_its_key_is_sent_once(
    client: httpx.Client, receiver: Receiver
) -> None:
    subscribe(client, receiver.url)
    key = {"Idempotency-Key": "once"}
    first, again = (client.post("/api/webhooks/test", json={}, headers=key) for _ in range(2))
    assert again.headers["idempotent-replayed"] == "true"
    assert (again.content, len(receiver.messages)) == (first.content, 1)


# Rotation


def test_a_deleted_endpoint_is_gone_and_its_deliveries_stay(
    client: httpx.Client, receiver: Receiver
) -> None:
    one = subscribe(client, receiver.url)
    receiver.responses(response(500))
    register_new(client)
    trigger(client)
    advance(client, by="PT0S")
    path = f"/sandbox/webhooks/{one['id']}"
    assert data(client.delete(path), 200) == {"id": one["id"], "deleted": True}
    assert error(client.delete(path)) == (404, "resource_not_found")
    advance(client, by="P3D")
    listed = data(client.get("/api/webhooks"), 200)
    assert (listed["endpoints"], delivery(client)["status"]) == ([], "Cancelled")
    assert len(receiver.messages) == 1
    assert error(client.post(f"/sandbox/deliveries/{delivery(client)['id']}/replay"))[0] == 409
    assert audited(client, one["id"])[-1][1] == "webhook_endpoint.removed"


@pytest.mark.parametrize(
    ("secret", "is_used"),
    [
        (f"whsec_{'A' * 32}", True),
        (f"whsec_{'A' * 84}AA==", True),
        (f"whsec_{'A' * 31}", False),
        (f"whsec_{'A' * 32}*", False),
        (f"whsec_{'A' * 28}", False),
        (f"whsec_{'A' * 88}", False),
        ("A" * 32, False),
        (["whsec_"], False),
    ],
)
def test_a_chosen_secret_signs_if_it_is_one(
    client: httpx.Client, receiver: Receiver, secret: Any, is_used: bool
) -> None:
    one = subscribe(client, receiver.url, secret=secret)
    register_new(client)
    trigger(client)
    advance(client, by="PT0S")
    assert (one["secret"] == secret) == is_used
    assert receiver.messages[0].verified(one["secret"])
    if is_used:
        assert secret not in client.get("/sandbox/requests").text


def test_two_secrets_sign_for_a_day_of_virtual_time(
    client: httpx.Client, receiver: Receiver
) -> None:
    one = subscribe(client, receiver.url)
    old = one["secret"]
    register_new(client)
    rotated = switch(client, one["id"], "rotate-secret")
    new = rotated["secret"]
    assert new != old
    assert rotated["previousSecretUntil"] == "2026-11-24T09:30:00Z"
    path = f"/sandbox/webhooks/{one['id']}/rotate-secret"
    assert error(client.post(path)) == (409, "invalid_request")
    for by in ("PT0S", "PT23H59M59S", "PT1S"):
        advance(client, by=by)
        trigger(client)
    advance(client, by="PT0S")
    first, last, after = receiver.messages
    for message in (first, last):
        assert len(message.signatures) == 2
        assert message.verified(old) == message.verified(new)
    assert len(after.signatures) == 1
    after.verified(new)
    with pytest.raises(WebhookVerificationError):
        after.verified(old)
    switch(client, one["id"], "rotate-secret")
    actions = [action for _, action in audited(client, one["id"])]
    assert actions.count("webhook_endpoint.secret_rotated") == 2
    assert new not in client.get("/api/webhooks").text + client.get("/api/audit-log").text


# Scenarios, at a real receiver and at the built-in inbox


def in_both(client: httpx.Client, receiver: Receiver) -> tuple[Any, Any]:
    """An endpoint at the receiver, and one at the inbox."""
    inbox = data(client.get("/sandbox/inbox"))["url"]
    return subscribe(client, receiver.url), subscribe(client, inbox)


def inbox(client: httpx.Client) -> list[tuple[str, bool, bool]]:
    """Kind, and whether genuine and a duplicate, of what the inbox got, oldest first."""
    messages = reversed(data(client.get("/sandbox/inbox"))["messages"])
    return [(_kind(one["body"]), one["verified"], one["duplicate"]) for one in messages]


def _kind(body: str) -> str:
    found = re.search(r'"type":"([^"]+)"', body)
    assert found
    return found[1]


def genuine(message: Message, secret: str) -> bool:
    try:
        message.verified(secret)
    except WebhookVerificationError:
        return False
    return True


def test_webhook_down_then_up(client: httpx.Client, receiver: Receiver) -> None:
    choose(client, "webhook-down-then-up")
    in_both(client, receiver)
    register_new(client)
    advance(client, by="PT6S")
    assert receiver.messages == []
    assert {one["status"] for one in deliveries(client)} == {"Failed"}
    advance(client, by="P1D")
    assert receiver.kinds() == PUBLISHED
    assert inbox(client) == [(kind, True, False) for kind in PUBLISHED]
    for one in deliveries(client):
        assert [two["responseStatus"] for two in one["attempts"]] == [503, 503, 503, 200]
        assert [two["sent"] for two in one["attempts"]] == [False, False, False, True]
        created = parse_instant(one["createdAt"])
        last = parse_instant(one["attempts"][-1]["at"])
        assert last - created == timedelta(minutes=35, seconds=5)


def test_webhook_exhausted(client: httpx.Client, receiver: Receiver) -> None:
    choose(client, "webhook-exhausted")
    mine, theirs = in_both(client, receiver)
    with receiving() as watcher:
        subscribe(client, watcher.url, events=["webhook_endpoint.disabled"])
        register_new(client)
        advance(client, by="P2D")
        assert [one["status"] for one in deliveries(client)] == ["Exhausted"] * 4
        assert [one["attempt"] for one in deliveries(client)] == [8] * 4
        advance(client, by="P4D")
        ids = {message.event["data"]["id"] for message in watcher.messages}
        assert ids == {mine["id"], theirs["id"]}
    assert receiver.messages == []
    assert inbox(client) == []
    assert endpoint(client, mine["id"])["disabledReason"] == "failing"
    for one in (mine, theirs):
        switch(client, one["id"], "enable")
    lost = [one for one in deliveries(client) if one["status"] == "Exhausted"]
    for one in lost:
        assert replay(client, one["id"])["status"] == "Delivered"
    assert sorted(receiver.kinds()) == PUBLISHED
    assert sorted(inbox(client)) == [(kind, True, False) for kind in PUBLISHED]


def test_webhook_duplicate(client: httpx.Client, receiver: Receiver) -> None:
    choose(client, "webhook-duplicate")
    mine, _ = in_both(client, receiver)
    register_new(client)
    advance(client, by="PT6S")
    verified, offered = PUBLISHED
    assert receiver.kinds() == [verified, verified, offered, offered]
    ids = receiver.ids()
    assert (ids[0], ids[2]) == (ids[1], ids[3])
    assert all(genuine(message, mine["secret"]) for message in receiver.messages)
    assert inbox(client) == [
        (verified, True, False),
        (verified, True, True),
        (offered, True, False),
        (offered, True, True),
    ]
    assert [(one["status"], one["attempt"]) for one in deliveries(client)] == [("Delivered", 2)] * 4


def test_webhook_out_of_order(client: httpx.Client, receiver: Receiver) -> None:
    choose(client, "webhook-out-of-order")
    mine, _ = in_both(client, receiver)
    register_new(client)
    advance(client, by="PT59M")
    assert receiver.kinds() == ["offer.received"]
    advance(client, by="PT2M")
    assert receiver.kinds() == PUBLISHED[::-1]
    assert [kind for kind, _, _ in inbox(client)] == PUBLISHED[::-1]
    assert all(genuine(message, mine["secret"]) for message in receiver.messages)
    late = receiver.messages[1].event
    assert late["timestamp"] == "2026-11-23T09:30:02Z"
    assert late["data"]["status"] == "Verified"
    assert data(client.get(f"/api/invoices/{late['data']['id']}"))["status"] == "Offered"


def test_webhook_bad_signature(client: httpx.Client, receiver: Receiver) -> None:
    choose(client, "webhook-bad-signature")
    mine, _ = in_both(client, receiver)
    receiver.responds_by(lambda one: response(200 if genuine(one, mine["secret"]) else 401))
    register_new(client)
    advance(client, by="PT6S")
    verdicts = [(one.kind, genuine(one, mine["secret"])) for one in receiver.messages]
    expected = [(kind, number == 3) for kind in PUBLISHED for number in range(4)]
    assert verdicts == expected
    assert [(kind, good) for kind, good, _ in inbox(client)] == expected
    assert not any(duplicate for _, _, duplicate in inbox(client))
    for one in deliveries(client):
        assert [two["variation"] for two in one["attempts"]] == [
            "bad-signature",
            "stale-timestamp",
            "changed-body",
            None,
        ]
        assert [two["responseStatus"] for two in one["attempts"]] == [401, 401, 401, 200]
        assert one["status"] == "Delivered"


def test_webhook_unknown_type(client: httpx.Client, receiver: Receiver) -> None:
    choose(client, "webhook-unknown-type")
    mine = subscribe(client, receiver.url)
    register_new(client)
    advance(client, by="PT6S")
    types = ["invoice.rated", "invoice.verified", "offer.rated", "offer.received"]
    assert receiver.kinds() == types
    assert all(genuine(message, mine["secret"]) for message in receiver.messages)
    first, second = (message.event for message in receiver.messages[:2])
    assert first["id"] == "evt_sandbox_future_0001" != second["id"]
    sent = [message.headers["webhook-id"] for message in receiver.messages[:2]]
    assert sent == [first["id"], second["id"]]
    assert first["data"].pop("rating") == {"grade": "A", "score": 7}
    assert first["data"] == second["data"]


def test_secret_rotation(client: httpx.Client, receiver: Receiver) -> None:
    choose(client, "secret-rotation")
    mine, _ = in_both(client, receiver)
    invoice_id = register_new(client)
    advance(client, by="PT2S")
    advance(client, by="PT4S")
    verified, offered = receiver.messages
    assert (len(verified.signatures), len(offered.signatures)) == (1, 2)
    assert genuine(verified, mine["secret"])
    assert genuine(offered, mine["secret"])
    assert inbox(client) == [(kind, True, False) for kind in PUBLISHED]
    choose(client, "manual")
    advance(client, by="P1D")
    trigger(client, invoiceId=invoice_id)
    advance(client, by="PT0S")
    assert not genuine(receiver.messages[-1], mine["secret"])
    assert inbox(client)[-1] == ("invoice.verified", True, False)


# Determinism


def test_equal_seed_requests_and_clock_give_equal_bytes(receiver: Receiver) -> None:
    texts: list[str] = []
    bodies: list[list[bytes]] = []
    for _ in range(2):
        receiver.messages.clear()
        receiver.responses(*(response(status) for status in (500, 503, 200, 500, 200)))
        with (
            serving(replace(FROZEN, webhook_time="virtual")) as running,
            running.client() as client,
        ):
            running.system_clock.pass_seconds(len(texts) * 100)
            choose(client, "auto-progress")
            subscribe(client, receiver.url, events=["*"])
            for number in range(3):
                body = {**new_invoice(), "invoiceNumber": f"SAME-{number}"}
                data(client.post("/api/invoices", json=body), 201)
                advance(client, by="PT10M")
            texts.append(re.sub(r'"durationMs":\d+', "", client.get("/api/webhooks").text))
        bodies.append([message.body for message in receiver.messages])
    assert texts[0] == texts[1]
    assert bodies[0] == bodies[1]
    assert len(bodies[0]) == 3 * 6 + 3  # three were repeated


def test_with_virtual_time_the_second_of_a_signature_is_that_of_the_attempt(
    receiver: Receiver,
) -> None:
    receiver.responses(response(500), response())
    settings = replace(FROZEN, webhook_time="virtual")
    with serving(settings) as running, running.client() as client:
        running.system_clock.pass_seconds(1000)
        subscribe(client, receiver.url)
        register_new(client)
        trigger(client)
        advance(client, by="P1D")
    noon = int(START_INSTANT.timestamp())
    assert [message.second for message in receiver.messages] == [noon, noon + 5]


# Snapshots, workspaces, and the end of a server


def test_a_snapshot_remembers_what_was_still_to_be_sent(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(500))
    subscribe(client, receiver.url)
    register_new(client)
    trigger(client)
    advance(client, by="PT1S")
    before, taken = delivery(client), snapshot(client)
    receiver.responses(response())
    advance(client, by="PT4S")
    assert delivery(client)["status"] == "Delivered"
    restore(client, taken)
    assert delivery(client) == before
    advance(client, by="PT4S")
    assert (delivery(client)["status"], delivery(client)["attempt"]) == ("Delivered", 2)
    assert len(set(receiver.ids())) == 1
    assert len(receiver.messages) == 3


def test_a_snapshot_waits_for_what_is_in_flight(client: httpx.Client, receiver: Receiver) -> None:
    """Otherwise a restored workspace would send it again."""
    receiver.responses(response(delay=0.3))
    subscribe(client, receiver.url)
    register_new(client)
    trigger(client)
    until(lambda: len(receiver.messages) == 1, "it is under way")
    taken = snapshot(client)
    until(lambda: delivery(client)["status"] == "Delivered", "it is delivered")
    restore(client, taken)
    advance(client, by="PT1H")
    assert len(receiver.messages) == 1


def test_an_event_after_a_restore_is_sent_although_its_delivery_is_named_like_an_earlier_one(
    client: httpx.Client, receiver: Receiver, gate: threading.Event
) -> None:
    subscribe(client, receiver.url)
    taken = snapshot(client)
    receiver.responses(held(gate))
    first = register_new(client)
    trigger(client)
    advance(client, by="P1D", wait=False)
    until(lambda: len(receiver.messages) == 1, "the first is under way")
    restore(client, taken)
    gate.set()
    second = register_new(client, amount=5)
    trigger(client)
    advance(client, by="PT1S")
    assert first == second
    assert [message.event["data"]["amount"] for message in receiver.messages] == [10000, 5]
    one = delivery(client)
    assert (one["status"], one["attempt"]) == ("Delivered", 1)
    assert one["attemptedAt"] == START


def test_a_workspace_that_is_deleted_while_it_sends_leaves_nothing_behind(
    today: Running,
    client: httpx.Client,
    receiver: Receiver,
    gate: threading.Event,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rejected, late = response(500), threading.Event()

    async def reject_late(message: Message, streams: Streams) -> None:
        await rejected(message, streams)
        late.set()

    receiver.responses(held(gate, then=reject_late))
    made = make_workspace(client)
    with today.client(made["key"]) as other:
        subscribe(other, receiver.url, retryProfile="fast")
        register_new(other)
        trigger(other)
        until(lambda: len(receiver.messages) == 1, "it is under way")
        assert client.delete(f"/sandbox/workspaces/{made['id']}").status_code == 200
        assert other.get("/api/invoices").status_code == 401
    receiver.responses(response())
    gate.set()
    assert late.wait(PATIENCE)
    register_new(client)
    subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="P1D")
    assert receiver.ids()[1:] == [delivery(client)["eventId"]], "nothing else came meanwhile"
    assert client.get("/api/health").status_code == 200
    assert caplog.messages == [], "the attempt that nobody waits for is no error"


@pytest.mark.parametrize("manner", [hang], ids=["never"])
@pytest.mark.process
def test_a_server_that_is_stopped_waits_for_no_receiver_for_ever(
    receiver: Receiver, manner: Manner
) -> None:
    receiver.responses(manner)
    with started() as (process, client):
        subscribe(client, receiver.url)
        register_new(client)
        trigger(client)
        until(lambda: len(receiver.messages) == 1, "it is under way")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")
    assert len(receiver.messages) == 1
