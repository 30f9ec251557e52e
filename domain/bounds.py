"""Business bounds of an invoice: rules that the contract does not have, and a strict platform may.

Amounts are those of European e-invoices (EN 16931 as the European Commission uses it).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from iso4217 import Currency

from .money import minor_units

MOST: Final = Decimal("9999999999999.99")
"""The largest amount."""

_CURRENCIES: Final = frozenset(currency.code for currency in Currency)
_LONGEST: Final[Mapping[str, int]] = {"sellerId": 128, "debtorId": 128, "invoiceNumber": 64}


def bound_problems(invoice: Mapping[str, Any]) -> Iterator[str]:
    """One clause for each bound that an invoice of the contract violates, naming the member."""
    currency = invoice["currency"].upper()
    yield from _of_amount(Decimal(invoice["amount"]), currency)
    if currency not in _CURRENCIES:
        yield "currency: must be an active code of ISO 4217, such as EUR"
    for name, longest in _LONGEST.items():
        if not 1 <= len(invoice[name]) <= longest:
            yield f"{name}: must have 1 to {longest} characters"
    if not invoice["invoiceNumber"].isprintable():
        yield "invoiceNumber: must be printable"
    issued, due = invoice.get("issueDate"), invoice.get("dueDate")
    if issued and due and due < issued:
        yield "dueDate: must not be before issueDate"


def _of_amount(amount: Decimal, currency: str) -> Iterator[str]:
    if amount <= 0:
        yield "amount: must be above 0"
    if amount > MOST:
        yield f"amount: must be at most {MOST}"
    digits = minor_units(currency)
    if -int(amount.normalize().as_tuple().exponent) > digits:
        yield f"amount: must have at most {digits} decimals in {currency}"
