"""The audit log: append-only, one event per state change, and never a secret."""

from __future__ import annotations

from typing import Any, Final, Literal

from invoice_sandbox.project.api import Context, Record, drop_oldest

AUDIT_EVENTS: Final = "audit_events"

Target = tuple[str, str]
"""Type and id of what an event is about: ``("invoice", "inv_sandbox_0001")``."""


def audit(
    context: Context,
    action: str,
    *targets: Target,
    outcome: Literal["Success", "Failure"] = "Success",
    **metadata: Any,
) -> None:
    """Append one event about ``targets``; its actor is the origin of the context."""
    origin, at = context.origin, context.timestamp
    event_id = context.new_id("aud_sandbox")
    event: Record = {
        "id": event_id,
        "action": action,
        "occurredAt": at,
        "actor": {"type": origin.actor_type, "id": origin.actor_id},
        "targets": [{"type": type_, "id": target_id} for type_, target_id in targets],
        "outcome": outcome,
        "context": {**origin.cause, "ip": origin.ip, "userAgent": origin.user_agent},
        "metadata": metadata,
    }
    filters = {
        "actorId": origin.actor_id,
        "targetIds": [target_id for _, target_id in targets],
        "action": action,
        "occurredAt": at,
    }
    context.state.put(AUDIT_EVENTS, event_id, {**filters, "event": event})
    drop_oldest(context.state, AUDIT_EVENTS, event_id)


def public_audit_event(record: Record) -> Record:
    """Return an audit event as the API shows it."""
    event: Record = record["event"]
    return event
