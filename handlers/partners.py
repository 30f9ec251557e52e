"""Demo partners, and mock routing by their mandates. No live network is ever asked."""

from __future__ import annotations

from typing import Any

from invoice_sandbox.project.api import Call, Record, Response

from ..domain.audit import audit
from ..domain.countries import country_code
from ..domain.invoices import INVOICES, SYNTHETIC, newest_invoice
from ..domain.requests import REQUESTS
from ..domain.routing import PARTNERS, Verdict, deal_for, route


async def list_partners(call: Call) -> Response:
    """The configured partners with their demo mandates."""
    return await call.page(PARTNERS)


async def route_partners(call: Call) -> Record:
    """Hold an invoice against every partner's mandate, by default the caller's newest invoice.

    Members that make no sense here are ignored, because only 200 is published.
    """
    request = await _record(call, REQUESTS, "financingRequestId")
    invoice = await _record(call, INVOICES, "invoiceId")
    if invoice is None and request is not None and request["invoiceIds"]:
        invoice = await call.state.get(INVOICES, request["invoiceIds"][0])
    if invoice is None:
        invoice = await newest_invoice(call, *call.lifecycle.machines["invoice"].states)
    deal = await deal_for(call, invoice or SYNTHETIC, **_wishes(call.body, request))
    verdicts = await route(call, deal, _partner_ids(call.body))
    routing_id = await call.new_id("rte_sandbox")
    invoice_id = invoice["id"] if invoice else None
    await audit(call, "partners.routed", ("routing", routing_id), invoiceId=invoice_id)
    return {
        "routingId": routing_id,
        "invoiceId": invoice_id,
        "matched": [_matched(verdict) for verdict in verdicts if not verdict.failed],
        "unmatched": [_unmatched(verdict) for verdict in verdicts if verdict.failed],
        "liveNetwork": False,
        "demoMandates": True,
    }


async def _record(call: Call, kind: str, member: str) -> Record | None:
    record_id = call.body.get(member)
    return await call.state.get(kind, record_id) if isinstance(record_id, str) else None


def _wishes(body: dict[str, Any], request: Record | None) -> dict[str, str]:
    wishes = {}
    if request is not None:
        wishes = {
            "product": request["product"],
            "recourse": request["recoursePreference"],
            "disclosure": request["disclosure"],
        }
    for member, name in (("debtorCountry", "debtor_country"), ("sellerCountry", "seller_country")):
        if isinstance(body.get(member), str):
            wishes[name] = country_code(body[member])
    return wishes


def _partner_ids(body: dict[str, Any]) -> list[str] | None:
    named = body.get("partnerIds")
    return [one for one in named if isinstance(one, str)] if isinstance(named, list) else None


def _matched(verdict: Verdict) -> Record:
    return {"partnerId": verdict.partner["id"], "passedFilters": list(verdict.passed)}


def _unmatched(verdict: Verdict) -> Record:
    failed = [{"filter": name, "reason": reason} for name, reason in verdict.failed]
    return {
        "partnerId": verdict.partner["id"],
        "passedFilters": list(verdict.passed),
        "failedFilters": failed,
    }
