"""Coordinated moves: an invoice, its financing request and its offers change status together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from invoice_sandbox.project.api import Context, Record

from .financing import (
    REQUEST,
    move_request,
    public_request,
    request_financing,
    unfinished_request,
)
from .findings import clear_manual_reviews
from .invoices import INVOICE, INVOICES, apply_invoice_trigger, emit_move, load_invoice
from .lifecycle import allows_trigger, check_trigger
from .offers import (
    OFFER,
    load_offer,
    make_default_offer,
    move_offer,
    public_offer,
    unfinished_offers,
)


class Following(NamedTuple):
    """The triggers that follow a move of an invoice: of its request, of the offer that the move
    is about, and of its other offers. A trigger that a status does not allow is skipped."""

    request: str
    offer: str | None = None
    other_offers: str | None = None


FOLLOWING: Final = {
    "accept-offer": Following("accept-offer", "accept", "supersede"),
    "decline-offer": Following("decline-offer", "decline", "decline"),
    "withdraw-offer": Following("withdraw-offer", "withdraw", "withdraw"),
    "expire-offers": Following("expire-offers", "expire", "expire"),
    "expire": Following("expire", "expire", "expire"),
    "decline-financing": Following("decline-financing", "withdraw", "withdraw"),
    "cancel-financing": Following("cancel-financing", "decline", "decline"),
    "withdraw": Following("cancel-financing", "decline", "decline"),
    "reject": Following("cancel-financing", "withdraw", "withdraw"),
    "uphold-dispute-before-funding": Following("cancel-financing", "withdraw", "withdraw"),
    "fund-partially": Following("fund-partially"),
    "fund": Following("fund"),
    "settle": Following("close"),
    "repurchase": Following("close"),
    "write-off": Following("close"),
}
"""By trigger of the invoice. A trigger that is missing here moves the invoice only."""

_ENDS_REVIEW: Final = ("release-hold", "clear-duplicate")


async def trigger_invoice(
    context: Context, invoice: Record, trigger: str, **metadata: Any
) -> Record:
    """The invoice after ``trigger``, with its request and offers moved along. ApiError 409.

    ``request-financing`` creates a request and ``receive-offer`` an offer. The audit event of any
    other trigger gets ``metadata``.
    """
    if trigger == "request-financing":
        await request_financing(context, invoice, {})
    elif trigger == "receive-offer":
        await make_default_offer(context, invoice)
    else:
        offers = await unfinished_offers(context, invoice["id"])
        await _move_together(context, invoice, trigger, offers, **metadata)
    return await load_invoice(context, invoice["id"])


async def trigger_offer(context: Context, offer: Record, trigger: str) -> Record:
    """The offer after ``accept``, ``decline`` or ``withdraw``. Raises ApiError 409.

    The invoice moves too if the offer is or becomes the accepted one, or is the last live one.
    """
    check_trigger(context, OFFER, offer, trigger)
    invoice = await context.state.get(INVOICES, offer["invoiceId"] or "")
    if invoice is None:
        return await move_offer(context, offer, trigger)
    invoice_trigger = f"{trigger}-offer"
    check_trigger(context, INVOICE, invoice, invoice_trigger)
    unfinished = await unfinished_offers(context, invoice["id"])
    others = [one for one in unfinished if one["id"] != offer["id"]]
    if others and trigger != "accept":
        return await move_offer(context, offer, trigger)
    await _move_together(context, invoice, invoice_trigger, [offer, *others], offerId=offer["id"])
    return await load_offer(context, offer["id"])


async def _move_together(
    context: Context, invoice: Record, trigger: str, offers: Sequence[Record], **metadata: Any
) -> None:
    invoice, event = await apply_invoice_trigger(context, invoice, trigger, **metadata)
    if trigger in _ENDS_REVIEW:
        await clear_manual_reviews(context, invoice["id"])
    request = await unfinished_request(context, invoice["id"])
    related: dict[str, Record] = {}
    following = FOLLOWING.get(trigger)
    if request is not None:
        request = await _follow_request(context, request, following)
        related["financing_request"] = public_request(request)
    moved = await _follow_offers(context, offers, following)
    if moved:
        related["offer"] = public_offer(moved[0])
    await emit_move(context, event, invoice, **related)


async def _follow_request(context: Context, request: Record, following: Following | None) -> Record:
    if following is None or not allows_trigger(context, REQUEST, request, following.request):
        return request
    return await move_request(context, request, following.request)


async def _follow_offers(
    context: Context, offers: Sequence[Record], following: Following | None
) -> list[Record]:
    """The offers after the triggers that follow; the first is the one that the move is about."""
    if following is None:
        return list(offers)
    moved = []
    for index, offer in enumerate(offers):
        trigger = following.other_offers if index else following.offer
        if trigger is not None and allows_trigger(context, OFFER, offer, trigger):
            moved.append(await move_offer(context, offer, trigger))
        else:
            moved.append(offer)
    return moved
