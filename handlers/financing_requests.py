"""Financing requests: created on a verified invoice and routed to partners."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record, Response

from ..domain.financing import check_financeable, request_financing
from ..domain.invoices import named_invoice, newest_invoices
from ..domain.requests import REQUESTS, published
from ..domain.routing import named_partner, tenor_days


async def list_financing_requests(call: Call) -> Response:
    """The caller's financing requests, newest first."""
    return await call.page(REQUESTS, present=published)


async def create_financing_request(call: Call) -> Record:
    """Ask for financing of a verified invoice and route the request by demo mandates.

    Without a named invoice it is the caller's newest verified one, else a synthetic one. Raises
    ApiError 404 for an unknown invoice or partner, 409 for one that cannot be financed.
    """
    invoice = await _chosen_invoice(call)
    for partner_id in call.body.get("partnerIds", []):
        await named_partner(call, partner_id)
    return published(await request_financing(call, invoice, call.body))


async def _chosen_invoice(call: Call) -> Record | None:
    named = [call.body["invoiceId"]] if "invoiceId" in call.body else call.body.get("invoiceIds")
    if not named:
        today = call.now.date()
        verified = await newest_invoices(call, "Verified")
        return next((one for one in verified if tenor_days(one, today) >= 0), None)
    invoice = await named_invoice(call, named[0])
    check_financeable(call, invoice)
    return invoice
