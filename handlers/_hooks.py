"""What this project does itself where the engine asks: fixtures and refused authorisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from invoice_sandbox.handling import ApiError, Context, Transaction

from ._audit import audit
from ._invoices import INVOICES, record_invoice


async def record_fixture(state: Transaction, kind: str, record: Mapping[str, Any]) -> None:
    """Put starting data in place: an invoice by way of the registry, the rest as it is."""
    if kind == INVOICES:
        await record_invoice(state, dict(record))
    else:
        await state.put(kind, record["id"], record)


async def note_refusal(context: Context, error: ApiError) -> None:
    """A known caller was refused for lack of authorisation: that is one audit event."""
    values = {name: str(value) for name, value in error.values.items()}
    await audit(context, "authorization.refused", outcome="Failure", code=error.code, **values)
