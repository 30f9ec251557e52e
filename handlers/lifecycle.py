"""Moves of an invoice or an offer, as its parties would make them."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record

from ..domain import notices, offers
from ..domain.disputes import trigger_with_reason
from ..domain.invoices import INVOICE, load_invoice, public_invoice
from ..domain.lifecycle import legal_triggers
from ..domain.offers import load_offer, public_offer
from ..domain.payments import read_ledger
from ..domain.transitions import trigger_offer


def transition_invoice(call: Call) -> Record:
    """Apply a trigger to an invoice; its request and offers move along. 404; 409 if illegal."""
    invoice = load_invoice(call, call.path["id"])
    trigger, reason = call.body["trigger"], call.body.get("reason")
    return public_invoice(trigger_with_reason(call, invoice, trigger, reason))


def list_transitions(call: Call) -> Record:
    """Return the status of an invoice, and the triggers that are legal. 404."""
    invoice = load_invoice(call, call.path["id"])
    return {"status": invoice["status"], "triggers": legal_triggers(call, INVOICE, invoice)}


def get_ledger(call: Call) -> Record:
    """Return the ledger of an invoice: its balances and postings. 404."""
    return read_ledger(call, load_invoice(call, call.path["id"]))


def get_assignment_notice(call: Call) -> Record:
    """Return the state of the notice of assignment. 404."""
    invoice = load_invoice(call, call.path["id"])
    return {"invoiceId": invoice["id"], "state": notices.notice_of(invoice)}


def advance_assignment_notice(call: Call) -> Record:
    """Send the notice of assignment, or let the debtor acknowledge it. 404, 409."""
    invoice = load_invoice(call, call.path["id"])
    after = notices.advance_notice(call, invoice, call.body["state"])
    return {"invoiceId": after["id"], "state": notices.notice_of(after)}


def accept_offer(call: Call) -> Record:
    """Accept the offer; all other live offers on the invoice become Superseded. 404, 409."""
    offer = load_offer(call, call.path["id"])
    return public_offer(trigger_offer(call, offer, "accept"))


def fulfil_conditions(call: Call) -> Record:
    """Fulfil conditions of the offer, by default all, which its pay-out needs. 404, 409."""
    offer = load_offer(call, call.path["id"])
    named = (call.body or {}).get("fulfilled")
    return public_offer(offers.fulfil_conditions(call, offer, named))


def decline_offer(call: Call) -> Record:
    """Decline the offer, as the seller. 404, 409."""
    offer = load_offer(call, call.path["id"])
    return public_offer(trigger_offer(call, offer, "decline", (call.body or {}).get("reason")))


def withdraw_offer(call: Call) -> Record:
    """Withdraw the offer, as the partner, before anything is paid out. 404, 409."""
    offer = load_offer(call, call.path["id"])
    return public_offer(trigger_offer(call, offer, "withdraw"))
