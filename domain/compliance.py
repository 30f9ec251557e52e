"""Compliance after funding: what becomes of a party's invoices when its state changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from invoice_sandbox.project.api import Context, Record

from .audit import audit
from .fingerprint import canonical_party
from .invoices import INVOICE, INVOICES, public_invoice
from .lifecycle import allows_trigger, is_financed
from .parties import HITS, change_party, load_party
from .transitions import trigger_invoice

SCREENING_HIT: Final = "invoice.screening_hit"
SCREENING_CLEARED: Final = "invoice.screening_cleared"
"""The events that the money of a financed invoice is frozen, and that it is free again."""

_INSOLVENCY: Final = "default-by-insolvency"


def set_party(context: Context, party_id: str, **changes: Any) -> Record:
    """Return a party after changes; its financed invoices have the events of a screening, and
    those that an insolvent debtor owes are in default."""
    before = load_party(context, party_id)
    after = change_party(context, party_id, **changes)
    was_hit, is_hit = (party["screening"] in HITS for party in (before, after))
    if was_hit != is_hit:
        event = SCREENING_HIT if is_hit else SCREENING_CLEARED
        for invoice in _financed_invoices(context, party_id, "sellerId", "debtorId"):
            audit(context, event, ("invoice", invoice["id"]), partyId=party_id)
            context.emit(event, public_invoice(invoice))
    if after["insolvent"] and not before["insolvent"]:
        for invoice in _financed_invoices(context, party_id, "debtorId"):
            if allows_trigger(context, INVOICE, invoice, _INSOLVENCY):
                trigger_invoice(context, invoice, _INSOLVENCY, partyId=party_id)
    return after


def _financed_invoices(context: Context, party_id: str, *members: str) -> Iterator[Record]:
    """Yield the financed invoices of a party that have not ended, oldest first."""
    ended, party = context.lifecycle.machines[INVOICE].terminal, canonical_party(party_id)
    for invoice in context.state.page(INVOICES, oldest_first=True).records:
        is_of_party = any(canonical_party(invoice[member]) == party for member in members)
        if is_of_party and is_financed(invoice) and invoice["status"] not in ended:
            yield invoice
