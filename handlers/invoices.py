"""The invoice registry: create, list and read invoices."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.project.api import Call, Condition, Record, Response, instant_filter

from ..domain.credentials import load_visible_invoice, visible_invoices
from ..domain.invoices import INVOICES, check_seller, public_invoice, register_invoice

_FILTERS: Final = ("status", "sellerId", "debtorId", "currency")


def list_invoices(call: Call) -> Response:
    """Return the caller's invoices, newest first."""
    where = (
        *(Condition(name, "=", call.query[name]) for name in _FILTERS if name in call.query),
        *instant_filter("createdAt", call.query.get("createdFrom"), call.query.get("createdTo")),
        *visible_invoices(call),
    )
    return call.page(INVOICES, where=where, present=public_invoice)


def create_invoice(call: Call) -> Record:
    """Register an invoice. A duplicate is registered too, as DuplicateSuspected.

    Raises ApiError 403 for another seller than that of the session.
    """
    check_seller(call)
    return public_invoice(register_invoice(call, call.body))


def get_invoice(call: Call) -> Record:
    """Return an invoice. An unknown id and an id of another workspace both give 404."""
    return public_invoice(load_visible_invoice(call, call.path["id"]))
