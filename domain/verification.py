"""Verification: a checklist of eleven items in a fixed order, and its result for an invoice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final, Literal

from invoice_sandbox.project.api import Context, Record, conflict

from .audit import audit
from .documents import document_findings, is_difference
from .findings import Finding, load_findings, prepare_finding
from .fingerprint import canonical_party, is_blank, is_money, registry_keys
from .invoices import (
    INVOICE,
    Match,
    find_duplicate,
    load_invoice,
    move_invoice,
    newest_invoice,
    public_invoice,
    registry_state,
)
from .lifecycle import unfinished_statuses
from .parties import is_declined, with_parties
from .routing import ASSIGNMENT_RULES, load_organisation
from .tenor import day_number, tenor_days

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
    Item("related_party", "Related party", True),
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
    "Pending", "InProgress", "Passed", "Failed", "ActionRequired", "ManualReview", "NotApplicable"
]
"""The state of an item."""


@dataclass(frozen=True)
class Facts:
    """The facts for a verification besides the invoice: the instant and the day, the most serious
    other registration of the invoice, the debtor's country and whether claims are assignable there,
    and what was found out about its document.
    """

    at: str
    today: date
    duplicate: Match | None
    country: str
    assignable: str
    document: tuple[str, ...] = ()


ACTION_REQUIRED: Final = "invoice.action_required"

_FAR_DAYS: Final = 730
"""Days from today of a due date or an issue date that is worth a note."""

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


def invoice_to_verify(context: Context, invoice_id: str | None) -> Record | None:
    """Return the invoice of that id, else the newest one that is in no end state, if any.

    Raises ApiError 404, and 409 for an invoice in an end state.
    """
    if invoice_id is None:
        return newest_invoice(context, *unfinished_statuses(context, INVOICE))
    invoice = load_invoice(context, invoice_id)
    if invoice["status"] in context.lifecycle.machines[INVOICE].terminal:
        raise conflict(
            f"The invoice is {invoice['status']}, which is an end state", "Verify another invoice."
        )
    return invoice


def verify(context: Context, invoice: Record) -> Record:
    """Verify the invoice and store the result, or return the stored one if it is the same.

    An invoice that is VerificationPending leaves that status, unless an item is still open.
    """
    previous = context.state.get(VERIFICATIONS, invoice["id"])
    result = run_checklist(context, invoice)
    is_final = invoice["status"] != "VerificationPending" or result["status"] == "InProgress"
    if previous is not None and _summary(previous) == _summary(result) and is_final:
        return previous
    if invoice["status"] in _UNVERIFIED:
        _keep_reviews(context, invoice, result)
        _conclude(context, invoice, result)
    context.state.put(VERIFICATIONS, invoice["id"], result)
    return result


def _keep_reviews(context: Context, invoice: Record, result: Record) -> None:
    """Keep what a reviewer must decide, so that the decision is not asked for again."""
    for row in result["checklist"]:
        if row["state"] == "ManualReview":
            finding = (row["code"], row["state"], row.get("detail"))
            prepare_finding(context, invoice["id"], *finding)


def _conclude(context: Context, invoice: Record, result: Record) -> None:
    """Move the invoice by the result, or emit that the seller must act."""
    about = {"verificationId": result["verificationId"]}
    if invoice["status"] != "VerificationPending":
        invoice = move_invoice(context, invoice, "start-verification")
    if result["status"] in _OUTCOMES:
        moved = move_invoice(context, invoice, _OUTCOMES[result["status"]], **about)
        if result["status"] == "Failed" and is_declined(context, invoice):
            move_invoice(context, moved, "reject", **about)
    elif any(row["state"] == "ActionRequired" for row in result["checklist"]):
        audit(context, ACTION_REQUIRED, ("invoice", invoice["id"]), **about)
        context.emit(ACTION_REQUIRED, public_invoice(invoice))


def run_checklist(context: Context, invoice: Record) -> Record:
    """Return the result for the invoice in its present state; nothing is stored."""
    prepared = load_findings(context, invoice["id"])
    if invoice["status"] in _UNVERIFIED:
        prepared = with_parties(context, invoice, prepared)
    rows = checklist(invoice, prepared, _facts_of(context, invoice))
    return {
        "verificationId": context.new_id("ver_sandbox"),
        "invoiceId": invoice["id"],
        "status": run_status(invoice["status"], rows),
        "checklist": rows,
        "simulated": True,
        "completedAt": context.timestamp,
    }


def checklist(
    invoice: Mapping[str, Any], prepared: Mapping[str, Finding], facts: Facts
) -> list[Record]:
    """Return the items with their states. A prepared result takes precedence over the item's own
    rule.

    An invoice on hold without a prepared result waits for the seller's KYB.
    """
    if invoice["status"] == "OnHold":
        prepared = prepared or _HELD
    rows = []
    for item in ITEMS:
        finding = prepared.get(item.code)
        state, detail = finding or _RULES.get(item.code, _passed)(invoice, facts)
        row: Record = {
            "code": item.code,
            "label": item.label,
            "state": state,
            "mandatory": item.mandatory,
            "checkedAt": facts.at,
        }
        rows.append(row if detail is None else {**row, "detail": detail})
    return rows


def _facts_of(context: Context, invoice: Record) -> Facts:
    """Return the facts for the rules of the items besides the invoice."""
    country = load_organisation(context, invoice["debtorId"])["country"]
    rule = context.state.get(ASSIGNMENT_RULES, country)
    return Facts(
        at=context.timestamp,
        today=context.now.date(),
        duplicate=find_duplicate(context.state, registry_keys(invoice), invoice["id"]),
        country=country,
        assignable=rule["assignable"] if rule else "Unknown",
        document=document_findings(context, invoice),
    )


def run_status(invoice_status: str, rows: list[Record]) -> str:
    """Return the status of a run: that of a blocked invoice, else the one that the items give.

    An item that requires action keeps the run open, even if the item is not mandatory.
    """
    if invoice_status in _RUN_STATUS:
        return _RUN_STATUS[invoice_status]
    if any(row["mandatory"] and row["state"] == "Failed" for row in rows):
        return "Failed"
    in_review = {row["code"] for row in rows if row["mandatory"] and row["state"] == "ManualReview"}
    if in_review:
        return "DuplicateSuspected" if "duplicate_check" in in_review else "OnHold"
    return "InProgress" if any(row["state"] in _OPEN for row in rows) else "Verified"


def _passed(_invoice: Mapping[str, Any], _facts: Facts) -> Finding:
    return "Passed", None


def _data(invoice: Mapping[str, Any], facts: Facts) -> Finding:
    issued, due = invoice.get("issueDate"), invoice.get("dueDate")
    wrong = {
        "BlankInvoiceNumber": is_blank(invoice["invoiceNumber"]),
        "DueBeforeIssue": bool(issued and due and due < issued),
        "IssuedInFuture": bool(issued and issued > facts.today.isoformat()),
    }
    problems = [problem for problem, is_found in wrong.items() if is_found]
    if problems:
        return "Failed", ", ".join(problems)
    stops = any(map(is_difference, facts.document)) and invoice["status"] in _UNVERIFIED
    return "ManualReview" if stops else "Passed", ", ".join(facts.document) or None


def _duplicate(invoice: Mapping[str, Any], facts: Facts) -> Finding:
    """Stop an unverified invoice whose other registration was financed in the meantime."""
    state = registry_state(facts.duplicate)
    if invoice["status"] == "DuplicateSuspected":
        return "ManualReview", state if facts.duplicate else "RegisteredDuplicate"
    if invoice["status"] in _UNVERIFIED and state == "DuplicateFinanced":
        return "ManualReview", state
    return "Passed", "RegisteredUnique"


def _confirmation(invoice: Mapping[str, Any], _facts: Facts) -> Finding:
    return ("Failed", "Disputed") if invoice["status"] == "Disputed" else ("Passed", None)


def _no_evidence(_invoice: Mapping[str, Any], _facts: Facts) -> Finding:
    return "NotApplicable", None


def _eligibility(invoice: Mapping[str, Any], facts: Facts) -> Finding:
    if invoice["status"] in _UNVERIFIED:  # checked once, before the invoice is verified
        if tenor_days(invoice, facts.today) < 0:
            return "Failed", "PastDue"
        if Decimal(invoice["amount"]) <= 0:
            return "Failed", "AmountNotPositive"
    return "Passed", ", ".join(_unusual(invoice, facts)) or None


def _unusual(invoice: Mapping[str, Any], facts: Facts) -> Iterator[str]:
    """Yield what is worth a note about an invoice and stops nothing."""
    issued, today = invoice.get("issueDate"), facts.today.toordinal()
    if not is_money(invoice["currency"]):
        yield "UnknownCurrency"
    if tenor_days(invoice, facts.today) > _FAR_DAYS:
        yield "DueDateFar"
    if issued and today - day_number(issued) > _FAR_DAYS:
        yield "IssueDateFar"


def _assignability(_invoice: Mapping[str, Any], facts: Facts) -> Finding:
    """Apply the rule of the debtor's country; without one a reviewer decides."""
    state = {"Restricted": "Failed", "Unknown": "ManualReview"}.get(facts.assignable, "Passed")
    return state, f"{facts.country}:{facts.assignable}"


