"""Offers: their record, their pricing, and their creation by a partner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Condition, Context, Record, instant_text, reject

from .audit import audit
from .financing import (
    move_request,
    newest_open_request,
    newest_request_for_offers,
    open_request,
)
from .fingerprint import EXACT, round_half_up
from .invoices import CLIENT, SYNTHETIC_INVOICE, apply_invoice_trigger, emit_move, load_invoice
from .lifecycle import move_record, unfinished_statuses
from .routing import load_partner, tenor_days

OFFER: Final = "offer"
"""The machine of the lifecycle."""

OFFERS: Final = "offers"

DEMO_PARTNER: Final = "ptn_sandbox_everest"
"""The partner that makes an offer where none is named. Its mandate accepts every invoice."""

DAYS_OF_A_YEAR: Final = 360
DAY_COUNT: Final = "ACT/360"

_INTERNAL: Final = frozenset({"source", "previousStatus"})
_VALIDITY: Final = timedelta(hours=72)


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


def public_offer(record: Mapping[str, Any]) -> Record:
    """An offer as the API shows it."""
    return {name: value for name, value in record.items() if name not in _INTERNAL}


async def move_offer(context: Context, offer: Record, trigger: str) -> Record:
    """Apply ``trigger`` to the offer and emit its event. Raises ApiError 409."""
    return await move_record(context, OFFER, OFFERS, offer, trigger, view=public_offer)


async def load_offer(context: Context, offer_id: str) -> Record:
    """The offer of that id. Raises ApiError 404."""
    offer = await context.state.get(OFFERS, offer_id)
    if offer is None:
        raise reject("unknown_resource", kind="offer", member="id")
    return offer


async def unfinished_offers(context: Context, invoice_id: str) -> tuple[Record, ...]:
    """All offers on an invoice that are in no end state, newest first."""
    statuses = unfinished_statuses(context, OFFER)
    where = (Condition("status", "in", statuses), Condition("invoiceId", "=", invoice_id))
    limit = await context.state.count(OFFERS, where)
    return (await context.state.page(OFFERS, limit=limit, where=where)).records


async def accepted_offer(context: Context, invoice: Record) -> Record:
    """The accepted offer on an invoice. Raises ApiError 409 when there is none."""
    where = (Condition("status", "=", "Accepted"), Condition("invoiceId", "=", invoice["id"]))
    page = await context.state.page(OFFERS, limit=1, where=where)
    if not page.records:
        raise reject(
            "conflict",
            problem="The invoice has no accepted offer",
            advice="Accept an offer on it first.",
        )
    return page.records[0]


def terms_of(partner: Mapping[str, Any], options: Mapping[str, Any]) -> Terms:
    """The rates in ``options`` (the body of an offer), else those of the partner's pricing."""
    pricing = partner["pricing"]
    discount, service = options.get("discountFee", {}), options.get("serviceFee", {})
    return Terms(
        advance_rate=Decimal(options.get("advanceRate", pricing["advanceRate"])),
        annual_rate=Decimal(discount.get("annualRate", pricing["annualRate"])),
        service_rate=Decimal(service.get("rate", pricing["serviceFeeRate"])),
    )


def price(face_value: Decimal, currency: str, tenor_days: int, terms: Terms) -> Figures:
    """The figures of an offer on ``face_value`` that is due in ``tenor_days``."""
    advance = round_half_up(EXACT.multiply(face_value, terms.advance_rate), currency)
    yearly = EXACT.multiply(advance, terms.annual_rate)
    share = EXACT.divide(EXACT.multiply(yearly, Decimal(tenor_days)), Decimal(DAYS_OF_A_YEAR))
    discount_fee = round_half_up(share, currency)
    service_fee = round_half_up(EXACT.multiply(face_value, terms.service_rate), currency)
    fees = EXACT.add(discount_fee, service_fee)
    return Figures(
        advance=advance,
        reserve=round_half_up(EXACT.subtract(face_value, advance), currency),
        discount_fee=discount_fee,
        service_fee=service_fee,
        net_proceeds=EXACT.subtract(advance, fees),
    )


