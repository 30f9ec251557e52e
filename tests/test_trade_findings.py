"""What a professional finds in an invoice: strange parties, the double sale, credit notes."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.scenario_run import (
    advance,
    choose,
    data,
    findings,
    fingerprint,
    move,
    new_invoice,
    register,
    run_verification,
    status,
)

STRANGE_PARTIES: dict[str, tuple[dict[str, str], dict[str, tuple[str, str]]]] = {
    "no debtor": ({"debtorId": ""}, {"debtor_kyb": ("ManualReview", "BlankDebtor")}),
    "a white seller": ({"sellerId": " \u200b"}, {"seller_kyb": ("ManualReview", "BlankSeller")}),
    "neither": (
        {"sellerId": "", "debtorId": ""},
        {
            "seller_kyb": ("ManualReview", "BlankSeller"),
            "debtor_kyb": ("ManualReview", "BlankDebtor"),
        },
    ),
    "one and the same": (
        {"debtorId": "org_seller_acme"},
        {"related_party": ("ManualReview", "SameParty")},
    ),
    "the same in capitals": (
        {"debtorId": " ORG_SELLER_ACME "},
        {"related_party": ("ManualReview", "SameParty")},
    ),
}


@pytest.mark.parametrize(("members", "found"), STRANGE_PARTIES.values(), ids=STRANGE_PARTIES.keys())
def test_strange_parties_are_held_for_a_review(
    client: httpx.Client, members: dict[str, str], found: dict[str, tuple[str, str]]
) -> None:
    choose(client, "auto-progress")
    invoice = register(client, **members)
    advance(client, "P1D")
    assert status(client, invoice) == "OnHold"
    assert findings(run_verification(client, invoice)) == found
    move(client, invoice, "release-hold")
    assert run_verification(client, invoice)["status"] == "Verified"


UNUSUAL: dict[str, tuple[dict[str, Any], str]] = {
    "no currency": ({"currency": "XXX"}, "UnknownCurrency"),
    "shells": ({"currency": "shells"}, "UnknownCurrency"),
    "due in three years": ({"dueDate": "2029-11-23"}, "DueDateFar"),
    "issued long ago": ({"issueDate": "1990-01-01"}, "IssueDateFar"),
}


@pytest.mark.parametrize(("members", "note"), UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_unusual_finishes_with_a_finding(
    client: httpx.Client, members: dict[str, Any], note: str
) -> None:
    choose(client, "auto-progress")
    invoice = register(client, **members)
    advance(client, "PT6S")
    assert status(client, invoice) == "Offered"
    rows = run_verification(client, invoice)["checklist"]
    (row,) = (one for one in rows if one["code"] == "eligibility")
    assert (row["state"], row["detail"]) == ("Passed", note)


def test_an_ordinary_invoice_has_no_finding(client: httpx.Client) -> None:
    rows = run_verification(client, register(client))["checklist"]
    assert [one["code"] for one in rows if "detail" in one] == ["duplicate_check", "assignability"]


SOLD: dict[str, Any] = {"amount": 777, "invoiceNumber": "SOLD-007"}
TWICE: dict[str, Any] = {"sellerId": "org_seller_hooli", "amount": 777, "invoiceNumber": "sold 7"}


def test_the_same_invoice_from_another_seller_is_similar(client: httpx.Client) -> None:
    first = register(client, **SOLD)
    found = fingerprint(client, **TWICE)
    assert (found["duplicateRisk"], found["registryState"]) == ("Similar", "RegisteredUnique")
    assert found["matches"] == [
        {
            "matchType": "Similar",
            "reason": "OtherSeller",
            "registryId": first["registryId"],
            "ownRegistration": True,
            "matchedState": "RegisteredUnique",
        }
    ]


@pytest.mark.parametrize(
    "other", [{"amount": 778}, {"debtorId": "org_debtor_stark"}, {"currency": "USD"}]
)
def test_an_invoice_of_another_seller_that_differs_otherwise_is_unlike(
    client: httpx.Client, other: dict[str, Any]
) -> None:
    register(client, **SOLD)
    assert fingerprint(client, **{**TWICE, **other})["matches"] == []


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"amount": 9000}, "SameNumber"),
        ({"invoiceNumber": "ANOTHER"}, "SameAmountAndDueDate"),
    ],
)
def test_a_similar_invoice_has_a_reason(
    client: httpx.Client, members: dict[str, Any], reason: str
) -> None:
    register(client)
    (match,) = fingerprint(client, **members)["matches"]
    assert (match["matchType"], match["reason"]) == ("Similar", reason)


def pushed(client: httpx.Client, **members: Any) -> dict[str, Any]:
    """The audit event of an item that an ERP system pushed."""
    body = new_invoice(**members)
    made = data(client.post("/api/connectors/erp/invoices", json={"invoices": [body]}), 202)
    log = data(client.get("/api/audit-log", params={"targetId": made["importId"]}))
    found: dict[str, Any] = next(one for one in log if one["action"] != "erp_import.received")
    return found


CREDIT_NOTES = ["81", "83", "261", "262", "296", "308", "381", 381, "396", "420", "458", "532"]


@pytest.mark.parametrize("code", [*CREDIT_NOTES, "Credit note", "credit-memo"])
def test_a_credit_note_is_read_as_one(client: httpx.Client, code: str | int) -> None:
    event = pushed(client, documentType=code)
    assert event["action"] == "erp_item.rejected"
    assert event["metadata"]["problems"] == ["the item is a credit note, which cannot be financed"]


@pytest.mark.parametrize("code", ["380", 380, "Invoice", "386"])
def test_a_document_type_of_an_invoice_is_registered(client: httpx.Client, code: str | int) -> None:
    event = pushed(client, documentType=code)
    assert event["action"] == "invoice.registered"
    assert "documentReadAs" not in event["metadata"]


def test_an_unknown_document_type_is_reported(client: httpx.Client) -> None:
    event = pushed(client, documentType="Avoir")
    assert event["action"] == "invoice.registered"
    assert event["metadata"]["documentType"] == "Avoir"
    assert event["metadata"]["documentReadAs"] == "INVOICE"


def test_a_key_that_may_not_read_an_event_learns_so(
    client: httpx.Client,
) -> None:
    body = {"name": "narrow", "scopes": ["webhooks:write", "webhooks:read", "invoices:read"]}
    secret = data(client.post("/api/developer/api-keys", json=body), 201)["secret"]
    hook = {"url": "https://partner.example/hooks", "events": ["offer.received"]}
    narrow = {"Authorization": f"Bearer {secret}", "X-Sandbox-Explain": "1"}
    response = client.post("/api/webhooks", json=hook, headers=narrow)
    made = data(response, 201)
    assert made["deniedEvents"] == ["offer.received"]
    (warning,) = (one for one in made["warnings"] if "deniedEvents" in one)
    assert "'offer.received'" in warning
    assert "offers:read" in warning
    (shown,) = data(client.get("/api/webhooks"))["endpoints"]
    assert shown["deniedEvents"] == ["offer.received"]
    journal = data(client.get("/sandbox/requests", params={"operation": "createWebhook"}))
    assert warning in journal[0]["why"]["hints"]
