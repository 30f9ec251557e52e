"""An invoice, its financing request and its offers move together, so that none denies another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from invoice_sandbox.project.api import Context, Record

from .financing import offer_on, request_financing
from .findings import clear_reviews
from .invoices import INVOICES, named_invoice, shift_invoice
from .invoices import MACHINE as INVOICE
from .lifecycle import check_move
from .offers import MACHINE as OFFER
from .offers import move_offer, named_offer, unfinished_offers
from .requests import MACHINE as REQUEST
from .requests import move_request, unfinished_request
from .telling import tell


class Following(NamedTuple):
    """Triggers that follow a move of an invoice: of its request, of the offer that the move is
    about, and of its other offers. One that a status does not allow is left out silently."""

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
"""By the invoice's trigger; one that is not here is the invoice's own affair."""


_REVIEWED: Final = ("release-hold", "clear-duplicate")


async def pull(context: Context, invoice: Record, trigger: str, **metadata: Any) -> Record:
    """The invoice after ``trigger``, with what belongs to it. Raises ApiError 409.

    Financing that is requested and an offer that is received are really made. The audit event of
    any other move has ``metadata``.
    """
    if trigger == "request-financing":
        await request_financing(context, invoice, {})
    elif trigger == "receive-offer":
        await offer_on(context, invoice)
    else:
        offers = await unfinished_offers(context, invoice["id"])
        await _move_together(context, invoice, trigger, offers, **metadata)
    return await named_invoice(context, invoice["id"])


async def pull_offer(context: Context, offer: Record, trigger: str) -> Record:
    """The offer after ``accept``, ``decline`` or ``withdraw``. Raises ApiError 409.

    The invoice moves too when the offer is or was the accepted one, or the last that is live.
    """
    check_move(context, OFFER, offer, trigger)
    invoice = await context.state.get(INVOICES, offer["invoiceId"] or "")
    if invoice is None:
        return await move_offer(context, offer, trigger)
    of_invoice = f"{trigger}-offer"
    check_move(context, INVOICE, invoice, of_invoice)
    unfinished = await unfinished_offers(context, invoice["id"])
    others = [one for one in unfinished if one["id"] != offer["id"]]
    if others and trigger != "accept":
        return await move_offer(context, offer, trigger)
    await _move_together(context, invoice, of_invoice, [offer, *others], offerId=offer["id"])
    return await named_offer(context, offer["id"])


async def _move_together(
    context: Context, invoice: Record, trigger: str, offers: Sequence[Record], **metadata: Any
) -> None:
    invoice, kind = await shift_invoice(context, invoice, trigger, **metadata)
    if trigger in _REVIEWED:
        await clear_reviews(context, invoice["id"])
    request = await unfinished_request(context, invoice["id"])
    moved = list(offers)
    following = FOLLOWING.get(trigger)
    if following is not None:
        if request is not None and _allows(context, REQUEST, request, following.request):
            request = await move_request(context, request, following.request)
        for index, offer in enumerate(offers):
            word = following.other_offers if index else following.offer
            if word is not None and _allows(context, OFFER, offer, word):
                moved[index] = await move_offer(context, offer, word)
    await tell(context, kind, invoice, request=request, offer=next(iter(moved), None))


def _allows(context: Context, machine: str, record: Record, trigger: str) -> bool:
    return trigger in context.lifecycle.machines[machine].legal[record["status"]]
