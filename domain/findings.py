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


def pass_findings(context: Context, invoice_id: str, state: str, detail: str) -> None:
    """Pass every prepared item that is in ``state``, because of ``detail``."""
    for code, (present, _) in load_findings(context, invoice_id).items():
        if present == state:
            prepare_finding(context, invoice_id, code, "Passed", detail)
