"""Routing: which demo partners would finance an invoice, and why the others would not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Context, Record, reject

from .terms import tenor_days

PARTNERS: Final = "partners"
_ORGANISATIONS: Final = "organisations"
_DEFAULT_COUNTRY: Final = "DE"
_COUNTRY_ALIASES: Final = {"UK": "GB"}
_UNKNOWN_SECTOR: Final = "Unknown"


@dataclass(frozen=True)
class Deal:
    """The facts that a mandate filters by. ``tenor_days`` counts from today to the due date."""

    currency: str
    amount: Decimal
    tenor_days: int
    seller_country: str
    debtor_country: str
    debtor_sector: str
    product: str = "Factoring"
    recourse: str = "Any"
    disclosure: str = "Disclosed"


@dataclass(frozen=True)
class Verdict:
    """The filters of one partner that a deal passed, and those that it failed, with reasons."""

    partner: Record
    passed: tuple[str, ...]
    failed: tuple[tuple[str, str], ...]


async def deal_for(context: Context, invoice: Mapping[str, Any], **overrides: str) -> Deal:
    """The deal for an invoice, with countries and sector from its organisations."""
    seller = await _organisation(context, invoice["sellerId"])
    debtor = await _organisation(context, invoice["debtorId"])
    return Deal(
        currency=invoice["currency"].upper(),
        amount=Decimal(invoice["amount"]),
        tenor_days=tenor_days(invoice, context.now.date()),
        **{
            "seller_country": seller["country"],
            "debtor_country": debtor["country"],
            "debtor_sector": debtor["sector"],
            **overrides,
        },
    )


async def partners(context: Context) -> list[Record]:
    """All partners, in the order of the fixture file."""
    page = await context.state.page(PARTNERS, limit=1000)
    return list(reversed(page.records))


async def load_partner(context: Context, partner_id: str) -> Record:
    """The partner of that id. Raises ApiError 404."""
    partner = await context.state.get(PARTNERS, partner_id)
    if partner is None:
        raise reject("unknown_resource", kind="partner", member="id")
    return partner


async def check_partners(context: Context, partner_ids: Sequence[str]) -> None:
    """Raise ApiError 404 unless every one of the partners exists."""
    for partner_id in partner_ids:
        await load_partner(context, partner_id)


async def default_partner(context: Context) -> Record:
    """The first partner of the fixture file. Raises ApiError 409 when there is none."""
    configured = await partners(context)
    if not configured:
        raise reject(
            "conflict",
            problem="The sandbox has no partner that could make an offer",
            advice="Add a partner to fixtures/partners.yaml.",
        )
    return configured[0]


async def route(context: Context, deal: Deal, partner_ids: Sequence[str] = ()) -> list[Verdict]:
    """The verdicts of the named partners, else of all except those that are ``onlyWhenNamed``."""
    every = await partners(context)
    if partner_ids:
        chosen = [partner for partner in every if partner["id"] in partner_ids]
    else:
        chosen = [partner for partner in every if not partner.get("onlyWhenNamed")]
    return [judge(partner, deal) for partner in chosen]


def judge(partner: Record, deal: Deal) -> Verdict:
    """Compare a deal with a partner's mandate. A filter that the mandate lacks is passed."""
    mandate = partner["mandate"]
    results = [(name, reason, test(mandate, deal)) for name, reason, test in _FILTERS]
    return Verdict(
        partner,
        passed=tuple(name for name, _, passed in results if passed),
        failed=tuple((name, reason) for name, reason, passed in results if not passed),
    )


def country_code(text: str) -> str:
    """``de`` is DE and UK is GB. Text that is not ASCII is returned unchanged."""
    code = text.upper() if text.isascii() else text
    return _COUNTRY_ALIASES.get(code, code)


def public_verdict(verdict: Verdict) -> Record:
    """A verdict as the API shows it."""
    shown: Record = {"partnerId": verdict.partner["id"], "passedFilters": list(verdict.passed)}
    failed = [{"filter": name, "reason": reason} for name, reason in verdict.failed]
    return {**shown, "failedFilters": failed} if failed else shown


async def _organisation(context: Context, organisation_id: str) -> Record:
    organisation = await context.state.get(_ORGANISATIONS, organisation_id)
    return organisation or {"country": _DEFAULT_COUNTRY, "sector": _UNKNOWN_SECTOR}


def _among(member: str, value: Callable[[Deal], str]) -> Callable[[Record, Deal], bool]:
    return lambda mandate, deal: member not in mandate or value(deal) in mandate[member]


def _between(low: str, high: str, value: Callable[[Deal], Any]) -> Callable[[Record, Deal], bool]:
    def test(mandate: Record, deal: Deal) -> bool:
        number = value(deal)
        return bool(
            (low not in mandate or number >= mandate[low])
            and (high not in mandate or number <= mandate[high])
        )

    return test


def _recourse(mandate: Record, deal: Deal) -> bool:
    return deal.recourse == "Any" or deal.recourse in mandate.get("recourse", [deal.recourse])


_FILTERS: Final[tuple[tuple[str, str, Callable[[Record, Deal], bool]], ...]] = (
    ("currency", "CURRENCY_NOT_ELIGIBLE", _among("currencies", lambda deal: deal.currency)),
    (
        "amount",
        "AMOUNT_OUT_OF_RANGE",
        _between("minAmount", "maxAmount", lambda deal: deal.amount),
    ),
    (
        "tenor",
        "TENOR_OUT_OF_RANGE",
        _between("minTenorDays", "maxTenorDays", lambda deal: deal.tenor_days),
    ),
    (
        "sellerCountry",
        "COUNTRY_NOT_ELIGIBLE",
        _among("sellerCountries", lambda deal: deal.seller_country),
    ),
    (
        "debtorCountry",
        "COUNTRY_NOT_ELIGIBLE",
        _among("debtorCountries", lambda deal: deal.debtor_country),
    ),
    (
        "debtorSector",
        "SECTOR_EXCLUDED",
        lambda mandate, deal: deal.debtor_sector not in mandate.get("excludedSectors", []),
    ),
    ("product", "PRODUCT_NOT_OFFERED", _among("products", lambda deal: deal.product)),
    ("recourse", "RECOURSE_NOT_OFFERED", _recourse),
    ("disclosure", "DISCLOSURE_NOT_OFFERED", _among("disclosure", lambda deal: deal.disclosure)),
)
