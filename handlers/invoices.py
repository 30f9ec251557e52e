"""The invoice registry: create, list and read invoices."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Condition, Record, Response, instant_filter

from ..domain.invoices import INVOICES, named_invoice, published, register

_EQUAL = ("status", "sellerId", "debtorId", "currency")


async def list_invoices(call: Call) -> Response:
    """The caller's invoices, newest first."""
    where = (
        *(Condition(name, "=", call.query[name]) for name in _EQUAL if name in call.query),
        *instant_filter("createdAt", call.query.get("createdFrom"), call.query.get("createdTo")),
    )
    return await call.page(INVOICES, where=where, present=published)


async def create_invoice(call: Call) -> Record:
    """Register an invoice. A duplicate is registered too, as DuplicateSuspected."""
    return published(await register(call, call.body))


async def get_invoice(call: Call) -> Record:
    """One invoice. Unknown ids and those of other workspaces are 404 alike."""
    return published(await named_invoice(call, call.path["id"]))
