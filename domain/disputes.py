"""Moves of an invoice with a reason that somebody chose, and disputes of a part of it.

When the debtor wins a dispute of a part of a sold invoice, a credit note lowers the debt by that
part, and the invoice returns to its status before. A dispute that is undecided at its deadline is
won by the debtor if it has evidence, else by the seller.
"""

from __future__ import annotations

from typing import Any, Final

from invoice_sandbox.project.api import Context, Record, conflict

from . import ledger as books
from .amounts import check_most, exact_amount
from .invoices import INVOICE, load_invoice
from .lifecycle import check_trigger
from .offers import find_accepted_offer
from .payments import load_ledger, lower_debt, return_newest, trigger_payment
from .transitions import trigger_invoice

_UPHOLDING: Final = frozenset({"uphold-dispute-before-funding", "uphold-dispute-after-funding"})


def trigger_with_reason(
    context: Context, invoice: Record, trigger: str, reason: Record | None = None
) -> Record:
    """Return the invoice after ``trigger``, with its payment posted. Raises ApiError 409.

    ``reason`` has the members of ``reasons``, as the contract of the control API requires.
    """
    if trigger == "dispute" and reason is not None:
        return _dispute(context, invoice, reason)
    if trigger == "return-payment" and reason is not None:
        check_trigger(context, INVOICE, invoice, trigger)
        return return_newest(context, invoice, reason)
    if reason is not None:
        return trigger_invoice(context, invoice, trigger, reason=reason)
    offer = find_accepted_offer(context, invoice) if trigger in _UPHOLDING else None
    if offer is None or "amount" not in invoice.get("dispute", {}):
        return trigger_payment(context, invoice, trigger)
    return _uphold_in_part(context, invoice, trigger, offer)


def _dispute(context: Context, invoice: Record, reason: Record) -> Record:
    check_trigger(context, INVOICE, invoice, "dispute")
    today = context.now.date().isoformat()
    if reason.get("deadline", today) < today:
        raise conflict("The deadline is in the past", f"Use {today} or a later day.")
    if "amount" in reason:
        reason = {**reason, "amount": exact_amount(invoice, reason["amount"])}
        check_most(
            reason["amount"], _debt(context, invoice), "is owed", "Dispute no more than that."
        )
    return trigger_invoice(context, {**invoice, "dispute": reason}, "dispute", reason=reason)


def _debt(context: Context, invoice: Record) -> Any:
    """Return what the debtor owes: to the partner, or before the sale to the seller."""
    offer = find_accepted_offer(context, invoice)
    owed = (
        invoice["amount"] if offer is None else load_ledger(context, invoice, offer)["receivable"]
    )
    return exact_amount(invoice, owed, rounds=True)


def _uphold_in_part(context: Context, invoice: Record, trigger: str, offer: Record) -> Record:
    """Return the invoice after the debtor won a dispute of an amount; all of the debt: the whole
    dispute."""
    check_trigger(context, INVOICE, invoice, trigger)
    amount, owed = invoice["dispute"]["amount"], _debt(context, invoice)
    if amount >= owed:
        return trigger_payment(context, invoice, trigger)
    moved = trigger_invoice(context, invoice, "resolve-dispute", upheldAmount=amount)
    lower_debt(context, moved, books.dilute(load_ledger(context, moved, offer), amount))
    return load_invoice(context, moved["id"])
