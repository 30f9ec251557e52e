"""The verification checklist: eleven items in a fixed order, and what they say of an invoice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.handling import Context, Record

from ._invoices import move_invoice
from ._routing import tenor_days

VERIFICATIONS: Final = "verifications"
"""The latest verification of each invoice, by the invoice's id."""


@dataclass(frozen=True)
class Item:
    """One item: its code, its label, and whether an invoice needs it to become Verified."""

    code: str
    label: str
    mandatory: bool


ITEMS: Final = (
    Item("invoice_data_complete", "Invoice data complete", True),
    Item("duplicate_check", "Duplicate financing check", True),
    Item("seller_kyb", "Seller KYB", True),
    Item("debtor_kyb", "Debtor KYB", True),
    Item("sanctions_screening", "Sanctions screening", True),
    Item("debtor_confirmation", "Debtor confirmation", True),
    Item("delivery_evidence", "Delivery evidence", False),
    Item("eligibility", "Eligibility", True),
    Item("assignability", "Assignability", True),
    Item("related_party", "Related party", False),
    Item("payment_details", "Payment details", False),
)

Finding = tuple[str, str | None]
"""State and detail of an item: ``("Failed", "PastDue")``."""

_UNVERIFIED: Final = ("Registered", "VerificationPending", "VerificationFailed")
_RUN_STATUS: Final[Mapping[str, str]] = {
    "OnHold": "OnHold",
    "DuplicateSuspected": "DuplicateSuspected",
    "Disputed": "InProgress",
}


async def verify(context: Context, invoice: Record) -> Record:
    """The invoice's verification, kept if it says what was said before, else run and stored.

    An invoice that is VerificationPending leaves that status in any case.
    """
    previous = await context.state.get(VERIFICATIONS, invoice["id"])
    result = await result_for(context, invoice)
    pending = invoice["status"] == "VerificationPending"
    if previous is not None and _says(previous) == _says(result) and not pending:
        return previous
    if invoice["status"] in _UNVERIFIED:
        if not pending:
            invoice = await move_invoice(context, invoice, "start-verification")
        outcome = "verify" if result["status"] == "Verified" else "fail-verification"
        await move_invoice(context, invoice, outcome, verificationId=result["verificationId"])
    await context.state.put(VERIFICATIONS, invoice["id"], result)
    return result


async def result_for(context: Context, invoice: Record) -> Record:
    """A verification of the invoice as it stands; nothing is stored."""
    rows = checklist(context, invoice)
    return {
        "verificationId": await context.new_id("ver_sandbox"),
        "invoiceId": invoice["id"],
        "status": run_status(invoice["status"], rows),
        "checklist": rows,
        "simulated": True,
        "completedAt": context.timestamp,
    }


def checklist(context: Context, invoice: Mapping[str, Any]) -> list[Record]:
    """The items with their states for an invoice as it stands now."""
    rows = []
    for item in ITEMS:
        state, detail = _FINDERS.get(item.code, _passed)(context, invoice)
        row: Record = {
            "code": item.code,
            "label": item.label,
            "state": state,
            "mandatory": item.mandatory,
            "checkedAt": context.timestamp,
        }
        rows.append(row if detail is None else {**row, "detail": detail})
    return rows


def run_status(invoice_status: str, rows: list[Record]) -> str:
    """The status of a run: what holds the invoice, else Failed or Verified by its items."""
    if invoice_status in _RUN_STATUS:
        return _RUN_STATUS[invoice_status]
    failed = any(row["mandatory"] and row["state"] == "Failed" for row in rows)
    return "Failed" if failed else "Verified"


def _passed(_context: Context, _invoice: Mapping[str, Any]) -> Finding:
    return "Passed", None


def _data(_context: Context, invoice: Mapping[str, Any]) -> Finding:
    issued, due = invoice.get("issueDate"), invoice.get("dueDate")
    if issued and due and due < issued:
        return "Failed", "DueBeforeIssue"
    return "Passed", None


def _duplicate(_context: Context, invoice: Mapping[str, Any]) -> Finding:
    if invoice["status"] == "DuplicateSuspected":
        return "ManualReview", "RegisteredDuplicate"
    return "Passed", "RegisteredUnique"


def _kyb(_context: Context, invoice: Mapping[str, Any]) -> Finding:
    return ("ManualReview", None) if invoice["status"] == "OnHold" else ("Passed", None)


def _confirmation(_context: Context, invoice: Mapping[str, Any]) -> Finding:
    return ("Failed", "Disputed") if invoice["status"] == "Disputed" else ("Passed", None)


def _no_evidence(_context: Context, _invoice: Mapping[str, Any]) -> Finding:
    return "NotApplicable", None


def _eligibility(context: Context, invoice: Mapping[str, Any]) -> Finding:
    if invoice["status"] not in _UNVERIFIED:  # judged once, before the invoice was verified
        return "Passed", None
    if tenor_days(invoice, context.now.date()) < 0:
        return "Failed", "PastDue"
    if Decimal(invoice["amount"]) <= 0:
        return "Failed", "AmountNotPositive"
    return "Passed", None


def _related(_context: Context, invoice: Mapping[str, Any]) -> Finding:
    if invoice["sellerId"] == invoice["debtorId"]:
        return "Failed", "SameParty"
    return "Passed", None


_FINDERS: Final[Mapping[str, Callable[[Context, Mapping[str, Any]], Finding]]] = {
    "invoice_data_complete": _data,
    "duplicate_check": _duplicate,
    "seller_kyb": _kyb,
    "debtor_confirmation": _confirmation,
    "delivery_evidence": _no_evidence,
    "eligibility": _eligibility,
    "related_party": _related,
}


def _says(verification: Record) -> list[object]:
    return [verification["status"], [row["state"] for row in verification["checklist"]]]
