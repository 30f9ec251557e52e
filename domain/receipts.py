"""Payments of a debtor as records: who paid what to whom, and how much of it lowers the debt.

``applied + unapplied + returned = amount`` at any time. A payment is applied to the debt if its
reference names the invoice; without a reference, if the debtor made it. A payment to the seller is
applied when the seller passes it on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Condition, Context, Record, conflict, existing

from . import ledger as books
from .calendars import value_day
from .fingerprint import EXACT, is_named_in
from .ledger import NOTHING, Ledger, Outcome
from .notices import notice_of

PAYMENTS: Final = "payments"
"""The collection of payments, by id."""

PARTNER: Final = "Partner"
SELLER: Final = "Seller"
"""Whom a payment may be ``paidTo``."""


def new_payment(
    context: Context, invoice: Record, amount: Decimal, details: Mapping[str, Any]
) -> Record:
    """Return a payment that is not stored yet. Without ``details`` the debtor pays the partner."""
    return {
        "id": context.new_id("pay_sandbox"),
        "invoiceId": invoice["id"],
        "amount": amount,
        "currency": invoice["currency"],
        "valueDate": details.get("valueDate", value_day(context, invoice).isoformat()),
        "reference": details.get("reference"),
        "payer": details.get("payer", invoice["debtorId"]),
        "paidTo": details.get("paidTo", PARTNER),
        "assignmentNotice": notice_of(invoice),
        "applied": NOTHING,
        "unapplied": amount,
        "returned": NOTHING,
        "createdAt": context.timestamp,
    }


def load_payment(context: Context, payment_id: str) -> Record:
    """Return the payment of that id. Raises ApiError 404."""
    return existing(context.state.get(PAYMENTS, payment_id), "payment", payment_id)


def payments_on(context: Context, invoice: Record) -> Sequence[Record]:
    """Return the payments on an invoice, oldest first."""
    where = (Condition("invoiceId", "=", invoice["id"]),)
    return context.state.page(PAYMENTS, where=where, oldest_first=True).records


def newest_payment(context: Context, invoice: Record, part: str) -> Record:
    """Return the newest payment of which a ``part`` is left: applied or unapplied. ApiError 409."""
    for payment in reversed(payments_on(context, invoice)):
        if payment[part]:
            return payment
    raise conflict(f"No payment on the invoice is {part}", "Record a payment first.")


def store_payment(context: Context, payment: Record) -> None:
    """Store a payment as it is now."""
    context.state.put(PAYMENTS, payment["id"], payment)


def is_allocated(invoice: Record, payment: Record) -> bool:
    """True if a payment names an invoice, or names none and its debtor paid."""
    if payment["reference"] is None:
        return bool(payment["payer"] == invoice["debtorId"])
    return is_named_in(invoice["invoiceNumber"], payment["reference"])


def book(ledger: Ledger, payment: Record, *, allocate: bool) -> tuple[Outcome, Record]:
    """Post a payment; what is not applied to the debt stays unapplied."""
    ledger, amount = _about(ledger, payment, valueDate=payment["valueDate"]), payment["amount"]
    if payment["paidTo"] == SELLER:
        return books.misdirect(ledger, amount), payment
    applied = min(amount, ledger["receivable"]) if allocate else NOTHING
    rest = EXACT.subtract(amount, applied)
    outcome = books.collect(ledger, amount, applied)
    return outcome, {**payment, "applied": applied, "unapplied": rest}


def apply_rest(ledger: Ledger, payment: Record) -> tuple[Outcome, Record]:
    """Apply what is unapplied of a payment, at most what the debtor owes."""
    amount = min(payment["unapplied"], ledger["receivable"])
    from_seller = payment["paidTo"] == SELLER
    outcome = books.apply_unapplied(_about(ledger, payment), amount, from_seller=from_seller)
    return outcome, _moved(payment, applied=amount, unapplied=amount.copy_negate())


def give_back(ledger: Ledger, payment: Record, amount: Decimal) -> tuple[Outcome, Record]:
    """Return ``amount`` of a payment, first what is unapplied of it."""
    unapplied = min(amount, payment["unapplied"])
    applied = EXACT.subtract(amount, unapplied)
    by_seller = payment["paidTo"] == SELLER
    outcome = books.give_back(_about(ledger, payment), applied, unapplied, by_seller=by_seller)
    changes = {"applied": applied.copy_negate(), "unapplied": unapplied.copy_negate()}
    return outcome, _moved(payment, **changes, returned=amount)


def clear_unapplied(context: Context, invoice: Record, ledger: Ledger, *, apply: bool) -> Ledger:
    """Return the ledger without unapplied payments, before it is closed.

    Each goes back to the debtor; if they ``apply``, they first cover what is still owed, those that
    the partner has before those that the seller collected.
    """
    left = [payment for payment in payments_on(context, invoice) if payment["unapplied"]]
    for payment in sorted(left, key=lambda one: one["paidTo"] == SELLER):
        if apply:
            outcome, payment = apply_rest(ledger, payment)  # noqa: PLW2901  the same, moved on
            ledger = outcome.ledger
        outcome, payment = give_back(ledger, payment, payment["unapplied"])  # noqa: PLW2901
        ledger = outcome.ledger
        store_payment(context, payment)
    return replace(ledger, about={})


def _about(ledger: Ledger, payment: Record, **members: str) -> Ledger:
    """Return the ledger whose next postings are about a payment."""
    return replace(ledger, about={"paymentId": payment["id"], **members})


def _moved(payment: Record, **changes: Decimal) -> Record:
    return {**payment, **{name: EXACT.add(payment[name], by) for name, by in changes.items()}}
