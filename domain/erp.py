"""Invoices that an ERP system pushes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Context, Step, dump_json

from .audit import Target, audit
from .invoices import limit_problems, register_invoice

PROCESS_ITEM: Final = "process-erp-item"
"""The action that registers one pushed item."""

PLAN_ITEMS: Final = "plan-erp-items"
"""The action that schedules the next slice of a large push."""

SLICE: Final = 1_000
"""Items of a push that are scheduled at once."""

_SLICES: Final = "erp_slices"
"""The items of large pushes that are not scheduled yet, by import and index of the first one."""

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


async def schedule_items(context: Context, import_id: str, source: Any, items: list[Any]) -> None:
    """Schedule a step for each item of a push, in slices: a small body may have 100,000 items."""
    for start in range(SLICE, len(items), SLICE):
        rest = {"items": items[start : start + SLICE]}
        await context.state.put(_SLICES, f"{import_id}/{start}", rest)
    system = _system(source)
    for index, item in enumerate(items[:SLICE]):
        await _schedule_item(context, import_id, index, item, system)
    if len(items) > SLICE:
        await context.schedule(
            PLAN_ITEMS, importId=import_id, start=SLICE, received=len(items), system=system
        )


async def plan_items(step: Step) -> None:
    """Schedule the items of one slice that can be registered, and then the next slice.

    One audit event reports all items of the slice with the same problems. The arguments of the step
    are ``importId``, ``start`` (the index of the first item), ``received`` and ``system``.
    """
    import_id, start = step.arguments["importId"], step.arguments["start"]
    place = f"{import_id}/{start}"
    found = await step.state.get(_SLICES, place) or {"items": []}
    await step.state.delete(_SLICES, place)
    reports: dict[bytes, tuple[_Report, list[int]]] = {}
    for index, item in enumerate(found["items"], start):
        report = _report(step, item)
        if report is None:
            await _schedule_item(step, import_id, index, item, step.arguments["system"])
        else:
            reports.setdefault(dump_json(report), (report, []))[1].append(index)
    for (result, details), indexes in reports.values():
        await _audit_item(step, result, index=indexes[0], indexes=indexes, **details)
    if start + SLICE < step.arguments["received"]:
        await step.schedule(PLAN_ITEMS, **{**step.arguments, "start": start + SLICE})


async def process_item(step: Step) -> None:
    """Register one pushed item, unless it is invalid, not to be financed, or registered already.

    A partly paid invoice is registered with its outstanding amount. The arguments of the step are
    ``item``, ``index``, ``importId`` and ``system``.
    """
    item, index = step.arguments["item"], step.arguments["index"]
    report, key = _report(step, item), _key(item, step.arguments["system"])
    if report is not None:
        result, details = report
        await _audit_item(step, result, index=index, **details)
    elif key is not None and await step.state.get(_KNOWN_ITEMS, key) is not None:
        await _audit_item(step, "unchanged", index=index)
    else:
        facts = {"index": index, **_reading(item)}
        invoice = await register_invoice(step, _invoice_input(item), _target(step), **facts)
        if key is not None:
            await step.state.put(_KNOWN_ITEMS, key, {"invoiceId": invoice["id"]})


async def audit_failure(step: Step, action: str, reason: str) -> None:
    """Audit the item that could not be registered, or the first one of those never scheduled."""
    if action == PLAN_ITEMS:
        index = step.arguments["start"]
        await audit(step, "erp_import.stopped", _target(step), outcome="Failure", index=index)
    else:
        problem = f"the item could not be registered: {reason}"
        index = step.arguments["index"]
        await _audit_item(step, "rejected", index=index, outcome="Failure", problems=[problem])


_Report = tuple[str, dict[str, Any]]
"""What became of an item, and the details of its audit event."""


def _report(step: Step, item: Any) -> _Report | None:
    """Why an item is not to be registered; None if it may be."""
    reason = _reason_to_skip(item)
    if reason is not None:
        return "skipped", {"erpStatus": item["erpStatus"], "reason": reason}
    problems = _problems(step, item)
    return ("rejected", {"outcome": "Failure", "problems": problems}) if problems else None


async def _schedule_item(
    context: Context, import_id: str, index: int, item: Any, system: str | None
) -> None:
    await context.schedule(PROCESS_ITEM, importId=import_id, index=index, item=item, system=system)


async def _audit_item(step: Step, result: str, **details: Any) -> None:
    """Audit what became of an item: ``rejected``, ``skipped`` or ``unchanged``."""
    await audit(step, f"erp_item.{result}", _target(step), **details)


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


def _key(item: Any, system: str | None) -> str | None:
    """The key of an item with an external id, which is unique in its ERP system."""
    external_id = item.get("externalId") if isinstance(item, dict) else None
    return dump_json([system, external_id]).decode() if isinstance(external_id, str) else None


def _system(source: Any) -> str | None:
    """What stands for the ERP system that pushed, however long its name is."""
    system = source.get("system") if isinstance(source, Mapping) else source
    if not isinstance(system, str) or len(system) <= _LONGEST_SYSTEM:
        return system if isinstance(system, str) else None
    return hashlib.sha256(system.encode()).hexdigest()


_LONGEST_SYSTEM: Final = 64
