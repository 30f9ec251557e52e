"""Simulated ids do what they say, alone and combined: each seller's with each debtor's."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.scenario_docs import project
from tests.scenario_run import (
    advance,
    choose,
    data,
    fingerprint,
    move,
    new_invoice,
    register,
    run_verification,
    status,
)
from tests.test_scenarios_verification import upload

ORDINARY: dict[str, Any] = {
    "sellerId": "org_seller_of_nobody",
    "debtorId": "org_debtor_of_nobody",
    "invoiceNumber": "ORD-4711",
    "amount": 12345.67,
    "currency": "EUR",
    "issueDate": "2026-11-04",
    "dueDate": "2027-01-14",
}
"""An invoice that has nothing in common with a fixture."""

ALONE = {
    "action-required": "VerificationPending",
    "duplicate-financed": "Rejected",
    "kyb-declined": "Rejected",
    "kyb-hold": "Verified",
    "debtor-disputes-early": "Rejected",
    "debtor-insolvent": "Repurchased",
    "default-recourse": "Repurchased",
    "dispute-resolved": "Verified",
    "late-payment": "Settled",
    "sanctions-hit": "Rejected",
    "screening-hit-after-funding": "Settled",
    "verification-failed": "Verified",
}
"""By scenario with a simulated id: the status in which an invoice with that id alone ends."""

TOGETHER = {
    ("docs_missing", "default"): "VerificationPending",
    ("docs_missing", "dispute_resolved"): "VerificationPending",
    ("docs_missing", "disputes"): "VerificationPending",
    ("docs_missing", "insolvent"): "VerificationPending",
    ("docs_missing", "late"): "VerificationPending",
    ("docs_missing", "sanctions"): "Rejected",
    ("docs_missing", "screening_hit"): "VerificationPending",
    ("docs_missing", "unknown"): "VerificationPending",
    ("financed_elsewhere", "default"): "Rejected",
    ("financed_elsewhere", "dispute_resolved"): "Rejected",
    ("financed_elsewhere", "disputes"): "Rejected",
    ("financed_elsewhere", "insolvent"): "Rejected",
    ("financed_elsewhere", "late"): "Rejected",
    ("financed_elsewhere", "sanctions"): "Rejected",
    ("financed_elsewhere", "screening_hit"): "Rejected",
    ("financed_elsewhere", "unknown"): "Rejected",
    ("kyb_declined", "default"): "Rejected",
    ("kyb_declined", "dispute_resolved"): "Rejected",
    ("kyb_declined", "disputes"): "Rejected",
    ("kyb_declined", "insolvent"): "Rejected",
    ("kyb_declined", "late"): "Rejected",
    ("kyb_declined", "sanctions"): "Rejected",
    ("kyb_declined", "screening_hit"): "Rejected",
    ("kyb_declined", "unknown"): "Rejected",
    ("kyb_hold", "default"): "Repurchased",
    ("kyb_hold", "dispute_resolved"): "Verified",
    ("kyb_hold", "disputes"): "Rejected",
    ("kyb_hold", "insolvent"): "Repurchased",
    ("kyb_hold", "late"): "Settled",
    ("kyb_hold", "sanctions"): "Rejected",
    ("kyb_hold", "screening_hit"): "Settled",
    ("kyb_hold", "unknown"): "Verified",
}
"""By seller's and debtor's id: the status in which the invoice ends."""

WITH_DOCUMENTS = {
    "default": "Repurchased",
    "dispute_resolved": "Verified",
    "disputes": "Rejected",
    "insolvent": "Repurchased",
    "late": "Settled",
    "screening_hit": "Settled",
    "unknown": "Verified",
}
"""By debtor's id: where an invoice ends whose seller uploads the missing document."""

PAID_AFTER_ALL = {"Repurchased", "Settled"}

IDS = {one.name: dict(one.begins) for one in project().scenarios.values() if one.begins}


def ends(client: httpx.Client, invoice: object, expected: str) -> str:
    """The status, as long after the registration as an invoice with that end needs."""
    advance(client, "P200D" if expected in PAID_AFTER_ALL else "P40D")
    return status(client, invoice)


def audited_statuses(client: httpx.Client, invoice: dict[str, str]) -> list[str]:
    log = data(client.get("/api/audit-log", params={"targetId": invoice["id"]}))
    return [one["metadata"]["to"] for one in reversed(log) if "to" in one["metadata"]]


