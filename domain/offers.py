"""Offers: their record, their pricing, and their creation by a partner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import (
    Condition,
    Context,
    Record,
    conflict,
    existing,
    instant_text,
    parse_instant,
    reject,
)

from .audit import audit
from .calendars import check_not_past_due
from .financing import (
    days_to_need,
    move_request,
    newest_open_request,
    newest_request_for_offers,
    open_request,
)
from .invoices import CLIENT, SYNTHETIC_INVOICE, apply_invoice_trigger, emit_move, load_invoice
from .lifecycle import apply_trigger, move_record, unfinished_statuses
from .pricing import Terms, check_offer, check_stated, price, pricing_members, terms_of
from .routing import deal_for, load_partner, outside_mandate
from .tenor import tenor_days

OFFER: Final = "offer"
"""The machine of the lifecycle."""

OFFERS: Final = "offers"

DEMO_PARTNER: Final = "ptn_sandbox_everest"
"""The partner that makes an offer where none is named. Its mandate accepts every invoice."""

EXPIRE: Final = "end-validity"
"""The action that ends the validity of an offer."""

END_EVENTS: Final[Mapping[str, str]] = {
    "Declined": "offer.declined",
    "Expired": "offer.expired",
    "Withdrawn": "offer.withdrawn",
    "Superseded": "offer.superseded",
}
"""By final status of an offer: the event of its end."""

_INTERNAL: Final = frozenset({"source", "previousStatus"})
_VALIDITY: Final = timedelta(hours=72)
_RECOURSE_LIMIT: Final = Decimal("0.5")


def public_offer(record: Mapping[str, Any]) -> Record:
    """Return an offer as the API shows it."""
    return {name: value for name, value in record.items() if name not in _INTERNAL}


def move_offer(context: Context, offer: Record, trigger: str) -> Record:
    """Apply ``trigger`` to the offer and emit its event. Raises ApiError 409."""
    return move_record(context, OFFER, OFFERS, offer, trigger, view=public_offer)


def end_offer(context: Context, offer: Record, trigger: str) -> Record:
    """End an offer whose end moves no invoice; ``emit_end`` emits its event. ApiError 409."""
    ended, _ = apply_trigger(context, OFFER, OFFERS, offer, trigger, audited=False)
    why = {"reason": offer["declineReason"]} if "declineReason" in offer else {}
    about = {"from": offer["status"], "invoiceId": offer["invoiceId"], **why}
    audit(context, END_EVENTS[ended["status"]], ("offer", offer["id"]), **about)
    return ended


def emit_end(context: Context, offer: Record, invoice: Record | None) -> None:
    """Emit the event of an offer that has ended and has moved no invoice."""
    event_type, data = END_EVENTS[offer["status"]], public_offer(offer)
    if invoice is None:
        context.announce(event_type, data)
    else:
        emit_move(context, event_type, invoice, offer=data)


def load_offer(context: Context, offer_id: str) -> Record:
    """Return the offer of that id. Raises ApiError 404."""
    return existing(context.state.get(OFFERS, offer_id), "offer", offer_id)


def unfinished_offers(context: Context, invoice_id: str) -> Sequence[Record]:
    """Return all offers on an invoice that are in no end state, newest first."""
    statuses = unfinished_statuses(context, OFFER)
    where = (Condition("status", "in", statuses), Condition("invoiceId", "=", invoice_id))
    return context.state.page(OFFERS, where=where).records


def accepted_offer(context: Context, invoice: Record) -> Record:
    """Return the accepted offer on an invoice. Raises ApiError 409 when there is none."""
    offer = find_accepted_offer(context, invoice)
    if offer is None:
        raise conflict("The invoice has no accepted offer", "Accept an offer on it first.")
    return offer


def find_accepted_offer(context: Context, invoice: Record) -> Record | None:
    """Return the accepted offer on an invoice, if there is one."""
    where = (Condition("status", "=", "Accepted"), Condition("invoiceId", "=", invoice["id"]))
    page = context.state.page(OFFERS, limit=1, where=where)
    return next(iter(page.records), None)


def request_for_offer(
    context: Context, request_id: str | None, invoice_id: str | None, partner_id: str | None = None
) -> Record | None:
    """Return the financing request for a new offer; None: no client has an open one.

    Without ids it is the newest open request, for ``partner_id`` the newest that was routed to that
    partner. Raises ApiError 404 for an unknown id, 409 for a request that is not open or that is
    for another invoice.
    """
    if invoice_id is not None:
        load_invoice(context, invoice_id)
    if request_id is None and invoice_id is None:
        return newest_request_for_offers(context, partner_id)
    if request_id is not None:
        request = _request_for_invoice(context, request_id, invoice_id)
    else:
        request = _open_request_of(context, str(invoice_id))
    if partner_id is not None and partner_id not in request["routedPartnerIds"]:
        raise reject("unknown_resource", kind="financing request", member="id")
    return request


def make_offer(
    context: Context,
    request: Record | None,
    invoice: Record | None,
    partner: Record,
    options: Mapping[str, Any],
) -> Record:
    """Create an indicative offer, and move the request and the invoice, where there are any.

    ``options`` are members of the body of ``createOffer``; those left out have defaults. An offer
    whose validity has ended is Expired and moves nothing. Raises ApiError 409 when a status does
    not allow an offer, for an invoice past due, and for an offer that pays the seller nothing.
    """
    if invoice is not None:
        check_not_past_due(context, invoice)
    financed = invoice or SYNTHETIC_INVOICE
    most_rate = (request or {}).get("mostRate")
    terms = terms_of(partner, options, financed, most_rate)
    priced = _priced(context, partner, financed, terms)
    check_stated(options, priced, financed["currency"])
    offer: Record = {
        "id": context.new_id("off_sandbox"),
        "financingRequestId": request["id"] if request else None,
        "invoiceId": invoice["id"] if invoice else None,
        "partnerId": partner["id"],
        "offerType": "Indicative",
        "status": context.lifecycle.machines[OFFER].initial,
        "currency": financed["currency"],
        **priced,
        **_condition_members(context, request or {}, options, terms),
        "createdAt": context.timestamp,
        "source": CLIENT,
    }
    accepted = {name: offer[name] for name in ("product", "recourse", "disclosure")}
    outside = outside_mandate(context, partner, deal_for(context, financed, **accepted))
    offer |= {"outsideMandate": outside} if outside else {}
    context.state.put(OFFERS, offer["id"], offer)
    audit(context, "offer.recorded", ("offer", offer["id"]), partnerId=partner["id"])
    return _receive(context, offer, request, invoice)


def _receive(
    context: Context, offer: Record, request: Record | None, invoice: Record | None
) -> Record:
    if is_expired(context, offer):
        ended = end_offer(context, offer, "expire")
        emit_end(context, ended, invoice)
        return ended
    if request is not None:
        move_request(context, request, "receive-offer")
    if invoice is not None:
        about = {"offerId": offer["id"]}
        invoice, event = apply_invoice_trigger(context, invoice, "receive-offer", **about)
        emit_move(context, event, invoice, offer=public_offer(offer))
    left = parse_instant(offer["validUntil"]) - context.now
    context.schedule(EXPIRE, left, offerId=offer["id"])
    return offer


def fulfil_conditions(context: Context, offer: Record, fulfilled: Sequence[Any] | None) -> Record:
    """Return the offer with conditions fulfilled: those listed, by default all of them.

    Raises ApiError 409 for a condition that the offer does not have, and for a dead offer.
    """
    conditions = _conditions(offer)
    if offer["status"] not in unfinished_statuses(context, OFFER):
        raise conflict(f"The offer is {offer['status']}", "Use a live or an accepted offer.")
    chosen = conditions if fulfilled is None else fulfilled
    unknown = [condition for condition in chosen if condition not in conditions]
    if unknown:
        raise conflict(
            "The offer has no such condition", f"It has {len(conditions)}; see its 'conditions'."
        )
    known = [*offer.get("fulfilledConditions", []), *chosen]
    done = [condition for condition in conditions if condition in known]
    changed = {**offer, "fulfilledConditions": done}
    context.state.put(OFFERS, offer["id"], changed)
    audit(context, "offer.conditions_fulfilled", ("offer", offer["id"]), count=len(done))
    return changed


def check_conditions(offer: Mapping[str, Any]) -> None:
    """Raise ApiError 409 for an offer with a condition that is not fulfilled."""
    done = offer.get("fulfilledConditions", [])
    left = [condition for condition in _conditions(offer) if condition not in done]
    if left:
        raise conflict(
            f"{len(left)} of the conditions of {offer['id']} are not fulfilled",
            f"Fulfil them with POST /sandbox/offers/{offer['id']}/conditions.",
        )


def _conditions(offer: Mapping[str, Any]) -> list[Any]:
    """Return the conditions of an offer, which may be of any type: one that is no list is one."""
    conditions = offer.get("conditions") or []
    return conditions if isinstance(conditions, list) else [conditions]


def is_expired(context: Context, offer: Record) -> bool:
    """True if the validity of an offer has ended."""
    return parse_instant(offer["validUntil"]) <= context.now


def make_default_offer(context: Context, invoice: Record, partner_id: str = "") -> Record:
    """Make a partner's offer, with its own pricing, on the newest open request for the invoice.

    It is the named partner if the request was routed to it, else a routed one without an offer on
    the invoice. Without an open request the offer refers to the invoice only. Raises ApiError 404
    for an unknown partner, 409 when the status of the invoice does not allow it.
    """
    partner = load_partner(context, partner_id or DEMO_PARTNER)
    request = newest_open_request(context, invoice["id"])
    if request is not None:
        partner = _routed_partner(context, request, invoice, partner, bool(partner_id))
    return make_offer(context, request, invoice, partner, {})


def _routed_partner(
    context: Context, request: Record, invoice: Record, partner: Record, is_named: bool
) -> Record:
    routed = request["routedPartnerIds"]
    if is_named and partner["id"] in routed:
        return partner
    made = {offer["partnerId"] for offer in unfinished_offers(context, invoice["id"])}
    preferred = sorted(routed, key=lambda name: (name in made, name != partner["id"]))
    return load_partner(context, preferred[0]) if preferred else partner


def _open_request_of(context: Context, invoice_id: str) -> Record:
    request = newest_open_request(context, invoice_id)
    if request is None:
        raise conflict(
            "The invoice has no open financing request",
            "Create one with POST /api/financing-requests.",
        )
    return request


def _request_for_invoice(context: Context, request_id: str, invoice_id: str | None) -> Record:
    request = open_request(context, request_id)
    if invoice_id is not None and invoice_id not in request["openInvoiceIds"]:
        raise conflict(
            "The financing request is for another invoice",
            "Send either financingRequestId or invoiceId.",
        )
    return request


def _priced(context: Context, partner: Record, financed: Record, terms: Terms) -> Record:
    tenor = tenor_days(financed, context.now.date())
    figures = price(Decimal(financed["amount"]), financed["currency"], tenor, terms)
    check_offer(partner, tenor, figures)
    return pricing_members(figures, terms, tenor)


def _default_validity(context: Context, request: Record) -> str:
    """Return the end of 72 hours, or of the day on which the seller needs the advance."""
    left, days = _VALIDITY, days_to_need(context, request)
    if days is not None and 0 <= days <= _VALIDITY.days:
        today = context.now.replace(hour=0, minute=0, second=0, microsecond=0)
        left = min(left, today - context.now + timedelta(days=days + 1))
    return instant_text(context.now + left)


def _condition_members(
    context: Context, request: Record, options: Mapping[str, Any], terms: Terms
) -> Record:
    late = {"annualRate": terms.annual_rate, "dayCount": terms.day_count}
    late |= {name: value for name, value in options.get("lateInterest", {}).items() if name in late}
    preference = request.get("recoursePreference", "Any")
    recourse = options.get("recourse", "Recourse" if preference == "Any" else preference)
    limit = options.get("recourseLimit", _RECOURSE_LIMIT)
    disclosure = options.get("disclosure", request.get("disclosure", "Disclosed"))
    return {
        "recourse": recourse,
        **({"recourseLimit": limit} if recourse == "LimitedRecourse" else {}),
        "lateInterest": late,
        "recoursePeriodDays": options.get("recoursePeriodDays", 90),
        "product": options.get("product", request.get("product", "Factoring")),
        "disclosure": disclosure,
        "noticeOfAssignmentRequired": disclosure == "Disclosed",
        "validUntil": options.get("validUntil") or _default_validity(context, request),
        "conditions": options.get("conditions", []),
    }
