"""What an offer is, and what it costs: advance, reserve, discount and service fee, proceeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from decimal import Context as Arithmetic
from typing import Any, Final

from invoice_sandbox.project.api import Condition, Context, Record, reject

from .lifecycle import move
from .money import round_to_minor_units

OFFERS: Final = "offers"
MACHINE: Final = "offer"
DAYS_OF_A_YEAR: Final = 360
DAY_COUNT: Final = "ACT/360"

_INTERNAL: Final = frozenset({"source", "previousStatus"})
_EXACT: Final = Arithmetic(prec=400)
"""Enough digits for any amount that a double can hold."""


@dataclass(frozen=True)
class Terms:
    """Rates as shares: ``advance_rate`` and ``service_rate`` of the face value, ``annual_rate``
    of the advance and a year of 360 days."""

    advance_rate: Decimal
    annual_rate: Decimal
    service_rate: Decimal


@dataclass(frozen=True)
class Figures:
    """Amounts in major units of the currency, rounded half up to its digits."""

    advance: Decimal
    reserve: Decimal
    discount_fee: Decimal
    service_fee: Decimal
    net_proceeds: Decimal


def published(record: Mapping[str, Any]) -> Record:
    """An offer as the API shows it."""
    return {name: value for name, value in record.items() if name not in _INTERNAL}


async def move_offer(context: Context, offer: Record, trigger: str) -> Record:
    """The offer after ``trigger``, stored and audited. Raises ApiError 409."""
    return await move(context, MACHINE, OFFERS, offer, trigger, present=published)


async def named_offer(context: Context, offer_id: str) -> Record:
    """The offer of that id. Raises ApiError 404."""
    offer = await context.state.get(OFFERS, offer_id)
    if offer is None:
        raise reject("unknown_resource", kind="offer", member="id")
    return offer


async def unfinished_offers(context: Context, invoice_id: str) -> tuple[Record, ...]:
    """All offers on an invoice that have not come to their end, newest first."""
    machine = context.lifecycle.machines[MACHINE]
    unfinished = tuple(one for one in machine.states if one not in machine.terminal)
    where = (Condition("status", "in", unfinished), Condition("invoiceId", "=", invoice_id))
    most = await context.state.count(OFFERS, where)
    return (await context.state.page(OFFERS, limit=most, where=where)).records


def multiply(amount: Decimal, share: Decimal) -> Decimal:
    """The product, exact for any amount that a double can hold."""
    return _EXACT.multiply(amount, share)


def price(face_value: Decimal, currency: str, tenor_days: int, terms: Terms) -> Figures:
    """The figures of an offer on ``face_value`` that is due in ``tenor_days``."""
    advance = commercially(_EXACT.multiply(face_value, terms.advance_rate), currency)
    yearly = _EXACT.multiply(advance, terms.annual_rate)
    share = _EXACT.divide(_EXACT.multiply(yearly, Decimal(tenor_days)), Decimal(DAYS_OF_A_YEAR))
    discount_fee = commercially(share, currency)
    service_fee = commercially(_EXACT.multiply(face_value, terms.service_rate), currency)
    fees = _EXACT.add(discount_fee, service_fee)
    return Figures(
        advance=advance,
        reserve=commercially(_EXACT.subtract(face_value, advance), currency),
        discount_fee=discount_fee,
        service_fee=service_fee,
        net_proceeds=_EXACT.subtract(advance, fees),
    )


def terms_of(partner: Mapping[str, Any], wishes: Mapping[str, Any]) -> Terms:
    """The rates that ``wishes`` (an offer's body) name, else those that the partner quotes."""
    pricing = partner["pricing"]
    return Terms(
        advance_rate=Decimal(wishes.get("advanceRate", pricing["advanceRate"])),
        annual_rate=Decimal(wishes.get("discountFee", {}).get("annualRate", pricing["annualRate"])),
        service_rate=Decimal(wishes.get("serviceFee", {}).get("rate", pricing["serviceFeeRate"])),
    )


def commercially(amount: Decimal, currency: str) -> Decimal:
    """``amount`` with the digits of its currency, half up, as invoices and offers are rounded."""
    return round_to_minor_units(amount, currency, ROUND_HALF_UP)
