"""The audit log of a workspace."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Condition, Response, instant_filter

from ..domain.audit import AUDIT_EVENTS, published


async def list_audit_events(call: Call) -> Response:
    """What happened in the workspace, newest first."""
    query = call.query
    where = (
        *(Condition(name, "=", query[name]) for name in ("action", "actorId") if name in query),
        *((Condition("targetIds", "has", query["targetId"]),) if "targetId" in query else ()),
        *instant_filter("occurredAt", query.get("from"), query.get("to")),
    )
    return await call.page(AUDIT_EVENTS, where=where, present=published)
