"""Invoices as an ERP system pushes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from invoice_sandbox.project.api import dump_json

ERP_ITEMS: Final = "erp_items"
"""What was pushed before, by system and external id."""

SKIPPED: Final = frozenset({"PAID", "VOID"})
"""ERP states in which there is nothing to finance."""

_INPUT: Final = frozenset(
    {"sellerId", "debtorId", "invoiceNumber", "amount", "currency", "issueDate", "dueDate"}
)
_ITEM: Final = _INPUT | {"externalId", "erpStatus"}


def items(body: Mapping[str, Any]) -> list[Any]:
    """The pushed invoices: the batch, else the body itself when it looks like one invoice."""
    if "invoices" in body:
        return list(body["invoices"])
    item = {name: value for name, value in body.items() if name in _ITEM}
    return [item] if item else []


def invoice_input(item: Mapping[str, Any]) -> dict[str, Any]:
    """The members of an item that belong to the invoice."""
    return {name: value for name, value in item.items() if name in _INPUT}


def item_key(system: str | None, external_id: str) -> str:
    """Where an item is remembered: the same external id of another system is another item."""
    return dump_json([system, external_id]).decode()
