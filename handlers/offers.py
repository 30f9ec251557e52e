"""Indicative offers on financing requests."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.project.api import Call, Condition, Record, Response, reject

from ..domain.financing import make_offer
from ..domain.invoices import named_invoice
from ..domain.offers import OFFERS, published
from ..domain.requests import (
    OPEN,
    REQUESTS,
    invoice_of,
    newest_open_request,
    newest_request_for_offers,
)
from ..domain.routing import named_partner, partners

_FILTERS: Final = ("status", "invoiceId", "financingRequestId")


async def list_offers(call: Call) -> Response:
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
    invoice = await invoice_of(call, request) if request is not None else None
    return published(await make_offer(call, request, invoice, partner, call.body))


async def _chosen_request(call: Call) -> Record | None:
    request_id, invoice_id = call.body.get("financingRequestId"), call.body.get("invoiceId")
    if invoice_id is not None:
        await named_invoice(call, invoice_id)
    if request_id is not None:
        return await _named_request(call, request_id, invoice_id)
    if invoice_id is None:
        return await newest_request_for_offers(call)
    request = await newest_open_request(call, invoice_id)
    if request is None:
        raise reject(
            "conflict",
            problem="No financing request is open for this invoice",
            advice="Create one with POST /api/financing-requests.",
        )
    return request


async def _named_request(call: Call, request_id: str, invoice_id: str | None) -> Record:
    request = await call.state.get(REQUESTS, request_id)
    if request is None:
        raise reject("unknown_resource", kind="financing request", member="id")
    if request["status"] not in OPEN:
        raise reject(
            "conflict",
            problem=f"The financing request is {request['status']} and takes no offers",
            advice=f"Only one that is {' or '.join(OPEN)} does.",
        )
    if invoice_id is not None and invoice_id not in request["invoiceIds"]:
        raise reject(
            "conflict",
            problem="The financing request is for another invoice",
            advice="Name one of the two only.",
        )
    return request


async def _chosen_partner(call: Call) -> Record:
    if "partnerId" in call.body:
        return await named_partner(call, call.body["partnerId"])
    configured = await partners(call)
    if not configured:
        raise reject(
            "conflict",
            problem="No partner is configured, so nobody can make an offer",
            advice="Add one to fixtures/partners.yaml.",
        )
    return configured[0]
