"""Financing requests: their record, their creation, and which ones accept offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.project.api import Condition, Context, Record, conflict, existing

from .audit import audit
from .calendars import check_not_past_due
from .fingerprint import EXACT, multiply_exactly, round_half_up
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
from .pricing import rate_of
from .routing import country_code, deal_for, reasons, route
from .tenor import day_number, tenor_days

REQUEST: Final = "financing-request"
"""The machine of the lifecycle."""

REQUESTS: Final = "financing_requests"

OPEN: Final = ("Routed", "OffersReceived")
"""The statuses in which a request accepts offers."""

_INTERNAL: Final = frozenset(
    {"source", "previousStatus", "openInvoiceIds", "askedRate", "mostRate"}
)
_DEFAULT_ADVANCE_RATE: Final = Decimal("0.85")


def public_request(record: Mapping[str, Any], partner_id: str | None = None) -> Record:
    """Return a financing request as the API shows it; to ``partner_id`` without other partners."""
    if partner_id is not None:
        record = {**record, "routedPartnerIds": [partner_id], "unmatched": []}
    return {name: value for name, value in record.items() if name not in _INTERNAL}


def move_request(context: Context, request: Record, trigger: str) -> Record:
    """Apply ``trigger`` to the request and emit its event. Raises ApiError 409."""
    invoice_id = next(iter(request["invoiceIds"]), None)
    return move_record(
        context, REQUEST, REQUESTS, request, trigger, view=public_request, subject=invoice_id
    )


def open_request(context: Context, request_id: str) -> Record:
    """Return the request of that id, if it accepts offers. Raises ApiError 404 and 409."""
    request = existing(context.state.get(REQUESTS, request_id), "financing request", request_id)
    if request["status"] not in OPEN:
        raise conflict(
            f"The financing request is {request['status']} and accepts no offers",
            f"Use a financing request that is {' or '.join(OPEN)}.",
        )
    return request


def newest_open_request(context: Context, invoice_id: str) -> Record | None:
    """Return the newest request for an invoice that accepts offers."""
    return _newest(context, invoice_id, OPEN)


def newest_request_for_offers(context: Context, partner_id: str | None = None) -> Record | None:
    """Return the newest open request of a client whose invoice, if any, can receive an offer.

    With ``partner_id`` only requests count that were routed to that partner.
    """
    routed = () if partner_id is None else (Condition("routedPartnerIds", "has", partner_id),)
    where = (Condition("source", "=", CLIENT), Condition("status", "in", OPEN), *routed)
    for request in context.state.page(REQUESTS, limit=100, where=where).records:
        invoice = invoice_of(context, request)
        if invoice is None or allows_trigger(context, INVOICE, invoice, "receive-offer"):
            return request
    return None


def unfinished_request(context: Context, invoice_id: str) -> Record | None:
    """Return the newest request that has not ended and that the invoice has not left."""
    return _newest(context, invoice_id, unfinished_statuses(context, REQUEST))


def invoice_of(context: Context, request: Record) -> Record | None:
    """Return the first invoice of a request that can receive an offer, else its first one.

    None is the synthetic invoice.
    """
    invoices = [load_invoice(context, invoice_id) for invoice_id in request["invoiceIds"]]
    for invoice in invoices:
        if allows_trigger(context, INVOICE, invoice, "receive-offer"):
            return invoice
    return invoices[0] if invoices else None


def invoice_for_offer(
    context: Context, request: Record | None, invoice_id: str | None
) -> Record | None:
    """Return the named invoice of a request, else that of ``invoice_of``; None: synthetic."""
    if request is None:
        return None
    return invoice_of(context, request) if invoice_id is None else load_invoice(context, invoice_id)


def check_financeable(context: Context, invoice: Record) -> None:
    """Raise ApiError 409 unless financing of the invoice can be requested."""
    if invoice["status"] != "Verified":
        raise conflict(
            f"The invoice is {invoice['status']} and cannot be financed",
            "Use an invoice that is Verified.",
        )
    check_not_past_due(context, invoice)


def invoices_to_finance(context: Context, body: Mapping[str, Any]) -> list[Record]:
    """Return the named invoices, else the newest one that can be financed, if any.

    Raises ApiError 404 for an unknown invoice, 409 for one that cannot be financed, and for an
    ``invoiceId`` that is not one of ``invoiceIds``.
    """
    named, alias = body.get("invoiceIds", []), body.get("invoiceId")
    ids = list(dict.fromkeys([*named, *([] if alias is None else [alias])]))
    invoices = [load_invoice(context, invoice_id) for invoice_id in ids]
    if named and alias not in (None, *named):
        raise conflict("invoiceId is not one of invoiceIds", "Send invoiceIds only.")
    for invoice in invoices:
        check_financeable(context, invoice)
    if invoices:
        return invoices
    today = context.now.date()
    verified = newest_invoices(context, "Verified")
    return [invoice for invoice in verified if tenor_days(invoice, today) >= 0][:1]


def invoice_to_route(
    context: Context, body: Mapping[str, Any]
) -> tuple[Record | None, dict[str, Any]]:
    """Return the invoice that ``routePartners`` is about, and the facts that its body overrides.

    The invoice is the one of ``invoiceId``, else that of ``financingRequestId``, else the newest,
    if any. Members that are invalid are ignored.
    """
    request = _find(context, REQUESTS, body.get("financingRequestId"))
    invoice = _find(context, INVOICES, body.get("invoiceId"))
    if invoice is None and request is not None:
        invoice = invoice_of(context, request)
    overrides = {} if request is None else _preferences(context, request)
    for member, name in (("debtorCountry", "debtor_country"), ("sellerCountry", "seller_country")):
        if isinstance(body.get(member), str):
            overrides[name] = country_code(body[member])
    return invoice or newest_invoice(context), overrides


def request_financing(
    context: Context,
    invoices: Sequence[Record],
    options: Mapping[str, Any],
    *,
    without_match: bool = False,
) -> Record:
    """Create a financing request for all of ``invoices`` and route it by the mandates of partners.

    ``options`` are members of the body of ``createFinancingRequest``; those left out have
    defaults. Without an invoice the request is for the synthetic invoice. A request
    ``without_match`` is one that no mandate takes. Raises ApiError 409 when the status of an
    invoice does not allow it.
    """
    for invoice in invoices:
        check_not_past_due(context, invoice)
    request = _submit(context, invoices, options)
    moved = _apply(context, invoices, "request-financing", request)
    _emit(context, moved, request)
    verdicts = _verdicts(context, invoices, request, options)
    if without_match:
        for failed in verdicts.values():
            failed.append(("mandate", "NO_MANDATE_TAKES_THIS"))
    matched = [partner_id for partner_id, failed in verdicts.items() if not failed]
    unmatched = [
        {"partnerId": partner_id, "failedFilters": reasons(failed)}
        for partner_id, failed in verdicts.items()
        if failed
    ]
    request |= {"routedPartnerIds": matched, "unmatched": unmatched}
    if matched:
        return move_request(context, request, "route")
    moved = _apply(context, [invoice for invoice, _ in moved], "decline-financing", request)
    request = move_request(context, {**request, "openInvoiceIds": []}, "find-no-match")
    _emit(context, moved, request)
    return request


_Moved = tuple[Record, str | None]
"""An invoice after a move, and the type of its event."""


def _apply(
    context: Context, invoices: Sequence[Record], trigger: str, request: Record
) -> list[_Moved]:
    about = {"financingRequestId": request["id"]}
    return [apply_invoice_trigger(context, invoice, trigger, **about) for invoice in invoices]


def _emit(context: Context, moved: Sequence[_Moved], request: Record) -> None:
    for invoice, event in moved:
        emit_move(context, event, invoice, financing_request=public_request(request))


def _submit(context: Context, invoices: Sequence[Record], options: Mapping[str, Any]) -> Record:
    currency = (invoices or [SYNTHETIC_INVOICE])[0]["currency"]
    rate = options.get("requestedAdvanceRate", _DEFAULT_ADVANCE_RATE)
    total = _total(invoices or [SYNTHETIC_INVOICE], currency)
    advance = multiply_exactly(total, Decimal(rate))
    ids = [invoice["id"] for invoice in invoices]
    request: Record = {
        "id": context.new_id("freq_sandbox"),
        "status": context.lifecycle.machines[REQUEST].initial,
        "invoiceIds": ids,
        "openInvoiceIds": ids,
        "requestedAmount": options.get("requestedAmount", round_half_up(advance, currency)),
        "currency": options.get("currency", currency),
        "requestedAdvanceRate": rate,
        "product": options.get("product", "Factoring"),
        "recoursePreference": options.get("recoursePreference", "Any"),
        "disclosure": options.get("disclosure", "Disclosed"),
        "routedPartnerIds": [],
        "createdAt": context.timestamp,
        "source": CLIENT,
        **_asked_rates(options, total, currency),
        **({"neededBy": options["neededBy"]} if "neededBy" in options else {}),
        **({} if invoices else {"synthetic": True}),
    }
    context.state.put(REQUESTS, request["id"], request)
    audit(context, "financing_request.submitted", ("financing_request", request["id"]))
    return request


def _asked_rates(options: Mapping[str, Any], total: Decimal, currency: str) -> Record:
    """Return the advance rate that the seller asks for, and the highest one that its requested
    amount allows, too. A seller who asks for nothing gets what the partner advances."""
    rates = [Decimal(options[name]) for name in ("requestedAdvanceRate",) if name in options]
    asked: Record = {"askedRate": rates[0]} if rates else {}
    if "requestedAmount" in options:
        rates.append(rate_of(Decimal(options["requestedAmount"]), total, currency))
    return {**asked, "mostRate": min(rates)} if rates else asked


def days_to_need(context: Context, request: Mapping[str, Any]) -> int | None:
    """Return the days until the advance is needed; None: the seller did not say when."""
    if "neededBy" not in request:
        return None
    return day_number(request["neededBy"]) - context.now.date().toordinal()


def _verdicts(
    context: Context, invoices: Sequence[Record], request: Record, options: Mapping[str, Any]
) -> dict[str, list[tuple[str, str]]]:
    """Return for each partner the filters that the request fails with any of its invoices."""
    financed = invoices or [SYNTHETIC_INVOICE]
    failed: dict[str, list[tuple[str, str]]] = {}
    for invoice in financed:
        currency = invoice["currency"]
        of_debtor = [other for other in financed if other["debtorId"] == invoice["debtorId"]]
        deal = deal_for(
            context,
            invoice,
            **_preferences(context, request),
            debtor_total=_total(of_debtor, currency),
            request_total=_total(financed, currency),
            requested_amount=options.get("requestedAmount"),
            requested_currency=request["currency"].strip().upper(),
        )
        for verdict in route(context, deal, options.get("partnerIds", ())):
            known = failed.setdefault(verdict.partner["id"], [])
            known += [reason for reason in verdict.failed if reason not in known]
    return failed


def _preferences(context: Context, request: Record) -> dict[str, Any]:
    return {
        "product": request["product"],
        "recourse": request["recoursePreference"],
        "disclosure": request["disclosure"],
        "requested_rate": request.get("askedRate"),
        "most_rate": request.get("mostRate"),
        "days_to_need": days_to_need(context, request),
    }


def _total(invoices: Sequence[Record], currency: str) -> Decimal:
    """Return the total of the invoices that are in the currency."""
    total = Decimal(0)
    for invoice in invoices:
        if invoice["currency"].upper() == currency.upper():
            total = EXACT.add(total, Decimal(invoice["amount"]))
    return total


def _find(context: Context, collection: str, record_id: Any) -> Record | None:
    return context.state.get(collection, record_id) if isinstance(record_id, str) else None


def _newest(context: Context, invoice_id: str, statuses: tuple[str, ...]) -> Record | None:
    where = (Condition("status", "in", statuses), Condition("openInvoiceIds", "has", invoice_id))
    page = context.state.page(REQUESTS, limit=1, where=where)
    return page.records[0] if page.records else None
