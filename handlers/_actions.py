"""What scheduled steps do. The name of an action is the function's, with hyphens."""

from __future__ import annotations

from typing import Any

from invoice_sandbox.handling import Record, Step, refuse

from . import _financing
from ._audit import audit
from ._erp import ERP_ITEMS, SKIPPED, invoice_input, item_key
from ._invoices import move_invoice, named_invoice, register
from ._verification import verify


async def process_erp_item(step: Step) -> None:
    """Register one pushed invoice, unless it is bad, settled, or known by its external id."""
    item, import_id = step.arguments["item"], step.arguments["importId"]
    target = ("erp_import", import_id)
    index = step.arguments["index"]
    problems = _problems(step, item)
    if problems:
        await audit(
            step, "erp_item.rejected", target, outcome="Failure", index=index, problems=problems
        )
        return
    erp_status = item.get("erpStatus")
    if isinstance(erp_status, str) and erp_status in SKIPPED:
        await audit(step, "erp_item.skipped", target, index=index, erpStatus=erp_status)
        return
    key = _key(step, item)
    if key is not None and await step.state.get(ERP_ITEMS, key) is not None:
        await audit(step, "erp_item.unchanged", target, index=index)
        return
    invoice = await register(step, invoice_input(item))
    if key is not None:
        await step.state.put(ERP_ITEMS, key, {"invoiceId": invoice["id"]})


async def start_verification(step: Step) -> None:
    """Begin to verify the invoice, if it is still Registered. Raises ApiError 404 and 409."""
    invoice = await _invoice(step, "Registered")
    await move_invoice(step, invoice, "start-verification")


async def finish_verification(step: Step) -> None:
    """Judge the invoice by the checklist, if it is VerificationPending. Raises ApiError."""
    await verify(step, await _invoice(step, "VerificationPending"))


async def request_financing(step: Step) -> None:
    """Ask for financing of the invoice, if it is Verified and not past due. Raises ApiError."""
    invoice = await _invoice(step, "Verified")
    _financing.check_financeable(step, invoice)
    await _financing.request_financing(step, invoice, {})


async def make_offer(step: Step) -> None:
    """Offer on the invoice, if its financing is requested; ``with``: partnerId, competing.

    A competing offer may also be one more on an invoice that has some. Raises ApiError.
    """
    further = ("Offered",) if step.arguments.get("competing") else ()
    invoice = await _invoice(step, "FinancingRequested", *further)
    partner_id = step.arguments.get("partnerId", _financing.DEMO_PARTNER)
    await _financing.offer_on(step, invoice, partner_id)


async def _invoice(step: Step, *statuses: str) -> Record:
    """The invoice that the step's event is about. Raises ApiError 404, 409 in another status."""
    invoice = await named_invoice(step, _invoice_id(step.arguments["event"]["data"]))
    if invoice["status"] not in statuses:
        raise refuse(
            "conflict",
            problem=f"The invoice is {invoice['status']}, not {' or '.join(statuses)}",
            advice="The step is left out.",
        )
    return invoice


def _invoice_id(data: dict[str, Any]) -> str:
    """Of an invoice, or of a financing request for one; else empty, which no invoice has."""
    named = data["invoiceIds"][:1] if "invoiceIds" in data else [data.get("id")]
    return named[0] if named and isinstance(named[0], str) else ""


def _problems(step: Step, item: Any) -> list[str]:
    if not isinstance(item, dict):
        return ["the item must be an object"]
    return list(step.problems("InvoiceInput", invoice_input(item)))


def _key(step: Step, item: dict[str, Any]) -> str | None:
    external_id = item.get("externalId")
    system = step.arguments["source"].get("system")
    if not isinstance(external_id, str):
        return None
    return item_key(system if isinstance(system, str) else None, external_id)
