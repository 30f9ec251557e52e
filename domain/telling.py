"""What an event tells that an invoice's move records: the thing whose family its kind names."""

from __future__ import annotations

from invoice_sandbox.project.api import Context, Record

from .invoices import published as published_invoice
from .offers import published as published_offer
from .requests import published as published_request


async def tell(
    context: Context,
    kind: str | None,
    invoice: Record,
    *,
    request: Record | None = None,
    offer: Record | None = None,
) -> None:
    """Record an event of the invoice's story, as the request, offer or invoice stands now.

    An invoice that was moved without a request or an offer can tell only of itself.
    """
    if kind is None:
        return
    family = kind.partition(".")[0]
    data = published_invoice(invoice)
    if family == "offer" and offer is not None:
        data = published_offer(offer)
    elif family == "financing_request" and request is not None:
        data = published_request(request)
    await context.emit(kind, data, invoice["id"])
