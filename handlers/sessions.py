"""Sessions of users who logged in."""

from __future__ import annotations

from invoice_sandbox.project.api import (
    MAX_LISTED,
    Call,
    Record,
    close_session,
    open_sessions,
    reject,
)

from ..domain.audit import audit
from ..domain.credentials import shown_session


def list_sessions(call: Call) -> list[Record]:
    """Return the open sessions, those that end last first, at most MAX_LISTED."""
    sessions = open_sessions(call.state, call.now)[:MAX_LISTED]
    return [shown_session(call, session) for session in sessions]


def revoke_session(call: Call) -> Record:
    """End a session from the next request on. Raises ApiError 404."""
    session_id = call.path["id"]
    for session in open_sessions(call.state, call.now):
        if session.id == session_id:
            close_session(call.state, session)
            audit(call, "session.revoked", ("user", session.subject), sessionId=session.id)
            return shown_session(call, session)
    raise reject("unknown_resource", kind="session", member="id", value=session_id)
