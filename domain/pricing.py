"""Pricing: the terms of an offer, and the amounts that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Record, conflict

from .fingerprint import EXACT, round_half_up

DAYS_OF_A_YEAR: Final = 360
DAY_COUNT: Final = "ACT/360"


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

    face_value: Decimal
    advance: Decimal
    reserve: Decimal
    discount_fee: Decimal
    service_fee: Decimal
    net_proceeds: Decimal


def terms_of(partner: Mapping[str, Any], options: Mapping[str, Any]) -> Terms:
    """Return the rates in ``options`` (the body of an offer), else those of the partner."""
    pricing = partner["pricing"]
    discount, service = options.get("discountFee", {}), options.get("serviceFee", {})
    return Terms(
        advance_rate=Decimal(options.get("advanceRate", pricing["advanceRate"])),
        annual_rate=Decimal(discount.get("annualRate", pricing["annualRate"])),
        service_rate=Decimal(service.get("rate", pricing["serviceFeeRate"])),
    )


def interest(principal: Decimal, annual_rate: Decimal, days: int, currency: str) -> Decimal:
    """Return the simple interest on ``principal`` for ``days`` of a year of 360 days."""
    yearly = EXACT.multiply(principal, annual_rate)
    share = EXACT.divide(EXACT.multiply(yearly, Decimal(days)), Decimal(DAYS_OF_A_YEAR))
    return round_half_up(share, currency)


def price(amount: Decimal, currency: str, tenor_days: int, terms: Terms) -> Figures:
    """Return the figures of an offer on an invoice over ``amount`` that is due in ``tenor_days``.

    The face value is ``amount`` in the digits of the currency, so that advance and reserve are
    exactly the face value.
    """
    face_value = round_half_up(amount, currency)
    advance = round_half_up(EXACT.multiply(face_value, terms.advance_rate), currency)
    discount_fee = interest(advance, terms.annual_rate, tenor_days, currency)
    service_fee = round_half_up(EXACT.multiply(face_value, terms.service_rate), currency)
    return Figures(
        face_value=face_value,
        advance=advance,
        reserve=EXACT.subtract(face_value, advance),
        discount_fee=discount_fee,
        service_fee=service_fee,
        net_proceeds=EXACT.subtract(advance, EXACT.add(discount_fee, service_fee)),
    )


def check_offer(partner: Mapping[str, Any], tenor_days: int, figures: Figures) -> None:
    """Raise ApiError 409 for an offer that no partner makes.

    The seller must get something, and the tenor must not be beyond the partner's longest.
    """
    longest = partner["mandate"].get("maxTenorDays")
    if longest is not None and tenor_days > longest:
        raise conflict(
            f"The tenor of {tenor_days} days is beyond the {longest} of {partner['id']}",
            "Choose another partner, or an invoice that is due sooner.",
        )
    if figures.net_proceeds <= 0:
        raise conflict(
            f"The net proceeds of the offer would be {figures.net_proceeds}",
            "Choose an invoice over a larger amount, or one that is due sooner.",
        )


def pricing_members(figures: Figures, terms: Terms, tenor_days: int) -> Record:
    """Return the terms and amounts as an offer shows them."""
    return {
        "faceValue": figures.face_value,
        "advanceRate": terms.advance_rate,
        "advanceAmount": figures.advance,
        "reserveAmount": figures.reserve,
        "discountFee": {
            "annualRate": terms.annual_rate,
            "dayCount": DAY_COUNT,
            "tenorDays": tenor_days,
            "amount": figures.discount_fee,
        },
        "serviceFee": {"rate": terms.service_rate, "amount": figures.service_fee},
        "netProceeds": figures.net_proceeds,
    }
