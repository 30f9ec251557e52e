"""Exposure: what each partner has financed, in all and of each debtor, by currency.

An invoice counts with its face value from the acceptance of the offer until the debtor has paid,
the seller has bought it back, or the partner has written it off. It counts again when a payment is
returned. Totals are kept, so that no rule reads all invoices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Context, Record, dump_json

from .fingerprint import EXACT

ENDS: Final = frozenset(
    {
        *("pay", "settle", "repurchase", "write-off", "withdraw-offer"),
        *("reject", "settle-by-dilution", "uphold-dispute-before-funding"),
    }
)
"""Triggers of an invoice after which the partner is exposed to it no more."""

_BEGINS: Final = frozenset({"accept-offer", "return-payment"})
_EXPOSURES: Final = "exposures"
_NONE: Final = Decimal(0)


@dataclass(frozen=True)
class Exposure:
    """The amounts that a partner has financed in a currency: of a debtor, and in all."""

    debtor: Decimal = _NONE
    total: Decimal = _NONE


def exposure_of(context: Context, partner_id: str, currency: str, debtor_id: str) -> Exposure:
    """Return the exposure of a partner to a debtor."""
    total = _amount(context, _key(partner_id, currency))
    debtor = _amount(context, _key(partner_id, currency, debtor_id)) if total else _NONE
    return Exposure(debtor, total)


def with_exposure(
    context: Context, invoice: Record, trigger: str, offer: Mapping[str, Any] | None
) -> Record:
    """Return the invoice with what the partner is exposed to after ``trigger``, and the totals
    changed.

    ``offer`` is the one that the trigger is about.
    """
    if trigger in _BEGINS and offer is not None and "exposure" not in invoice:
        amount = {"partnerId": offer["partnerId"], "amount": Decimal(offer["faceValue"])}
        _change(context, invoice, amount["partnerId"], amount["amount"])
        return {**invoice, "exposure": amount}
    if trigger in ENDS and "exposure" in invoice:
        ended = invoice["exposure"]
        _change(context, invoice, ended["partnerId"], Decimal(ended["amount"]).copy_negate())
        return {name: value for name, value in invoice.items() if name != "exposure"}
    return invoice


def _change(context: Context, invoice: Record, partner_id: str, amount: Decimal) -> None:
    whole = (partner_id, invoice["currency"].upper())
    for key in (_key(*whole), _key(*whole, invoice["debtorId"])):
        after = EXACT.add(_amount(context, key), amount)
        context.state.put(_EXPOSURES, key, {"amount": after})


def _amount(context: Context, key: str) -> Decimal:
    record = context.state.get(_EXPOSURES, key)
    return _NONE if record is None else record["amount"]


def _key(*parts: str) -> str:
    # A JSON array, not joined text: no space in a currency or an identifier makes two keys equal.
    return dump_json(parts).decode()
