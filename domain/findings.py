"""What a verification is going to find, where a story says so: by invoice, item by item."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.project.api import Context

Finding = tuple[str, str | None]
"""State and detail of an item: ``("Failed", "PastDue")``."""

_FINDINGS: Final = "findings"


async def findings_of(context: Context, invoice_id: str) -> dict[str, Finding]:
    """What is noted for the invoice, by the item's code."""
    kept = await context.state.get(_FINDINGS, invoice_id)
    return {} if kept is None else {code: (one[0], one[1]) for code, one in kept["items"].items()}


async def note_finding(
    context: Context, invoice_id: str, code: str, state: str, detail: str | None = None
) -> None:
    """From now on a verification of the invoice finds this."""
    noted = await findings_of(context, invoice_id)
    await _keep(context, invoice_id, {**noted, code: (state, detail)})


async def clear_reviews(context: Context, invoice_id: str) -> None:
    """A person has decided in the invoice's favour, so nothing is left to review."""
    noted = await findings_of(context, invoice_id)
    left = {code: one for code, one in noted.items() if one[0] != "ManualReview"}
    if left != noted:
        await _keep(context, invoice_id, left)


async def receive_document(context: Context, invoice_id: str) -> None:
    """The seller has sent what was required of it for the invoice, if anything was."""
    for code, (state, _) in (await findings_of(context, invoice_id)).items():
        if state == "ActionRequired":
            await note_finding(context, invoice_id, code, "Passed", "DocumentReceived")


async def _keep(context: Context, invoice_id: str, noted: dict[str, Finding]) -> None:
    items = {code: list(one) for code, one in noted.items()}
    await context.state.put(_FINDINGS, invoice_id, {"items": items})
