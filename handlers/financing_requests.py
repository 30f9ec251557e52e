"""Financing requests: created on a verified invoice and routed to partners."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.handling import Answer, Call, Record, refuse

from ._audit import audit
from ._invoices import CLIENT, SYNTHETIC, move_invoice, named_invoice, newest_invoices
from ._lifecycle import move
from ._offers import commercially, multiply
from ._requests import MACHINE, REQUESTS, published
from ._routing import Verdict, deal_for, route, tenor_days, unknown_partner

_DEFAULT_ADVANCE_RATE: Final = Decimal("0.85")


async def list_financing_requests(call: Call) -> Answer:
    """The caller's financing requests, newest first."""
    return await call.page(REQUESTS, present=published)


async def create_financing_request(call: Call) -> Record:
    """Ask for financing of a verified invoice and route the request by demo mandates.

    Without a named invoice it is the caller's newest verified one, else a synthetic one. Raises
    ApiError 404 for an unknown invoice or partner, 409 for one that cannot be financed.
    """
    invoice = await _chosen_invoice(call)
    unknown = await unknown_partner(call, call.body.get("partnerIds", []))
    if unknown is not None:
        raise refuse("unknown_resource", kind="partner", member="id")
    request = await _submitted(call, invoice)
    if invoice is not None:
        invoice = await move_invoice(
            call, invoice, "request-financing", financingRequestId=request["id"]
        )
    matched = await _routed_to(call, invoice or SYNTHETIC, request)
    if matched:
        request = {**request, "routedPartnerIds": matched}
        return published(await move(call, MACHINE, REQUESTS, request, "route", present=published))
    if invoice is not None:
        await move_invoice(call, invoice, "decline-financing", financingRequestId=request["id"])
    return published(await move(call, MACHINE, REQUESTS, request, "find-no-match"))


async def _chosen_invoice(call: Call) -> Record | None:
    named = [call.body["invoiceId"]] if "invoiceId" in call.body else call.body.get("invoiceIds")
    if not named:
        today = call.now.date()
        verified = await newest_invoices(call, "Verified")
        return next((one for one in verified if tenor_days(one, today) >= 0), None)
    invoice = await named_invoice(call, named[0])
    if invoice["status"] != "Verified":
        raise refuse(
            "conflict",
            problem=f"The invoice is {invoice['status']} and cannot be financed",
            advice="Only an invoice that is Verified can be.",
        )
    if tenor_days(invoice, call.now.date()) < 0:
        raise refuse(
            "conflict",
            problem=f"The invoice was due on {invoice['dueDate']} and cannot be financed",
            advice="Finance an invoice before it is due.",
        )
    return invoice


async def _submitted(call: Call, invoice: Record | None) -> Record:
    body: dict[str, Any] = call.body
    financed = invoice or SYNTHETIC
    rate = body.get("requestedAdvanceRate", _DEFAULT_ADVANCE_RATE)
    usual = commercially(multiply(Decimal(financed["amount"]), Decimal(rate)), financed["currency"])
    request: Record = {
        "id": await call.new_id("freq_sandbox"),
        "status": call.lifecycle.machines[MACHINE].initial,
        "invoiceIds": [invoice["id"]] if invoice else [],
        "requestedAmount": body.get("requestedAmount", usual),
        "currency": body.get("currency", financed["currency"]),
        "requestedAdvanceRate": rate,
        "product": body.get("product", "Factoring"),
        "recoursePreference": body.get("recoursePreference", "Any"),
        "disclosure": body.get("disclosure", "Disclosed"),
        "routedPartnerIds": [],
        "createdAt": call.timestamp,
        "source": CLIENT,
        **({"neededBy": body["neededBy"]} if "neededBy" in body else {}),
        **({} if invoice else {"synthetic": True}),
    }
    await call.state.put(REQUESTS, request["id"], request)
    await audit(call, "financing_request.submitted", ("financing_request", request["id"]))
    return request


async def _routed_to(call: Call, invoice: Record, request: Record) -> list[str]:
    deal = await deal_for(
        call,
        invoice,
        product=request["product"],
        recourse=request["recoursePreference"],
        disclosure=request["disclosure"],
    )
    verdicts: list[Verdict] = await route(call, deal, call.body.get("partnerIds"))
    return [verdict.partner["id"] for verdict in verdicts if not verdict.failed]
