"""Routing: which demo partners would finance an invoice, and why the others would not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from typing import Any, Final

from invoice_sandbox.project.api import Context, Record, conflict, existing

from .exposure import Exposure, exposure_of
from .fingerprint import EXACT, round_half_up
from .pricing import price, terms_of
from .tenor import tenor_days

PARTNERS: Final = "partners"
ASSIGNMENT_RULES: Final = "assignment_rules"
_ORGANISATIONS: Final = "organisations"
_DEFAULT_COUNTRY: Final = "DE"
_COUNTRY_ALIASES: Final = {"UK": "GB"}
_UNKNOWN_SECTOR: Final = "Unknown"


@dataclass(frozen=True)
class Deal:
    """The facts that routing filters by. ``tenor_days`` counts from today to the due date.

    ``debtor_total`` and ``request_total`` are the amounts of all invoices of the request, of this
    debtor and in all; without a request they are None, as ``requested_amount`` is. ``most_rate``
    is the highest advance rate that the seller asked for, ``days_to_need`` the days until the
    advance is needed.
    """

    currency: str
    amount: Decimal
    tenor_days: int
    seller_country: str
    debtor_country: str
    debtor_sector: str
    product: str = "Factoring"
    recourse: str = "Any"
    disclosure: str = "Disclosed"
    debtor_id: str = ""
    debtor_total: Decimal | None = None
    request_total: Decimal | None = None
    requested_amount: Decimal | None = None
    requested_currency: str | None = None
    requested_rate: Decimal | None = None
    most_rate: Decimal | None = None
    days_to_need: int | None = None


Filter = Callable[[Record, Deal, Exposure], str | None]
"""The reason why a partner does not take a deal, or None."""

_NO_EXPOSURE: Final = Exposure()


@dataclass(frozen=True)
class Verdict:
    """The filters of one partner that a deal passed, and those that it failed, with reasons."""

    partner: Record
    passed: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]


def deal_for(context: Context, invoice: Mapping[str, Any], **overrides: Any) -> Deal:
    """Return the deal for an invoice, with countries and sector from its organisations."""
    seller = load_organisation(context, invoice["sellerId"])
    debtor = load_organisation(context, invoice["debtorId"])
    return Deal(
        currency=invoice["currency"].strip().upper(),
        amount=Decimal(invoice["amount"]),
        tenor_days=tenor_days(invoice, context.now.date()),
        debtor_id=invoice["debtorId"],
        **{
            "seller_country": seller["country"],
            "debtor_country": debtor["country"],
            "debtor_sector": debtor["sector"],
            **overrides,
        },
    )


def partners(context: Context) -> list[Record]:
    """Return all partners, in the order of the fixture file."""
    return list(context.state.page(PARTNERS, oldest_first=True).records)


def load_partner(context: Context, partner_id: str) -> Record:
    """Return the partner of that id. Raises ApiError 404."""
    return existing(context.state.get(PARTNERS, partner_id), "partner", partner_id)


def check_partners(context: Context, partner_ids: Sequence[str]) -> None:
    """Raise ApiError 404 unless every one of the partners exists."""
    for partner_id in partner_ids:
        load_partner(context, partner_id)


def default_partner(context: Context) -> Record:
    """Return the first partner of the fixture file. Raises ApiError 409 when there is none."""
    configured = partners(context)
    if not configured:
        raise conflict(
            "The sandbox has no partner that could make an offer",
            "Add a partner to fixtures/partners.yaml.",
        )
    return configured[0]


def route(context: Context, deal: Deal, partner_ids: Sequence[str] = ()) -> list[Verdict]:
    """Return the verdicts of the named partners, else of all.

    A partner that is ``onlyWhenNamed`` matches only if it is named.
    """
    return [
        _judged(context, partner, deal, is_named=bool(partner_ids))
        for partner in partners(context)
        if not partner_ids or partner["id"] in partner_ids
    ]


def _judged(context: Context, partner: Record, deal: Deal, *, is_named: bool) -> Verdict:
    verdict = judge(partner, deal, _exposure(context, partner, deal))
    if is_named or not partner.get("onlyWhenNamed"):
        return verdict
    return replace(verdict, failed=(*verdict.failed, ("invitation", "QUOTES_ONLY_WHEN_NAMED")))


def outside_mandate(context: Context, partner: Record, deal: Deal) -> list[Record]:
    """Return the filters of the partner's mandate that a deal fails, with reasons."""
    verdict = judge(partner, deal, _exposure(context, partner, deal), _MANDATE)
    return reasons(verdict.failed)


