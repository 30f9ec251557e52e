"""The audit log of a workspace."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Condition, Response, instant_filter

from ..domain.audit import AUDIT_EVENTS, public_audit_event


def list_audit_events(call: Call) -> Response:
    """Return the audit events of the workspace, newest first."""
    query = call.query
    where = (
        *(Condition(name, "=", query[name]) for name in ("action", "actorId") if name in query),
        *((Condition("targetIds", "has", query["targetId"]),) if "targetId" in query else ()),
        *instant_filter("occurredAt", query.get("from"), query.get("to")),
    )
    return call.page(AUDIT_EVENTS, where=where, present=public_audit_event)
