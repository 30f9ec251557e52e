"""Reasons that one chooses: published codes, partial disputes, evidence and deadlines."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import httpx
import pytest

from domain.reasons import CODES, DECLINES, DISPUTES, REJECTIONS, RETURNS
from invoice_sandbox.project.loader import default_project, load_project
from tests.receivers import subscribe
from tests.scenario_run import (
    START_INSTANT,
    advance,
    data,
    error,
    in_scenario,
    move,
    offers,
    recorded_events,
    register,
    status,
)
from tests.support import Running
from tests.test_ledger_http import ACCEPTED, balances
from tests.test_money_in_events import bodies, inbox
from tests.test_payments import FUNDED, funded, pay, post

OFFERED = ACCEPTED[:-1]
GIVEN: dict[str, tuple[tuple[str, ...], str, str]] = {
    # what happened before: the trigger, and a code of its list
    "dispute": (FUNDED, "dispute", "GoodsDefective"),
    "rejection": (("suspect-duplicate",), "reject", "Duplicate"),
    "decline by partners": (OFFERED[:3], "decline-financing", "RiskTooHigh"),
    "decline by the seller": (OFFERED, "decline-offer", "CostTooHigh"),
    "returned payment": ((*FUNDED, "pay"), "return-payment", "AM04"),
}


def reasoned(client: httpx.Client, invoice: Any, trigger: str, **reason: Any) -> httpx.Response:
    body = {"trigger": trigger, "reason": reason}
    return client.post(f"/sandbox/invoices/{invoice['id']}/transition", json=body)


def newest_entry(client: httpx.Client, invoice: Any) -> Any:
    return data(client.get("/api/audit-log", params={"targetId": invoice["id"]}))[0]


@pytest.mark.parametrize(("before", "trigger", "code"), GIVEN.values(), ids=GIVEN)
def test_a_reason_is_in_the_audit_log_and_in_events_that_include_it(
    client: httpx.Client, before: tuple[str, ...], trigger: str, code: str
) -> None:
    address = inbox(client)["url"]
    rich = subscribe(client, address, events=["*"], include=["reason"])
    plain = subscribe(client, address, events=["*"])
    invoice = register(client)
    move(client, invoice, *before)
    reason = {"code": code, "detail": "as agreed by telephone"}
    data(reasoned(client, invoice, trigger, **reason))
    entry = newest_entry(client, invoice)
    assert entry["metadata"]["reason"] == reason
    action = entry["action"]
    assert json.loads(bodies(client, rich)[action])["reason"] == reason
    assert "reason" not in json.loads(bodies(client, plain)[action])
    both = subscribe(client, address, events=["*"], include=["reason", "money"])
    assert both["include"] == ["reason", "money"]


UNKNOWN: dict[str, tuple[str, dict[str, str]]] = {
    "dispute": ("dispute", DISPUTES),
    "rejection": ("reject", REJECTIONS),
    "decline": ("decline-offer", DECLINES),
    "returned payment": ("return-payment", RETURNS),
}


@pytest.mark.parametrize(("trigger", "codes"), UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_code_is_a_400_with_the_codes(
    client: httpx.Client, trigger: str, codes: dict[str, str]
) -> None:
    invoice = register(client)
    response = reasoned(client, invoice, trigger, code="Whim")
    assert error(response) == (400, "invalid_request")
    message = response.json()["error"]["message"]
    assert [code for code in codes if code not in message] == []


def test_the_contract_has_the_codes_of_the_domain() -> None:
    schemas = load_project(default_project()).control.document["components"]["schemas"]
    for name, codes in CODES.items():
        assert schemas[name]["properties"]["code"]["enum"] == list(codes)


WRONG: dict[str, tuple[str, dict[str, Any], int, str]] = {
    "a code of another list": ("dispute", {"code": "AM04"}, 400, "code"),
    "a trigger without reasons": ("fund", {"code": "AM04"}, 400, "reason"),
    "an amount of a rejection": ("reject", {"code": "Duplicate", "amount": 1}, 400, "amount"),
    "no code": ("dispute", {"detail": "because"}, 400, "code is required"),
    "more than is owed": (
        "dispute",
        {"code": "SetOff", "amount": 10000.01},
        409,
        "10000.00 is owed",
    ),
    "decimals": ("dispute", {"code": "SetOff", "amount": 0.001}, 409, "has 2 decimals"),
    "a deadline of yesterday": (
        "dispute",
        {"code": "SetOff", "deadline": "2020-01-01"},
        409,
        "in the past",
    ),
    "no day": ("dispute", {"code": "SetOff", "deadline": "soon"}, 400, "deadline"),
    "an illegal trigger": ("reject", {"code": "Duplicate"}, 409, "not possible"),
}


@pytest.mark.parametrize(("trigger", "reason", "code", "words"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_rejected_and_changes_nothing(
    client: httpx.Client, trigger: str, reason: dict[str, Any], code: int, words: str
) -> None:
    invoice = funded(client)
    response = reasoned(client, invoice, trigger, **reason)
    assert error(response) == (code, "invalid_request")
    assert words in response.json()["error"]["message"]
    assert status(client, invoice) == "Funded"


def test_an_offer_has_the_reason_for_which_it_was_declined(
    server: Running, client: httpx.Client
) -> None:
    invoice = register(client)
    move(client, invoice, *OFFERED)
    client.post("/api/offers", json={"invoiceId": invoice["id"]})
    for offer in offers(client, invoice):
        path = f"/sandbox/offers/{offer['id']}/decline"
        shown = data(client.post(path, json={"reason": {"code": "AdvanceTooLow"}}), 200)
        assert shown["declineReason"] == {"code": "AdvanceTooLow"}
        assert client.post(path, json={"reason": {"code": "Whim"}}).status_code == 400
    declined = [e for e in recorded_events(server, client) if e["type"] == "offer.declined"]
    assert [item["data"]["declineReason"]["code"] for item in declined] == ["AdvanceTooLow"] * 2


def test_a_payment_has_the_reason_for_which_it_was_returned(client: httpx.Client) -> None:
    invoice = funded(client)
    paid = pay(client, invoice, 10000)
    path, reason = f"/sandbox/payments/{paid['id']}/return", {"code": "AC04"}
    assert client.post(path, json={"reason": {"code": "XX99"}}).status_code == 400
    assert data(client.post(path, json={"reason": reason}), 200)["returnReason"] == reason
    assert newest_entry(client, invoice)["metadata"]["reason"] == reason


def test_the_debtor_wins_a_part_of_the_debt(server: Running, client: httpx.Client) -> None:
    invoice = funded(client)
    data(reasoned(client, invoice, "dispute", code="PriceDiffers", amount=1500))
    move(client, invoice, "uphold-dispute-after-funding")
    assert status(client, invoice) == "Funded"
    found = balances(client, invoice)
    assert found["receivable"] == 8500
    assert found["held"] == 500
    assert [item["type"] for item in recorded_events(server, client)][-2:] == [
        "invoice.dispute_resolved",
        "invoice.credit_note_applied",
    ]
    move(client, invoice, "dispute", "uphold-dispute-after-funding")
    assert status(client, invoice) == "Recourse"


def test_the_seller_wins_a_dispute_of_a_part(client: httpx.Client) -> None:
    invoice = funded(client)
    data(reasoned(client, invoice, "dispute", code="PriceDiffers", amount=1500))
    move(client, invoice, "resolve-dispute")
    assert status(client, invoice) == "Funded"
    assert balances(client, invoice)["receivable"] == 10000


@pytest.mark.parametrize(
    ("before", "trigger", "after"),
    [
        (FUNDED, "uphold-dispute-after-funding", "Recourse"),
        (OFFERED, "uphold-dispute-before-funding", "Rejected"),
    ],
)
def test_all_of_the_debt_is_no_part(
    client: httpx.Client, before: tuple[str, ...], trigger: str, after: str
) -> None:
    invoice = register(client)
    move(client, invoice, *before)
    data(reasoned(client, invoice, "dispute", code="NotOrdered", amount=10000))
    move(client, invoice, trigger)
    assert status(client, invoice) == after


def test_an_unsold_invoice_is_rejected_also_for_a_part(client: httpx.Client) -> None:
    invoice = register(client)
    move(client, invoice, *OFFERED)
    data(reasoned(client, invoice, "dispute", code="NotOrdered", amount=1))
    move(client, invoice, "uphold-dispute-before-funding")
    assert status(client, invoice) == "Rejected"


DECIDED: dict[str, tuple[dict[str, Any], str, int]] = {
    "without evidence": ({}, "Funded", 10000),
    "with evidence": ({"evidence": ["upl_sandbox_1"]}, "Recourse", 10000),
    "a part, with evidence": ({"evidence": ["Delivery note"], "amount": 400}, "Funded", 9600),
}


@pytest.mark.parametrize(("more", "after", "owed"), DECIDED.values(), ids=DECIDED)
def test_an_undecided_dispute_is_decided_after_its_deadline(
    server: Running, more: dict[str, Any], after: str, owed: int
) -> None:
    with in_scenario(server, "auto-progress", clock="frozen") as client:
        invoice = register(client)
        advance(client, "PT1M")
        move(client, invoice, "accept-offer", "fund")
        deadline = (START_INSTANT + timedelta(days=3)).date().isoformat()
        data(reasoned(client, invoice, "dispute", code="SetOff", deadline=deadline, **more))
        advance(client, to=f"{deadline}T23:59:59Z")
        assert status(client, invoice) == "Disputed"
        advance(client, "PT1S")
        assert status(client, invoice) == after
        assert balances(client, invoice)["receivable"] == owed


def test_a_deadline_of_a_decided_dispute_does_nothing(server: Running) -> None:
    with in_scenario(server, "auto-progress", clock="frozen") as client:
        invoice = register(client)
        advance(client, "PT1M")
        deadline = (START_INSTANT + timedelta(days=3)).date().isoformat()
        reason = {"code": "SetOff", "deadline": deadline, "evidence": ["x"]}
        data(reasoned(client, invoice, "dispute", **reason))
        move(client, invoice, "resolve-dispute", "dispute")
        advance(client, "P9D")
        assert status(client, invoice) == "Disputed"


def test_a_credit_note_over_the_rest_leaves_nothing_to_dispute(client: httpx.Client) -> None:
    invoice = funded(client)
    data(post(client, invoice, "credit-notes", amount=9000))
    data(reasoned(client, invoice, "dispute", code="SetOff", amount=1000))
    move(client, invoice, "uphold-dispute-after-funding")
    assert status(client, invoice) == "Recourse"
