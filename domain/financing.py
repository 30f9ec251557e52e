"""Asking for financing and offering it, whether a client, a lever or a scenario's step does so."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Context, Record, instant_text, reject

from .audit import audit
from .invoices import CLIENT, SYNTHETIC, shift_invoice
from .offers import DAY_COUNT, OFFERS, Figures, Terms, commercially, multiply, price, terms_of
from .offers import MACHINE as OFFER
from .requests import MACHINE as REQUEST
from .requests import REQUESTS, move_request, newest_open_request
from .routing import deal_for, named_partner, route, tenor_days
from .telling import tell

DEMO_PARTNER: Final = "ptn_sandbox_everest"
"""Makes an offer where nobody else is named: its mandate takes every invoice."""

Wishes = Mapping[str, Any]
"""Members of a financing request's or an offer's body; what is left out has its default."""

_DEFAULT_ADVANCE_RATE: Final = Decimal("0.85")
_VALIDITY: Final = timedelta(hours=72)


def check_financeable(context: Context, invoice: Record) -> None:
    """Nothing, if financing can be asked for. Raises ApiError 409."""
    if invoice["status"] != "Verified":
        raise reject(
            "conflict",
            problem=f"The invoice is {invoice['status']} and cannot be financed",
            advice="Only an invoice that is Verified can be.",
        )
    if tenor_days(invoice, context.now.date()) < 0:
        raise reject(
            "conflict",
            problem=f"The invoice was due on {invoice['dueDate']} and cannot be financed",
            advice="Finance an invoice before it is due.",
        )


async def request_financing(context: Context, invoice: Record | None, wishes: Wishes) -> Record:
    """A new financing request, routed by demo mandates; without an invoice on a synthetic one.

    Raises ApiError 409 when the invoice's status does not allow it.
    """
    request = await _submitted(context, invoice, wishes)
    about = {"financingRequestId": request["id"]}
    if invoice is not None:
        invoice, kind = await shift_invoice(context, invoice, "request-financing", **about)
        await tell(context, kind, invoice, request=request)
    matched = await _routed_to(context, invoice or SYNTHETIC, request, wishes)
    if matched:
        return await move_request(context, {**request, "routedPartnerIds": matched}, "route")
    if invoice is None:
        return await move_request(context, request, "find-no-match")
    invoice, kind = await shift_invoice(context, invoice, "decline-financing", **about)
    request = await move_request(context, request, "find-no-match")
    await tell(context, kind, invoice, request=request)
    return request


async def make_offer(
    context: Context,
    request: Record | None,
    invoice: Record | None,
    partner: Record,
    wishes: Wishes,
) -> Record:
    """A new indicative offer; request and invoice, where there are any, receive it.

    Raises ApiError 409 when a status does not allow it.
    """
    offer = await _recorded(context, request, invoice, partner, wishes)
    if request is not None:
        await move_request(context, request, "receive-offer")
    if invoice is not None:
        about = {"offerId": offer["id"]}
        invoice, kind = await shift_invoice(context, invoice, "receive-offer", **about)
        await tell(context, kind, invoice, offer=offer)
    return offer


async def offer_on(context: Context, invoice: Record, partner_id: str = DEMO_PARTNER) -> Record:
    """A new offer on the invoice's newest open request, or on the invoice alone if it has none.

    Raises ApiError 404 for an unknown partner, 409 when the invoice's status does not allow it.
    """
    partner = await named_partner(context, partner_id)
    request = await newest_open_request(context, invoice["id"])
    return await make_offer(context, request, invoice, partner, {})


async def _submitted(context: Context, invoice: Record | None, wishes: Wishes) -> Record:
    financed = invoice or SYNTHETIC
    rate = wishes.get("requestedAdvanceRate", _DEFAULT_ADVANCE_RATE)
    usual = commercially(multiply(Decimal(financed["amount"]), Decimal(rate)), financed["currency"])
    request: Record = {
        "id": await context.new_id("freq_sandbox"),
        "status": context.lifecycle.machines[REQUEST].initial,
        "invoiceIds": [invoice["id"]] if invoice else [],
        "requestedAmount": wishes.get("requestedAmount", usual),
        "currency": wishes.get("currency", financed["currency"]),
        "requestedAdvanceRate": rate,
        "product": wishes.get("product", "Factoring"),
        "recoursePreference": wishes.get("recoursePreference", "Any"),
        "disclosure": wishes.get("disclosure", "Disclosed"),
        "routedPartnerIds": [],
        "createdAt": context.timestamp,
        "source": CLIENT,
        **({"neededBy": wishes["neededBy"]} if "neededBy" in wishes else {}),
        **({} if invoice else {"synthetic": True}),
    }
    await context.state.put(REQUESTS, request["id"], request)
    await audit(context, "financing_request.submitted", ("financing_request", request["id"]))
    return request


async def _routed_to(
    context: Context, invoice: Record, request: Record, wishes: Wishes
) -> list[str]:
    deal = await deal_for(
        context,
        invoice,
        product=request["product"],
        recourse=request["recoursePreference"],
        disclosure=request["disclosure"],
    )
    verdicts = await route(context, deal, wishes.get("partnerIds"))
    return [verdict.partner["id"] for verdict in verdicts if not verdict.failed]


async def _recorded(
    context: Context,
    request: Record | None,
    invoice: Record | None,
    partner: Record,
    wishes: Wishes,
) -> Record:
    financed = invoice or SYNTHETIC
    terms = terms_of(partner, wishes)
    tenor = max(0, tenor_days(financed, context.now.date()))
    face, currency = Decimal(financed["amount"]), financed["currency"]
    offer: Record = {
        "id": await context.new_id("off_sandbox"),
        "financingRequestId": request["id"] if request else None,
        "invoiceId": invoice["id"] if invoice else None,
        "partnerId": partner["id"],
        "offerType": "Indicative",
        "status": context.lifecycle.machines[OFFER].initial,
        "currency": currency,
        "faceValue": financed["amount"],
        **_figures(price(face, currency, tenor, terms), terms, tenor),
        **_conditions(context, request or {}, wishes),
        "createdAt": context.timestamp,
        "source": CLIENT,
    }
    await context.state.put(OFFERS, offer["id"], offer)
    await audit(context, "offer.recorded", ("offer", offer["id"]), partnerId=partner["id"])
    return offer


def _figures(figures: Figures, terms: Terms, tenor: int) -> Record:
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


def _conditions(context: Context, request: Record, wishes: Wishes) -> Record:
    preference = request.get("recoursePreference", "Any")
    disclosure = wishes.get("disclosure", request.get("disclosure", "Disclosed"))
    return {
        "recourse": wishes.get("recourse", "Recourse" if preference == "Any" else preference),
        "recoursePeriodDays": wishes.get("recoursePeriodDays", 90),
        "product": wishes.get("product", request.get("product", "Factoring")),
        "disclosure": disclosure,
        "noticeOfAssignmentRequired": disclosure == "Disclosed",
        "validUntil": wishes.get("validUntil", instant_text(context.now + _VALIDITY)),
        "conditions": wishes.get("conditions", []),
    }
