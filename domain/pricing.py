"""Pricing: the terms of an offer, and the amounts that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Record, conflict

from .fingerprint import EXACT, minor_units, round_half_up

_YEARS: Final[Mapping[str, Decimal]] = {"ACT/360": Decimal(360), "ACT/365F": Decimal(365)}

_ACT_365F: Final = frozenset({"AUD", "CAD", "GBP", "HKD", "NZD", "SGD", "ZAR"})
"""Currencies whose money market counts years of 365 days."""

_STATED: Final[Mapping[str, tuple[str, ...]]] = {
    "faceValue": ("faceValue",),
    "advanceAmount": ("advanceAmount",),
    "reserveAmount": ("reserveAmount",),
    "discountFee.amount": ("discountFee", "amount"),
    "serviceFee.amount": ("serviceFee", "amount"),
    "netProceeds": ("netProceeds",),
}
"""Amounts that the body of an offer may state: they must be the calculated ones."""


@dataclass(frozen=True)
class Terms:
    """Rates as shares: ``advance_rate`` and ``service_rate`` of the face value, ``annual_rate``
    of the advance and a year, whose days are those of ``day_count``."""

    advance_rate: Decimal
    annual_rate: Decimal
    service_rate: Decimal
    day_count: str = "ACT/360"


@dataclass(frozen=True)
class Figures:
    """Amounts in major units of the currency, rounded half up to its digits."""

    face_value: Decimal
    advance: Decimal
    reserve: Decimal
    discount_fee: Decimal
    service_fee: Decimal
    net_proceeds: Decimal


def terms_of(
    partner: Mapping[str, Any],
    options: Mapping[str, Any],
    financed: Mapping[str, Any],
    most_rate: Decimal | None = None,
) -> Terms:
    """Return the terms in ``options`` (the body of an offer), else those of the partner.

    An ``advanceAmount`` is a share of the amount of the invoice that is ``financed``. Without both
    the partner advances no more than ``most_rate``, which the seller asked for.
    """
    pricing, currency = partner["pricing"], financed["currency"]
    discount, service = options.get("discountFee", {}), options.get("serviceFee", {})
    usual = Decimal(pricing["advanceRate"])
    advance_rate = min(usual, usual if most_rate is None else most_rate)
    if "advanceRate" in options:
        advance_rate = Decimal(options["advanceRate"])
    elif "advanceAmount" in options:
        face_value = round_half_up(Decimal(financed["amount"]), currency)
        advance_rate = rate_of(Decimal(options["advanceAmount"]), face_value, currency)
    return Terms(
        advance_rate=advance_rate,
        annual_rate=Decimal(discount.get("annualRate", pricing["annualRate"])),
        service_rate=Decimal(service.get("rate", pricing["serviceFeeRate"])),
        day_count=discount.get("dayCount", day_count_of(currency)),
    )


def day_count_of(currency: str) -> str:
    """Return the day count of the currency's money market."""
    return "ACT/365F" if currency.strip().upper() in _ACT_365F else "ACT/360"


def year_of(day_count: str) -> Decimal:
    """Return the days of a year by that day count."""
    return _YEARS[day_count]


def rate_of(part: Decimal, whole: Decimal, currency: str) -> Decimal:
    """Return the share that ``part`` is of ``whole``, with so many digits that the share of the
    whole, in the digits of the currency, is the part again. It is 0 of nothing, or of less."""
    if whole <= 0:
        return Decimal(0)
    digits = max(whole.adjusted(), 0) + minor_units(currency) + 2
    share = EXACT.quantize(EXACT.divide(part, whole), Decimal((0, (1,), -digits)))
    return EXACT.normalize(share)


def interest(
    principal: Decimal, annual_rate: Decimal, days: int, currency: str, day_count: str = "ACT/360"
) -> Decimal:
    """Return the simple interest on ``principal`` for ``days``."""
    yearly = EXACT.multiply(principal, annual_rate)
    share = EXACT.divide(EXACT.multiply(yearly, Decimal(days)), year_of(day_count))
    return round_half_up(share, currency)


def price(amount: Decimal, currency: str, tenor_days: int, terms: Terms) -> Figures:
    """Return the figures of an offer on an invoice over ``amount`` that is due in ``tenor_days``.

    The face value is ``amount`` in the digits of the currency, so that advance and reserve are
    exactly the face value.
    """
    face_value = round_half_up(amount, currency)
    advance = round_half_up(EXACT.multiply(face_value, terms.advance_rate), currency)
    discount_fee = interest(advance, terms.annual_rate, tenor_days, currency, terms.day_count)
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

    The seller must get something, but no more than the invoice, and the tenor must not be beyond
    the partner's longest.
    """
    longest = partner["mandate"].get("maxTenorDays")
    if longest is not None and tenor_days > longest:
        raise conflict(
            f"The tenor of {tenor_days} days is beyond the {longest} of {partner['id']}",
            "Choose another partner, or an invoice that is due sooner.",
        )
    if figures.advance > figures.face_value:
        raise conflict(
            f"The advance of {figures.advance} is above the {figures.face_value} of the invoice",
            "Advance no more than the invoice.",
        )
    if figures.net_proceeds <= 0:
        raise conflict(
            f"The net proceeds of the offer would be {figures.net_proceeds}",
            "Choose an invoice over a larger amount, or one that is due sooner.",
        )


def check_stated(
    body: Mapping[str, Any], members: Mapping[str, Any], invoice_currency: str
) -> None:
    """Raise ApiError 409 for an amount or a currency in the body of an offer that is not the one in
    its calculated ``members``."""
    currency = body.get("currency", invoice_currency)
    if currency.strip().upper() != invoice_currency.strip().upper():
        raise conflict(
            f"The invoice is in {invoice_currency}, and so is every offer on it",
            "Leave out currency.",
        )
    for name, path in _STATED.items():
        stated, calculated = _member(body, path), _member(members, path)
        if stated is not None and round_half_up(Decimal(stated), currency) != calculated:
            raise conflict(
                f"{name} of the offer is {calculated}, not {stated}",
                f"Leave out {name}, or change the rates that it follows from.",
            )


def _member(value: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name, {})
    return value if value != {} else None


def pricing_members(figures: Figures, terms: Terms, tenor_days: int) -> Record:
    """Return the terms and amounts as an offer shows them."""
    return {
        "faceValue": figures.face_value,
        "advanceRate": terms.advance_rate,
        "advanceAmount": figures.advance,
        "reserveAmount": figures.reserve,
        "discountFee": {
            "annualRate": terms.annual_rate,
            "dayCount": terms.day_count,
            "tenorDays": tenor_days,
            "amount": figures.discount_fee,
        },
        "serviceFee": {"rate": terms.service_rate, "amount": figures.service_fee},
        "netProceeds": figures.net_proceeds,
    }
