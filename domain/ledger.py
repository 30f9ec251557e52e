"""Payments on an invoice: the advance by the partner, the debt by the debtor.

No money moves. The audit log has the amounts, as metadata of the moves.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Context, Record

from .audit import audit
from .fingerprint import multiply_exactly, round_half_up
from .invoices import public_invoice
from .offers import accepted_offer
from .transitions import trigger_invoice

CREDIT_NOTE: Final = "invoice.credit_note_applied"
"""The event that a credit note lowered the debt."""

WHOLE: Final = 100
"""Percent: everything that is left."""

_LEDGERS: Final = "ledgers"
_PAID_OUT: Final = "paidOut"
_CREDITED: Final = "dilutionAmount"
_PAID: Final = "paid"


async def pay_out(context: Context, invoice: Record, percent: int) -> None:
    """Pay out ``percent`` of the advance, at most what is left of it. Raises ApiError 409."""
    offer = await accepted_offer(context, invoice)
    ledger = await _load(context, invoice)
    advance = Decimal(offer["advanceAmount"])
    left = advance - ledger[_PAID_OUT]
    amount = _share(advance, left, percent, invoice)
    paid_out = ledger[_PAID_OUT] + amount
    trigger = "fund" if amount == left else "fund-partially"
    figures = {"amount": amount, "paidOut": paid_out, "advanceAmount": advance}
    await trigger_invoice(context, invoice, trigger, offerId=offer["id"], **figures)
    await _store(context, invoice, {**ledger, _PAID_OUT: paid_out})


async def apply_credit_note(context: Context, invoice: Record, percent: int) -> None:
    """Lower the debt by ``percent`` of the invoice's amount, at most to zero."""
    ledger = await _load(context, invoice)
    face = Decimal(invoice["amount"])
    amount = _share(face, _owed(invoice, ledger), percent, invoice)
    ledger = {**ledger, _CREDITED: ledger[_CREDITED] + amount}
    figures = {"dilutionAmount": ledger[_CREDITED], "owed": _owed(invoice, ledger)}
    await audit(context, CREDIT_NOTE, ("invoice", invoice["id"]), amount=amount, **figures)
    await _store(context, invoice, ledger)
    await context.emit(CREDIT_NOTE, public_invoice(invoice))


async def receive_payment(context: Context, invoice: Record, percent: int) -> None:
    """Record that the debtor paid ``percent`` of the debt. Raises ApiError 409."""
    ledger = await _load(context, invoice)
    owed = _owed(invoice, ledger)
    amount = _share(owed, owed, percent, invoice)
    trigger = "pay" if amount == owed else "pay-partially"
    ledger = {**ledger, _PAID: ledger[_PAID] + amount}
    figures = {"amount": amount, "paid": ledger[_PAID], "owed": owed - amount}
    await trigger_invoice(context, invoice, trigger, **figures)
    await _store(context, invoice, ledger)


async def release_reserve(context: Context, invoice: Record) -> None:
    """Settle: the seller gets the reserve minus the credit notes. Raises ApiError 409.

    If the credit notes exceed the reserve, the seller owes the difference.
    """
    offer = await accepted_offer(context, invoice)
    dilution = (await _load(context, invoice))[_CREDITED]
    reserve = Decimal(offer["reserveAmount"])
    figures: dict[str, Any] = {"reserveAmount": reserve, "dilutionAmount": dilution}
    figures["released"] = max(reserve - dilution, Decimal(0))
    figures["sellerOwes"] = max(dilution - reserve, Decimal(0))
    await trigger_invoice(context, invoice, "settle", offerId=offer["id"], **figures)


async def resolve_default(context: Context, invoice: Record) -> None:
    """Invoke recourse against the seller, or write the debt off if the accepted offer is without
    recourse. Raises ApiError 409."""
    offer = await accepted_offer(context, invoice)
    trigger = "write-off" if offer["recourse"] == "NonRecourse" else "invoke-recourse"
    figures = {"offerId": offer["id"], "recourse": offer["recourse"]}
    await trigger_invoice(context, invoice, trigger, **figures)


async def _load(context: Context, invoice: Record) -> Record:
    nothing = {_PAID_OUT: Decimal(0), _CREDITED: Decimal(0), _PAID: Decimal(0)}
    return await context.state.get(_LEDGERS, invoice["id"]) or nothing


async def _store(context: Context, invoice: Record, ledger: Record) -> None:
    await context.state.put(_LEDGERS, invoice["id"], ledger)


def _owed(invoice: Record, ledger: Record) -> Decimal:
    owed: Decimal = Decimal(invoice["amount"]) - ledger[_CREDITED] - ledger[_PAID]
    return owed


def _share(whole: Decimal, left: Decimal, percent: int, invoice: Record) -> Decimal:
    """``percent`` of ``whole`` in the digits of the currency, at most ``left``."""
    if percent >= WHOLE:
        return left
    part = round_half_up(multiply_exactly(whole, Decimal(percent) / WHOLE), invoice["currency"])
    return min(max(part, Decimal(0)), left)
