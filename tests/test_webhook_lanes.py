"""Each endpoint is a lane: in order within it, and no lane waits for another."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from invoice_sandbox.base.clock import parse_instant
from invoice_sandbox.runtime import agenda as agenda_module
from invoice_sandbox.webhooks.lanes import SHARE
from tests.receivers import (
    Message,
    Receiver,
    calling,
    deliveries,
    delivery,
    hang,
    held,
    receiving,
    reset,
    response,
    subscribe,
    trigger,
)
from tests.scenario_run import (
    INVOICE,
    START,
    advance,
    agenda,
    choose,
    data,
    make_workspace,
    now,
    register_new,
    restore,
    set_clock,
    snapshot,
    status,
    until,
)
from tests.support import PATIENCE, Running, serving

LONG = 2 * PATIENCE
"""Seconds that receivers have: a client whose request waited for one of them would give up."""

MAX_ENDPOINTS = "invoice_sandbox.webhooks.endpoints.MAX_ENDPOINTS"
SHORT = 0.5
"""Seconds that receivers have where the timeout is what is tested."""


@pytest.fixture(scope="module")
def patient() -> Iterator[Running]:
    """A server that waits long for receivers."""
    with patch(MAX_ENDPOINTS, 1_000), serving(receiver_seconds=LONG) as running:
        yield running


@pytest.fixture(scope="module")
def hasty() -> Iterator[Running]:
    """A server that does not."""
    with serving(receiver_seconds=SHORT) as running:
        yield running


@pytest.fixture
def client(patient: Running) -> Iterator[httpx.Client]:
    """A client in a new workspace with an invoice that events can report."""
    with patient.client(patient.new_workspace()) as client:
        register_new(client)
        yield client


@pytest.fixture
def quick(hasty: Running) -> Iterator[httpx.Client]:
    """The same, on the hasty server."""
    with hasty.client(hasty.new_workspace()) as client:
        register_new(client)
        yield client


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def key_of(client: httpx.Client) -> str:
    return client.headers["Authorization"].removeprefix("Bearer ")


# Order


def test_an_endpoint_gets_its_events_one_at_a_time_in_their_order(
    client: httpx.Client, receiver: Receiver
) -> None:
    at_once: list[int] = []
    under_way = Counter[str]()

    def count(message: Message) -> None:
        under_way[message.path] += 1
        at_once.append(under_way[message.path])
        time.sleep(0.005)  # or two at once would hardly meet
        under_way[message.path] -= 1

    receiver.responses(calling(count))
    for path in ("/a", "/b", "/c"):
        subscribe(client, receiver.url + path)
    ids = [trigger(client)["id"] for _ in range(20)]
    advance(client, by="PT0S")
    for path in ("/a", "/b", "/c"):
        assert [one.id for one in receiver.messages if one.path == path] == ids
    assert set(at_once) == {1}


def test_what_is_tried_again_stands_in_the_lane_at_its_instant(
    client: httpx.Client, receiver: Receiver
) -> None:
    """At least once, and not in order: a later event overtakes one that failed."""
    failing = iter([500])
    receiver.responds_by(lambda _: response(next(failing, 200)))
    subscribe(client, receiver.url)
    first = trigger(client)["id"]
    advance(client, by="PT3S")
    second = trigger(client)["id"]
    advance(client, by="PT3S")
    assert receiver.ids() == [first, second, first]


def test_an_advance_reports_what_was_sent_in_the_order_of_virtual_time(
    client: httpx.Client, receiver: Receiver
) -> None:
    choose(client, "auto-progress")
    receiver.responds_by(lambda one: response(delay=0.05 if one.path == "/slow" else 0))
    for path in ("/slow", "/fast"):
        subscribe(client, receiver.url + path)
    register_new(client)
    moved = advance(client, by="PT6S")
    instants = [one["at"] for one in moved["happened"]]
    assert instants == sorted(instants), "steps and deliveries"
    sent = [(one["at"][11:-1], one["subject"][-1]) for one in moved["happened"] if _is_sent(one)]
    assert sent == [("09:30:02", "1"), ("09:30:02", "2"), ("09:30:06", "3"), ("09:30:06", "4")]


def _is_sent(one: Any) -> bool:
    return bool(one["do"] == "deliver")


# Nobody waits for a receiver


def test_an_advance_does_not_report_what_was_due_before(
    client: httpx.Client, receiver: Receiver
) -> None:
    """Real time decides whether that is done before the advance or during it."""
    gate = threading.Event()
    receiver.responds_by(lambda _: held(gate))
    subscribe(client, receiver.url)
    trigger(client)
    with ThreadPoolExecutor(1) as pool:
        advancing = pool.submit(advance, client, by="PT1S")
        until(lambda: now(client) != START, "the clock has moved")
        gate.set()
        assert advancing.result(PATIENCE)["happened"] == []
    assert delivery(client)["status"] == "Delivered"
    assert [one["do"] for one in agenda(client)["done"]] == ["deliver"]


def test_what_is_under_way_when_its_endpoint_is_deleted_keeps_its_result(
    client: httpx.Client, receiver: Receiver
) -> None:
    gate = threading.Event()
    receiver.responds_by(lambda _: held(gate, response(201)))
    gone = subscribe(client, receiver.url)
    trigger(client)
    until(lambda: bool(receiver.messages), "it was sent")
    assert client.delete(f"/sandbox/webhooks/{gone['id']}").status_code == 200
    assert delivery(client)["status"] == "Cancelled"
    gate.set()
    until(lambda: delivery(client)["status"] != "Cancelled", "the response is noted")
    assert (delivery(client)["status"], delivery(client)["responseStatus"]) == ("Delivered", 201)


def test_a_receiver_that_hangs_delays_neither_others_nor_the_scenario(
    client: httpx.Client, receiver: Receiver
) -> None:
    choose(client, "auto-progress")
    receiver.responds_by(lambda one: hang if one.path == "/hangs" else response())
    for path in ("/hangs", "/fine"):
        subscribe(client, receiver.url + path)
    invoice_id = register_new(client)
    advance(client, by="PT6S", wait=False)
    assert status(client, invoice_id) == "Offered"
    until(lambda: len(_at(receiver, "/fine")) == 2, "the other endpoint got both events")
    assert len(_at(receiver, "/hangs")) == 1


def _at(receiver: Receiver, path: str) -> list[Message]:
    return [one for one in receiver.messages if one.path == path]


@pytest.mark.slow
def test_an_advance_waits_until_every_lane_has_come_to_rest(
    quick: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(hang)
    subscribe(quick, receiver.url, retryProfile="fast")
    subscribe(quick, receiver.url + "/again", retryProfile="fast")
    trigger(quick)
    moved = advance(quick, by="PT1S")
    assert [one["status"] for one in deliveries(quick)] == ["Failed"] * 2
    assert [one["attempt"] for one in deliveries(quick)] == [2, 2]
    assert len([item for item in moved["happened"] if item["at"] == "2026-11-23T09:30:01Z"]) == 2


def test_an_advance_that_does_not_wait_responds_at_once_and_the_lanes_go_on(
    client: httpx.Client, receiver: Receiver
) -> None:
    gate = threading.Event()
    receiver.responses(held(gate))
    subscribe(client, receiver.url)
    trigger(client)
    moved = advance(client, by="P1D", wait=False)
    assert moved["now"] == "2026-11-24T09:30:00Z"
    one = delivery(client)
    assert (one["status"], one["attempt"], one["nextAttemptAt"]) == ("Pending", 0, START)
    gate.set()
    until(lambda: delivery(client)["status"] == "Delivered", "it went on")
    assert delivery(client)["attemptedAt"] == START


def test_an_endpoint_that_hangs_keeps_its_own_lane_waiting_and_loses_nothing(
    client: httpx.Client, receiver: Receiver
) -> None:
    gate = threading.Event()
    receiver.responses(held(gate, then=reset), response())
    subscribe(client, receiver.url)
    ids = [trigger(client)["id"] for _ in range(4)]
    until(lambda: len(receiver.messages) == 1, "the first is under way")
    assert [one["status"] for one in deliveries(client)] == ["Pending"] * 4
    gate.set()
    advance(client, by="PT5S")
    assert receiver.ids() == [*ids, ids[0]]
    assert [one["status"] for one in deliveries(client)] == ["Delivered"] * 4


def test_an_advance_lists_what_is_left_when_no_receiver_responds(
    client: httpx.Client, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agenda_module, "PATIENCE", 0.5)
    gate = threading.Event()
    receiver.responses(held(gate), response())
    subscribe(client, receiver.url, events=["*"])
    for _ in range(3):
        register_new(client)
    moved = advance(client, by="PT5S")
    left = [one["id"] for one in deliveries(client)]
    assert [one["subject"] for one in moved["pending"]] == left
    assert {one["do"] for one in moved["pending"]} == {"deliver"}
    gate.set()
    until(lambda: {one["status"] for one in deliveries(client)} == {"Delivered"}, "they go on")
    assert "pending" not in advance(client, by="PT1S")


# Receivers that call back


@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "not waiting"])
def test_a_receiver_that_calls_back_during_an_advance_gets_its_responses(
    patient: Running, client: httpx.Client, receiver: Receiver, waits: bool
) -> None:
    choose(client, "auto-progress")
    seen: list[Any] = []

    def call_back(message: Message) -> None:
        about = message.event["data"]
        invoice_id = about.get("invoiceId", about["id"])
        with patient.client(key_of(client)) as another:
            seen.append(status(another, invoice_id))
            data(another.post("/api/registry/fingerprint", json={**_body(message)}))
            data(another.post("/api/developer/api-keys", json={}), 201)
            advance(another, by="PT1S", wait=False)
            trigger(another, "invoice.paid", invoiceId=invoice_id)
            agenda(another)

    receiver.responses(calling(call_back))
    subscribe(client, receiver.url)
    register_new(client)
    moved = advance(client, by="PT6S", wait=waits)
    assert moved["from"] == START
    until(lambda: [one["status"] for one in deliveries(client)] == ["Delivered"] * 2, "both")
    assert seen == ["Offered"] * 2
    assert now(client) == "2026-11-23T09:30:08Z"


def _body(message: Message) -> dict[str, Any]:
    _ = message
    return {**INVOICE, "invoiceNumber": "CALLED-BACK"}


def test_a_workspace_may_be_deleted_or_restored_by_the_receiver_of_its_events(
    patient: Running, client: httpx.Client, receiver: Receiver
) -> None:
    made = make_workspace(client)
    with patient.client(made["key"]) as other:
        register_new(other)
        taken = snapshot(other)

        def go_back(_: Message) -> None:
            with patient.client(made["key"]) as another:
                restore(another, taken)

        def delete(_: Message) -> None:
            data(client.delete(f"/sandbox/workspaces/{made['id']}"), 200)

        for call_back in (go_back, delete):
            receiver.responses(calling(call_back))
            subscribe(other, receiver.url)
            trigger(other)
            responded = other.post("/sandbox/clock/advance", json={"by": "PT0S"})
            assert responded.status_code in {200, 401}, responded.text
        assert responded.status_code == 401
    assert len(receiver.messages) == 2


def test_a_receiver_may_make_the_next_event_for_itself(
    patient: Running, client: httpx.Client, receiver: Receiver
) -> None:
    """What is due at the end of an advance includes what a receiver has made due."""

    def call_back(_: Message) -> None:
        if len(receiver.messages) < 5:
            with patient.client(key_of(client)) as another:
                trigger(another)

    receiver.responses(calling(call_back))
    subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="PT0S")
    assert [one["status"] for one in deliveries(client)] == ["Delivered"] * 5
    assert receiver.ids() == [one["eventId"] for one in deliveries(client)]


def test_what_a_delivery_makes_due_runs_without_another_request(
    client: httpx.Client, receiver: Receiver
) -> None:
    """On a frozen clock: the event that an endpoint was disabled, which another one gets."""
    receiver.responds_by(lambda one: response(410 if one.path == "/gone" else 200))
    subscribe(client, f"{receiver.url}/gone", events=["invoice.verified"])
    subscribe(client, f"{receiver.url}/other", events=["webhook_endpoint.disabled"])
    advance(client, by="PT0S")
    trigger(client)
    until(lambda: any(one.path == "/other" for one in receiver.messages), "nothing was reported")


# Live clocks


def test_on_a_live_clock_a_retry_counts_from_the_end_of_the_attempt(
    patient: Running, client: httpx.Client, receiver: Receiver
) -> None:
    gate = threading.Event()
    set_clock(client, mode="live")
    receiver.responses(held(gate, then=response(500)), response())
    subscribe(client, receiver.url)
    trigger(client)
    until(lambda: len(receiver.messages) == 1, "it is under way")
    patient.system_clock.pass_seconds(2)
    gate.set()
    until(lambda: delivery(client)["attempt"] == 1, "the first has failed")
    one = delivery(client)
    assert one["durationMs"] == 2000
    lasted = parse_instant(one["nextAttemptAt"]) - parse_instant(one["attemptedAt"])
    assert lasted == timedelta(seconds=7)
    advance(client, by="PT5S")
    assert delivery(client)["status"] == "Delivered"


@pytest.mark.slow
def test_on_a_live_clock_the_timer_makes_the_next_attempt(
    patient: Running, client: httpx.Client, receiver: Receiver
) -> None:
    set_clock(client, mode="live")
    receiver.responses(response(500), response())
    subscribe(client, receiver.url, retryProfile="fast")
    trigger(client)
    until(lambda: delivery(client)["attempt"] == 1, "the first has failed")
    assert len(receiver.messages) == 1
    patient.system_clock.pass_seconds(1)  # the timer itself runs by the loop's clock
    until(lambda: delivery(client)["status"] == "Delivered", "the timer made the next attempt")
    assert len(receiver.messages) == 2


@pytest.mark.slow
def test_a_workspace_whose_receivers_all_hang_does_not_keep_the_others_waiting(
    patient: Running,
) -> None:
    is_back = threading.Event()
    with (
        receiving(held(is_back)) as hanging,
        receiving() as fine,
        patient.client(patient.new_workspace()) as one,
        patient.client(patient.new_workspace()) as other,
    ):
        for number in range(SHARE + 5):
            subscribe(one, f"{hanging.url}/{number}")
        subscribe(other, fine.url)
        register_new(one)
        trigger(one)
        until(lambda: len(hanging.messages) >= SHARE, "they are not under way")
        assert data(other.post("/api/webhooks/test", json={}))["delivery"]["status"] == "Delivered"
        assert len(hanging.messages) == SHARE
        is_back.set()
        advance(one, by="PT0S")
        assert len(hanging.messages) == SHARE + 5


def test_a_change_of_mode_waits_for_no_receiver(patient: Running) -> None:
    with receiving(hang) as hanging, patient.client(patient.new_workspace()) as client:
        subscribe(client, hanging.url)
        register_new(client)
        trigger(client)
        until(lambda: len(hanging.messages) == 1, "it is under way")
        set_clock(client, mode="live")
        assert delivery(client)["status"] == "Pending"
