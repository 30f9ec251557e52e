"""What a financing request is, and which ones are open for offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from invoice_sandbox.project.api import Condition, Context, Record

from .invoices import CLIENT, INVOICES
from .invoices import MACHINE as INVOICE
from .lifecycle import move

REQUESTS: Final = "financing_requests"
MACHINE: Final = "financing-request"
OPEN: Final = ("Routed", "OffersReceived")

_INTERNAL: Final = frozenset({"source", "previousStatus"})


def published(record: Mapping[str, Any]) -> Record:
    """A financing request as the API shows it."""
    return {name: value for name, value in record.items() if name not in _INTERNAL}


async def move_request(context: Context, request: Record, trigger: str) -> Record:
    """The request after ``trigger``, stored, audited and told. Raises ApiError 409."""
    invoice_id = next(iter(request["invoiceIds"]), None)
    return await move(
        context, MACHINE, REQUESTS, request, trigger, present=published, subject=invoice_id
    )


async def newest_open_request(context: Context, invoice_id: str) -> Record | None:
    """The newest request for an invoice that is open for offers."""
    return await _newest(context, invoice_id, OPEN)


async def newest_request_for_offers(context: Context) -> Record | None:
    """The newest open request of a client whose invoice, if it has one, can receive an offer."""
    machine = context.lifecycle.machines[INVOICE]
    where = (Condition("source", "=", CLIENT), Condition("status", "in", OPEN))
    for request in (await context.state.page(REQUESTS, limit=100, where=where)).records:
        invoice = await invoice_of(context, request)
        if invoice is None or "receive-offer" in machine.legal[invoice["status"]]:
            return request
    return None


async def unfinished_request(context: Context, invoice_id: str) -> Record | None:
    """The newest request for an invoice that has not come to its end."""
    machine = context.lifecycle.machines[MACHINE]
    unfinished = tuple(one for one in machine.states if one not in machine.terminal)
    return await _newest(context, invoice_id, unfinished)


async def invoice_of(context: Context, request: Record) -> Record | None:
    """The invoice that a request is for, unless that is a synthetic one."""
    return await context.state.get(INVOICES, (request["invoiceIds"] or [""])[0])


async def _newest(context: Context, invoice_id: str, statuses: tuple[str, ...]) -> Record | None:
    where = (Condition("status", "in", statuses), Condition("invoiceIds", "has", invoice_id))
    page = await context.state.page(REQUESTS, limit=1, where=where)
    return page.records[0] if page.records else None
