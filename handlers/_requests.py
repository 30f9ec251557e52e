"""What a financing request is, and which ones are open for offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from invoice_sandbox.handling import Condition, Context, Record

from ._invoices import CLIENT

REQUESTS: Final = "financing_requests"
MACHINE: Final = "financing-request"
OPEN: Final = ("Routed", "OffersReceived")

_INTERNAL: Final = frozenset({"source", "previousStatus"})


def published(record: Mapping[str, Any]) -> Record:
    """A financing request as the API shows it."""
    return {name: value for name, value in record.items() if name not in _INTERNAL}


async def newest_open_request(context: Context, invoice_id: str | None = None) -> Record | None:
    """The newest open request of a client, if need be for one invoice."""
    where = [Condition("source", "=", CLIENT), Condition("status", "in", OPEN)]
    if invoice_id is not None:
        where = [Condition("status", "in", OPEN), Condition("invoiceIds", "has", invoice_id)]
    page = await context.state.page(REQUESTS, limit=1, where=tuple(where))
    return page.records[0] if page.records else None