def check_limits(context: Context, partner_id: str, invoice: Mapping[str, Any]) -> None:
    """Raise ApiError 409 if the partner's limits do not allow to finance the invoice, too.

    An offer reserves nothing, so other invoices of the debtor may have been financed since.
    """
    partner, deal = load_partner(context, partner_id), deal_for(context, invoice)
    verdict = judge(partner, deal, _exposure(context, partner, deal), _LIMITS)
    if verdict.failed:
        failed = ", ".join(f"{name}: {reason}" for name, reason in verdict.failed)
        raise conflict(
            f"The limits of {partner_id} do not allow the offer any more ({failed})",
            "Accept the offer of another partner, or wait until the debtor pays another invoice.",
        )


def _exposure(context: Context, partner: Record, deal: Deal) -> Exposure:
    """Return the exposure; it is not read for a mandate that does not limit it."""
    if partner["mandate"].keys() & {"debtorConcentrationMax", "debtorLimitRequired"}:
        return exposure_of(context, partner["id"], deal.currency, deal.debtor_id)
    return Exposure()


def judge(
    partner: Record,
    deal: Deal,
    exposure: Exposure = _NO_EXPOSURE,
    filters: Sequence[tuple[str, Filter]] = (),
) -> Verdict:
    """Compare a deal with a partner's mandate. A filter that the mandate lacks is passed."""
    results = [(name, test(partner, deal, exposure)) for name, test in filters or FILTERS]
    return Verdict(
        partner,
        passed=tuple(name for name, reason in results if reason is None),
        failed=tuple((name, reason) for name, reason in results if reason is not None),
    )


def country_code(text: str) -> str:
    """Return a country code in upper case: ``de`` is DE, UK is GB, text that is not ASCII stays."""
    code = text.upper() if text.isascii() else text
    return _COUNTRY_ALIASES.get(code, code)


def public_verdict(verdict: Verdict) -> Record:
    """Return a verdict as the API shows it."""
    shown: Record = {"partnerId": verdict.partner["id"], "passedFilters": list(verdict.passed)}
    return {**shown, "failedFilters": reasons(verdict.failed)} if verdict.failed else shown


def reasons(failed: Iterable[tuple[str, str]]) -> list[Record]:
    """Return failed filters with their reasons as the API shows them."""
    return [{"filter": name, "reason": reason} for name, reason in failed]


def load_organisation(context: Context, organisation_id: str) -> Record:
    """Return the company of that id; one that is not configured is German."""
    organisation = context.state.get(_ORGANISATIONS, organisation_id)
    return organisation or {"country": _DEFAULT_COUNTRY, "sector": _UNKNOWN_SECTOR}


def _among(member: str, value: Callable[[Deal], str], reason: str) -> Filter:
    def test(partner: Record, deal: Deal, _: Exposure) -> str | None:
        allowed = partner["mandate"].get(member)
        return None if allowed is None or value(deal) in allowed else reason

    return test


def _amount(partner: Record, deal: Deal, _: Exposure) -> str | None:
    within = _is_between(partner["mandate"], "minAmount", "maxAmount", deal.amount)
    return None if within else "AMOUNT_OUT_OF_RANGE"


def _tenor(partner: Record, deal: Deal, _: Exposure) -> str | None:
    within = _is_between(partner["mandate"], "minTenorDays", "maxTenorDays", deal.tenor_days)
    return None if within and deal.tenor_days >= 0 else "TENOR_OUT_OF_RANGE"


def _is_between(mandate: Record, low: str, high: str, number: Decimal | int) -> bool:
    least, most = mandate.get(low, number), mandate.get(high, number)
    return bool(least <= number <= most)


def _sector(partner: Record, deal: Deal, _: Exposure) -> str | None:
    excluded = deal.debtor_sector in partner["mandate"].get("excludedSectors", [])
    return "SECTOR_EXCLUDED" if excluded else None


def _recourse(partner: Record, deal: Deal, _: Exposure) -> str | None:
    offered = partner["mandate"].get("recourse", [deal.recourse])
    return None if deal.recourse in {"Any", *offered} else "RECOURSE_NOT_OFFERED"


