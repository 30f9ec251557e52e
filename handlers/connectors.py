"""Invoices pushed from ERP systems: accepted at once, processed by the agenda."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record

from ..domain.audit import audit
from ..domain.erp import NO_INVOICE, pushed_items, schedule_items


def push_erp_invoices(call: Call) -> Record:
    """Accept a batch or a single invoice. The audit log reports an invalid item."""
    items = pushed_items(call.body)
    source = call.body.get("source", {})
    import_id = call.new_id("imp_sandbox")
    audit(call, "erp_import.accepted", ("erp_import", import_id), received=len(items))
    schedule_items(call, import_id, source, items)
    warnings = [*([] if items else [NO_INVOICE]), *call.not_read]
    accepted = {"importId": import_id, "status": "Accepted", "received": len(items)}
    return {**accepted, "source": source, **({"warnings": warnings} if warnings else {})}
