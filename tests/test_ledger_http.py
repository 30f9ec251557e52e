"""The ledger over HTTP: what a client that reconciles payments can read and rely on."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.fingerprint import minor_units
from domain.ledger import ACCOUNTS, CREDITS, DEBITS
from invoice_sandbox.scenarios.lifecycle import load_lifecycle
from tests.cases import in_turn
from tests.scenario_run import advance, choose, data, error, move, register, status
from tests.support import Running

EVEREST = "ptn_sandbox_everest"
TO_REQUEST = ("start-verification", "verify", "request-financing")
ACCEPTED = (*TO_REQUEST, "receive-offer", "accept-offer")


def ledger(client: httpx.Client, invoice: Any) -> Any:
    """The ledger, with numbers as Decimal: balances by account, and postings."""
    response = client.get(f"/sandbox/invoices/{invoice['id']}/ledger")
    return decimals(response.content)["data"] if response.is_success else data(response)


def balances(client: httpx.Client, invoice: Any) -> dict[str, Decimal]:
    return {name: value for name, value in ledger(client, invoice)["balances"].items() if value}


def test_an_invoice_that_is_not_financed_has_an_empty_ledger(client: httpx.Client) -> None:
    invoice = register(client)
    assert ledger(client, invoice) == {
        "invoiceId": invoice["id"],
        "offerId": None,
        "currency": "EUR",
        "asOf": "2026-11-23T09:30:00Z",
        "balances": dict.fromkeys(ACCOUNTS, 0),
        "postings": [],
    }


def test_every_step_is_a_posting_of_debits_and_credits(client: httpx.Client) -> None:
    invoice = register(client)
    move(client, invoice, *ACCEPTED)
    for trigger in ("fund", "pay", "settle"):
        advance(client, "P1D")
        move(client, invoice, trigger)
    found = ledger(client, invoice)
    assert [(one["at"][:10], one["step"]) for one in found["postings"]] == [
        ("2026-11-23", "purchase"),
        ("2026-11-24", "pay-out"),
        ("2026-11-25", "payment"),
        ("2026-11-26", "settlement"),
    ]
    assert found["postings"][1]["entries"] == [
        {"account": "held", "debit": 8000},
        {"account": "sellerReceived", "credit": Decimal("7802.67")},
        {"account": "result", "credit": Decimal("197.33")},  # a day less than the offer says
    ]
    assert balances(client, invoice) == {
        "debtorPaid": 10000,
        "sellerReceived": Decimal("9802.67"),
        "result": Decimal("197.33"),
    }


def test_the_discount_runs_from_the_pay_out(client: httpx.Client) -> None:
    invoice = register(client)
    move(client, invoice, *ACCEPTED)
    advance(client, to="2027-01-12T00:00:00Z")
    move(client, invoice, "fund")
    # 12 % of 8000 for 10 of 360 days, and 0.4 % of 10,000
    assert balances(client, invoice)["result"] == Decimal("66.67")


def test_a_step_that_the_status_does_not_allow_is_a_conflict(client: httpx.Client) -> None:
    invoice = register(client)
    move(client, invoice, *ACCEPTED)
    before = ledger(client, invoice)
    path = f"/sandbox/invoices/{invoice['id']}/transition"
    assert client.post(path, json={"trigger": "settle"}).status_code == 409
    assert ledger(client, invoice) == before


def test_reading_a_ledger_changes_nothing(client: httpx.Client) -> None:
    invoice = register(client)
    move(client, invoice, *ACCEPTED, "fund", "become-overdue")
    advance(client, to="2027-02-21T00:00:00Z")
    first = ledger(client, invoice)
    assert [one["step"] for one in first["postings"]][-1:] == ["interest"]
    assert first["balances"]["interestDue"] == 80
    assert ledger(client, invoice) == first


def test_interest_is_charged_per_day_whenever_the_debtor_pays(client: httpx.Client) -> None:
    """12 % of what is outstanding: 8000 for 10 days, then 3000 for 20 days."""
    invoice = register(client)
    move(client, invoice, *ACCEPTED, "fund", "become-overdue")
    advance(client, to="2027-02-01T12:00:00Z")
    move(client, invoice, "pay-partially")
    advance(client, to="2027-02-21T00:00:00Z")
    move(client, invoice, "pay", "settle")
    interest = [one for one in ledger(client, invoice)["postings"] if one["step"] == "interest"]
    amounts = [one["entries"][0]["debit"] for one in interest]
    assert amounts == [Decimal("26.67"), Decimal("20.00")]
    found = balances(client, invoice)
    assert found["result"] == 200 + sum(amounts)
    assert found["sellerReceived"] == 9800 - sum(amounts)


def test_a_starting_invoice_has_an_opening_balance(client: httpx.Client) -> None:
    statuses = {"Funded", "Overdue", "Paid", "Settled", "OfferAccepted"}
    for invoice in data(client.get("/api/invoices")):
        found = ledger(client, invoice)
        assert (invoice["status"] in statuses) == bool(found["postings"])
        for posting in found["postings"]:
            known = posting["step"] in {"opening-balance", "purchase"}
            assert known == (posting["at"] is None)
        assert sums(found["balances"]) == (sums(found["balances"])[1],) * 2


def test_a_dispute_changes_no_balance_of_a_starting_invoice(client: httpx.Client) -> None:
    for invoice in data(client.get("/api/invoices")):
        if invoice["status"] in {"Funded", "Overdue"}:
            before = balances(client, invoice)
            move(client, invoice, "dispute")
            assert balances(client, invoice) == before
            assert before["sellerReceived"] > 0


def sums(found: dict[str, Decimal]) -> tuple[Decimal | int, Decimal | int]:
    return sum(found[name] for name in DEBITS), sum(found[name] for name in CREDITS)


def test_an_unknown_invoice_is_404(client: httpx.Client) -> None:
    response = client.get("/sandbox/invoices/inv_nowhere/ledger")
    assert error(response) == (404, "resource_not_found")


def test_a_key_without_control_of_the_sandbox_is_403(server: Running, client: httpx.Client) -> None:
    key = data(client.post("/api/developer/api-keys", json={"scopes": ["invoices:read"]}))
    with server.client(key["secret"]) as other:
        response = other.get("/sandbox/invoices/inv_sandbox_0001/ledger")
    assert error(response) == (403, "insufficient_scope")


ODD = {
    "JPY 1000.5": ("1000.5", "JPY", "1001"),
    "KWD 1234.5678": ("1234.5678", "KWD", "1234.568"),
    "EUR 100.005": ("100.005", "EUR", "100.01"),
    "EUR 0.03": ("0.03", "EUR", "0.03"),
    "CLF 7.77775": ("7.77775", "CLF", "7.7778"),
    "no currency": ("10.005", "beads", "10.01"),
    "twenty digits": ("12345678901234567890.12", "EUR", "12345678901234567890.12"),
}


@in_turn(("amount", "currency", "face"), ODD.values(), ids=ODD)
def test_an_amount_with_odd_digits_is_split_and_settled_to_the_last_minor_unit(
    client: httpx.Client, amount: str, currency: str, face: str
) -> None:
    invoice = register(client, amount=Decimal(amount), currency=currency)
    move(client, invoice, *ACCEPTED, "fund-partially", "fund", *2 * ["pay-partially"])
    if status(client, invoice) != "Paid":  # half of the smallest unit is all of it
        move(client, invoice, "pay")
    response = client.get("/api/offers", params={"invoiceId": invoice["id"]})
    (offer,) = decimals(response.content)["data"]
    assert offer["advanceAmount"] + offer["reserveAmount"] == offer["faceValue"] == Decimal(face)
    assert -offer["advanceAmount"].as_tuple().exponent <= minor_units(currency)
    move(client, invoice, "settle")
    found = decimals(client.get(f"/sandbox/invoices/{invoice['id']}/ledger").content)
    ended = {name: value for name, value in found["data"]["balances"].items() if value}
    assert ended["debtorPaid"] == Decimal(face)
    assert ended["debtorPaid"] == ended["sellerReceived"] + ended.get("result", 0)
    for entries in (one["entries"] for one in found["data"]["postings"]):
        debit, credit = (sum(one.get(side, 0) for one in entries) for side in ("debit", "credit"))
        assert debit == credit > 0


def test_a_part_payment_that_leaves_nothing_is_the_payment(client: httpx.Client) -> None:
    invoice = register(client, amount=1, currency="JPY")
    move(client, invoice, *TO_REQUEST)
    body = {"invoiceId": invoice["id"], "partnerId": EVEREST, "serviceFee": {"rate": 0}}
    data(client.post("/api/offers", json=body), 201)
    move(client, invoice, "accept-offer", "fund", "pay-partially")
    assert status(client, invoice) == "Paid"


def decimals(content: bytes) -> Any:
    """JSON with every number as Decimal, digit by digit."""
    return json.loads(content, parse_float=Decimal, parse_int=Decimal)


PERIODS = {0: "2027-01-23", 1: "2027-01-24", 30: "2027-02-22", 90: "2027-04-23", 120: "2027-05-23"}
"""The instant of the default of an invoice due on 2027-01-22, by the recourse period."""


@pytest.mark.parametrize(("days", "day"), PERIODS.items())
@pytest.mark.parametrize("recourse", ["Recourse", "NonRecourse"])
def test_the_default_falls_after_the_end_of_the_recourse_period_of_the_offer(
    client: httpx.Client, recourse: str, days: int, day: str
) -> None:
    choose(client, "default-recourse" if recourse == "Recourse" else "default-non-recourse")
    invoice = register(client)
    advance(client, "PT5S")
    body = {"invoiceId": invoice["id"], "partnerId": EVEREST, "recourse": recourse}
    offer = data(client.post("/api/offers", json={**body, "recoursePeriodDays": days}), 201)
    client.post(f"/sandbox/offers/{offer['id']}/accept")
    advance(client, to=f"{day}T00:00:00Z")
    assert status(client, invoice) == "Defaulted"
    (event,) = data(
        client.get(
            "/api/audit-log", params={"targetId": invoice["id"], "action": "invoice.defaulted"}
        )
    )
    assert event["occurredAt"] == f"{day}T00:00:00Z"


@pytest.mark.parametrize("paid_on", ["2027-01-17", "2027-01-27", "2027-04-22"])
def test_the_unpaid_rest_of_a_part_payment_is_in_default_as_well(
    client: httpx.Client, paid_on: str
) -> None:
    choose(client, "default-recourse")
    invoice = register(client)
    advance(client, to=f"{paid_on}T12:00:00Z")
    move(client, invoice, "pay-partially")
    advance(client, to="2027-04-22T23:59:59Z")
    assert status(client, invoice) in {"Overdue", "PartiallyPaid"}
    advance(client, to="2027-04-23T00:00:00Z")
    assert status(client, invoice) == "Defaulted"


def test_a_repurchase_states_advance_fees_and_interest(client: httpx.Client) -> None:
    invoice = register(client)
    move(client, invoice, *ACCEPTED, "fund", "become-overdue")
    advance(client, to="2027-04-23T00:00:00Z")
    move(client, invoice, "default", "invoke-recourse", "repurchase")
    interest = Decimal("242.67")  # 12 % of 8000 for 91 of 360 days
    (bought,) = [one for one in ledger(client, invoice)["postings"] if one["step"] == "repurchase"]
    assert {"account": "sellerRepaid", "debit": 8000 + interest} in bought["entries"]
    assert balances(client, invoice) == {
        "sellerRepaid": 8000 + interest,
        "sellerReceived": 7800,
        "result": 200 + interest,
    }


def test_a_trigger_of_the_control_api_waits_for_no_date_and_costs_no_interest_before_it(
    client: httpx.Client,
) -> None:
    invoice = register(client)
    move(client, invoice, *ACCEPTED, "fund", "become-overdue", "default")
    assert status(client, invoice) == "Defaulted"
    assert balances(client, invoice)["result"] == 200
    move(client, invoice, "invoke-recourse", "repurchase")
    assert balances(client, invoice)["sellerRepaid"] == 8000


def test_part_payments_after_the_default_lower_what_the_seller_buys_back(
    client: httpx.Client,
) -> None:
    invoice = register(client)
    move(client, invoice, *ACCEPTED, "fund", "become-overdue")
    advance(client, to="2027-04-23T00:00:00Z")
    move(client, invoice, "default", "pay-partially")
    assert status(client, invoice) == "Defaulted"
    move(client, invoice, "invoke-recourse", "pay-partially")
    assert status(client, invoice) == "Recourse"
    assert balances(client, invoice)["receivable"] == 2500
    move(client, invoice, "repurchase")
    found = balances(client, invoice)
    interest = Decimal("242.67")
    assert found["debtorPaid"] == 7500
    assert found["sellerRepaid"] == 500 + interest  # 2500 less the reserve of 2000
    assert found["debtorPaid"] == (
        found["sellerReceived"] - found["sellerRepaid"] + found["result"]
    )


LIMITED = {"recourse": "LimitedRecourse", "partnerId": EVEREST}
BOUGHT_BACK: dict[str, tuple[dict[str, Any], tuple[str, ...], int]] = {
    "half by default": (LIMITED, ("become-overdue", "default", "invoke-recourse"), 4000),
    "a tenth": (
        {**LIMITED, "recourseLimit": 0.1},
        ("become-overdue", "default", "invoke-recourse"),
        800,
    ),
    "all after a dispute": (LIMITED, ("dispute", "uphold-dispute-after-funding"), 8000),
    "all after a dispute, without recourse": (
        {**LIMITED, "recourse": "NonRecourse"},
        ("dispute", "uphold-dispute-after-funding"),
        8000,
    ),
    "full recourse": (
        {**LIMITED, "recourse": "Recourse", "recourseLimit": 0.1},
        ("become-overdue", "default", "invoke-recourse"),
        8000,
    ),
}


@pytest.mark.parametrize(("terms", "steps", "repaid"), BOUGHT_BACK.values(), ids=BOUGHT_BACK)
def test_limited_recourse_limits_what_the_seller_bears_of_a_default(
    client: httpx.Client, terms: dict[str, Any], steps: tuple[str, ...], repaid: int
) -> None:
    invoice = register(client)
    move(client, invoice, *TO_REQUEST)
    body = {"invoiceId": invoice["id"], **terms}
    offer = data(client.post("/api/offers", json=body), 201)
    is_limited = terms["recourse"] == "LimitedRecourse"
    assert offer.get("recourseLimit") == (terms.get("recourseLimit", 0.5) if is_limited else None)
    move(client, invoice, "accept-offer", "fund", *steps, "repurchase")
    found = balances(client, invoice)
    assert found["sellerRepaid"] == repaid
    assert found.get("result", 0) == 200 - (8000 - repaid)


STEPS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 99)), max_size=12)
"""Days that pass, and which of the possible triggers comes then."""

LIFECYCLE = Path(__file__).parents[1] / "scenarios" / "lifecycle.yaml"
MACHINE = load_lifecycle(LIFECYCLE).machines["invoice"]


def possible(client: httpx.Client, invoice: Any, number: int) -> str | None:
    """One of the triggers that the invoice allows, if any."""
    legal = MACHINE.legal[status(client, invoice)]
    return legal[number % len(legal)] if legal else None


@pytest.mark.slow
@given(
    first=st.sampled_from(["fund", "fund-partially"]),
    steps=STEPS,
    cents=st.integers(1, 10**9),
    currency=st.sampled_from(["EUR", "JPY", "KWD"]),
    recourse=st.sampled_from(["Recourse", "NonRecourse", "LimitedRecourse"]),
)
@settings(max_examples=30, deadline=None)
def test_money_is_conserved_over_every_sequence_of_steps(
    server: Running,
    first: str,
    steps: list[tuple[int, int]],
    cents: int,
    currency: str,
    recourse: str,
) -> None:
    with server.client(server.new_workspace()) as client:
        amount = Decimal(cents).scaleb(-minor_units(currency))
        invoice = register(client, amount=amount, currency=currency)
        move(client, invoice, *TO_REQUEST)
        body = {"invoiceId": invoice["id"], "partnerId": EVEREST, "recourse": recourse}
        data(client.post("/api/offers", json=body), 201)
        move(client, invoice, "accept-offer", first)
        path = f"/sandbox/invoices/{invoice['id']}"
        for days, number in steps:
            advance(client, f"P{days}D")
            body = {"trigger": possible(client, invoice, number) or "pay"}
            response = client.post(f"{path}/transition", json=body)
            assert response.status_code in {200, 409}, response.text  # a guard is 409
            shown = decimals(client.get(f"{path}/ledger").content)["data"]
            found = shown["balances"]
            assert sums(found) == (sums(found)[1],) * 2
            assert min(found[name] for name in ACCOUNTS if name != "result") >= 0
            for posting in shown["postings"]:
                sides = [one.get("debit", 0) - one.get("credit", 0) for one in posting["entries"]]
                assert sum(sides) == 0
            if status(client, invoice) in {"Settled", "Repurchased", "WrittenOff"}:
                received = found["sellerReceived"] - found["sellerRepaid"]
                assert found["debtorPaid"] == received + found["result"]


def test_small_payments_do_not_round_the_interest_away(client: httpx.Client) -> None:
    invoice = register(client, amount=1500, currency="JPY", dueDate="2026-12-03")
    move(client, invoice, *ACCEPTED, "fund")
    advance(client, to="2026-12-03T00:00:00Z")
    for _ in range(3):
        advance(client, "P1D")
        move(client, invoice, "pay-partially")
    # 12 % of 1200, 450 and 75 for a day each are 0.4, 0.15 and 0.025
    assert balances(client, invoice)["interestDue"] == 1


@in_turn("currency", ["AUD", "CAD", "GBP", "HKD", "NZD", "SGD", "ZAR"])
def test_some_money_markets_count_years_of_365_days(client: httpx.Client, currency: str) -> None:
    invoice = register(client, amount=36500, currency=currency, dueDate="2026-12-03")
    move(client, invoice, *ACCEPTED)
    (offer,) = data(client.get("/api/offers", params={"invoiceId": invoice["id"]}))
    assert offer["discountFee"] == {
        "annualRate": 0.12,
        "dayCount": "ACT/365F",
        "tenorDays": 10,
        "amount": 96,  # 12 % of 29,200 for 10 of 365 days
    }
    assert offer["lateInterest"]["dayCount"] == "ACT/365F"


def test_late_interest_counts_the_days_of_the_offer(client: httpx.Client) -> None:
    invoice = register(client, amount=36500, currency=" gbp", dueDate="2026-12-03")
    move(client, invoice, *ACCEPTED, "fund")
    advance(client, to="2026-12-13T00:00:00Z")
    assert balances(client, invoice)["interestDue"] == 96
