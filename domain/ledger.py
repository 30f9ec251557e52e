"""What was paid on an invoice: the advance by its partner, the debt by its debtor.

No money moves. The amounts stand in the audit log, as metadata of the moves that they belong to.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Condition, Context, Record, reject

from .audit import audit
from .consequences import pull
from .invoices import published
from .offers import OFFERS, commercially, multiply

CREDIT_NOTE: Final = "invoice.credit_note_applied"
"""Kind of the event that a credit note lowered what is owed."""

WHOLE: Final = 100
"""Percent: all that is left."""

_LEDGERS: Final = "ledgers"
_PAID_OUT: Final = "paidOut"
_CREDITED: Final = "dilutionAmount"
_PAID: Final = "paid"


async def pay_out(context: Context, invoice: Record, percent: int) -> None:
    """The partner pays out ``percent`` of the advance, at most what is left of it. ApiError 409."""
    offer = await accepted_offer(context, invoice)
    ledger = await _ledger(context, invoice)
    advance = Decimal(offer["advanceAmount"])
    left = advance - ledger[_PAID_OUT]
    amount = _share(advance, left, percent, invoice)
    paid_out = ledger[_PAID_OUT] + amount
    trigger = "fund" if amount == left else "fund-partially"
    figures = {"amount": amount, "paidOut": paid_out, "advanceAmount": advance}
    await pull(context, invoice, trigger, offerId=offer["id"], **figures)
    await _keep(context, invoice, {**ledger, _PAID_OUT: paid_out})


async def apply_credit_note(context: Context, invoice: Record, percent: int) -> None:
    """A credit note lowers what is owed by ``percent`` of the invoice's amount."""
    ledger = await _ledger(context, invoice)
    face = Decimal(invoice["amount"])
    amount = _share(face, _owed(invoice, ledger), percent, invoice)
    ledger = {**ledger, _CREDITED: ledger[_CREDITED] + amount}
    figures = {"dilutionAmount": ledger[_CREDITED], "owed": _owed(invoice, ledger)}
    await audit(context, CREDIT_NOTE, ("invoice", invoice["id"]), amount=amount, **figures)
    await _keep(context, invoice, ledger)
    await context.emit(CREDIT_NOTE, published(invoice))


async def receive_payment(context: Context, invoice: Record, percent: int) -> None:
    """The debtor pays ``percent`` of what is owed. Raises ApiError 409."""
    ledger = await _ledger(context, invoice)
    owed = _owed(invoice, ledger)
    amount = _share(owed, owed, percent, invoice)
    trigger = "pay" if amount == owed else "pay-partially"
    ledger = {**ledger, _PAID: ledger[_PAID] + amount}
    figures = {"amount": amount, "paid": ledger[_PAID], "owed": owed - amount}
    await pull(context, invoice, trigger, **figures)
    await _keep(context, invoice, ledger)


async def release_reserve(context: Context, invoice: Record) -> None:
    """The seller gets the reserve, less what credit notes took off the debt. Raises ApiError 409.

    When they took off more than the reserve, the seller owes the difference.
    """
    offer = await accepted_offer(context, invoice)
    dilution = (await _ledger(context, invoice))[_CREDITED]
    reserve = Decimal(offer["reserveAmount"])
    figures: dict[str, Any] = {"reserveAmount": reserve, "dilutionAmount": dilution}
    figures["released"] = max(reserve - dilution, Decimal(0))
    figures["sellerOwes"] = max(dilution - reserve, Decimal(0))
    await pull(context, invoice, "settle", offerId=offer["id"], **figures)


async def answer_for_default(context: Context, invoice: Record) -> None:
    """The seller answers for the debt, unless the accepted offer was without recourse; then the
    partner bears the loss. Raises ApiError 409."""
    offer = await accepted_offer(context, invoice)
    without = offer["recourse"] == "NonRecourse"
    figures = {"offerId": offer["id"], "recourse": offer["recourse"]}
    await pull(context, invoice, "write-off" if without else "invoke-recourse", **figures)


async def accepted_offer(context: Context, invoice: Record) -> Record:
    """The accepted offer on an invoice. Raises ApiError 409 when there is none."""
    where = (Condition("status", "=", "Accepted"), Condition("invoiceId", "=", invoice["id"]))
    page = await context.state.page(OFFERS, limit=1, where=where)
    if not page.records:
        raise reject(
            "conflict",
            problem="No offer on the invoice is accepted",
            advice="Accept one first.",
        )
    return page.records[0]


async def _ledger(context: Context, invoice: Record) -> Record:
    nothing = {_PAID_OUT: Decimal(0), _CREDITED: Decimal(0), _PAID: Decimal(0)}
    return await context.state.get(_LEDGERS, invoice["id"]) or nothing


async def _keep(context: Context, invoice: Record, ledger: Record) -> None:
    await context.state.put(_LEDGERS, invoice["id"], ledger)


def _owed(invoice: Record, ledger: Record) -> Decimal:
    owed: Decimal = Decimal(invoice["amount"]) - ledger[_CREDITED] - ledger[_PAID]
    return owed


def _share(whole: Decimal, left: Decimal, percent: int, invoice: Record) -> Decimal:
    """``percent`` of ``whole`` in the digits of the currency, but never more than is ``left``."""
    if percent >= WHOLE:
        return left
    part = commercially(multiply(whole, Decimal(percent) / WHOLE), invoice["currency"])
    return min(max(part, Decimal(0)), left)
