"""Payments, credit notes and pay-outs over amounts: what lowers the debt, and what does not."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import httpx
import pytest

from invoice_sandbox.base.jsonio import dumps
from tests.scenario_run import (
    JSON,
    START_INSTANT,
    advance,
    audited,
    data,
    error,
    events_about,
    in_scenario,
    move,
    recorded_events,
    register,
    status,
)
from tests.support import Running
from tests.test_ledger_http import ACCEPTED, balances, ledger, sums

FUNDED = (*ACCEPTED, "fund")


def funded(client: httpx.Client, *more: str, **members: Any) -> Any:
    """A funded invoice over 10,000 EUR: an advance of 8,000 and a reserve of 2,000."""
    invoice = register(client, **members)
    move(client, invoice, *FUNDED, *more)
    return invoice


def post(client: httpx.Client, invoice: Any, what: str, **body: Any) -> httpx.Response:
    return client.post(f"/sandbox/invoices/{invoice['id']}/{what}", json=body)


def pay(client: httpx.Client, invoice: Any, amount: Any, **more: Any) -> Any:
    """The recorded payment."""
    return data(post(client, invoice, "payments", amount=amount, **more), 201)


def act(client: httpx.Client, payment: Any, what: str, **body: Any) -> Any:
    """The payment after it was applied or returned."""
    path = f"/sandbox/payments/{payment['id']}/{what}"
    return data(client.post(path, json=body) if body else client.post(path), 200)


def parts(payment: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    assert payment["applied"] + payment["unapplied"] + payment["returned"] == payment["amount"]
    return payment["applied"], payment["unapplied"], payment["returned"]


def newest_event(server: Running, client: httpx.Client) -> str:
    return str(recorded_events(server, client)[-1]["type"])


def test_two_parts_pay_an_invoice(client: httpx.Client) -> None:
    invoice = funded(client)
    first = pay(client, invoice, 2500.55, reference="RUN-1, part 1", valueDate=today(3))
    assert (parts(first), first["invoiceStatus"]) == ((2500.55, 0, 0), "PartiallyPaid")
    assert (first["valueDate"], first["payer"], first["paidTo"]) == (
        today(3),
        "org_debtor_globex",
        "Partner",
    )
    assert balances(client, invoice)["receivable"] == Decimal("7499.45")
    assert pay(client, invoice, 7499.45)["invoiceStatus"] == "Paid"
    posted = ledger(client, invoice)["postings"][-2]
    assert (posted["paymentId"], posted["valueDate"]) == (first["id"], today(3))
    listed = data(client.get(f"/sandbox/invoices/{invoice['id']}/payments"))
    assert [item["amount"] for item in listed] == [7499.45, 2500.55]


def today(days: int = 0) -> str:
    """The day so many days after the start."""
    return type(START_INSTANT.date()).fromordinal(START_INSTANT.toordinal() + days).isoformat()


def test_what_is_paid_beyond_the_debt_goes_back_when_the_books_close(
    server: Running, client: httpx.Client
) -> None:
    invoice = funded(client)
    over = pay(client, invoice, 10500)
    assert (parts(over), over["invoiceStatus"]) == ((10000, 500, 0), "Paid")
    assert newest_event(server, client) == "invoice.paid"
    again = pay(client, invoice, 10000)
    assert (parts(again), again["invoiceStatus"]) == ((0, 10000, 0), "Paid")
    assert newest_event(server, client) == "invoice.payment_unapplied"
    assert balances(client, invoice)["unapplied"] == 10500
    assert parts(act(client, again, "return")) == (0, 0, 10000)
    move(client, invoice, "settle")
    assert balances(client, invoice) == {
        "debtorPaid": 10000,
        "sellerReceived": 9800,
        "result": 200,
    }
    listed = data(client.get(f"/sandbox/invoices/{invoice['id']}/payments"))
    assert [parts(item) for item in listed] == [(0, 0, 10000), (10000, 0, 500)]


ALLOCATION: Mapping[str, tuple[dict[str, Any], bool]] = {
    "no reference": ({}, True),
    "the number, otherwise written": ({"reference": "Rg. run 01 of November"}, True),
    "another number": ({"reference": "RUN-2"}, False),
    "an empty reference": ({"reference": ""}, False),
    "another payer": ({"payer": "org_other"}, False),
    "another payer who names the invoice": (
        {"payer": "org_other", "reference": "RUN-1"},
        True,
    ),
}


@pytest.mark.parametrize(("details", "is_applied"), ALLOCATION.values(), ids=ALLOCATION)
def test_a_payment_is_applied_if_it_names_the_invoice_or_the_debtor_made_it(
    client: httpx.Client, details: dict[str, Any], is_applied: bool
) -> None:
    invoice = funded(client)
    paid = pay(client, invoice, 4000, **details)
    assert parts(paid) == ((4000, 0, 0) if is_applied else (0, 4000, 0))
    assert status(client, invoice) == ("PartiallyPaid" if is_applied else "Funded")
    if not is_applied:
        assert parts(act(client, paid, "apply")) == (4000, 0, 0)
        assert status(client, invoice) == "PartiallyPaid"


def test_money_that_the_seller_collected_lowers_no_debt_until_it_is_passed_on(
    server: Running, client: httpx.Client
) -> None:
    invoice = funded(client)
    wrong = pay(client, invoice, 10000, paidTo="Seller")
    assert (parts(wrong), wrong["invoiceStatus"]) == ((0, 10000, 0), "Funded")
    assert newest_event(server, client) == "invoice.payment_misdirected"
    found = balances(client, invoice)
    assert {found[name] for name in ("collectedBySeller", "unapplied", "receivable")} == {10000}
    assert "debtorPaid" not in found
    assert act(client, wrong, "apply")["invoiceStatus"] == "Paid"
    assert balances(client, invoice)["debtorPaid"] == 10000
    assert sums(ledger(client, invoice)["balances"]) == (12000 - 2000,) * 2


def test_a_seller_who_keeps_the_money_passes_it_on_when_the_debt_is_written_off(
    client: httpx.Client,
) -> None:
    invoice = funded(client, "become-overdue", "default", "invoke-recourse")
    pay(client, invoice, 3000, paidTo="Seller")
    move(client, invoice, "write-off")
    # 8,000 are outstanding, of which 3,000 are passed on
    assert balances(client, invoice) == {
        "debtorPaid": 3000,
        "sellerReceived": 7800,
        "result": -4800,
    }


def test_a_returned_payment_is_owed_again(server: Running, client: httpx.Client) -> None:
    invoice = funded(client)
    first = pay(client, invoice, 4000)
    last = pay(client, invoice, 6000)
    advance(client, "P3D")
    assert act(client, last, "return")["invoiceStatus"] == "PartiallyPaid"
    assert act(client, first, "return", amount=1000)["invoiceStatus"] == "PartiallyPaid"
    assert parts(act(client, first, "return")) == (0, 0, 4000)
    assert newest_event(server, client) == "invoice.payment_returned"
    assert status(client, invoice) == "Funded"
    assert balances(client, invoice)["receivable"] == 10000
    assert audited(client, invoice["id"])[-1][1] == "invoice.payment_returned"
    assert "debtorPaid" not in balances(client, invoice)


def test_a_payment_that_is_returned_after_the_due_date_leaves_the_invoice_overdue(
    server: Running,
) -> None:
    with in_scenario(server, "auto-progress", clock="frozen") as client:
        invoice = register(client, scenario="auto-progress")
        advance(client, "PT1M")
        move(client, invoice, "accept-offer", "fund", "pay")
        advance(client, to="2027-01-27T00:00:00Z")
        move(client, invoice, "return-payment")
        client.get("/api/invoices")  # what is due now is done before
        assert status(client, invoice) == "Overdue"
        assert [item.type for item in events_about(server, client, invoice)][-2:] == [
            "invoice.payment_returned",
            "invoice.overdue",
        ]


RETURNED = {
    "funded in part": ((*ACCEPTED, "fund-partially"), "PartiallyFunded"),
    "overdue": ((*FUNDED, "become-overdue"), "Overdue"),
    "in default": ((*FUNDED, "become-overdue", "default"), "Defaulted"),
    "in recourse": ((*FUNDED, "become-overdue", "default", "invoke-recourse"), "Recourse"),
}


@pytest.mark.parametrize(("before", "after"), RETURNED.values(), ids=RETURNED)
def test_without_its_payments_an_invoice_is_where_it_was(
    client: httpx.Client, before: tuple[str, ...], after: str
) -> None:
    invoice = register(client)
    move(client, invoice, *before)
    in_part = pay(client, invoice, 100)
    last = pay(client, invoice, 9900)
    assert status(client, invoice) == "Paid"
    act(client, last, "return")
    act(client, in_part, "return")
    assert status(client, invoice) == after
    possible = data(client.get(f"/sandbox/invoices/{invoice['id']}/transition"))["triggers"]
    assert "return-payment" not in possible


def test_a_payment_in_a_dispute_waits_until_it_can_be_applied(client: httpx.Client) -> None:
    invoice = funded(client, "dispute")
    paid = pay(client, invoice, 6000)
    assert parts(paid) == (0, 6000, 0)
    move(client, invoice, "resolve-dispute")
    assert parts(act(client, paid, "apply")) == (6000, 0, 0)


def test_interest_runs_to_the_value_date(client: httpx.Client) -> None:
    """12 % of 8,000 for 10 days are 26.67; the payment itself comes after 30 days."""
    invoice = funded(client, "become-overdue")
    advance(client, to="2027-02-21T12:00:00Z")
    pay(client, invoice, 10000, valueDate="2027-02-01")
    assert balances(client, invoice)["interestDue"] == Decimal("26.67")


def test_a_credit_note_over_an_amount_lowers_the_debt(client: httpx.Client) -> None:
    invoice = funded(client)
    assert data(post(client, invoice, "credit-notes", amount=500.25))["status"] == "Funded"
    assert balances(client, invoice)["receivable"] == Decimal("9499.75")
    assert data(post(client, invoice, "credit-notes", amount=9499.75))["status"] == "Settled"


def test_an_advance_is_paid_out_in_two_amounts(client: httpx.Client) -> None:
    invoice = register(client)
    move(client, invoice, *ACCEPTED)
    first = data(post(client, invoice, "pay-outs", amount=3000, valueDate=today(30)))
    assert first["status"] == "PartiallyFunded"
    # 12 % of 3,000 for 30 of 360 days, and 3/8 of the service fee of 40
    assert balances(client, invoice)["result"] == 45
    assert data(post(client, invoice, "pay-outs", amount=5000))["status"] == "Funded"
    assert balances(client, invoice)["held"] == 2000


WRONG: Mapping[str, tuple[str, tuple[str, ...], dict[str, Any], int, str]] = {
    "no amount": ("payments", FUNDED, {}, 400, "amount is required"),
    "nothing": ("payments", FUNDED, {"amount": 0}, 400, "amount must be greater than 0"),
    "a text": ("payments", FUNDED, {"amount": "12"}, 400, "amount must be a number"),
    "an unknown receiver": ("payments", FUNDED, {"amount": 1, "paidTo": "Bank"}, 400, "Seller"),
    "a misspelt member": ("payments", FUNDED, {"amount": 1, "valuedate": "x"}, 400, "valueDate"),
    "no day": ("payments", FUNDED, {"amount": 1, "valueDate": "soon"}, 400, "valueDate"),
    "decimals": ("payments", FUNDED, {"amount": 1.005}, 409, "has 2 decimals"),
    "long ago": ("payments", FUNDED, {"amount": 1, "valueDate": "0000-01-01"}, 409, "value date"),
    "far off": ("payments", FUNDED, {"amount": 1, "valueDate": "9999-12-31"}, 409, "value date"),
    "not sold": ("payments", (), {"amount": 1}, 409, "is Registered"),
    "not paid out": ("payments", ACCEPTED, {"amount": 1}, 409, "after the first pay-out"),
    "over": ("payments", (*FUNDED, "pay", "settle"), {"amount": 1}, 409, "books are closed"),
    "too much credit": ("credit-notes", FUNDED, {"amount": 10000.01}, 409, "10000.00 is owed"),
    "no debt": ("credit-notes", (*FUNDED, "pay"), {"amount": 1}, 409, "is Paid"),
    "credit before a sale": ("credit-notes", (), {"amount": 1}, 409, "is Registered"),
    "too large": ("pay-outs", ACCEPTED, {"amount": 8000.01}, 409, "Only 8000.00"),
    "twice": ("pay-outs", FUNDED, {"amount": 1}, 409, "Only 0.00"),
    "a third part": (
        "pay-outs",
        (*ACCEPTED, "fund-partially"),
        {"amount": 1},
        409,
        "4000.00 of the advance is left",
    ),
    "no offer": ("pay-outs", (), {"amount": 1}, 409, "no accepted offer"),
}


@pytest.mark.parametrize(("what", "before", "body", "code", "reason"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_rejected_with_its_reason(
    client: httpx.Client,
    what: str,
    before: tuple[str, ...],
    body: dict[str, Any],
    code: int,
    reason: str,
) -> None:
    invoice = register(client)
    move(client, invoice, *before)
    was = ledger(client, invoice)
    response = post(client, invoice, what, **body)
    assert error(response) == (code, "invalid_request")
    assert reason in response.json()["error"]["message"]
    assert ledger(client, invoice) == was


def test_more_of_a_payment_than_is_left_is_not_returned(client: httpx.Client) -> None:
    invoice = funded(client)
    paid = pay(client, invoice, 10000)
    for name, body in (("return", {"amount": 10000.01}), ("return", {"amount": 0.001})):
        assert client.post(f"/sandbox/payments/{paid['id']}/{name}", json=body).status_code == 409
    assert client.post(f"/sandbox/payments/{paid['id']}/apply").status_code == 409
    act(client, paid, "return")
    assert client.post(f"/sandbox/payments/{paid['id']}/return").status_code == 409
    assert client.post("/sandbox/payments/pay_nowhere/return").status_code == 404
    later = pay(client, invoice, 10000)
    move(client, invoice, "settle")
    assert client.post(f"/sandbox/payments/{later['id']}/return").status_code == 409


@pytest.mark.parametrize("currency", ["JPY", "KWD", "shells"])
def test_amounts_have_the_digits_of_their_currency(client: httpx.Client, currency: str) -> None:
    digits = {"JPY": 0, "KWD": 3, "shells": 2}[currency]
    invoice = funded(client, currency=currency)
    path = f"/sandbox/invoices/{invoice['id']}/payments"
    exact, finer = (Decimal(1).scaleb(-places) for places in (digits, digits + 1))
    statuses = [
        client.post(path, content=dumps({"amount": amount}), headers=JSON).status_code
        for amount in (exact, finer)
    ]
    assert statuses == [201, 409]
    assert balances(client, invoice)["debtorPaid"] == exact


def test_an_amount_of_any_size_stays_exact(client: httpx.Client) -> None:
    invoice = funded(client)
    pay(client, invoice, 1e300)
    assert int(balances(client, invoice)["unapplied"]) == 10**300 - 10000
    move(client, invoice, "settle")
    assert balances(client, invoice)["debtorPaid"] == 10000
