"""Results that a scenario prepares for a verification: by invoice and checklist item."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.project.api import Context

Finding = tuple[str, str | None]
"""State and detail of an item: ``("Failed", "PastDue")``."""

_FINDINGS: Final = "findings"


def load_findings(context: Context, invoice_id: str) -> dict[str, Finding]:
    """Return the prepared results of an invoice, by the code of the item."""
    stored = context.state.get(_FINDINGS, invoice_id)
    items = {} if stored is None else stored["items"]
    return {code: (state, detail) for code, (state, detail) in items.items()}


def prepare_finding(
    context: Context, invoice_id: str, code: str, state: str, detail: str | None = None
) -> None:
    """Give an item this result in every later verification of the invoice."""
    findings = load_findings(context, invoice_id)
    items = {**findings, code: (state, detail)}
    context.state.put(_FINDINGS, invoice_id, {"items": {name: [*items[name]] for name in items}})


def clear_manual_reviews(context: Context, invoice_id: str) -> None:
    """Pass every item that needs a manual review, because a reviewer approved the invoice."""
    for code, (state, _) in load_findings(context, invoice_id).items():
        if state == "ManualReview":
            prepare_finding(context, invoice_id, code, "Passed", "Reviewed")


def pass_required_documents(context: Context, invoice_id: str) -> None:
    """Pass every item that requires a document of the seller, because a document arrived."""
    for code, (state, _) in load_findings(context, invoice_id).items():
        if state == "ActionRequired":
            prepare_finding(context, invoice_id, code, "Passed", "DocumentReceived")
