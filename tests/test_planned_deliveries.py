"""Deliveries that are intended: to whom, of what, when each attempt is made, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from handlers._deliveries import planned_attempts
from tests.support import Running

WEBHOOKS = "/api/webhooks"
URL = "https://partner.example/hooks"
INVOICE = {
    "sellerId": "org_seller_acme",
    "debtorId": "org_debtor_globex",
    "invoiceNumber": "PLAN-1",
    "amount": 10000,
    "currency": "EUR",
    "dueDate": "2027-01-20",
}
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
RECORDED = [
    "invoice.registered",
    "invoice.verification_started",
    "invoice.verified",
    "financing_request.created",
    "financing_request.routed",
    "offer.received",
]
"""The kinds of all events of an invoice that gets an offer."""


def endpoint(client: httpx.Client, **body: Any) -> Any:
    """A new endpoint, as its creation shows it."""
    answer = client.post(WEBHOOKS, json={"url": URL, **body})
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


def register(client: httpx.Client, *triggers: str, **headers: str) -> str:
    """The id of a new invoice that was moved on by ``triggers``."""
    answer = client.post("/api/invoices", json=INVOICE, headers=headers)
    assert answer.status_code == 201, answer.text
    invoice_id = str(answer.json()["data"]["id"])
    for trigger in triggers:
        path = f"/sandbox/invoices/{invoice_id}/transition"
        assert client.post(path, json={"trigger": trigger}).status_code == 200
    return invoice_id


def to_offer(client: httpx.Client) -> str:
    """The id of a new invoice that has gone all the way to its offer."""
    return register(client, "start-verification", "verify", "request-financing", "receive-offer")


def deliveries(client: httpx.Client) -> list[Any]:
    """All deliveries, in the order in which they were planned."""
    listed: list[Any] = client.get(WEBHOOKS).json()["data"]["deliveries"]
    return listed[::-1]


def kinds(client: httpx.Client) -> list[str]:
    return [one["eventType"] for one in deliveries(client)]


def key_with(client: httpx.Client, *scopes: str) -> str:
    """The secret of a new key in the same workspace."""
    answer = client.post("/api/developer/api-keys", json={"scopes": list(scopes)})
    return str(answer.json()["data"]["secret"])


# What a delivery is -----------------------------------------------------------------------------


def test_an_event_gives_one_delivery_that_is_pending_and_not_tried_yet(
    client: httpx.Client,
) -> None:
    hook = endpoint(client)
    register(client, "start-verification", "verify")
    (delivery,) = deliveries(client)
    assert delivery.pop("id").startswith("dlv_sandbox_")
    assert delivery.pop("eventId").startswith("evt_sandbox_")
    assert delivery == {
        "endpointId": hook["id"],
        "eventType": "invoice.verified",
        "status": "Pending",
        "attempts": [],
        "planned": [{"at": "2026-11-21T09:30:00Z", "outcome": "Delivered"}],
        "simulated": True,
        "createdAt": "2026-11-21T09:30:00Z",
    }


def test_deliveries_are_listed_newest_first_beside_the_endpoints(client: httpx.Client) -> None:
    endpoint(client)
    to_offer(client)
    data = client.get(WEBHOOKS).json()["data"]
    assert data.keys() == {"endpoints", "deliveries"}
    assert [one["eventType"] for one in data["deliveries"]] == [
        "offer.received",
        "invoice.verified",
    ]
    assert len({one["id"] for one in data["deliveries"]}) == 2


def test_a_signed_sample_is_no_delivery(client: httpx.Client) -> None:
    endpoint(client)
    answer = client.post("/api/webhooks/test", json={}).json()["data"]
    assert (answer["delivery"], deliveries(client)) == (None, [])


def test_a_move_that_is_refused_leaves_no_delivery(client: httpx.Client) -> None:
    endpoint(client, events=["*"])
    invoice_id = register(client)
    before = deliveries(client)
    path = f"/sandbox/invoices/{invoice_id}/transition"
    assert client.post(path, json={"trigger": "pay"}).status_code == 409
    assert deliveries(client) == before


# To whom ----------------------------------------------------------------------------------------

WANTED: dict[str, tuple[list[str], list[str]]] = {
    # what an endpoint asks for: the kinds that are delivered to it
    "everything": (["*"], RECORDED),
    "a family": (["invoice.*"], RECORDED[:3]),
    "two families": (["offer.*", "financing_request.*"], RECORDED[3:]),
    "a name": (["financing_request.routed"], ["financing_request.routed"]),
    "a name and its family": (["invoice.verified", "invoice.*", "*"], RECORDED),
    "nothing that ever happens": (["invoice.exploded"], []),
    "another spelling": (["Invoice.Verified"], []),
    "the beginning of a name": (["invoice.verif*", "inv*"], []),
    "nothing in particular": ([], ["invoice.verified", "offer.received"]),
}


@pytest.mark.parametrize(("events", "delivered"), WANTED.values(), ids=WANTED)
def test_an_endpoint_gets_what_it_asks_for_and_each_event_once(
    client: httpx.Client, events: list[str], delivered: list[str]
) -> None:
    endpoint(client, events=events)
    to_offer(client)
    assert kinds(client) == delivered


@pytest.mark.parametrize(
    ("events", "delivered"),
    [
        (["invoice.*", "offer.*"], RECORDED[:3]),
        (["invoice.verified", "offer.received"], ["invoice.verified"]),
        (["*", "invoice.verified"], ["invoice.verified"]),
        (["*"], []),
    ],
    ids=" ".join,
)
def test_an_endpoint_never_gets_what_its_creator_may_not_read(
    server: Running, client: httpx.Client, events: list[str], delivered: list[str]
) -> None:
    with server.client(key_with(client, "webhooks:write", "invoices:read")) as creator:
        endpoint(creator, events=events)
    to_offer(client)
    assert kinds(client) == delivered


DISABLED: dict[str, dict[str, Any]] = {
    "switched off": {"enabled": False},
    "no address": {"url": None},
    "an address that is not allowed": {"url": "https://10.0.0.1/hooks"},
}


@pytest.mark.parametrize("body", DISABLED.values(), ids=DISABLED)
def test_a_disabled_endpoint_gets_nothing(client: httpx.Client, body: dict[str, Any]) -> None:
    endpoint(client, events=["*"], **body)
    enabled = endpoint(client, events=["invoice.registered"])
    to_offer(client)
    assert [one["endpointId"] for one in deliveries(client)] == [enabled["id"]]


def test_two_endpoints_get_a_delivery_each_of_the_same_event(client: httpx.Client) -> None:
    first = endpoint(client)
    second = endpoint(client, retryProfile="fast")
    register(client, "start-verification", "verify")
    planned = deliveries(client)
    assert [one["endpointId"] for one in planned] == [first["id"], second["id"]]
    assert planned[0]["eventId"] == planned[1]["eventId"]
    assert planned[0]["id"] != planned[1]["id"]


def test_an_endpoint_hears_nothing_of_what_was_before_it(client: httpx.Client) -> None:
    register(client, "start-verification", "verify")
    endpoint(client, events=["*"])
    assert deliveries(client) == []


def test_an_endpoint_hears_nothing_of_another_workspace(
    server: Running, client: httpx.Client
) -> None:
    with server.client(server.new_workspace()) as other:
        endpoint(other, events=["*"])
        to_offer(client)
        assert (deliveries(client), deliveries(other)) == ([], [])


def test_a_reset_leaves_no_delivery(client: httpx.Client) -> None:
    endpoint(client)
    to_offer(client)
    assert client.post("/sandbox/reset").status_code == 200
    assert client.get(WEBHOOKS).json()["data"] == {"endpoints": [], "deliveries": []}


# When, and how each attempt ends ----------------------------------------------------------------

STANDARD = [
    "2026-11-21T12:00:00Z",
    "2026-11-21T12:00:05Z",
    "2026-11-21T12:05:05Z",
    "2026-11-21T12:35:05Z",
    "2026-11-21T14:35:05Z",
    "2026-11-21T19:35:05Z",
    "2026-11-22T05:35:05Z",
    "2026-11-22T15:35:05Z",
]
FAST = [
    "2026-11-21T12:00:00Z",
    "2026-11-21T12:00:01Z",
    "2026-11-21T12:00:06Z",
    "2026-11-21T12:00:21Z",
    "2026-11-21T12:01:21Z",
]
FAIL = {"kind": "fail"}
TROUBLES: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    # what befalls the deliveries: how each attempt ends
    "none": ([], ["Delivered"]),
    "one failure": ([FAIL], ["500", "Delivered"]),
    "three failures": ([{**FAIL, "count": 3, "status": 503}], ["503"] * 3 + ["Delivered"]),
    "all but the last": ([{**FAIL, "count": 4}], ["500"] * 4 + ["Delivered"]),
    "as many as attempts": ([{**FAIL, "count": 5}], ["500"] * 5),
    "more than attempts": ([{**FAIL, "count": 1000}], ["500"] * 5),
    "failure for ever": ([{**FAIL, "count": None, "status": 302}], ["302"] * 5),
    "two failures of two kinds": ([{**FAIL, "status": 502}, FAIL], ["502", "500", "Delivered"]),
    "gone": ([{**FAIL, "status": 410, "count": 3}], ["410"]),
    "gone after a failure": ([FAIL, {**FAIL, "status": 410}], ["500", "410"]),
    "duplicate": ([{"kind": "duplicate"}], ["Delivered", "duplicate"]),
    "two more": ([{"kind": "duplicate", "count": 2}], ["Delivered", "duplicate", "duplicate"]),
    "as many more as fit": (
        [{"kind": "duplicate", "count": None}],
        ["Delivered", *["duplicate"] * 4],
    ),
    "failure, then duplicate": (
        [{"kind": "duplicate"}, FAIL],
        ["500", "Delivered", "duplicate"],
    ),
    "no room for a duplicate": (
        [{**FAIL, "count": 4}, {"kind": "duplicate"}],
        ["500"] * 4 + ["Delivered"],
    ),
    "bad signature": ([{"kind": "bad-signature"}], ["bad-signature", "Delivered"]),
    "stale timestamp": ([{"kind": "stale-timestamp"}], ["stale-timestamp", "Delivered"]),
    "changed body": (
        [{"kind": "changed-body", "count": 2}],
        ["changed-body", "changed-body", "Delivered"],
    ),
    "forged, then failing": (
        [{"kind": "bad-signature"}, FAIL],
        ["bad-signature", "500", "Delivered"],
    ),
}


def told(attempt: Mapping[str, Any]) -> str:
    """The way an attempt ends in one word: its status, its variation, or its outcome."""
    return str(attempt.get("responseStatus") or attempt.get("variation") or attempt["outcome"])


@pytest.mark.parametrize(("troubles", "ends"), TROUBLES.values(), ids=TROUBLES)
def test_troubles_befall_one_attempt_after_the_other(
    troubles: Sequence[Mapping[str, Any]], ends: list[str]
) -> None:
    planned = planned_attempts(NOON, "fast", troubles)
    assert [told(one) for one in planned] == ends
    assert [one["at"] for one in planned] == FAST[: len(ends)]
    good = {"Delivered", "duplicate"}
    assert [one["outcome"] == "Delivered" for one in planned] == [end in good for end in ends]


@pytest.mark.parametrize(("profile", "instants"), [("standard", STANDARD), ("fast", FAST)])
def test_attempts_keep_to_the_schedule_of_the_endpoint(profile: str, instants: list[str]) -> None:
    planned = planned_attempts(NOON, profile, [{**FAIL, "count": None}])
    assert [one["at"] for one in planned] == instants


def test_the_standard_schedule_takes_a_day_and_three_and_a_half_hours() -> None:
    last = datetime.fromisoformat(STANDARD[-1])
    assert last - NOON == timedelta(hours=27, minutes=35, seconds=5)


def test_a_late_delivery_begins_an_hour_after_its_event() -> None:
    late = {"at": "2026-11-21T13:00:00Z", "outcome": "Delivered", "variation": "late"}
    assert planned_attempts(NOON, "fast", [{"kind": "late"}]) == [late]


def test_a_late_delivery_may_fail_too() -> None:
    planned = planned_attempts(NOON, "standard", [FAIL, {"kind": "late"}])
    assert planned == [
        {"at": "2026-11-21T13:00:00Z", "outcome": "Failed", "responseStatus": 500},
        {"at": "2026-11-21T13:00:05Z", "outcome": "Delivered", "variation": "late"},
    ]


# Whose story it is ------------------------------------------------------------------------------


def test_troubles_are_those_of_the_story_that_the_request_names(client: httpx.Client) -> None:
    endpoint(client, events=["invoice.registered"])
    register(client)
    register(client, **{"X-Sandbox-Scenario": "webhook-down-then-up"})
    assert [len(one["planned"]) for one in deliveries(client)] == [1, 4]


def test_troubles_are_those_of_the_thing_s_own_story(client: httpx.Client) -> None:
    endpoint(client, events=["invoice.verification_started"])
    told_on = register(client)
    other = client.post("/api/invoices", json={**INVOICE, "invoiceNumber": "INV-OTHER"})
    plain = other.json()["data"]["id"]
    choice = {"name": "webhook-duplicate", "invoiceId": told_on, "with": {"times": 3}}
    assert client.put("/sandbox/scenario", json=choice).status_code == 200
    for invoice_id in (told_on, plain):
        path = f"/sandbox/invoices/{invoice_id}/transition"
        assert client.post(path, json={"trigger": "start-verification"}).status_code == 200
    assert [len(one["planned"]) for one in deliveries(client)] == [4, 1]


def test_the_instants_are_virtual(client: httpx.Client) -> None:
    endpoint(client, events=["invoice.registered"])
    client.post("/sandbox/clock/advance", json={"by": "P1D"})
    register(client)
    (delivery,) = deliveries(client)
    assert delivery["createdAt"] == delivery["planned"][0]["at"] == "2026-11-22T09:30:00Z"


# What is not shown ------------------------------------------------------------------------------


def test_no_secret_is_in_a_list_a_delivery_or_the_journal(client: httpx.Client) -> None:
    secret = endpoint(client, events=["*"])["secret"]
    to_offer(client)
    listed = client.get(WEBHOOKS).text
    seen = listed + client.get("/sandbox/requests").text + client.get("/api/audit-log").text
    assert "dlv_sandbox_" in seen
    assert secret not in seen
    assert "whsec_" not in listed


def test_equal_seeds_and_requests_give_equal_deliveries(server: Running) -> None:
    lists = []
    for seed in (4711, 4711, 4712):
        with server.client(server.new_workspace(seed)) as client:
            endpoint(client, events=["*"])
            to_offer(client)
            lists.append(client.get(WEBHOOKS).text)
    assert lists[0] == lists[1] != lists[2]