async def request_for_offer(
    context: Context, request_id: str | None, invoice_id: str | None
) -> Record | None:
    """The financing request for a new offer, or None when no client has an open one.

    Without ids it is the newest open request. Raises ApiError 404 for an unknown id, 409 for a
    request that is not open or that is for another invoice.
    """
    if invoice_id is not None:
        await load_invoice(context, invoice_id)
    if request_id is not None:
        return await _request_for_invoice(context, request_id, invoice_id)
    if invoice_id is None:
        return await newest_request_for_offers(context)
    request = await newest_open_request(context, invoice_id)
    if request is None:
        raise reject(
            "conflict",
            problem="The invoice has no open financing request",
            advice="Create one with POST /api/financing-requests.",
        )
    return request


async def make_offer(
    context: Context,
    request: Record | None,
    invoice: Record | None,
    partner: Record,
    options: Mapping[str, Any],
) -> Record:
    """Create an indicative offer, and move the request and the invoice, where there are any.

    ``options`` are members of the body of ``createOffer``; those left out have defaults. Raises
    ApiError 409 when a status does not allow it.
    """
    offer = await _record_offer(context, request, invoice, partner, options)
    if request is not None:
        await move_request(context, request, "receive-offer")
    if invoice is not None:
        about = {"offerId": offer["id"]}
        invoice, event = await apply_invoice_trigger(context, invoice, "receive-offer", **about)
        await emit_move(context, event, invoice, offer=public_offer(offer))
    return offer


async def make_default_offer(
    context: Context, invoice: Record, partner_id: str = DEMO_PARTNER
) -> Record:
    """A partner's offer, with its own pricing, on the newest open request for the invoice.

    Without an open request the offer refers to the invoice only. Raises ApiError 404 for an unknown
    partner, 409 when the status of the invoice does not allow it.
    """
    partner = await load_partner(context, partner_id)
    request = await newest_open_request(context, invoice["id"])
    return await make_offer(context, request, invoice, partner, {})


async def _request_for_invoice(context: Context, request_id: str, invoice_id: str | None) -> Record:
    request = await open_request(context, request_id)
    if invoice_id is not None and invoice_id not in request["invoiceIds"]:
        raise reject(
            "conflict",
            problem="The financing request is for another invoice",
            advice="Send either financingRequestId or invoiceId.",
        )
    return request


async def _record_offer(
    context: Context,
    request: Record | None,
    invoice: Record | None,
    partner: Record,
    options: Mapping[str, Any],
) -> Record:
    financed = invoice or SYNTHETIC_INVOICE
    terms = terms_of(partner, options)
    tenor = max(0, tenor_days(financed, context.now.date()))
    face_value, currency = Decimal(financed["amount"]), financed["currency"]
    offer: Record = {
        "id": await context.new_id("off_sandbox"),
        "financingRequestId": request["id"] if request else None,
        "invoiceId": invoice["id"] if invoice else None,
        "partnerId": partner["id"],
        "offerType": "Indicative",
        "status": context.lifecycle.machines[OFFER].initial,
        "currency": currency,
        "faceValue": financed["amount"],
        **_pricing_members(price(face_value, currency, tenor, terms), terms, tenor),
        **_condition_members(context, request or {}, options),
        "createdAt": context.timestamp,
        "source": CLIENT,
    }
    await context.state.put(OFFERS, offer["id"], offer)
    await audit(context, "offer.recorded", ("offer", offer["id"]), partnerId=partner["id"])
    return offer


def _pricing_members(figures: Figures, terms: Terms, tenor: int) -> Record:
    return {
        "advanceRate": terms.advance_rate,
        "advanceAmount": figures.advance,
        "reserveAmount": figures.reserve,
        "discountFee": {
            "annualRate": terms.annual_rate,
            "dayCount": DAY_COUNT,
            "tenorDays": tenor,
            "amount": figures.discount_fee,
        },
        "serviceFee": {"rate": terms.service_rate, "amount": figures.service_fee},
        "netProceeds": figures.net_proceeds,
    }


def _condition_members(context: Context, request: Record, options: Mapping[str, Any]) -> Record:
    preference = request.get("recoursePreference", "Any")
    disclosure = options.get("disclosure", request.get("disclosure", "Disclosed"))
    return {
        "recourse": options.get("recourse", "Recourse" if preference == "Any" else preference),
        "recoursePeriodDays": options.get("recoursePeriodDays", 90),
        "product": options.get("product", request.get("product", "Factoring")),
        "disclosure": disclosure,
        "noticeOfAssignmentRequired": disclosure == "Disclosed",
        "validUntil": options.get("validUntil", instant_text(context.now + _VALIDITY)),
        "conditions": options.get("conditions", []),
    }
