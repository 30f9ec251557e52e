"""What scheduled steps do. The name of an action is the function's, with hyphens."""

from __future__ import annotations

from typing import Any

from invoice_sandbox.handling import Step

from ._audit import audit
from ._erp import ERP_ITEMS, SKIPPED, invoice_input, item_key
from ._invoices import register


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