def _seller(invoice: Mapping[str, Any], _facts: Facts) -> Finding:
    return ("ManualReview", "BlankSeller") if is_blank(invoice["sellerId"]) else ("Passed", None)


def _debtor(invoice: Mapping[str, Any], _facts: Facts) -> Finding:
    return ("ManualReview", "BlankDebtor") if is_blank(invoice["debtorId"]) else ("Passed", None)


def _related(invoice: Mapping[str, Any], _facts: Facts) -> Finding:
    """Send an invoice to a reviewer whose seller is its debtor, in whatever case it is written."""
    seller, debtor = (canonical_party(invoice[name]) for name in ("sellerId", "debtorId"))
    if seller.casefold() == debtor.casefold() and not is_blank(seller):
        return "ManualReview", "SameParty"
    return "Passed", None


_RULES: Final[Mapping[str, Callable[[Mapping[str, Any], Facts], Finding]]] = {
    "invoice_data_complete": _data,
    "duplicate_check": _duplicate,
    "seller_kyb": _seller,
    "debtor_kyb": _debtor,
    "debtor_confirmation": _confirmation,
    "delivery_evidence": _no_evidence,
    "eligibility": _eligibility,
    "assignability": _assignability,
    "related_party": _related,
}


def _summary(verification: Record) -> list[object]:
    rows = verification["checklist"]
    return [verification["status"], [(row["state"], row.get("detail")) for row in rows]]