def _debtor_limit(partner: Record, deal: Deal, exposure: Exposure) -> str | None:
    if not partner["mandate"].get("debtorLimitRequired"):
        return None
    for limit in partner.get("debtorLimits", []):
        if (limit["debtorId"], limit["currency"]) == (deal.debtor_id, deal.currency):
            total = EXACT.add(exposure.debtor, _or_amount(deal.debtor_total, deal))
            return "DEBTOR_LIMIT_EXCEEDED" if total > limit["amount"] else None
    return "DEBTOR_LIMIT_MISSING"


def _concentration(partner: Record, deal: Deal, exposure: Exposure) -> str | None:
    most = partner["mandate"].get("debtorConcentrationMax")
    if most is None:
        return None
    portfolio = partner.get("portfolio", [])
    amounts = (row["amount"] for row in portfolio if row["currency"] == deal.currency)
    others = reduce(EXACT.add, map(Decimal, amounts), Decimal(0))
    debtor = EXACT.add(exposure.debtor, _or_amount(deal.debtor_total, deal))
    whole = EXACT.add(EXACT.add(exposure.total, _or_amount(deal.request_total, deal)), others)
    within = debtor <= EXACT.multiply(whole, Decimal(most))
    return None if within else "DEBTOR_CONCENTRATION_TOO_HIGH"


def _net_proceeds(partner: Record, deal: Deal, _: Exposure) -> str | None:
    financed = {"amount": deal.amount, "currency": deal.currency}
    terms = terms_of(partner, {}, financed, deal.most_rate)
    figures = price(deal.amount, deal.currency, deal.tenor_days, terms)
    return None if figures.net_proceeds > 0 else "NET_PROCEEDS_NOT_POSITIVE"


def _requested_amount(_: Record, deal: Deal, __: Exposure) -> str | None:
    amount, total = deal.requested_amount, _or_amount(deal.request_total, deal)
    if amount is None:
        return None
    if amount > total:
        return "REQUESTED_AMOUNT_ABOVE_INVOICE"
    if deal.requested_rate is None:
        return None
    most = round_half_up(EXACT.multiply(total, deal.requested_rate), deal.currency)
    return "REQUESTED_AMOUNT_ABOVE_ADVANCE_RATE" if amount > most else None


def _needed_by(_: Record, deal: Deal, __: Exposure) -> str | None:
    passed = deal.days_to_need is not None and deal.days_to_need < 0
    return "NEEDED_BY_PASSED" if passed else None


def _requested_currency(_: Record, deal: Deal, __: Exposure) -> str | None:
    other = deal.requested_currency not in (None, deal.currency)
    return "CURRENCY_DIFFERS_FROM_INVOICE" if other else None


def _or_amount(total: Decimal | None, deal: Deal) -> Decimal:
    return deal.amount if total is None else total


_LIMITS: Final[tuple[tuple[str, Filter], ...]] = (
    ("debtorLimit", _debtor_limit),
    ("debtorConcentration", _concentration),
)
_MANDATE: Final[tuple[tuple[str, Filter], ...]] = (
    ("currency", _among("currencies", lambda deal: deal.currency, "CURRENCY_NOT_ELIGIBLE")),
    ("amount", _amount),
    ("tenor", _tenor),
    (
        "sellerCountry",
        _among("sellerCountries", lambda deal: deal.seller_country, "COUNTRY_NOT_ELIGIBLE"),
    ),
    (
        "debtorCountry",
        _among("debtorCountries", lambda deal: deal.debtor_country, "COUNTRY_NOT_ELIGIBLE"),
    ),
    ("debtorSector", _sector),
    ("product", _among("products", lambda deal: deal.product, "PRODUCT_NOT_OFFERED")),
    ("recourse", _recourse),
    ("disclosure", _among("disclosure", lambda deal: deal.disclosure, "DISCLOSURE_NOT_OFFERED")),
    *_LIMITS,
)
FILTERS: Final = (
    *_MANDATE,
    ("netProceeds", _net_proceeds),
    ("requestedAmount", _requested_amount),
    ("requestedCurrency", _requested_currency),
    ("neededBy", _needed_by),
)
"""The mandate, and what no partner finances: each returns the reason why a deal fails it."""
