"""What this project does itself where the engine asks: fixtures, refusals, webhooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from invoice_sandbox.handling import ApiError, Context, Record, Transaction

from ._audit import audit
from ._deliveries import plan_deliveries
from ._invoices import FOREIGN, INVOICES, record_foreign, record_invoice


async def record_fixture(state: Transaction, kind: str, record: Mapping[str, Any]) -> None:
    """Put starting data in place: invoices by way of the registry, the rest as it is."""
    if kind == INVOICES:
        await record_invoice(state, dict(record))
    elif kind == FOREIGN:
        await record_foreign(state, dict(record))
    else:
        await state.put(kind, record["id"], record)


async def find_subject(state: Transaction, subject: str) -> Record | None:
    """Stories are about invoices."""
    return await state.get(INVOICES, subject)


async def note_refusal(context: Context, error: ApiError) -> None:
    """A known caller was refused for lack of authorisation: that is one audit event."""
    values = {name: str(value) for name, value in error.values.items()}
    await audit(context, "authorization.refused", outcome="Failure", code=error.code, **values)


async def hear(context: Context, event: Record, troubles: Sequence[Mapping[str, Any]]) -> None:
    """Every event is delivered to the endpoints that subscribe to its kind."""
    await plan_deliveries(context, event, troubles)
