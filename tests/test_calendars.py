"""Business days: dates and payments wait for them where the scenario says so."""

from __future__ import annotations

from datetime import date, time, timedelta
from pathlib import Path
from typing import Any

import holidays
import httpx
import pytest
import yaml

from domain.calendars import Calendar, easter_sunday
from tests.scenario_run import advance, audited, choose, data, move, register, status

FILE = Path(__file__).parent.parent / "fixtures" / "calendars.yaml"
OPEN = {"businessDays": True}
BEFORE = ["start-verification", "verify", "request-financing", "receive-offer", "accept-offer"]
GOOD_FRIDAY, SATURDAY, MONDAY = "2027-03-26", "2027-01-23", "2027-01-25"


def days(client: httpx.Client, invoice: Any) -> dict[str, str]:
    """The day of the latest event of each type."""
    return {action: at[:10] for at, action in audited(client, invoice["id"])}


def values(client: httpx.Client, invoice: Any) -> dict[str, str | None]:
    """The value date of the latest posting of each step."""
    shown = data(client.get(f"/sandbox/invoices/{invoice['id']}/ledger"))
    return {posting["step"]: posting.get("valueDate") for posting in shown["postings"]}


def test_the_holidays_of_target_are_those_of_the_package() -> None:
    target = yaml.safe_load(FILE.read_text())["records"][0]
    for year in range(2002, 2101):
        sunday = date.fromordinal(easter_sunday(year))
        moving = {sunday + timedelta(days=offset) for offset in target["easter"]}
        fixed = {date.fromisoformat(f"{year}-{day}") for day in target["holidays"]}
        assert fixed | moving == set(holidays.financial_holidays("XECB", years=year)), year


def test_a_payment_on_a_weekend_comes_on_monday(client: httpx.Client) -> None:
    choose(client, "full-lifecycle", **OPEN)
    invoice = register(client, dueDate=SATURDAY)
    advance(client, "P90D")
    found = days(client, invoice)
    assert (found["invoice.paid"], found["invoice.settled"]) == (MONDAY, "2027-01-26")
    assert "invoice.overdue" not in found
    assert values(client, invoice)["payment"] == MONDAY


def test_every_day_counts_without_the_condition(client: httpx.Client) -> None:
    choose(client, "full-lifecycle")
    invoice = register(client, dueDate=SATURDAY)
    advance(client, "P90D")
    assert days(client, invoice)["invoice.paid"] == SATURDAY
    assert set(values(client, invoice).values()) == {None}


DUE = {
    ("EUR", GOOD_FRIDAY): ("2027-03-31", "2027-06-25"),
    ("USD", GOOD_FRIDAY): ("2027-03-27", "2027-06-25"),
    ("EUR", "2026-12-25"): ("2026-12-29", "2027-03-26"),
    ("EUR", "2026-12-26"): ("2026-12-29", "2027-03-31"),
    ("usd", "2026-12-25"): ("2026-12-26", "2027-03-26"),
    ("EUR", "2026-12-24"): ("2026-12-25", "2027-03-25"),
}
"""By currency and due date, the days on which an unpaid invoice is overdue and in default."""


@pytest.mark.parametrize(("currency", "due"), DUE)
def test_an_invoice_is_overdue_after_the_first_business_day(
    client: httpx.Client, currency: str, due: str
) -> None:
    choose(client, "auto-progress", **OPEN)
    invoice = register(client, currency=currency, dueDate=due)
    advance(client, "PT10S")
    move(client, invoice, "accept-offer", "fund")
    advance(client, "P300D")
    found = days(client, invoice)
    assert (found["invoice.overdue"], found["invoice.defaulted"]) == DUE[currency, due]


def test_after_the_cut_off_a_payment_counts_on_the_next_business_day(client: httpx.Client) -> None:
    choose(client, "manual", **OPEN)
    invoice = register(client, dueDate="2026-12-04")  # a Friday
    move(client, invoice, *BEFORE)
    advance(client, to="2026-11-23T15:59:59Z")
    move(client, invoice, "fund-partially")
    assert values(client, invoice)["pay-out"] == "2026-11-23"
    advance(client, to="2026-11-27T16:00:00Z")
    move(client, invoice, "fund")
    assert values(client, invoice)["pay-out"] == "2026-11-30"
    advance(client, to="2026-12-05T10:00:00Z")
    move(client, invoice, "pay")
    assert values(client, invoice)["payment"] == "2026-12-07"


@pytest.mark.parametrize(("business", "late"), [(False, 2), (True, 4)])
def test_interest_runs_to_the_value_date(client: httpx.Client, business: bool, late: int) -> None:
    choose(client, "manual", businessDays=business)
    invoice = register(client, amount=1125, dueDate="2026-12-10")  # a Thursday
    move(client, invoice, *BEFORE, "fund")
    advance(client, to="2026-12-12T10:00:00Z")
    shown = data(client.get(f"/sandbox/invoices/{invoice['id']}/ledger"))
    assert shown["balances"]["interestDue"] == pytest.approx(2 * 0.30)
    move(client, invoice, "pay")
    shown = data(client.get(f"/sandbox/invoices/{invoice['id']}/ledger"))
    assert shown["balances"]["interestDue"] == pytest.approx(late * 0.30)


def test_a_receivable_due_on_a_weekend_is_paid_out_until_monday(client: httpx.Client) -> None:
    choose(client, "manual", **OPEN)
    invoice = register(client, dueDate="2026-11-28")
    move(client, invoice, *BEFORE)
    advance(client, to="2026-11-29T12:00:00Z")
    move(client, invoice, "fund")
    assert status(client, invoice) == "Funded"


def test_the_last_day_of_the_calendar_ends_every_search() -> None:
    closed = Calendar(frozenset(range(7)), frozenset(), frozenset(), time(16))
    assert closed.next_open(date.max.toordinal()) == date.max.toordinal() + 1
    assert closed.next_open(-400) == -400
