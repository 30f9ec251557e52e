"""Dates happen by themselves in every scenario but `manual`."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.scenario_docs import project
from tests.scenario_run import (
    advance,
    audited,
    choose,
    data,
    error,
    move,
    offers,
    register,
    replace_runs,
    status,
    transition,
)

DUE = "2026-12-12"
BEFORE = ["start-verification", "verify", "request-financing", "receive-offer"]


def moves(client: httpx.Client, invoice: Any) -> list[tuple[str, str]]:
    """The day and the action of each event about an invoice."""
    return [(at[:10], action) for at, action in audited(client, invoice["id"])]


def driven(client: httpx.Client, *triggers: str, scenario: str = "webhook-duplicate") -> Any:
    """An invoice that a client drives by hand, in a scenario whose steps are all done."""
    choose(client, scenario)
    invoice = register(client, dueDate=DUE)
    advance(client, "PT10S")
    assert status(client, invoice) == "Offered"
    move(client, invoice, *triggers)
    return invoice


def test_a_funded_invoice_is_overdue_and_then_in_default(client: httpx.Client) -> None:
    invoice = driven(client, "accept-offer", "fund")
    advance(client, to=f"{DUE}T23:59:59Z")
    assert status(client, invoice) == "Funded"
    advance(client, "P180D")
    assert moves(client, invoice)[-2:] == [
        ("2026-12-13", "invoice.overdue"),
        ("2027-03-13", "invoice.defaulted"),
    ]


def test_the_default_follows_the_recourse_period_of_the_offer(client: httpx.Client) -> None:
    choose(client, "webhook-duplicate")
    invoice = register(client, dueDate=DUE)
    move(client, invoice, "start-verification", "verify", "request-financing")
    body = {"invoiceId": invoice["id"], "recoursePeriodDays": 10}
    data(client.post("/api/offers", json=body), 201)
    move(client, invoice, "accept-offer", "fund", "pay-partially")
    advance(client, "P60D")
    assert moves(client, invoice)[-2:] == [
        ("2026-12-13", "invoice.overdue"),
        ("2026-12-23", "invoice.defaulted"),
    ]


def test_a_part_paid_after_the_due_date_changes_no_date(client: httpx.Client) -> None:
    invoice = driven(client, "accept-offer", "fund")
    advance(client, to="2026-12-22T00:00:00Z")
    move(client, invoice, "pay-partially")
    advance(client, to="2027-03-12T23:59:59Z")
    assert status(client, invoice) == "PartiallyPaid"
    advance(client, "PT1S")
    assert status(client, invoice) == "Defaulted"


NOT_FINANCED = [(), ("decline-offer",), ("decline-offer", "cancel-financing")]


@pytest.mark.parametrize("triggers", NOT_FINANCED)
def test_an_unfinanced_invoice_expires(client: httpx.Client, triggers: tuple[str, ...]) -> None:
    invoice = driven(client, *triggers)
    advance(client, "P100D")
    assert moves(client, invoice)[-1] == ("2026-12-13", "invoice.expired")
    assert [one["status"] for one in offers(client, invoice)] != ["Received"]


def test_an_offer_on_an_expired_invoice_is_dead(client: httpx.Client) -> None:
    choose(client, "webhook-duplicate")
    invoice = register(client, dueDate=DUE)
    move(client, invoice, "start-verification", "verify", "request-financing")
    body = {"invoiceId": invoice["id"], "validUntil": "2027-06-03T00:00:00Z"}
    data(client.post("/api/offers", json=body), 201)
    advance(client, "P30D")
    assert status(client, invoice) == "Expired"
    assert [one["status"] for one in offers(client, invoice)] == ["Expired"]


def test_an_invoice_past_due_is_rejected_30_days_after_its_verification(
    client: httpx.Client,
) -> None:
    choose(client, "auto-progress")
    invoice = register(client, issueDate="2026-10-03", dueDate="2026-11-03")
    advance(client, "P29D")
    assert status(client, invoice) == "VerificationFailed"
    advance(client, "P2D")
    assert moves(client, invoice)[-1] == ("2026-12-23", "invoice.rejected")


def test_a_correction_starts_the_30_days_again(client: httpx.Client) -> None:
    choose(client, "auto-progress")
    invoice = register(client, issueDate="2026-10-03", dueDate="2026-11-03")
    advance(client, "P20D")
    move(client, invoice, "start-verification", "fail-verification")
    advance(client, "P20D")
    assert status(client, invoice) == "VerificationFailed"
    advance(client, "P10D")
    assert status(client, invoice) == "Rejected"


def test_nothing_is_paid_out_after_the_due_date(client: httpx.Client) -> None:
    invoice = driven(client, "accept-offer")
    advance(client, "P70D")
    for trigger in ("fund", "fund-partially"):
        response = transition(client, invoice, trigger)
        assert error(response) == (409, "invalid_request")
        assert "was due on 2026-12-12" in response.text
    assert status(client, invoice) == "OfferAccepted"
    move(client, invoice, "withdraw-offer")
    assert status(client, invoice) == "Expired"


def test_a_date_that_passes_in_a_dispute_comes_after_it(client: httpx.Client) -> None:
    invoice = driven(client, "accept-offer", "fund", "dispute")
    advance(client, "P50D")
    assert status(client, invoice) == "Disputed"
    move(client, invoice, "resolve-dispute")
    assert status(client, invoice) == "Overdue"
    advance(client, to="2027-03-13T00:00:00Z")
    assert status(client, invoice) == "Defaulted"


def test_in_manual_no_date_does_anything(client: httpx.Client) -> None:
    funded, unfinanced = register(client, dueDate=DUE), register(client, invoiceNumber="UN")
    move(client, funded, *BEFORE, "accept-offer", "fund")
    advance(client, "P400D")
    assert (status(client, funded), status(client, unfinanced)) == ("Funded", "Registered")


def test_every_scenario_can_be_without_dates_and_manual_with_them(client: httpx.Client) -> None:
    choose(client, "happy-path", dates=False)
    still = register(client, dueDate=DUE)
    advance(client, "P100D")
    assert status(client, still) == "FinancingRequested"
    choose(client, "manual", dates=True)
    moving = register(client, invoiceNumber="MOVING", dueDate="2027-04-03")
    advance(client, "P200D")
    assert status(client, moving) == "Expired"
    shown = data(client.get("/sandbox/scenarios"))
    without = [one["name"] for one in shown if not one["conditions"]["dates"]]
    assert without == ["manual"]


def test_dates_stop_with_their_scenario_and_start_with_it(client: httpx.Client) -> None:
    choose(client, "happy-path")
    stopped = register(client, dueDate=DUE)
    replace_runs(client, "manual")
    started = register(client, invoiceNumber="STARTED", dueDate=DUE)
    choose(client, "happy-path", started)
    advance(client, "P100D")
    assert (status(client, stopped), status(client, started)) == ("Registered", "Expired")


ENDS = {"Settled", "Repurchased", "WrittenOff", "Rejected", "Withdrawn", "Expired"}
WAIT = {
    "action-required": "VerificationPending",  # for the document
    "dispute-after-funding": "Recourse",  # for the repurchase
    "partial-funding": "Defaulted",
    "competing-offers": "OfferAccepted",  # for the pay-out
}


@pytest.mark.parametrize(
    "name", sorted(one.name for one in project().scenarios.values() if one.steps and not one.faults)
)
def test_no_scenario_stops_before_its_dates(client: httpx.Client, name: str) -> None:
    choose(client, name)
    invoice = register(client, dueDate=DUE, **project().scenarios[name].begins)
    advance(client, "P400D")
    assert status(client, invoice) in {WAIT.get(name), *ENDS}
