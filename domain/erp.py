"""Invoices that an ERP system pushes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from invoice_sandbox.project.api import Step, dump_json

from .audit import audit
from .invoices import register_invoice

PROCESS_ITEM: Final = "process-erp-item"
"""The action that registers one pushed item."""

_KNOWN_ITEMS: Final = "erp_items"
"""The items that were registered, by system and external id."""

_SETTLED: Final = frozenset({"PAID", "VOID"})
"""ERP states of an invoice that needs no financing."""

_INPUT: Final = frozenset(
    {"sellerId", "debtorId", "invoiceNumber", "amount", "currency", "issueDate", "dueDate"}
)
_ITEM: Final = _INPUT | {"externalId", "erpStatus"}


def pushed_items(body: Mapping[str, Any]) -> list[Any]:
    """The batch of a push, else the body itself if it has members of an item."""
    if "invoices" in body:
        return list(body["invoices"])
    item = {name: value for name, value in body.items() if name in _ITEM}
    return [item] if item else []


async def process_item(step: Step) -> None:
    """Register one pushed item, unless it is invalid, settled, or registered already.

    The arguments of the step are ``item``, ``index``, ``importId`` and ``source``.
    """
    item, key = step.arguments["item"], _key(step.arguments["item"], step.arguments["source"])
    problems = _problems(step, item)
    if problems:
        await audit_item(step, "rejected", outcome="Failure", problems=problems)
    elif _is_settled(item):
        await audit_item(step, "skipped", erpStatus=item["erpStatus"])
    elif key is not None and await step.state.get(_KNOWN_ITEMS, key) is not None:
        await audit_item(step, "unchanged")
    else:
        invoice = await register_invoice(step, _invoice_input(item))
        if key is not None:
            await step.state.put(_KNOWN_ITEMS, key, {"invoiceId": invoice["id"]})


async def audit_item(step: Step, result: str, **details: Any) -> None:
    """Audit what became of the item of the step: ``rejected``, ``skipped`` or ``unchanged``."""
    target = ("erp_import", step.arguments["importId"])
    await audit(step, f"erp_item.{result}", target, index=step.arguments["index"], **details)


def _problems(step: Step, item: Any) -> list[str]:
    if not isinstance(item, dict):
        return ["the item must be an object"]
    return list(step.problems("InvoiceInput", _invoice_input(item)))


def _invoice_input(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name in _INPUT}


def _is_settled(item: Mapping[str, Any]) -> bool:
    erp_status = item.get("erpStatus")
    return isinstance(erp_status, str) and erp_status in _SETTLED


def _key(item: Any, source: Any) -> str | None:
    """The key of an item with an external id, which is unique in its ERP system."""
    external_id = item.get("externalId") if isinstance(item, dict) else None
    if not isinstance(external_id, str):
        return None
    system = source.get("system") if isinstance(source, Mapping) else source
    return dump_json([system if isinstance(system, str) else None, external_id]).decode()
