"""The notice of assignment: its states, its events, and payments that ignore it."""

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
)

TO_OFFER = ("start-verification", "verify", "request-financing", "receive-offer")


def state(client: httpx.Client, invoice: Any) -> str:
    return str(data(client.get(url(invoice)), 200)["state"])


def url(invoice: Any) -> str:
    return f"/sandbox/invoices/{invoice['id']}/assignment-notice"


def step(client: httpx.Client, invoice: Any, to: str) -> httpx.Response:
    return client.post(url(invoice), json={"state": to})


def pay_seller(client: httpx.Client, invoice: Any) -> Any:
    body = {"amount": 1000, "paidTo": "Seller"}
    return data(client.post(f"/sandbox/invoices/{invoice['id']}/payments", json=body))


def test_a_notice_is_sent_and_acknowledged_with_an_event_each(client: httpx.Client) -> None:
    invoice = register(client)
    move(client, invoice, *TO_OFFER)
    assert state(client, invoice) == "NotRequired"
    assert error(step(client, invoice, "Sent")) == (409, "invalid_request")
    move(client, invoice, "accept-offer")
    assert state(client, invoice) == "Pending"
    assert error(step(client, invoice, "Acknowledged")) == (409, "invalid_request")
    assert data(step(client, invoice, "Sent"))["state"] == state(client, invoice) == "Sent"
    assert error(step(client, invoice, "Sent")) == (409, "invalid_request")
    assert data(step(client, invoice, "Acknowledged"))["state"] == "Acknowledged"
    assert status(client, invoice) == "OfferAccepted"
    events = [action for _, action in audited(client, invoice["id"])]
    assert events[-2:] == ["invoice.assignment_notice_sent", "invoice.assignment_acknowledged"]
    logged = data(client.get("/sandbox/event-log", params={"subject": invoice["id"]}))
    assert {"invoice.assignment_notice_sent", "invoice.assignment_acknowledged"} <= {
        item["type"] for item in logged
    }
    move(client, invoice, "fund", "pay", "settle")
    assert error(step(client, invoice, "Sent")) == (409, "invalid_request")


@pytest.mark.parametrize(
    ("disclosure", "first"), [("Confidential", "NotRequired"), ("", "Pending")]
)
def test_a_confidential_offer_needs_no_notice(
    client: httpx.Client, disclosure: str, first: str
) -> None:
    invoice = register(client)
    move(client, invoice, *TO_OFFER[:3])
    terms = {"disclosure": disclosure} if disclosure else {}
    data(client.post("/api/offers", json={"invoiceId": invoice["id"], **terms}), 201)
    move(client, invoice, "accept-offer")
    assert state(client, invoice) == first
    data(step(client, invoice, "Sent"))
    move(client, invoice, "fund", "pay", "settle")
    assert error(step(client, invoice, "Acknowledged")) == (409, "invalid_request")


def test_a_payment_to_the_seller_shows_whether_the_debtor_knew(client: httpx.Client) -> None:
    invoice = register(client)
    move(client, invoice, *TO_OFFER, "accept-offer", "fund")
    assert pay_seller(client, invoice)["assignmentNotice"] == "Pending"
    data(step(client, invoice, "Sent"))
    assert pay_seller(client, invoice)["assignmentNotice"] == "Sent"
    log = data(client.get("/api/audit-log", params={"targetId": invoice["id"]}))
    known = [row["metadata"].get("assignmentNotice") for row in reversed(log)]
    assert [item for item in known if item] == ["Pending", "Sent"]


def test_a_debtor_that_ignores_the_notice_pays_the_seller(client: httpx.Client) -> None:
    choose(client, "notice-ignored")
    invoice = register(client, **DATED)
    advance(client, "P90D")
    assert status(client, invoice) == "Settled"
    [payment] = data(client.get(f"/sandbox/invoices/{invoice['id']}/payments"))
    assert (payment["paidTo"], payment["assignmentNotice"]) == ("Seller", "Acknowledged")
