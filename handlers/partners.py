"""Demo partners, and mock routing by their mandates. No live network is involved."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record, Response

from ..domain.audit import audit
from ..domain.credentials import visible_partners
from ..domain.financing import invoice_to_route
from ..domain.invoices import SYNTHETIC_INVOICE
from ..domain.routing import PARTNERS, deal_for, public_verdict, route


def list_partners(call: Call) -> Response:
    """Return the configured partners with their demo mandates; to a partner only itself."""
    return call.page(PARTNERS, where=visible_partners(call))


def route_partners(call: Call) -> Record:
    """Compare an invoice, by default the newest one, with the mandate of every partner.

    Members of the body that are invalid are ignored, because the contract publishes only 200.
    """
    invoice, overrides = invoice_to_route(call, call.body)
    deal = deal_for(call, invoice or SYNTHETIC_INVOICE, **overrides)
    named = call.body.get("partnerIds")
    names = named if isinstance(named, list) else []
    verdicts = route(call, deal, [name for name in names if isinstance(name, str)])
    routing_id = call.new_id("rte_sandbox")
    invoice_id = invoice["id"] if invoice else None
    audit(call, "partners.routed", ("routing", routing_id), invoiceId=invoice_id)
    return {
        "routingId": routing_id,
        "invoiceId": invoice_id,
        "matched": [public_verdict(verdict) for verdict in verdicts if not verdict.failed],
        "unmatched": [public_verdict(verdict) for verdict in verdicts if verdict.failed],
        "liveNetwork": False,
        "demoMandates": True,
    }
