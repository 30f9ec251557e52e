"""When a delivery is tried again, and what becomes of it and of its endpoint, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from invoice_sandbox.base.clock import instant_text, parse_duration
from invoice_sandbox.webhooks.retry import retry_profile
from tests.cases import in_turn
from tests.receivers import (
    Manner,
    Receiver,
    deliveries,
    delivery,
    endpoint,
    receiving,
    replay,
    response,
    subscribe,
    switch,
    trigger,
)
from tests.scenario_run import (
    START_INSTANT,
    advance,
    agenda,
    audited,
    error,
    happened,
    register_new,
)
from tests.support import Running, serving

REAL = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
"""What the wall clock of the server shows."""

STANDARD = ["PT0S", "PT5S", "PT5M5S", "PT35M5S", "PT2H35M5S", "PT7H35M5S", "PT17H35M5S"]
SCHEDULES = {
    "standard": [*STANDARD, "P1DT3H35M5S"],
    "fast": ["PT0S", "PT1S", "PT6S", "PT21S", "PT1M21S"],
}


@pytest.fixture
def client(client: httpx.Client) -> httpx.Client:
    """A client in a workspace with an invoice that events can report."""
    register_new(client)
    return client


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def at(*durations: str) -> list[str]:
    return [instant_text(START_INSTANT + parse_duration(one)) for one in durations]


def instants(one: Any) -> list[str]:
    """When the attempts of a delivery were made."""
    return [attempt["at"] for attempt in one["attempts"]]


def state(one: Any) -> tuple[str, int, str | None]:
    """Status, attempts, and when the next one is due."""
    return one["status"], one["attempt"], one["nextAttemptAt"]


# The schedule


@pytest.mark.parametrize("profile", SCHEDULES)
def test_a_delivery_that_fails_is_tried_at_the_declared_instants_and_given_up(
    client: httpx.Client, receiver: Receiver, profile: str
) -> None:
    receiver.responses(response(500))
    subscribe(client, receiver.url, retryProfile=profile)
    trigger(client)
    began = advance(client, by="PT0S")
    moved = advance(client, by="P4D")
    one = delivery(client)
    assert instants(one) == at(*SCHEDULES[profile])
    assert state(one) == ("Exhausted", len(SCHEDULES[profile]), None)
    assert {attempt["status"] for attempt in one["attempts"]} == {"Failed"}
    assert len(receiver.messages) == len(SCHEDULES[profile])
    made = [(text[11:-1], "deliver", "failed") for text in at(*SCHEDULES[profile])]
    assert [*happened(began), *happened(moved)] in (made, made[1:])  # the first is made at once


@pytest.mark.parametrize("profile", SCHEDULES)
def test_it_makes_no_difference_in_which_strides_the_clock_is_moved(
    client: httpx.Client, receiver: Receiver, profile: str
) -> None:
    receiver.responses(response(500))
    subscribe(client, receiver.url, retryProfile=profile)
    trigger(client)
    advance(client, by="PT0S")
    for number, (here, there) in enumerate(
        zip(SCHEDULES[profile], SCHEDULES[profile][1:], strict=False), 1
    ):
        assert state(delivery(client)) == ("Failed", number, *at(there))
        gap = parse_duration(there) - parse_duration(here)
        advance(
            client, to=instant_text(START_INSTANT + parse_duration(there) - timedelta(seconds=1))
        )
        assert len(receiver.messages) == number, gap
        advance(client, by="PT1S")
    assert delivery(client)["status"] == "Exhausted"
    assert instants(delivery(client)) == at(*SCHEDULES[profile])


def test_the_clock_shows_when_the_next_attempt_is_due(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(500))
    subscribe(client, receiver.url)
    assert client.get("/sandbox/clock").json()["data"]["nextDue"] is None
    trigger(client)
    assert [advance(client, by="PT0S")["nextDue"]] == at("PT5S")
    assert [client.get("/sandbox/clock").json()["data"]["nextDue"]] == at("PT5S")
    assert [advance(client, by="PT5S")["nextDue"]] == at("PT5M5S")
    assert advance(client, by="P5D")["nextDue"] is None


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_success(client: httpx.Client, receiver: Receiver, status: int) -> None:
    receiver.responses(response(status))
    subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="P2D")
    assert state(delivery(client)) == ("Delivered", 1, None)
    assert delivery(client)["responseStatus"] == status
    assert len(receiver.messages) == 1


@pytest.mark.parametrize(
    "status", [300, 301, 302, 303, 304, 307, 308, 400, 401, 404, 413, 429, 500, 502, 503, 504, 599]
)
def test_anything_else_is_failure_and_no_redirect_is_followed(
    client: httpx.Client, receiver: Receiver, status: int
) -> None:
    receiver.responses(response(status, location=f"{receiver.url}/elsewhere"))
    subscribe(client, receiver.url + "/hooks")
    trigger(client)
    advance(client, by="PT4S")
    assert state(delivery(client)) == ("Failed", 1, *at("PT5S"))
    assert delivery(client)["responseStatus"] == status
    assert [message.path for message in receiver.messages] == ["/hooks"]


def test_an_endpoint_that_comes_back_gets_what_it_missed(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(500), response(503), response(200))
    subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="P2D")
    one = delivery(client)
    assert instants(one) == at("PT0S", "PT5S", "PT5M5S")
    assert [attempt["status"] for attempt in one["attempts"]] == ["Failed", "Failed", "Delivered"]
    assert state(one) == ("Delivered", 3, None)
    assert len(receiver.messages) == 3


# Retry-After


def _date(seconds: float) -> str:
    return format_datetime(REAL + timedelta(seconds=seconds), usegmt=True)


RETRY_AFTER: dict[str, tuple[int, str, str]] = {
    # status, header, when the second attempt is made: its slot is 5 s, the one after it 305 s
    "earlier than the slot": (503, "1", "PT5S"),
    "nothing": (503, "0", "PT5S"),
    "the slot": (429, "5", "PT5S"),
    "between the slots": (429, "60", "PT1M"),
    "between the slots, 503": (503, "304", "PT5M4S"),
    "the slot after it": (429, "305", "PT5M5S"),
    "later than that": (429, "306", "PT5M5S"),
    "very late": (503, "999999999", "PT5M5S"),
    "a number that no integer holds": (503, "9" * 400, "PT5S"),
    "a date": (429, _date(60), "PT1M"),
    "a date, 503": (503, _date(100), "PT1M40S"),
    "a date in the past": (503, _date(-600), "PT5S"),
    "a late date": (503, _date(86_400), "PT5M5S"),
    "a date in the old form": (503, "Monday, 23-Nov-26 09:31:00 GMT", "PT1M"),
    "ten digits": (503, "1000000000", "PT5S"),
    "a digit that is no decimal": (503, "²", "PT5S"),
    "negative": (503, "-60", "PT5S"),
    "a fraction": (503, "60.5", "PT5S"),
    "nonsense": (503, "soon", "PT5S"),
    "an impossible date": (503, "Sat, 99 Nov 2026 09:31:00 GMT", "PT5S"),
    "empty": (503, "", "PT5S"),
    "on another status": (500, "60", "PT5S"),
    "on 502": (502, _date(60), "PT5S"),
}


@pytest.mark.parametrize(("status", "header", "second"), RETRY_AFTER.values(), ids=RETRY_AFTER)
def test_retry_after_puts_off_the_next_attempt_as_far_as_the_slot_after_it(
    client: httpx.Client, receiver: Receiver, status: int, header: str, second: str
) -> None:
    receiver.responses(response(status, retry_after=header), response())
    subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="PT10M")
    assert instants(delivery(client)) == at("PT0S", second)
    assert delivery(client)["status"] == "Delivered"


def test_an_attempt_that_was_put_off_puts_off_those_behind_it(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(429, retry_after="60"), response(500))
    subscribe(client, receiver.url, retryProfile="fast")
    trigger(client)
    advance(client, by="PT10M")
    # Slots are 1, 5, 15, 60 s behind the attempt before; the second may wait for 1 + 5 s.
    assert instants(delivery(client)) == at("PT0S", "PT6S", "PT11S", "PT26S", "PT1M26S")


def test_the_last_attempt_is_never_put_off(client: httpx.Client, receiver: Receiver) -> None:
    receiver.responses(response(503, retry_after="3600"))
    subscribe(client, receiver.url, retryProfile="fast")
    trigger(client)
    advance(client, by="P1D")
    assert instants(delivery(client)) == at("PT0S", "PT6S", "PT26S", "PT1M41S", "PT2M41S")
    assert delivery(client)["status"] == "Exhausted"


# Endpoints that are gone or go on failing


def others(client: httpx.Client, receiver: Receiver) -> Any:
    """An endpoint that gets events about endpoints which are disabled."""
    return subscribe(client, receiver.url, events=["webhook_endpoint.disabled"])


def test_410_disables_at_once_and_cancels_what_is_pending(
    client: httpx.Client, receiver: Receiver
) -> None:
    gone = subscribe(client, receiver.url, events=["*"])
    receiver.responses(response(500))
    for _ in range(3):
        trigger(client)
    advance(client, by="PT0S")
    receiver.responses(response(410))
    with receiving() as other:
        teller = others(client, other)
        advance(client, by="PT5S")
        (message,) = other.messages
        payload = message.event
    assert [state(one) for one in deliveries(client) if one["endpointId"] == gone["id"]] == [
        ("Cancelled", 2, None),
        ("Cancelled", 1, None),
        ("Cancelled", 1, None),
    ]
    assert len(receiver.messages) == 4
    shown = endpoint(client, gone["id"])
    assert (shown["status"], shown["disabledReason"]) == ("Disabled", "gone")
    assert shown["disabledAt"] == at("PT5S")[0]
    assert payload["type"] == "webhook_endpoint.disabled"
    assert payload["timestamp"] == at("PT5S")[0]
    assert payload["data"] == shown
    assert "secret" not in payload["data"]
    assert audited(client, gone["id"])[-1] == (at("PT5S")[0], "webhook_endpoint.disabled")
    assert [one["endpointId"] for one in deliveries(client)][-1] == teller["id"]


def test_410_to_the_first_attempt_leaves_nothing_to_be_done(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(410))
    gone = subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="PT0S")
    happened = reversed(agenda(client)["done"])
    assert [(one["do"], one["outcome"]) for one in happened] == [
        ("deliver", "failed"),
        ("close-endpoint", "done"),
    ]
    one = delivery(client)
    assert (one["status"], one["attempts"][0]["responseStatus"]) == ("Cancelled", 410)
    assert agenda(client)["due"] == []
    trigger(client)
    advance(client, by="P7D")
    assert len(receiver.messages) == len(deliveries(client)) == 1
    assert [action for _, action in audited(client, gone["id"])].count(
        "webhook_endpoint.disabled"
    ) == 1


def fail_for_days(client: httpx.Client, days: int) -> None:
    """An event at the beginning of each day, to endpoints that fail."""
    for _ in range(days):
        trigger(client)
        advance(client, by="P1D")


def test_five_days_of_only_failures_disable_an_endpoint(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(500))
    failing = subscribe(client, receiver.url)
    with receiving() as other:
        others(client, other)
        fail_for_days(client, 4)
        trigger(client)
        advance(client, to=instant_text(START_INSTANT + timedelta(days=5, seconds=-1)))
        assert endpoint(client, failing["id"])["status"] == "Enabled"
        assert other.messages == []
        advance(client, by="PT1S")
        shown = endpoint(client, failing["id"])
        assert (shown["status"], shown["disabledReason"]) == ("Disabled", "failing")
        assert [message.kind for message in other.messages] == ["webhook_endpoint.disabled"]
        assert other.messages[0].event["data"] == shown
    assert audited(client, failing["id"])[-1] == (at("P5D")[0], "webhook_endpoint.disabled")
    mine = [one for one in deliveries(client) if one["endpointId"] == failing["id"]]
    assert [one["status"] for one in mine] == [*["Exhausted"] * 4, "Cancelled"]
    sent = len(receiver.messages)
    trigger(client)
    advance(client, by="P2D")
    assert len(receiver.messages) == sent
    assert len(deliveries(client)) == len(mine) + 1


def test_a_failing_endpoint_is_disabled_on_the_way_of_one_long_stride(
    client: httpx.Client, receiver: Receiver
) -> None:
    """What would have been tried after the fifth day is not."""
    receiver.responses(response(500))
    failing = subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="P4DT23H")
    trigger(client)
    advance(client, by="P30D")
    assert endpoint(client, failing["id"])["disabledAt"] == at("P5D")[0]
    last = deliveries(client)[-1]
    assert state(last)[::2] == ("Cancelled", None)
    assert max(instants(last)) < at("P5D")[0]
    done = [(one["at"], one["do"], one["outcome"]) for one in agenda(client)["done"]]
    assert (at("P5D")[0], "close-endpoint", "done") in done


def test_one_success_in_between_and_the_five_days_begin_anew(
    client: httpx.Client, receiver: Receiver
) -> None:
    failing = subscribe(client, receiver.url, retryProfile="fast")
    receiver.responses(response(500))
    fail_for_days(client, 3)
    receiver.responses(response())
    fail_for_days(client, 1)
    receiver.responses(response(500))
    fail_for_days(client, 4)
    assert endpoint(client, failing["id"])["status"] == "Enabled"
    fail_for_days(client, 1)
    assert endpoint(client, failing["id"])["status"] == "Disabled"
    assert endpoint(client, failing["id"])["disabledAt"] == at("P9D")[0]


def test_one_failure_that_nothing_followed_disables_after_five_days_too(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(500))
    failing = subscribe(client, receiver.url, retryProfile="fast")
    trigger(client)
    advance(client, by="P5D")
    assert endpoint(client, failing["id"])["status"] == "Disabled"


def test_one_long_stride_disables_nothing_that_shorter_ones_would_not(
    client: httpx.Client, receiver: Receiver
) -> None:
    """On the way, five days after the failure, the endpoint has long responded."""
    receiver.responses(response(500), response())
    one = subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="PT0S")
    advance(client, by="P30D")
    assert state(delivery(client)) == ("Delivered", 2, None)
    assert endpoint(client, one["id"])["status"] == "Enabled"
    assert "webhook_endpoint.disabled" not in [action for _, action in audited(client, one["id"])]


def test_a_silent_endpoint_is_not_a_failing_one(client: httpx.Client, receiver: Receiver) -> None:
    quiet = subscribe(client, receiver.url)
    advance(client, by="P30D")
    assert endpoint(client, quiet["id"])["status"] == "Enabled"


def test_an_endpoint_that_is_enabled_again_has_five_days_again(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(500))
    failing = subscribe(client, receiver.url, retryProfile="fast")
    fail_for_days(client, 5)
    assert endpoint(client, failing["id"])["status"] == "Disabled"
    assert "failingSince" not in switch(client, failing["id"], "enable")
    fail_for_days(client, 4)
    assert endpoint(client, failing["id"])["status"] == "Enabled"
    fail_for_days(client, 1)
    assert endpoint(client, failing["id"])["status"] == "Disabled"


# Switching off and on, and replays


def test_switching_an_endpoint_off_cancels_what_was_to_come(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(500))
    one = subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="PT0S")
    assert switch(client, one["id"], "disable")["disabledReason"] == "switched_off"
    advance(client, by="P2D")
    assert state(delivery(client)) == ("Cancelled", 1, None)
    switch(client, one["id"], "enable")
    advance(client, by="P2D")
    assert len(receiver.messages) == 1
    receiver.responses(response())
    trigger(client)
    advance(client, by="PT0S")
    assert [state(two)[0] for two in deliveries(client)] == ["Cancelled", "Delivered"]
    actions = [action for _, action in audited(client, one["id"])]
    assert actions == [f"webhook_endpoint.{what}" for what in ("created", "disabled", "enabled")]


def test_a_replay_that_was_cancelled_is_not_tried_again_when_its_endpoint_is_enabled(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(500))
    one = subscribe(client, receiver.url, retryProfile="fast")
    trigger(client)
    advance(client, by="PT0S")
    replay(client, delivery(client)["id"])
    for how in ("disable", "enable"):
        switch(client, one["id"], how)
    advance(client, by="P1D")
    assert state(delivery(client)) == ("Cancelled", 2, None)
    assert len(receiver.messages) == 2


REPLAYED: dict[str, tuple[str, list[Manner]]] = {
    "Delivered": ("P2D", [response()]),
    "Failed": ("PT1S", [response(500)]),
    "Exhausted": ("P2D", [response(500)]),
}


@pytest.mark.parametrize(("before", "manners"), REPLAYED.values(), ids=REPLAYED)
def test_a_replay_is_one_more_attempt_of_the_same_row_under_the_same_id(
    client: httpx.Client, receiver: Receiver, before: str, manners: list[Manner]
) -> None:
    receiver.responses(*manners)
    subscribe(client, receiver.url)
    trigger(client)
    advance(client, by=before)
    was = delivery(client)
    receiver.responses(response(201))
    one = replay(client, was["id"])
    assert state(one) == ("Delivered", was["attempt"] + 1, None)
    assert one["attempts"][:-1] == was["attempts"]
    assert one["attempts"][-1]["at"] == instant_text(START_INSTANT + parse_duration(before))
    assert delivery(client) == one
    assert set(receiver.ids()) == {one["eventId"]}
    assert len({message.body for message in receiver.messages}) == 1
    advance(client, by="P3D")
    assert delivery(client) == one


def test_a_replay_that_fails_is_repeated_as_the_schedule_has_it(
    client: httpx.Client, receiver: Receiver
) -> None:
    subscribe(client, receiver.url, retryProfile="fast")
    trigger(client)
    advance(client, by="PT0S")
    receiver.responses(response(500))
    assert state(replay(client, delivery(client)["id"])) == ("Failed", 2, *at("PT1S"))
    advance(client, by="P1D")
    assert instants(delivery(client)) == at("PT0S", *SCHEDULES["fast"])
    assert delivery(client)["status"] == "Exhausted"


def test_what_was_cancelled_can_be_replayed_once_the_endpoint_is_enabled(
    client: httpx.Client, receiver: Receiver
) -> None:
    receiver.responses(response(410), response())
    gone = subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="PT0S")
    path = f"/sandbox/deliveries/{delivery(client)['id']}/replay"
    assert error(client.post(path)) == (409, "invalid_request")
    switch(client, gone["id"], "enable")
    assert state(replay(client, delivery(client)["id"])) == ("Delivered", 2, None)


def test_what_is_unknown_or_of_another_workspace_is_404(
    server: Running, client: httpx.Client, receiver: Receiver
) -> None:
    one = subscribe(client, receiver.url)
    trigger(client)
    advance(client, by="PT0S")
    paths = [
        f"/sandbox/deliveries/{delivery(client)['id']}/replay",
        *(f"/sandbox/webhooks/{one['id']}/{how}" for how in ("enable", "disable", "rotate-secret")),
    ]
    with server.client(server.new_workspace()) as stranger:
        for path in [*paths, "/sandbox/deliveries/x/replay", "/sandbox/webhooks/x/enable"]:
            assert error(stranger.post(path)) == (404, "resource_not_found"), path
        assert stranger.get("/api/webhooks").json()["data"] == {"endpoints": [], "deliveries": []}
    assert len(receiver.messages) == 1


# Bytes and time


def test_every_attempt_has_the_same_id_and_bytes_and_a_signature_of_its_own_second(
    receiver: Receiver,
) -> None:
    receiver.responses(response(500), response(500), response())
    with serving(at=datetime.now(UTC)) as today, today.client() as client:
        register_new(client)
        secret = subscribe(client, receiver.url)["secret"]
        trigger(client)
        seconds = []
        for by in ("PT0S", "PT5S", "PT5M"):
            advance(client, by=by)
            seconds.append(int(today.system_clock.instant.timestamp()))
            today.system_clock.pass_seconds(7)
    assert [message.second for message in receiver.messages] == seconds
    for message in receiver.messages:
        assert message.verified(secret)["id"] == message.id
    assert len(set(receiver.ids())) == 1
    assert len({message.body for message in receiver.messages}) == 1
    assert len({message.headers["webhook-signature"] for message in receiver.messages}) == 3


@in_turn("value", ["unknown", "", 1, None, ["fast"], {}], ids=repr)
def test_whatever_names_no_retry_profile_stands_for_the_standard_one(value: Any) -> None:
    assert (retry_profile(value), retry_profile("fast")) == ("standard", "fast")
