"""Indicative offers on financing requests."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.project.api import Call, Condition, Record, Response

from ..domain.credentials import partner_of, partner_of_offer, visible_offers
from ..domain.financing import invoice_for_offer
from ..domain.offers import OFFERS, make_offer, public_offer, request_for_offer

_FILTERS: Final = ("status", "invoiceId", "financingRequestId")


def list_offers(call: Call) -> Response:
    """Return the offers that the caller may see, newest first."""
    where = tuple(Condition(name, "=", call.query[name]) for name in _FILTERS if name in call.query)
    where += visible_offers(call)
    return call.page(OFFERS, where=where, present=public_offer)


def create_offer(call: Call) -> Record:
    """Record an indicative offer, by default of the first demo partner on the newest request.

    A partner's session makes its own offers on the requests that were routed to it. Without any
    open request the offer is on the synthetic invoice and changes no other record. Raises ApiError
    403 for another partner, 404 for an unknown reference, 409 when no offer can be made on it.
    """
    body = call.body
    partner = partner_of_offer(call)
    session_partner = partner_of(call)
    request = request_for_offer(
        call, body.get("financingRequestId"), body.get("invoiceId"), session_partner
    )
    invoice = invoice_for_offer(call, request, body.get("invoiceId"))
    return public_offer(make_offer(call, request, invoice, partner, body))
