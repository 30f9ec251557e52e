"""Invoices that an ERP system pushes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Context, Step, dump_json

from .audit import Target, audit
from .einvoices import CREDIT_NOTE_CODES
from .invoices import limit_problems, register_invoice

PROCESS_ITEMS: Final = "process-erp-items"
"""The action that registers a slice of pushed items."""

SLICE: Final = 50
"""Items of a push that are registered in one transaction."""

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

_CREDIT_NOTES: Final = frozenset({"CREDITNOTE", "CREDITMEMO"}) | CREDIT_NOTE_CODES
"""Document types of credit notes: words, and the codes of UNTDID 1001 that EN 16931 reads so."""

_INVOICES: Final = frozenset(
    {
        *("INVOICE", "71", "80", "82", "84", "102", "218", "219", "331", "326", "325", "380"),
        *("382", "383", "384", "385", "386", "387", "388", "389", "390", "393", "394", "395"),
        *("456", "457", "527", "553", "575", "623", "633", "751", "780", "817", "870", "875"),
        *("876", "877", "935"),
    }
)
"""Document types of invoices, likewise. Any other is read as an invoice; the result says so."""

_INPUT: Final = frozenset(
    {"sellerId", "debtorId", "invoiceNumber", "amount", "currency", "issueDate", "dueDate"}
)
_ITEM: Final = _INPUT | {"externalId", "erpStatus", "outstandingAmount", "documentType"}


NO_INVOICE: Final = "no invoice was found: send 'invoices', or the members of one invoice"
"""The warning about a push that has nothing to register."""


def pushed_items(body: Mapping[str, Any]) -> list[Any]:
    """Return the batch of a push, else the body itself if it has members of an item."""
    if "invoices" in body:
        return list(body["invoices"])
    item = {name: value for name, value in body.items() if name in _ITEM}
    return [item] if item else []


def limit_problems_of_items(step: Step, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield a clause for each limit of a strict platform that an item to register violates."""
    for index, item in enumerate(pushed_items(body)):
        if _reason_to_skip(item) is None and not _problems(step, item):
            place = f"invoices[{index}]." if "invoices" in body else ""
            yield from (f"{place}{problem}" for problem in limit_problems(_invoice_input(item)))


def schedule_items(context: Context, import_id: str, source: Any, items: list[Any]) -> None:
    """Schedule a step for each slice of a push: a small body may have 100,000 items."""
    system = _system(source)
    for start in range(0, len(items), SLICE):
        part = items[start : start + SLICE]
        context.schedule(PROCESS_ITEMS, importId=import_id, start=start, items=part, system=system)


def process_items(step: Step) -> None:
    """Register the items of a slice, but none that is invalid, not to be financed, or registered
    already.

    One audit event reports all items of the slice with the same problems. The arguments of the step
    are ``importId``, ``start`` (the index of the first item), ``items`` and ``system``.
    """
    reports: dict[bytes, tuple[_Report, list[int]]] = {}
    valid = []
    for index, item in enumerate(step.arguments["items"], step.arguments["start"]):
        report = _report(step, item)
        if report is None:
            valid.append((index, item))
        else:
            reports.setdefault(dump_json(report), (report, []))[1].append(index)
    for (result, details), indexes in reports.values():
        _audit_items(step, result, indexes, **details)
    for index, item in valid:
        _register(step, index, item)


def _register(step: Step, index: int, item: Any) -> None:
    """Register an item. A partly paid invoice is registered with its outstanding amount."""
    key = _key(item, step.arguments["system"])
    if key is not None and step.state.get(_KNOWN_ITEMS, key) is not None:
        _audit_items(step, "unchanged", [index])
        return
    fields, facts = _invoice_input(item), {"index": index, **_reading(item)}
    left_out = [scenario.name for scenario in step.scenarios.for_new(fields).left_out]
    facts |= {"scenariosNotStarted": left_out} if left_out else {}
    invoice = register_invoice(step, fields, _target(step), **facts)
    if key is not None:
        step.state.put(_KNOWN_ITEMS, key, {"invoiceId": invoice["id"]})


def audit_failure(step: Step, reason: str) -> None:
    """Audit the items of a slice that could not be registered."""
    start, problem = step.arguments["start"], f"the item could not be registered: {reason}"
    indexes = list(range(start, start + len(step.arguments["items"])))
    _audit_items(step, "rejected", indexes, outcome="Failure", problems=[problem])


_Report = tuple[str, dict[str, Any]]
"""The result of an item, and the details of its audit event."""


def _report(step: Step, item: Any) -> _Report | None:
    """Return why an item is not registered; None if it may be."""
    reason = _reason_to_skip(item)
    if reason is not None:
        return "skipped", {"erpStatus": item["erpStatus"], "reason": reason}
    problems = _problems(step, item)
    return ("rejected", {"outcome": "Failure", "problems": problems}) if problems else None


def _audit_items(step: Step, result: str, indexes: list[int], **details: Any) -> None:
    """Audit the result of items: ``rejected``, ``skipped`` or ``unchanged``."""
    if len(indexes) > 1:
        details["indexes"] = indexes
    audit(step, f"erp_item.{result}", _target(step), index=indexes[0], **details)


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
    """Return how the ERP status and the document type of a registered item were read, if the words
    are unknown."""
    reading: dict[str, Any] = {}
    if item.get("erpStatus") is not None and _word(item, "erpStatus") not in _OPEN:
        reading |= {"erpStatus": item["erpStatus"], "readAs": "OPEN"}
    if item.get("documentType") is not None and _word(item, "documentType") not in _INVOICES:
        reading |= {"documentType": item["documentType"], "documentReadAs": "INVOICE"}
    return reading


def _problems(step: Step, item: Any) -> list[str]:
    if not isinstance(item, dict):
        return ["the item must be an object"]
    problems = list(step.problems("InvoiceInput", _pick(item)))
    return problems or list(_trade_problems(item))


def _trade_problems(item: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of an item that the contract would accept as an invoice."""
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
    """Return the letters and digits of a word in upper case: ``Partially paid`` is PARTIALLYPAID,
    381 is 381."""
    word = item.get(name)
    word = str(word) if type(word) is int else word
    return "".join(filter(str.isalnum, word)).upper() if isinstance(word, str) else ""


def _key(item: Any, system: str | None) -> str | None:
    """Return the key of an item with an external id, which is unique in its ERP system."""
    external_id = item.get("externalId") if isinstance(item, dict) else None
    return dump_json([system, external_id]).decode() if isinstance(external_id, str) else None


def _system(source: Any) -> str | None:
    """Return the name of the ERP system that pushed, or the digest of a long one."""
    system = source.get("system") if isinstance(source, Mapping) else source
    if not isinstance(system, str) or len(system) <= _LONGEST_SYSTEM:
        return system if isinstance(system, str) else None
    return hashlib.sha256(system.encode()).hexdigest()


_LONGEST_SYSTEM: Final = 64
