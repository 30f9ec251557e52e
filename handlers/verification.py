"""Mock verification of an invoice, as a checklist with explicit states."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record

from ..domain.invoices import SYNTHETIC_INVOICE
from ..domain.verification import invoice_to_verify, run_checklist, verify


def run_verification(call: Call) -> Record:
    """Verify the named invoice, else the newest one that is in no end state.

    An invoice that was verified before gives the same response again and does not move. Without
    any invoice, the result is for the synthetic one and nothing is stored. ApiError 404 and 409.
    """
    invoice = invoice_to_verify(call, (call.body or {}).get("invoiceId"))
    if invoice is None:
        return run_checklist(call, SYNTHETIC_INVOICE)
    return verify(call, invoice)
