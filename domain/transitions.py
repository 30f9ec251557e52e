"""Coordinated moves: an invoice, its financing request and its offers change status together.

A dispute suspends the scenario of its invoice. The steps that fall due meanwhile are skipped, and
done in their order when the seller has won, so that the invoice goes on as its dates say. By
analogy with article 27 of FCI's General Rules for International Factoring, where a dispute suspends
the approval of the debt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from invoice_sandbox.project.api import Context, Record, Step, conflict

from .calendars import check_not_past_due
from .exposure import with_exposure
from .financing import (
    REQUEST,
    REQUESTS,
    move_request,
    public_request,
    request_financing,
    unfinished_request,
)
from .findings import pass_findings
from .invoices import INVOICE, INVOICES, apply_invoice_trigger, emit_move, load_invoice
from .lifecycle import (
    allows_trigger,
    check_trigger,
    is_financed,
    is_fully_funded,
    is_funded,
    undisputed_status,
)
from .notices import first_notice
from .offers import (
    OFFER,
    check_conditions,
    emit_end,
    end_offer,
    find_accepted_offer,
    is_expired,
    load_offer,
    make_default_offer,
    move_offer,
    public_offer,
    unfinished_offers,
)
from .parties import check_parties, conclude_review
from .routing import check_limits


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
    "settle-by-dilution": Following("close"),
    "repurchase": Following("close"),
    "write-off": Following("close"),
}
"""By trigger of the invoice. A trigger that is missing here moves the invoice only."""

_LEAVING: Final = frozenset({"decline-financing", "cancel-financing", "expire", "close"})
"""Triggers of a request with which an invoice leaves it."""

_FORWARD: Final = frozenset({"accept-offer", "fund-partially", "fund"})
_PAY_OUTS: Final = frozenset({"fund", "fund-partially"})
_ENDS_DISPUTE: Final = frozenset(
    {"resolve-dispute", "uphold-dispute-before-funding", "uphold-dispute-after-funding"}
)
_ENDS_REVIEW: Final = ("release-hold", "clear-duplicate")
_SUSPENDED: Final = "suspended_steps"
"""The collection of the steps that each disputed invoice waits for, by its id."""


def trigger_invoice(
    context: Context, invoice: Record, trigger: str, *, money: Record | None = None, **metadata: Any
) -> Record:
    """Return the invoice after ``trigger``, with its request and offers moved along. ApiError 409.

    ``request-financing`` creates a request and ``receive-offer`` an offer. The audit event of any
    other trigger gets ``metadata``, and its event has ``money`` as an optional member.
    """
    if trigger == "request-financing":
        request_financing(context, [invoice], {})
    elif trigger == "receive-offer":
        make_default_offer(context, invoice)
    else:
        offers = unfinished_offers(context, invoice["id"])
        if trigger != "accept-offer" and allows_trigger(context, INVOICE, invoice, trigger):
            check_parties(context, invoice, trigger)
        if trigger == "accept-offer":
            _check_acceptable(context, invoice, offers[:1])
        elif trigger in _PAY_OUTS and allows_trigger(context, INVOICE, invoice, trigger):
            check_not_past_due(context, invoice)
            _check_fulfilled(context, invoice)
        if trigger == "decline-offer" and "reason" in metadata:
            offers = [{**offer, "declineReason": metadata["reason"]} for offer in offers]
        _move_together(context, invoice, trigger, offers, money=money, **metadata)
        if trigger == "resolve-dispute":
            _end_dispute(context, load_invoice(context, invoice["id"]))
    return load_invoice(context, invoice["id"])


def trigger_offer(
    context: Context, offer: Record, trigger: str, reason: Record | None = None
) -> Record:
    """Return the offer after ``accept``, ``decline`` or ``withdraw``. Raises ApiError 409.

    The invoice moves too if the offer is or becomes the accepted one, or is the last live one. The
    ``reason`` is that of a decline.
    """
    check_trigger(context, OFFER, offer, trigger)
    why = {} if reason is None else {"reason": reason}
    offer = {**offer, "declineReason": reason} if why else offer
    invoice = context.state.get(INVOICES, offer["invoiceId"] or "")
    if invoice is None and trigger == "accept":
        _check_valid(context, offer)
        return move_offer(context, offer, trigger)
    if invoice is None:
        return _end_alone(context, offer, trigger, None)
    invoice_trigger = f"{trigger}-offer"
    check_trigger(context, INVOICE, invoice, invoice_trigger)
    if trigger == "accept":
        _check_acceptable(context, invoice, [offer])
    unfinished = unfinished_offers(context, invoice["id"])
    others = [other for other in unfinished if other["id"] != offer["id"]]
    if others and trigger != "accept":
        return _end_alone(context, offer, trigger, invoice)
    about = {"offerId": offer["id"], **why}
    _move_together(context, invoice, invoice_trigger, [offer, *others], **about)
    return load_offer(context, offer["id"])


def suspend_step(step: Step, action: str) -> None:
    """Keep a step of a scenario that was skipped, if its invoice is disputed."""
    invoice = step.state.get(INVOICES, str(step.arguments.get("subject")))
    if invoice is None or invoice["status"] != "Disputed":
        return
    kept = {
        "action": action,
        "arguments": dict(step.arguments),
        "scenario": step.scenario,
        "place": step.place,
    }
    steps = [*_suspended_steps(step, invoice["id"]), kept]
    step.state.put(_SUSPENDED, invoice["id"], {"steps": steps})


def _suspended_steps(context: Context, invoice_id: str) -> list[Record]:
    stored = context.state.get(_SUSPENDED, invoice_id)
    return [] if stored is None else stored["steps"]


def _end_dispute(context: Context, invoice: Record) -> None:
    """Run the suspended steps of an invoice now, unless it has another scenario by now."""
    running = context.scenarios.running(context.state, invoice["id"])
    names = {scenario.name for scenario in running}
    for kept in _suspended_steps(context, invoice["id"]):
        if kept["scenario"] in names:
            context.state.schedule(context.now, **kept)
    context.state.put(_SUSPENDED, invoice["id"], {"steps": []})


def expire_offer(context: Context, offer: Record) -> None:
    """Expire a live offer; the invoice moves too if no other live offer is left.

    A disputed invoice stays where it is, and returns to where it would be now.
    """
    if not allows_trigger(context, OFFER, offer, "expire"):
        return
    invoice = context.state.get(INVOICES, offer["invoiceId"] or "")
    if invoice is None or len(unfinished_offers(context, invoice["id"])) > 1:
        _end_alone(context, offer, "expire", invoice)
    elif allows_trigger(context, INVOICE, invoice, "expire-offers"):
        _move_together(context, invoice, "expire-offers", [offer], offerId=offer["id"])
    else:
        _end_alone(context, offer, "expire", invoice)
        if undisputed_status(invoice) == "Offered":
            _return_without_offers(context, invoice)


def _return_without_offers(context: Context, invoice: Record) -> None:
    """Let a disputed invoice return to the status that it has without an offer."""
    returning = {**invoice, "previousStatus": "FinancingRequested"}
    context.state.put(INVOICES, invoice["id"], returning)
    request = unfinished_request(context, invoice["id"])
    if request is not None:
        _follow_request(context, request, returning, FOLLOWING["expire-offers"])


def _end_alone(context: Context, offer: Record, trigger: str, invoice: Record | None) -> Record:
    """Return the offer after its end, which moves no invoice."""
    ended = end_offer(context, offer, trigger)
    emit_end(context, ended, invoice)
    return ended


def _check_fulfilled(context: Context, invoice: Record) -> None:
    """Raise ApiError 409 unless the conditions of the accepted offer are fulfilled."""
    offer = find_accepted_offer(context, invoice)
    if offer is not None:
        check_conditions(offer)


def _check_acceptable(context: Context, invoice: Record, offers: Sequence[Record]) -> None:
    """Raise ApiError 409 unless the offer can be accepted now."""
    if not allows_trigger(context, INVOICE, invoice, "accept-offer"):
        return  # the move itself reports what is possible
    check_parties(context, invoice, "accept-offer")
    for offer in offers:
        _check_valid(context, offer)
        check_limits(context, offer["partnerId"], invoice)
    check_not_past_due(context, invoice)


def _check_valid(context: Context, offer: Record) -> None:
    if is_expired(context, offer):
        raise conflict(
            f"The offer was valid until {offer['validUntil']}",
            "Accept an offer that is still valid.",
        )


def _move_together(
    context: Context,
    invoice: Record,
    trigger: str,
    offers: Sequence[Record],
    *,
    money: Record | None = None,
    **metadata: Any,
) -> None:
    if trigger == "accept-offer" and offers:
        facts = {
            "recourse": offers[0]["recourse"],
            "acceptedAt": context.timestamp,
            "acceptance": context.origin.cause,
            "recoursePeriodDays": offers[0]["recoursePeriodDays"],
            "assignmentNotice": first_notice(offers[0]),
        }
        invoice = {**invoice, **facts}
    elif trigger == "uphold-dispute-after-funding":
        invoice = {**invoice, "recourse": "Recourse"}  # the seller warrants an undisputed debt
    if trigger in _ENDS_DISPUTE:
        invoice = {name: value for name, value in invoice.items() if name != "dispute"}
    if invoice["status"] == "OnHold" and trigger in {"release-hold", "reject"}:
        conclude_review(context, invoice, passed=trigger == "release-hold")
    invoice = with_exposure(context, invoice, trigger, offers[0] if offers else None)
    invoice, event = apply_invoice_trigger(context, invoice, trigger, **metadata)
    if trigger in _ENDS_REVIEW:
        pass_findings(context, invoice["id"], "ManualReview", "Reviewed")
    request = unfinished_request(context, invoice["id"])
    related: dict[str, Record] = {}
    following = FOLLOWING.get(trigger)
    if request is not None:
        request = _follow_request(context, request, invoice, following)
        related["financing_request"] = public_request(request)
    is_about_offer = event is not None and event.startswith("offer.")
    moved, ended = _follow_offers(context, offers, following, is_about_offer=is_about_offer)
    if moved:
        related["offer"] = public_offer(moved[0])
    optional = {"money": money, "reason": metadata.get("reason")}
    optional = {name: value for name, value in optional.items() if value is not None}
    emit_move(context, event, invoice, optional=optional, **related)
    for offer in ended:
        emit_end(context, offer, invoice)


def _follow_request(
    context: Context, request: Record, invoice: Record, following: Following | None
) -> Record:
    """Return the request after a move of one of its invoices.

    It follows a step forward when all of its invoices have made it, and ends with the last one.
    """
    if following is None:
        return request
    others = [other for other in request["openInvoiceIds"] if other != invoice["id"]]
    invoices = [load_invoice(context, other) for other in others]
    trigger = following.request
    if trigger in _LEAVING:
        request = {**request, "openInvoiceIds": others}
        context.state.put(REQUESTS, request["id"], request)
        if not invoices:
            possible = allows_trigger(context, REQUEST, request, trigger)
            return _try_request(context, request, trigger if possible else "close")
    elif trigger not in _FORWARD:
        waits = any(other["status"] == "Offered" for other in invoices)
        return request if waits else _try_request(context, request, trigger)
    else:
        invoices.append(invoice)
    return _move_forward(context, request, invoices)


def _move_forward(context: Context, request: Record, invoices: Sequence[Record]) -> Record:
    if all(map(is_financed, invoices)):
        request = _try_request(context, request, "accept-offer")
    if all(map(is_fully_funded, invoices)):
        return _try_request(context, request, "fund")
    funded = any(map(is_funded, invoices))
    return _try_request(context, request, "fund-partially") if funded else request


def _try_request(context: Context, request: Record, trigger: str) -> Record:
    if not allows_trigger(context, REQUEST, request, trigger):
        return request
    return move_request(context, request, trigger)


def _follow_offers(
    context: Context,
    offers: Sequence[Record],
    following: Following | None,
    *,
    is_about_offer: bool,
) -> tuple[list[Record], list[Record]]:
    """Return the offers after the triggers that follow, and those of them whose ends have an event
    of their own: all but the first one, if the move of the invoice is about that."""
    moved, ended = [], []
    for index, offer in enumerate(offers):
        trigger = None
        if following is not None:
            trigger = following.other_offers if index else following.offer
        if trigger is None or not allows_trigger(context, OFFER, offer, trigger):
            moved.append(offer)
        elif is_about_offer and not index:
            moved.append(move_offer(context, offer, trigger))
        else:
            moved.append(end_offer(context, offer, trigger))
            ended.append(moved[-1])
    return moved, ended