def test_the_tables_have_every_simulated_id() -> None:
    assert IDS.keys() == ALONE.keys()
    sellers = {one["sellerId"] for one in IDS.values() if "sellerId" in one}
    debtors = {one["debtorId"] for one in IDS.values() if "debtorId" in one}
    pairs = {(f"sim_seller_{seller}", f"sim_debtor_{debtor}") for seller, debtor in TOGETHER}
    assert pairs == {(seller, debtor) for seller in sellers for debtor in debtors}


@pytest.mark.parametrize("name", sorted(ALONE))
def test_a_simulated_id_alone_does_what_it_says(client: httpx.Client, name: str) -> None:
    invoice = register(client, **{**ORDINARY, **IDS[name]})
    assert ends(client, invoice, ALONE[name]) == ALONE[name]


def test_a_seller_who_is_financed_elsewhere_is_suspected_at_once(client: httpx.Client) -> None:
    members = {**ORDINARY, "sellerId": "sim_seller_financed_elsewhere"}
    assert fingerprint(client, **members)["registryState"] == "DuplicateFinanced"
    assert register(client, **members)["status"] == "DuplicateSuspected"


def test_the_scenario_of_a_foreign_financing_suspects_any_invoice(client: httpx.Client) -> None:
    choose(client, "duplicate-financed")
    invoice = register(client, **ORDINARY)
    assert status(client, invoice) == "DuplicateSuspected"
    assert ends(client, invoice, "Rejected") == "Rejected"


@pytest.mark.parametrize(("seller", "debtor"), sorted(TOGETHER))
def test_two_simulated_ids_are_combined(client: httpx.Client, seller: str, debtor: str) -> None:
    parties = {"sellerId": f"sim_seller_{seller}", "debtorId": f"sim_debtor_{debtor}"}
    invoice = register(client, **{**ORDINARY, **parties})
    expected = TOGETHER[seller, debtor]
    assert ends(client, invoice, expected) == expected
    passed = audited_statuses(client, invoice)
    assert ("OnHold" in passed) is (
        (seller in {"kyb_hold", "kyb_declined"} or debtor == "sanctions")
        and seller != "financed_elsewhere"
    )
    if seller != "financed_elsewhere" and debtor == "dispute_resolved":
        assert "Disputed" in passed
    if seller != "financed_elsewhere" and debtor == "unknown":
        assert "VerificationFailed" in passed


@pytest.mark.parametrize("debtor", sorted(WITH_DOCUMENTS))
def test_the_debtor_behaves_as_its_id_says_once_the_documents_are_there(
    client: httpx.Client, debtor: str
) -> None:
    parties = {"sellerId": "sim_seller_docs_missing", "debtorId": f"sim_debtor_{debtor}"}
    invoice = register(client, **{**ORDINARY, **parties})
    advance(client, "P7D")
    upload(client, invoice)
    run_verification(client, invoice)
    assert ends(client, invoice, WITH_DOCUMENTS[debtor]) == WITH_DOCUMENTS[debtor]


def test_a_hold_stays_for_the_sanctions_hit_when_the_seller_is_cleared(
    client: httpx.Client,
) -> None:
    parties = {"sellerId": "sim_seller_kyb_hold", "debtorId": "sim_debtor_sanctions"}
    invoice = register(client, **{**ORDINARY, **parties})
    advance(client, "PT2S")
    checklist = run_verification(client, invoice)["checklist"]
    in_review = [one["code"] for one in checklist if one["state"] == "ManualReview"]
    assert in_review == ["seller_kyb", "sanctions_screening"]
    move(client, invoice, "reject")


def hints(response: httpx.Response) -> list[str]:
    why = response.json()["data"][0]["why"]
    return list(why.get("hints", []))


def test_an_id_that_cannot_be_combined_is_a_hint(client: httpx.Client) -> None:
    body = new_invoice(sellerId="sim_seller_kyb_hold", debtorId="sim_debtor_sanctions")
    named = {"X-Sandbox-Scenario": "happy-path"}
    response = client.post("/api/invoices", json=body, headers=named)
    invoice = data(response, 201)
    journal = client.get("/sandbox/requests", params={"operation": "createInvoice"})
    assert hints(journal) == [
        f"{name} does not start for {invoice['id']}: it cannot be combined with happy-path"
        for name in ("kyb-hold", "sanctions-hit")
    ]
    both = client.post("/api/invoices", json={**body, "invoiceNumber": "BOTH"})
    assert both.status_code == 201
    assert hints(client.get("/sandbox/requests", params={"operation": "createInvoice"})) == []
