"""Invoices that an ERP system pushes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Step, dump_json

from .audit import Target, audit
from .invoices import limit_problems, register_invoice

PROCESS_ITEM: Final = "process-erp-item"
"""The action that registers one pushed item."""

_KNOWN_ITEMS: Final = "erp_items"
"""The items that were registered, by system and external id."""

_SKIPPED: Final = {
    "DRAFT": "the invoice is a draft",
    "PAID": "the invoice is paid",
    "VOID": "the invoice is void",
}
"""ERP statuses of an invoice that cannot be financed, as letters in upper case, with the reason."""

_PARTLY_PAID: Final = "PARTIALLYPAID"
_OPEN: Final = frozenset({"OPEN", "SUBMITTED", _PARTLY_PAID})
"""ERP statuses of an invoice that can be financed. Any other counts as open, because ERP systems
have words of their own; the result of the item says so."""

_CREDIT_NOTES: Final = frozenset({"CREDITNOTE", "CREDITMEMO"})

_INPUT: Final = frozenset(
    {"sellerId", "debtorId", "invoiceNumber", "amount", "currency", "issueDate", "dueDate"}
)
_ITEM: Final = _INPUT | {"externalId", "erpStatus", "outstandingAmount", "documentType"}


def pushed_items(body: Mapping[str, Any]) -> list[Any]:
    """The batch of a push, else the body itself if it has members of an item."""
    if "invoices" in body:
        return list(body["invoices"])
    item = {name: value for name, value in body.items() if name in _ITEM}
    return [item] if item else []


def limit_problems_of_items(step: Step, body: Mapping[str, Any]) -> Iterator[str]:
    """One clause for each limit of a strict platform that an item violates which is registered."""
    for index, item in enumerate(pushed_items(body)):
        if _reason_to_skip(item) is None and not _problems(step, item):
            place = f"invoices[{index}]." if "invoices" in body else ""
            yield from (f"{place}{problem}" for problem in limit_problems(_invoice_input(item)))


async def process_item(step: Step) -> None:
    """Register one pushed item, unless it is invalid, not to be financed, or registered already.

    A partly paid invoice is registered with its outstanding amount. The arguments of the step are
    ``item``, ``index``, ``importId`` and ``source``.
    """
    item, key = step.arguments["item"], _key(step.arguments["item"], step.arguments["source"])
    reason = _reason_to_skip(item)
    problems = [] if reason else _problems(step, item)
    if reason is not None:
        await audit_item(step, "skipped", erpStatus=item["erpStatus"], reason=reason)
    elif problems:
        await audit_item(step, "rejected", outcome="Failure", problems=problems)
    elif key is not None and await step.state.get(_KNOWN_ITEMS, key) is not None:
        await audit_item(step, "unchanged")
    else:
        facts = {"index": step.arguments["index"], **_reading(item)}
        invoice = await register_invoice(step, _invoice_input(item), _target(step), **facts)
        if key is not None:
            await step.state.put(_KNOWN_ITEMS, key, {"invoiceId": invoice["id"]})


async def audit_item(step: Step, result: str, **details: Any) -> None:
    """Audit what became of the item of the step: ``rejected``, ``skipped`` or ``unchanged``."""
    facts = {"index": step.arguments["index"], **details}
    await audit(step, f"erp_item.{result}", _target(step), **facts)


def _target(step: Step) -> Target:
    return "erp_import", str(step.arguments["importId"])


def _reason_to_skip(item: Any) -> str | None:
    if not isinstance(item, dict):
        return None
    status = _word(item, "erpStatus")
    if status == _PARTLY_PAID and item.get("outstandingAmount") == 0:
        return "nothing is outstanding"
    return _SKIPPED.get(status)


def _reading(item: Mapping[str, Any]) -> dict[str, Any]:
    """How the ERP status of a registered item was read, if it is no known word."""
    known = item.get("erpStatus") is None or _word(item, "erpStatus") in _OPEN
    return {} if known else {"erpStatus": item["erpStatus"], "readAs": "OPEN"}


def _problems(step: Step, item: Any) -> list[str]:
    if not isinstance(item, dict):
        return ["the item must be an object"]
    found = list(step.problems("InvoiceInput", _pick(item)))
    return found or list(_trade_problems(item))


def _trade_problems(item: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with an item that the contract would accept as an invoice."""
    amount = Decimal(item["amount"])
    outstanding: Any = item.get("outstandingAmount")
    if amount < 0 or _word(item, "documentType") in _CREDIT_NOTES:
        yield "the item is a credit note, which cannot be financed"
    elif _word(item, "erpStatus") == _PARTLY_PAID:
        if type(outstanding) not in (int, Decimal):
            yield "outstandingAmount must be a number, because the invoice is partly paid"
        elif not 0 < outstanding <= amount:
            yield "outstandingAmount must be above 0 and at most the amount"


def _invoice_input(item: Mapping[str, Any]) -> dict[str, Any]:
    fields = _pick(item)
    if _word(item, "erpStatus") == _PARTLY_PAID:
        fields["amount"] = item["outstandingAmount"]
    return fields


def _pick(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name in _INPUT}


def _word(item: Mapping[str, Any], name: str) -> str:
    """The letters of a word in upper case: ``Partially paid`` is PARTIALLYPAID."""
    word = item.get(name)
    return "".join(filter(str.isalpha, word)).upper() if isinstance(word, str) else ""


def _key(item: Any, source: Any) -> str | None:
    """The key of an item with an external id, which is unique in its ERP system."""
    external_id = item.get("externalId") if isinstance(item, dict) else None
    if not isinstance(external_id, str):
        return None
    system = source.get("system") if isinstance(source, Mapping) else source
    return dump_json([system if isinstance(system, str) else None, external_id]).decode()
