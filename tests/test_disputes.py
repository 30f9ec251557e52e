"""A dispute suspends the scenario of its invoice, which goes on when the seller has won."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scenario_run import (
    advance,
    agenda,
    audited,
    choose,
    due,
    in_scenario,
    move,
    register,
    replace_runs,
    run_to_end,
    status,
)
from tests.support import Running

DUE = "2027-01-22"
"""The due date of the invoice, in all of these tests."""

ACROSS: dict[str, tuple[str, str, str, str]] = {
    "the due date, paid on it": (
        "full-lifecycle",
        "2027-01-17",
        "2027-02-03",
        """
        2027-02-03 invoice.paid
        2027-02-04 invoice.settled
        """,
    ),
    "the due date, not the payment": (
        "late-payment",
        "2027-01-17",
        "2027-01-27",
        """
        2027-01-27 invoice.overdue
        2027-02-01 invoice.paid
        2027-02-02 invoice.settled
        """,
    ),
    "due date and payment": (
        "late-payment",
        "2027-01-17",
        "2027-02-12",
        """
        2027-02-12 invoice.overdue
        2027-02-12 invoice.paid
        2027-02-13 invoice.settled
        """,
    ),
    "the payment": (
        "late-payment",
        "2027-01-27",
        "2027-02-12",
        """
        2027-02-12 invoice.paid
        2027-02-13 invoice.settled
        """,
    ),
    "due date and default": (
        "default-recourse",
        "2027-01-17",
        "2027-05-03",
        """
        2027-05-03 invoice.overdue
        2027-05-03 invoice.defaulted
        2027-05-04 invoice.recourse_invoked
        2027-05-18 invoice.repurchased
        """,
    ),
    "the default": (
        "default-non-recourse",
        "2027-03-03",
        "2027-04-27",
        """
        2027-04-27 invoice.defaulted
        2027-04-28 invoice.written_off
        """,
    ),
    "neither": (
        "default-recourse",
        "2027-02-03",
        "2027-04-22",
        """
        2027-04-23 invoice.defaulted
        2027-04-24 invoice.recourse_invoked
        2027-05-08 invoice.repurchased
        """,
    ),
}


def disputed(client: httpx.Client, scenario: str, first: str, last: str) -> Any:
    """An invoice that the debtor disputes from one day to another."""
    choose(client, scenario)
    invoice = register(client, dueDate=DUE)
    advance(client, to=f"{first}T12:00:00Z")
    move(client, invoice, "dispute")
    advance(client, to=f"{last}T12:00:00Z")
    assert status(client, invoice) == "Disputed"
    return invoice


def days(client: httpx.Client, invoice: Any) -> list[tuple[str, str]]:
    """Day and action of what is in the audit log of an invoice after its dispute."""
    log = [(at[:10], action) for at, action in audited(client, invoice["id"])]
    ended = [action for _, action in log].index("invoice.dispute_resolved")
    return log[ended + 1 :]


@pytest.mark.parametrize(("scenario", "first", "last", "table"), ACROSS.values(), ids=ACROSS)
def test_after_a_dispute_the_invoice_goes_on_as_its_dates_say(
    client: httpx.Client, scenario: str, first: str, last: str, table: str
) -> None:
    invoice = disputed(client, scenario, first, last)
    move(client, invoice, "resolve-dispute")
    run_to_end(client)
    assert days(client, invoice) == [tuple(one.split()) for one in table.strip().splitlines()]


ENDS = {
    "full-lifecycle": {"Settled"},
    "late-payment": {"Settled"},
    "partial-funding": {"Funded", "Overdue", "Defaulted"},
    "partial-payment-dilution": {"Settled"},
    "two-part-payments": {"Settled"},
    "overpayment": {"Settled"},
    "payment-misdirected": {"Settled"},
    "payment-returned": {"Settled"},
    "default-recourse": {"Repurchased"},
    "default-non-recourse": {"WrittenOff"},
}
FUNDED_HOURS = st.integers(1, 24 * 160)
"""Hours after the registration; the invoice is funded within minutes and due in 60 days."""


@pytest.mark.slow
@given(scenario=st.sampled_from(sorted(ENDS)), start=FUNDED_HOURS, length=st.integers(0, 24 * 200))
@settings(max_examples=20, deadline=None)
def test_a_scenario_ends_as_without_the_dispute(
    server: Running, scenario: str, start: int, length: int
) -> None:
    with in_scenario(server, scenario) as client:
        invoice = register(client, dueDate=DUE)
        advance(client, f"PT{start}H")
        path = f"/sandbox/invoices/{invoice['id']}/transition"
        if client.post(path, json={"trigger": "dispute"}).status_code == 200:
            advance(client, f"PT{length}H")
            move(client, invoice, "resolve-dispute")
        run_to_end(client)
        assert status(client, invoice) in ENDS[scenario]


def test_a_dispute_during_the_verification_holds_up_the_offer(client: httpx.Client) -> None:
    choose(client, "auto-progress")
    invoice = register(client)
    advance(client, "PT1S")
    move(client, invoice, "dispute")
    done = advance(client, "P1D")["happened"]
    assert {one["outcome"] for one in done} == {"skipped"}
    assert due(client) == []
    move(client, invoice, "resolve-dispute")
    assert status(client, invoice) == "Offered"


def test_only_a_dispute_keeps_skipped_steps(server: Running, client: httpx.Client) -> None:
    choose(client, "auto-progress")
    invoice = register(client)
    advance(client, "PT1S")
    move(client, invoice, "verify")
    done = advance(client, "PT2S")["happened"]
    assert "skipped" in {one["outcome"] for one in done}
    assert server.records(client, "suspended_steps") == []


def test_nothing_goes_on_after_a_dispute_that_the_debtor_wins(client: httpx.Client) -> None:
    invoice = disputed(client, "late-payment", "2027-01-17", "2027-02-12")
    move(client, invoice, "uphold-dispute-after-funding")
    assert agenda(client)["due"] == []
    assert status(client, invoice) == "Recourse"


def test_nothing_goes_on_in_a_run_that_was_ended_during_the_dispute(
    client: httpx.Client,
) -> None:
    invoice = disputed(client, "late-payment", "2027-01-17", "2027-02-12")
    replace_runs(client, "manual")
    move(client, invoice, "resolve-dispute")
    assert status(client, invoice) == "Funded"


def test_what_was_done_after_one_dispute_is_not_done_after_another(client: httpx.Client) -> None:
    invoice = disputed(client, "late-payment", "2027-01-17", "2027-01-27")
    move(client, invoice, "resolve-dispute", "dispute", "resolve-dispute")
    assert status(client, invoice) == "Overdue"
    done = [one for one in agenda(client)["done"] if one["do"] != "pass-date"]
    outcomes = [one["outcome"] for one in done if one["at"] > DUE]
    assert outcomes == ["done", "skipped"]


def test_a_default_does_not_happen_in_a_run_that_was_ended(client: httpx.Client) -> None:
    choose(client, "default-recourse")
    invoice = register(client, dueDate=DUE)
    advance(client, to="2027-02-03T00:00:00Z")
    replace_runs(client, "manual")
    advance(client, "P200D")
    assert status(client, invoice) == "Overdue"


def test_a_default_that_a_payment_prevents_is_no_failed_step(client: httpx.Client) -> None:
    choose(client, "default-recourse")
    invoice = register(client, dueDate=DUE)
    advance(client, to="2027-02-03T00:00:00Z")
    move(client, invoice, "pay")
    run_to_end(client)
    assert status(client, invoice) == "Paid"
    assert "scenario_step.failed" not in [action for _, action in audited(client, invoice["id"])]
