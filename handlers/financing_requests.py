"""Financing requests: created on a verified invoice and routed to partners."""

from __future__ import annotations

from functools import partial

from invoice_sandbox.project.api import Call, Record, Response

from ..domain.credentials import partner_of, visible_requests
from ..domain.financing import REQUESTS, invoices_to_finance, public_request, request_financing
from ..domain.routing import check_partners


def list_financing_requests(call: Call) -> Response:
    """Return the caller's financing requests, newest first; for a partner, those routed to it."""
    present = partial(public_request, partner_id=partner_of(call))
    return call.page(REQUESTS, where=visible_requests(call), present=present)


def create_financing_request(call: Call) -> Record:
    """Request financing of verified invoices, all or none, and route the request by mandates.

    Without a named invoice it is the newest one that can be financed, else the synthetic one.
    Raises ApiError 404 for an unknown invoice or partner, 409 for one that cannot be financed.
    """
    body = call.body
    invoices = invoices_to_finance(call, body)
    check_partners(call, body.get("partnerIds", []))
    return public_request(request_financing(call, invoices, body))
