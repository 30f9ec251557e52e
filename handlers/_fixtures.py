"""How starting data enters a workspace: an invoice by way of the registry, the rest as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from invoice_sandbox.handling import Transaction

from ._invoices import INVOICES, record_invoice


async def record(state: Transaction, kind: str, fixture: Mapping[str, Any]) -> None:
    """Store one record of a fixture file; ``kind`` is the file's name."""
    if kind == INVOICES:
        await record_invoice(state, dict(fixture))
    else:
        await state.put(kind, fixture["id"], fixture)
