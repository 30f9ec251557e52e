"""Levers that move an invoice or an offer, as its parties would."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record

from ..domain.consequences import pull, pull_offer
from ..domain.invoices import named_invoice
from ..domain.invoices import published as published_invoice
from ..domain.offers import named_offer, published


async def transition_invoice(call: Call) -> Record:
    """The invoice after the trigger, its request and offers moved along. 404; 409 if illegal."""
    invoice = await named_invoice(call, call.path["id"])
    return published_invoice(await pull(call, invoice, call.body["trigger"]))


async def accept_offer(call: Call) -> Record:
    """The offer, Accepted; all other live ones of the invoice are Superseded. 404, 409."""
    return await _moved(call, "accept")


async def decline_offer(call: Call) -> Record:
    """The offer, Declined by the seller. 404, 409."""
    return await _moved(call, "decline")


async def withdraw_offer(call: Call) -> Record:
    """The offer, Withdrawn by the partner, accepted or not, before anything is paid. 404, 409."""
    return await _moved(call, "withdraw")


async def _moved(call: Call, trigger: str) -> Record:
    offer = await named_offer(call, call.path["id"])
    return published(await pull_offer(call, offer, trigger))
