"""Mock verification of an invoice, as a checklist with explicit states."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record, reject

from ..domain.invoices import MACHINE, SYNTHETIC, named_invoice, newest_invoice
from ..domain.verification import result_for, verify


async def run_verification(call: Call) -> Record:
    """Verify the invoice named, else the caller's newest that has not come to an end.

    An invoice that was verified before gives the same answer again and does not move. Without any
    invoice, a synthetic one is verified and nothing changes. Raises ApiError 404 and 409.
    """
    invoice = await _chosen(call)
    if invoice is None:
        return await result_for(call, SYNTHETIC)
    if invoice["status"] in call.lifecycle.machines[MACHINE].terminal:
        raise reject(
            "conflict",
            problem=f"The invoice is {invoice['status']}, which is an end state",
            advice="Verify another invoice.",
        )
    return await verify(call, invoice)


async def _chosen(call: Call) -> Record | None:
    invoice_id = (call.body or {}).get("invoiceId")
    if invoice_id is not None:
        return await named_invoice(call, invoice_id)
    machine = call.lifecycle.machines[MACHINE]
    return await newest_invoice(call, *(set(machine.states) - machine.terminal))
