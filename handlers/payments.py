"""Payments, credit notes and pay-outs of a financed invoice, over amounts."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record

from ..domain import amounts, receipts
from ..domain.invoices import load_invoice, public_invoice


def list_payments(call: Call) -> list[Record]:
    """Return the payments on an invoice, newest first. 404."""
    invoice = load_invoice(call, call.path["id"])
    found = reversed(receipts.payments_on(call, invoice))
    return [amounts.with_status(payment, invoice) for payment in found]


def receive_payment(call: Call) -> Record:
    """Record a payment of the debtor. 404; 409 before the first pay-out, and after the end."""
    return amounts.receive(call, load_invoice(call, call.path["id"]), call.body)


def apply_payment(call: Call) -> Record:
    """Apply what is unapplied of a payment to the debt. 404; 409 if nothing is, or none is owed."""
    return amounts.apply(call, call.path["id"])


def return_payment(call: Call) -> Record:
    """Return a payment, or a part of it, to the debtor. 404; 409 if less of it is left."""
    return amounts.give_back(call, call.path["id"], call.body or {})


def apply_credit_note(call: Call) -> Record:
    """Lower the debt by a credit note. 404; 409 if less is owed, or the status has no debt."""
    invoice = load_invoice(call, call.path["id"])
    return public_invoice(amounts.credit(call, invoice, call.body))


def pay_out(call: Call) -> Record:
    """Pay out a part of the advance. 404; 409 if less of it is left, or none can be paid out."""
    invoice = load_invoice(call, call.path["id"])
    return public_invoice(amounts.pay_out(call, invoice, call.body))
