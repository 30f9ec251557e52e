"""What this project does itself where the engine asks: fixtures, refusals, webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from invoice_sandbox.project.api import ApiError, Context, Record, Transaction
from invoice_sandbox.webhooks.endpoints import published_endpoint

from .audit import audit
from .invoices import FOREIGN, INVOICES, record_foreign, record_invoice
from .webhooks import audit_endpoint


async def record_fixture(state: Transaction, kind: str, record: Mapping[str, Any]) -> None:
    """Put starting data in place: invoices by way of the registry, the rest as it is."""
    if kind == INVOICES:
        await record_invoice(state, dict(record))
    elif kind == FOREIGN:
        await record_foreign(state, dict(record))
    else:
        await state.put(kind, record["id"], record)


async def find_subject(state: Transaction, subject: str) -> Record | None:
    """ScenarioResolver are about invoices."""
    return await state.get(INVOICES, subject)


async def on_forbidden(context: Context, error: ApiError) -> None:
    """A known caller was refused for lack of authorisation: that is one audit event."""
    values = {name: str(value) for name, value in error.values.items()}
    await audit(context, "authorization.refused", outcome="Failure", code=error.code, **values)


async def on_endpoint_disabled(context: Context, endpoint: Record) -> None:
    """A webhook endpoint gets nothing more: that is told to the others, and audited."""
    await audit_endpoint(context, "disabled", endpoint, reason=endpoint["disabledReason"])
    await context.announce("webhook_endpoint.disabled", published_endpoint(endpoint))
