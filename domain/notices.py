"""The notice of assignment, which informs the debtor whom to pay, and its acknowledgement.

A side state of a financed invoice: ``NotRequired``, ``Pending``, ``Sent`` or ``Acknowledged``. It
changes no status and stops nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from invoice_sandbox.project.api import Context, Record, conflict

from .audit import audit
from .invoices import INVOICE, INVOICES, public_invoice
from .lifecycle import is_financed

SENT: Final = "Sent"
ACKNOWLEDGED: Final = "Acknowledged"
NOTICE_SENT: Final = "invoice.assignment_notice_sent"
NOTICE_ACKNOWLEDGED: Final = "invoice.assignment_acknowledged"

_EVENTS: Final[Mapping[str, str]] = {SENT: NOTICE_SENT, ACKNOWLEDGED: NOTICE_ACKNOWLEDGED}
_BEFORE: Final[Mapping[str, tuple[str, ...]]] = {
    SENT: ("NotRequired", "Pending"),
    ACKNOWLEDGED: (SENT,),
}
"""By state, the states that lead to it. A silent assignment may be disclosed, too."""


def first_notice(offer: Mapping[str, Any]) -> str:
    """Return the state of the notice when the offer is accepted."""
    return "Pending" if offer.get("noticeOfAssignmentRequired", True) else "NotRequired"


def notice_of(invoice: Mapping[str, Any]) -> str:
    """Return the state of the notice; of a fixture that was financed it is Pending."""
    if not is_financed(invoice):
        return "NotRequired"
    return str(invoice.get("assignmentNotice", "Pending"))


def advance_notice(context: Context, invoice: Record, state: str) -> Record:
    """Return the invoice after its notice was sent or acknowledged. Raises ApiError 409."""
    before, ended = notice_of(invoice), context.lifecycle.machines[INVOICE].terminal
    if not is_financed(invoice) or invoice["status"] in ended:
        raise conflict(f"The invoice is {invoice['status']}", "Only a financed one has a notice.")
    if before not in _BEFORE[state]:
        wanted = " or ".join(_BEFORE[state])
        raise conflict(f"The notice of assignment is {before}", f"It must be {wanted} before.")
    after = {**invoice, "assignmentNotice": state}
    context.state.put(INVOICES, invoice["id"], after)
    audit(context, _EVENTS[state], ("invoice", invoice["id"]), debtorId=invoice["debtorId"])
    context.emit(_EVENTS[state], public_invoice(after))
    return after
