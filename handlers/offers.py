"""Indicative offers on financing requests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.handling import Answer, Call, Condition, Record, instant_text, refuse

from ._audit import audit
from ._invoices import CLIENT, INVOICES, SYNTHETIC, move_invoice, named_invoice
from ._lifecycle import move
from ._offers import DAY_COUNT, MACHINE, OFFERS, Figures, Terms, price, published, terms_of
from ._requests import MACHINE as REQUEST_MACHINE
from ._requests import OPEN, REQUESTS, newest_open_request
from ._routing import PARTNERS, partners, tenor_days

_FILTERS: Final = ("status", "invoiceId", "financingRequestId")
_VALIDITY: Final = timedelta(hours=72)


async def list_offers(call: Call) -> Answer:
    """The offers that the caller may see, newest first."""
    where = tuple(Condition(name, "=", call.query[name]) for name in _FILTERS if name in call.query)
    return await call.page(OFFERS, where=where, present=published)


async def create_offer(call: Call) -> Record:
    """Record an indicative offer, by default of the first demo partner on the newest request.

    Without any open request the offer is on a synthetic invoice and changes no other record.
    Raises ApiError 404 for an unknown reference, 409 when no offer can be made on it.
    """
    request = await _chosen_request(call)
    partner = await _chosen_partner(call)
    invoice = await _invoice_of(call, request)
    offer = await _recorded(call, request, invoice, partner)
    if request is not None:
        await move(call, REQUEST_MACHINE, REQUESTS, request, "receive-offer")
    if invoice is not None:
        await move_invoice(call, invoice, "receive-offer", offerId=offer["id"])
    return published(offer)


async def _chosen_request(call: Call) -> Record | None:
    request_id, invoice_id = call.body.get("financingRequestId"), call.body.get("invoiceId")
    if invoice_id is not None:
        await named_invoice(call, invoice_id)
    if request_id is None:
        request = await newest_open_request(call, invoice_id)
        if request is None and invoice_id is not None:
            raise refuse(
                "conflict",
                problem="No financing request is open for this invoice",
                advice="Create one with POST /api/financing-requests.",
            )
        return request
    request = await call.state.get(REQUESTS, request_id)
    if request is None:
        raise refuse("unknown_resource", kind="financing request", member="id")
    if request["status"] not in OPEN:
        raise refuse(
            "conflict",
            problem=f"The financing request is {request['status']} and takes no offers",
            advice=f"Only one that is {' or '.join(OPEN)} does.",
        )
    if invoice_id is not None and invoice_id not in request["invoiceIds"]:
        raise refuse(
            "conflict",
            problem="The financing request is for another invoice",
            advice="Name one of the two only.",
        )
    return request


async def _chosen_partner(call: Call) -> Record:
    partner_id = call.body.get("partnerId")
    if partner_id is None:
        configured = await partners(call)
        if not configured:
            raise refuse(
                "conflict",
                problem="No partner is configured, so nobody can make an offer",
                advice="Add one to fixtures/partners.yaml.",
            )
        return configured[0]
    partner = await call.state.get(PARTNERS, partner_id)
    if partner is None:
        raise refuse("unknown_resource", kind="partner", member="id")
    return partner


async def _invoice_of(call: Call, request: Record | None) -> Record | None:
    if request is None or not request["invoiceIds"]:
        return None
    return await call.state.get(INVOICES, request["invoiceIds"][0])


async def _recorded(
    call: Call, request: Record | None, invoice: Record | None, partner: Record
) -> Record:
    financed: Mapping[str, Any] = invoice or SYNTHETIC
    terms = terms_of(partner, call.body)
    tenor = max(0, tenor_days(financed, call.now.date()))
    face, currency = Decimal(financed["amount"]), financed["currency"]
    offer: Record = {
        "id": await call.new_id("off_sandbox"),
        "financingRequestId": request["id"] if request else None,
        "invoiceId": invoice["id"] if invoice else None,
        "partnerId": partner["id"],
        "offerType": "Indicative",
        "status": call.lifecycle.machines[MACHINE].initial,
        "currency": currency,
        "faceValue": financed["amount"],
        **_figures(price(face, currency, tenor, terms), terms, tenor),
        **_conditions(call, request),
        "createdAt": call.timestamp,
        "source": CLIENT,
    }
    await call.state.put(OFFERS, offer["id"], offer)
    await audit(call, "offer.recorded", ("offer", offer["id"]), partnerId=partner["id"])
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


def _conditions(call: Call, request: Record | None) -> Record:
    body, asked = call.body, request or {}
    preference = asked.get("recoursePreference", "Any")
    disclosure = body.get("disclosure", asked.get("disclosure", "Disclosed"))
    return {
        "recourse": body.get("recourse", "Recourse" if preference == "Any" else preference),
        "recoursePeriodDays": body.get("recoursePeriodDays", 90),
        "product": body.get("product", asked.get("product", "Factoring")),
        "disclosure": disclosure,
        "noticeOfAssignmentRequired": disclosure == "Disclosed",
        "validUntil": body.get("validUntil", instant_text(call.now + _VALIDITY)),
        "conditions": body.get("conditions", []),
    }
