"""Payments, credit notes and pay-outs over an amount, as their parties state it.

An amount has no more decimals than its currency. A value date counts in place of today: interest
for late payment runs to that day, and the discount of a pay-out from it. Whatever the books do not
allow is a 409 with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Context, Record, conflict

from . import ledger as books
from . import payments, receipts
from .calendars import value_day
from .fingerprint import minor_units, round_half_up
from .invoices import INVOICE, load_invoice
from .lifecycle import is_funded
from .offers import accepted_offer

_LATEST: Final = 30
"""The most days from now to a value date."""


def receive(context: Context, invoice: Record, body: Mapping[str, Any]) -> Record:
    """Record a payment of the debtor and return it. Raises ApiError 409.

    ``body`` has the ``amount``, and may have the details of ``receipts.new_payment``.
    """
    _check_open(context, invoice)
    offer, amount = accepted_offer(context, invoice), exact_amount(invoice, body["amount"])
    day = _value_day(context, invoice, body)
    payment = receipts.new_payment(context, invoice, amount, body)
    ledger = payments.load_ledger(context, invoice, offer, day)
    invoice = payments.book_payment(context, invoice, offer, ledger, payment)
    return with_status(receipts.load_payment(context, payment["id"]), invoice)


def apply(context: Context, payment_id: str) -> Record:
    """Apply what is unapplied of a payment and return it. Raises ApiError 404, 409."""
    payment = receipts.load_payment(context, payment_id)
    invoice = load_invoice(context, payment["invoiceId"])
    invoice = payments.apply_payment(context, invoice, payment)
    return with_status(receipts.load_payment(context, payment_id), invoice)


def give_back(context: Context, payment_id: str, body: Mapping[str, Any]) -> Record:
    """Return a payment, after its ``amount`` or all of it went back to the debtor. ApiError 404,
    409."""
    payment = receipts.load_payment(context, payment_id)
    invoice = load_invoice(context, payment["invoiceId"])
    amount = exact_amount(invoice, body["amount"]) if "amount" in body else None
    invoice = payments.return_payment(context, invoice, payment, amount, body.get("reason"))
    return with_status(receipts.load_payment(context, payment_id), invoice)


def credit(context: Context, invoice: Record, body: Mapping[str, Any]) -> Record:
    """Return the invoice after a credit note over ``amount``. Raises ApiError 409."""
    if invoice["status"] not in payments.CREDITABLE:
        raise conflict(
            f"The invoice is {invoice['status']}", f"Possible in {', '.join(payments.CREDITABLE)}."
        )
    amount = exact_amount(invoice, body["amount"])
    ledger = payments.load_ledger(context, invoice, accepted_offer(context, invoice))
    check_most(amount, ledger["receivable"], "is owed", "Credit no more than that.")
    payments.lower_debt(context, invoice, books.dilute(ledger, amount))
    return load_invoice(context, invoice["id"])


def pay_out(context: Context, invoice: Record, body: Mapping[str, Any]) -> Record:
    """Return the invoice after a pay-out of an ``amount``, before fees. Raises ApiError 409."""
    offer, amount = accepted_offer(context, invoice), exact_amount(invoice, body["amount"])
    day = _value_day(context, invoice, body)
    ledger = payments.load_ledger(context, invoice, offer, day)
    left = ledger.left_to_draw
    check_most(amount, left, "of the advance is left", "Pay out no more than that.")
    if amount < left and invoice["status"] == "PartiallyFunded":
        raise conflict(f"{left:f} of the advance is left", "Pay out all of it: it has two parts.")
    about = {"valueDate": day.isoformat()}
    return payments.fund(context, invoice, offer, books.draw(ledger, amount, about))


def with_status(payment: Record, invoice: Record) -> Record:
    """Return a payment as the control API shows it, with the status of its invoice."""
    return {**payment, "invoiceStatus": invoice["status"]}


def _check_open(context: Context, invoice: Record) -> None:
    """Raise ApiError 409 unless something was paid out and the books are open."""
    ended = invoice["status"] in context.lifecycle.machines[INVOICE].terminal
    if ended or not is_funded(invoice):
        why = "Its books are closed." if ended else "The debtor pays after the first pay-out."
        raise conflict(f"The invoice is {invoice['status']}", why)


def exact_amount(invoice: Record, value: Any, *, rounds: bool = False) -> Decimal:
    """Return an amount with the digits of the invoice's currency. Raises ApiError 409 for more
    digits, unless it ``rounds`` them."""
    amount, currency = Decimal(value), invoice["currency"]
    rounded = round_half_up(amount, currency)
    if rounded != amount and not rounds:
        digits = minor_units(currency)
        raise conflict(f"The currency of the invoice has {digits} decimals", "Round the amount.")
    return rounded


def check_most(amount: Decimal, most: Decimal, what: str, advice: str) -> None:
    """Raise ApiError 409 for an amount above ``most``, of ``what`` there is no more."""
    if amount > most:
        raise conflict(f"Only {most:f} {what}", advice)


def _value_day(context: Context, invoice: Record, body: Mapping[str, Any]) -> date:
    """Return the value date, by default today: from the acceptance of the offer to 30 days from
    now. Raises ApiError 409."""
    today = context.now.date()
    day = str(body.get("valueDate", value_day(context, invoice).isoformat()))
    first = str(invoice.get("acceptedAt", invoice["createdAt"]))[:10]
    last = date.fromordinal(min(today.toordinal() + _LATEST, date.max.toordinal())).isoformat()
    if not first <= day <= last:
        raise conflict(
            f"The value date is not from {first} to {last}",
            "These are the acceptance of the offer, and 30 days from now.",
        )
    return date.fromisoformat(day)
