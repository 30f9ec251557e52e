"""The findings of a review of a party hold for all of its invoices, also after funding."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.scenario_run import (
    DATED,
    advance,
    audited,
    choose,
    data,
    error,
    move,
    register,
    status,
    transition,
)

TO_OFFER = ("start-verification", "verify", "request-financing", "receive-offer")
PASSED = {"kyb": "Passed", "kybUntil": "2027-11-24", "screening": "Unknown", "insolvent": False}


def party(client: httpx.Client, name: str) -> Any:
    return data(client.get(f"/sandbox/parties/{name}"), 200)


def change(client: httpx.Client, name: str, **members: Any) -> Any:
    return data(client.put(f"/sandbox/parties/{name}", json=members), 200)


def actions(client: httpx.Client, invoice: Any) -> list[str]:
    return [action for _, action in audited(client, invoice["id"])]


def funded(client: httpx.Client, **members: Any) -> Any:
    invoice = register(client, **members)
    move(client, invoice, *TO_OFFER, "accept-offer", "fund")
    return invoice


def of_party(client: httpx.Client, number: str, **members: Any) -> Any:
    return register(client, **{**DATED, **members, "invoiceNumber": number})


def test_the_second_invoice_of_a_cleared_seller_is_not_held_again(client: httpx.Client) -> None:
    seller = {"sellerId": "sim_seller_kyb_hold"}
    first = of_party(client, "P-1", **seller)
    advance(client, "P2D")
    assert "invoice.held" in actions(client, first)
    assert party(client, "sim_seller_kyb_hold") == {"id": "sim_seller_kyb_hold", **PASSED}
    second = of_party(client, "P-2", **seller)
    advance(client, "PT5S")
    assert status(client, second) == "Verified"
    assert "invoice.held" not in actions(client, second)


def test_a_kyb_expires_after_a_year(client: httpx.Client) -> None:
    seller = {"sellerId": "sim_seller_kyb_hold"}
    of_party(client, "P-1", **seller)
    advance(client, to="2027-11-24T12:00:00Z")
    valid = of_party(client, "P-2", **seller, dueDate="2028-03-01")
    advance(client, to="2027-11-25T00:00:00Z")
    expired = of_party(client, "P-3", **seller, dueDate="2028-03-01")
    advance(client, "PT5S")
    assert (status(client, valid), status(client, expired)) == ("Verified", "OnHold")
    advance(client, "P2D")
    assert status(client, expired) == "Verified"
    assert party(client, "sim_seller_kyb_hold")["kybUntil"] == "2028-11-25"


DECLINED = {
    "seller": ({"sellerId": "sim_seller_kyb_declined"}, {"kyb": "Declined"}),
    "debtor": ({"debtorId": "sim_debtor_sanctions"}, {"screening": "Confirmed"}),
}


@pytest.mark.parametrize("role", DECLINED)
def test_the_next_invoice_of_a_declined_party_is_rejected(client: httpx.Client, role: str) -> None:
    members, known = DECLINED[role]
    first = of_party(client, "P-1", **members)
    advance(client, "P2D")
    assert status(client, first) == "Rejected"
    [name] = members.values()
    assert known.items() <= party(client, name).items()
    choose(client, "auto-progress")
    second = of_party(client, "P-2", **members)
    advance(client, "PT5S")
    assert status(client, second) == "Rejected"
    assert "invoice.held" not in actions(client, second)


def test_a_sanctions_hit_declines_no_seller_whose_kyb_is_in_review(client: httpx.Client) -> None:
    both = {"sellerId": "sim_seller_kyb_hold", "debtorId": "sim_debtor_sanctions"}
    first = of_party(client, "P-1", **both)
    advance(client, "P3D")
    assert status(client, first) == "Rejected"
    assert party(client, "sim_seller_kyb_hold")["kyb"] == "Unknown"
    assert party(client, "sim_debtor_sanctions")["screening"] == "Confirmed"


def test_a_hit_freezes_the_money_until_it_is_cleared(client: httpx.Client) -> None:
    invoice, other = funded(client, **DATED), register(client, invoiceNumber="P-2")
    move(client, other, *TO_OFFER)
    change(client, DATED["debtorId"], screening="Hit")
    for stopped, trigger in ((invoice, "pay"), (other, "accept-offer")):
        response = transition(client, stopped, trigger)
        assert error(response) == (409, "invalid_request")
        assert "The debtor has a sanctions hit" in response.text
    assert "invoice.screening_hit" not in actions(client, other)
    change(client, DATED["debtorId"], screening="Clear")
    move(client, invoice, "pay", "settle")
    move(client, other, "accept-offer")
    assert actions(client, invoice)[-4:] == [
        *("invoice.screening_hit", "invoice.screening_cleared", "invoice.paid", "invoice.settled")
    ]


def test_a_party_is_the_same_with_spaces_around_its_id(client: httpx.Client) -> None:
    invoice = funded(client, debtorId=" org_debtor_globex ")
    change(client, "org_debtor_globex", screening="Hit")
    assert "invoice.screening_hit" in actions(client, invoice)


def test_a_screening_hit_after_funding_is_an_event_of_every_financed_invoice(
    client: httpx.Client,
) -> None:
    debtor = {"debtorId": "sim_debtor_screening_hit"}
    choose(client, "manual")
    another = funded(client, **{**DATED, **debtor, "invoiceNumber": "P-2"})
    invoice = of_party(client, "P-1", **debtor)
    advance(client, "P6D")
    assert status(client, invoice) == "Funded"
    assert error(transition(client, another, "pay")) == (409, "invalid_request")
    advance(client, "P90D")
    assert status(client, invoice) == "Settled"
    for item in (invoice, another):
        hit = ["invoice.screening_hit", "invoice.screening_cleared"]
        assert [action for action in actions(client, item) if "screening" in action] == hit


def test_what_an_insolvent_debtor_owes_is_in_default(client: httpx.Client) -> None:
    name = "org_debtor_of_this_test"
    paid_out, offered, verified = (
        register(client, debtorId=name, invoiceNumber=f"P-{number}") for number in range(3)
    )
    move(client, paid_out, *TO_OFFER, "accept-offer", "fund")
    move(client, offered, *TO_OFFER, "accept-offer")
    change(client, name, insolvent=True)
    assert status(client, paid_out) == "Defaulted"
    response = transition(client, offered, "fund")
    assert (response.status_code, "The debtor is insolvent" in response.text) == (409, True)
    move(client, verified, "start-verification")
    run = data(client.post("/api/verification/run", json={"invoiceId": verified["id"]}))
    found = {row["code"]: row.get("detail") for row in run["checklist"]}
    assert (run["status"], found["eligibility"]) == ("Failed", "DebtorInsolvent")


def test_an_insolvent_debtor_is_in_default_before_the_due_date(client: httpx.Client) -> None:
    invoice = of_party(client, "P-1", debtorId="sim_debtor_insolvent")
    advance(client, "P40D")
    assert status(client, invoice) == "Repurchased"
    ends = {action: at[:10] for at, action in audited(client, invoice["id"])}
    assert (ends["invoice.defaulted"], ends["invoice.repurchased"]) == ("2026-12-03", "2026-12-18")
    assert "invoice.overdue" not in ends


BEFORE_FUNDING = {
    "expired": ({"kyb": "Passed", "kybUntil": "2026-01-31"}, "has a KYB that expired"),
    "declined": ({"kyb": "Declined"}, "was declined"),
    "hit": ({"screening": "Confirmed"}, "has a sanctions hit"),
}


@pytest.mark.parametrize("case", BEFORE_FUNDING)
def test_nothing_is_paid_out_to_a_seller_that_is_not_to_be_dealt_with(
    client: httpx.Client, case: str
) -> None:
    members, problem = BEFORE_FUNDING[case]
    invoice = register(client)
    move(client, invoice, *TO_OFFER, "accept-offer")
    change(client, DATED["sellerId"], **members)
    response = transition(client, invoice, "fund")
    assert (response.status_code, f"The seller {problem}" in response.text) == (409, True)
    change(client, DATED["sellerId"], kyb="Passed", screening="Clear")
    move(client, invoice, "fund")


def test_a_party_that_nobody_reviewed_is_unknown(client: httpx.Client) -> None:
    unknown = {"kyb": "Unknown", "kybUntil": None, "screening": "Unknown", "insolvent": False}
    assert party(client, "org_nobody") == {"id": "org_nobody", **unknown}
    assert error(client.put("/sandbox/parties/x", json={})) == (400, "invalid_request")
    assert error(client.put("/sandbox/parties/x", json={"kyb": "No"})) == (400, "invalid_request")
