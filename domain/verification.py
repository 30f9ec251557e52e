"""The verification checklist: eleven items in a fixed order, and what they say of an invoice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from invoice_sandbox.project.api import Context, Record

from .audit import audit
from .findings import Finding, findings_of
from .invoices import move_invoice, published
from .routing import tenor_days

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

Code = Literal[
    "invoice_data_complete",
    "duplicate_check",
    "seller_kyb",
    "debtor_kyb",
    "sanctions_screening",
    "debtor_confirmation",
    "delivery_evidence",
    "eligibility",
    "assignability",
    "related_party",
    "payment_details",
]
"""The codes of ITEMS."""

State = Literal[
    "Pending",
    "InProgress",
    "Passed",
    "Failed",
    "ActionRequired",
    "ManualReview",
    "NotApplicable",
]
"""What an item can be."""

ACTION_REQUIRED: Final = "invoice.action_required"

_UNVERIFIED: Final = ("Registered", "VerificationPending", "VerificationFailed")
_RUN_STATUS: Final[Mapping[str, str]] = {
    "OnHold": "OnHold",
    "DuplicateSuspected": "DuplicateSuspected",
    "Disputed": "InProgress",
}
_OPEN: Final = ("Pending", "InProgress", "ActionRequired")
_HELD: Final[Mapping[str, Finding]] = {"seller_kyb": ("ManualReview", None)}
_OUTCOMES: Final[Mapping[str, str]] = {
    "Verified": "verify",
    "Failed": "fail-verification",
    "OnHold": "hold",
    "DuplicateSuspected": "suspect-duplicate",
}


async def verify(context: Context, invoice: Record) -> Record:
    """The invoice's verification, kept if it says what was said before, else run and stored.

    An invoice that is VerificationPending leaves that status, unless an item is still open.
    """
    previous = await context.state.get(VERIFICATIONS, invoice["id"])
    result = await result_for(context, invoice)
    settled = invoice["status"] != "VerificationPending" or result["status"] == "InProgress"
    if previous is not None and _says(previous) == _says(result) and settled:
        return previous
    if invoice["status"] in _UNVERIFIED:
        await _conclude(context, invoice, result)
    await context.state.put(VERIFICATIONS, invoice["id"], result)
    return result


async def _conclude(context: Context, invoice: Record, result: Record) -> None:
    """Move the invoice as its verification says, or ask the seller for what is missing."""
    about = {"verificationId": result["verificationId"]}
    if invoice["status"] != "VerificationPending":
        invoice = await move_invoice(context, invoice, "start-verification")
    if result["status"] in _OUTCOMES:
        await move_invoice(context, invoice, _OUTCOMES[result["status"]], **about)
    elif any(row["state"] == "ActionRequired" for row in result["checklist"]):
        await audit(context, ACTION_REQUIRED, ("invoice", invoice["id"]), **about)
        await context.emit(ACTION_REQUIRED, published(invoice))


async def result_for(context: Context, invoice: Record) -> Record:
    """A verification of the invoice as it stands; nothing is stored."""
    noted = await findings_of(context, invoice["id"])
    rows = checklist(context, invoice, noted)
    return {
        "verificationId": await context.new_id("ver_sandbox"),
        "invoiceId": invoice["id"],
        "status": run_status(invoice["status"], rows),
        "checklist": rows,
        "simulated": True,
        "completedAt": context.timestamp,
    }


def checklist(
    context: Context, invoice: Mapping[str, Any], noted: Mapping[str, Finding]
) -> list[Record]:
    """The items with their states for an invoice as it stands now; what is noted comes first.

    A hold for which nothing is noted is one for the seller's KYB.
    """
    if invoice["status"] == "OnHold":
        noted = noted or _HELD
    rows = []
    for item in ITEMS:
        found = noted.get(item.code)
        state, detail = found or _FINDERS.get(item.code, _passed)(context, invoice)
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
    """The status of a run: what holds the invoice, else what its items come to.

    What is required of the seller keeps the run open, even for an item that is not mandatory.
    """
    if invoice_status in _RUN_STATUS:
        return _RUN_STATUS[invoice_status]
    if any(row["mandatory"] and row["state"] == "Failed" for row in rows):
        return "Failed"
    in_review = {row["code"] for row in rows if row["mandatory"] and row["state"] == "ManualReview"}
    if in_review:
        return "DuplicateSuspected" if "duplicate_check" in in_review else "OnHold"
    return "InProgress" if any(row["state"] in _OPEN for row in rows) else "Verified"


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
    "debtor_confirmation": _confirmation,
    "delivery_evidence": _no_evidence,
    "eligibility": _eligibility,
    "related_party": _related,
}


def _says(verification: Record) -> list[object]:
    return [verification["status"], [row["state"] for row in verification["checklist"]]]
