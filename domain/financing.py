"""Financing requests: their record, their creation, and which ones accept offers."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Condition, Context, Record, reject

from .audit import audit
from .fingerprint import multiply_exactly, round_half_up
from .invoices import (
    CLIENT,
    INVOICE,
    INVOICES,
    SYNTHETIC_INVOICE,
    apply_invoice_trigger,
    emit_move,
    load_invoice,
    newest_invoice,
    newest_invoices,
)
from .lifecycle import allows_trigger, move_record, unfinished_statuses
from .routing import country_code, deal_for, route
from .terms import check_not_past_due, tenor_days

REQUEST: Final = "financing-request"
"""The machine of the lifecycle."""

REQUESTS: Final = "financing_requests"

OPEN: Final = ("Routed", "OffersReceived")
"""The statuses in which a request accepts offers."""

_INTERNAL: Final = frozenset({"source", "previousStatus"})
_DEFAULT_ADVANCE_RATE: Final = Decimal("0.85")


def public_request(record: Mapping[str, Any]) -> Record:
    """A financing request as the API shows it."""
    return {name: value for name, value in record.items() if name not in _INTERNAL}


async def move_request(context: Context, request: Record, trigger: str) -> Record:
    """Apply ``trigger`` to the request and emit its event. Raises ApiError 409."""
    invoice_id = next(iter(request["invoiceIds"]), None)
    return await move_record(
        context, REQUEST, REQUESTS, request, trigger, view=public_request, subject=invoice_id
    )


async def open_request(context: Context, request_id: str) -> Record:
    """The request of that id, if it accepts offers. Raises ApiError 404 and 409."""
    request = await context.state.get(REQUESTS, request_id)
    if request is None:
        raise reject("unknown_resource", kind="financing request", member="id")
    if request["status"] not in OPEN:
        raise reject(
            "conflict",
            problem=f"The financing request is {request['status']} and accepts no offers",
            advice=f"Use a financing request that is {' or '.join(OPEN)}.",
        )
    return request


async def newest_open_request(context: Context, invoice_id: str) -> Record | None:
    """The newest request for an invoice that accepts offers."""
    return await _newest(context, invoice_id, OPEN)


async def newest_request_for_offers(
    context: Context, partner_id: str | None = None
) -> Record | None:
    """The newest open request of a client whose invoice, if it has one, can receive an offer.

    With ``partner_id`` only requests count that were routed to that partner.
    """
    routed = () if partner_id is None else (Condition("routedPartnerIds", "has", partner_id),)
    where = (Condition("source", "=", CLIENT), Condition("status", "in", OPEN), *routed)
    for request in (await context.state.page(REQUESTS, limit=100, where=where)).records:
        invoice = await invoice_of(context, request)
        if invoice is None or allows_trigger(context, INVOICE, invoice, "receive-offer"):
            return request
    return None


async def unfinished_request(context: Context, invoice_id: str) -> Record | None:
    """The newest request for an invoice that is in no end state."""
    return await _newest(context, invoice_id, unfinished_statuses(context, REQUEST))


async def invoice_of(context: Context, request: Record) -> Record | None:
    """The invoice of a request, or None for the synthetic invoice."""
    return await context.state.get(INVOICES, (request["invoiceIds"] or [""])[0])


def check_financeable(context: Context, invoice: Record) -> None:
    """Raise ApiError 409 unless financing of the invoice can be requested."""
    if invoice["status"] != "Verified":
        raise reject(
            "conflict",
            problem=f"The invoice is {invoice['status']} and cannot be financed",
            advice="Use an invoice that is Verified.",
        )
    check_not_past_due(context, invoice)


async def invoice_to_finance(context: Context, invoice_ids: list[str]) -> Record | None:
    """The first invoice of ``invoice_ids``, else the newest one that can be financed, if any.

    Raises ApiError 404 for an unknown invoice, 409 for one that cannot be financed.
    """
    if invoice_ids:
        invoice = await load_invoice(context, invoice_ids[0])
        check_financeable(context, invoice)
        return invoice
    today = context.now.date()
    verified = await newest_invoices(context, "Verified")
    return next((one for one in verified if tenor_days(one, today) >= 0), None)


async def invoice_to_route(
    context: Context, body: Mapping[str, Any]
) -> tuple[Record | None, dict[str, str]]:
    """The invoice that ``routePartners`` is about, and the facts that its body overrides.

    The invoice is the one of ``invoiceId``, else that of ``financingRequestId``, else the newest,
    if any. Members that are invalid are ignored.
    """
    request = await _find(context, REQUESTS, body.get("financingRequestId"))
    invoice = await _find(context, INVOICES, body.get("invoiceId"))
    if invoice is None and request is not None:
        invoice = await invoice_of(context, request)
    overrides = {}
    if request is not None:
        overrides = {
            "product": request["product"],
            "recourse": request["recoursePreference"],
            "disclosure": request["disclosure"],
        }
    for member, name in (("debtorCountry", "debtor_country"), ("sellerCountry", "seller_country")):
        if isinstance(body.get(member), str):
            overrides[name] = country_code(body[member])
    return invoice or await newest_invoice(context), overrides


async def request_financing(
    context: Context, invoice: Record | None, options: Mapping[str, Any]
) -> Record:
    """Create a financing request and route it by the mandates of the demo partners.

    ``options`` are members of the body of ``createFinancingRequest``; those left out have
    defaults. Without an invoice the request is for the synthetic invoice. Raises ApiError 409
    when the status of the invoice does not allow it.
    """
    if invoice is not None:
        check_not_past_due(context, invoice)
    request = await _submit(context, invoice, options)
    about = {"financingRequestId": request["id"]}
    if invoice is not None:
        invoice, event = await apply_invoice_trigger(context, invoice, "request-financing", **about)
        await emit_move(context, event, invoice, financing_request=public_request(request))
    matched = await _matching_partners(context, invoice or SYNTHETIC_INVOICE, request, options)
    if matched:
        return await move_request(context, {**request, "routedPartnerIds": matched}, "route")
    if invoice is None:
        return await move_request(context, request, "find-no-match")
    invoice, event = await apply_invoice_trigger(context, invoice, "decline-financing", **about)
    request = await move_request(context, request, "find-no-match")
    await emit_move(context, event, invoice, financing_request=public_request(request))
    return request


async def _submit(context: Context, invoice: Record | None, options: Mapping[str, Any]) -> Record:
    financed = invoice or SYNTHETIC_INVOICE
    rate = options.get("requestedAdvanceRate", _DEFAULT_ADVANCE_RATE)
    advance = multiply_exactly(Decimal(financed["amount"]), Decimal(rate))
    request: Record = {
        "id": await context.new_id("freq_sandbox"),
        "status": context.lifecycle.machines[REQUEST].initial,
        "invoiceIds": [invoice["id"]] if invoice else [],
        "requestedAmount": options.get(
            "requestedAmount", round_half_up(advance, financed["currency"])
        ),
        "currency": options.get("currency", financed["currency"]),
        "requestedAdvanceRate": rate,
        "product": options.get("product", "Factoring"),
        "recoursePreference": options.get("recoursePreference", "Any"),
        "disclosure": options.get("disclosure", "Disclosed"),
        "routedPartnerIds": [],
        "createdAt": context.timestamp,
        "source": CLIENT,
        **({"neededBy": options["neededBy"]} if "neededBy" in options else {}),
        **({} if invoice else {"synthetic": True}),
    }
    await context.state.put(REQUESTS, request["id"], request)
    await audit(context, "financing_request.submitted", ("financing_request", request["id"]))
    return request


async def _matching_partners(
    context: Context, invoice: Record, request: Record, options: Mapping[str, Any]
) -> list[str]:
    deal = await deal_for(
        context,
        invoice,
        product=request["product"],
        recourse=request["recoursePreference"],
        disclosure=request["disclosure"],
    )
    verdicts = await route(context, deal, options.get("partnerIds", ()))
    return [verdict.partner["id"] for verdict in verdicts if not verdict.failed]


async def _find(context: Context, collection: str, record_id: Any) -> Record | None:
    return await context.state.get(collection, record_id) if isinstance(record_id, str) else None


async def _newest(context: Context, invoice_id: str, statuses: tuple[str, ...]) -> Record | None:
    where = (Condition("status", "in", statuses), Condition("invoiceIds", "has", invoice_id))
    page = await context.state.page(REQUESTS, limit=1, where=where)
    return page.records[0] if page.records else None
