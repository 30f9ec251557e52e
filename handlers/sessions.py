"""Sessions of users who logged in."""

from __future__ import annotations

from invoice_sandbox.project.api import (
    MAX_LISTED,
    USERS,
    Call,
    Credential,
    Record,
    close_session,
    instant_text,
    open_sessions,
    reject,
)

from ..domain.audit import audit
from ..domain.credentials import NO_USER, SESSION_LIFETIME


def list_sessions(call: Call) -> list[Record]:
    """Return the open sessions, those that end last first, at most MAX_LISTED."""
    sessions = open_sessions(call.state, call.now)[:MAX_LISTED]
    return [_shown(call, session) for session in sessions]


def revoke_session(call: Call) -> Record:
    """End a session from the next request on. Raises ApiError 404."""
    session_id = call.path["id"]
    for session in open_sessions(call.state, call.now):
        if session.id == session_id:
            close_session(call.state, session)
            audit(call, "session.revoked", ("user", session.subject), sessionId=session.id)
            return _shown(call, session)
    raise reject("unknown_resource", kind="session", member="id", value=session_id)


def _shown(call: Call, session: Credential) -> Record:
    user = call.state.get(USERS, session.subject) or NO_USER
    ends = session.expires_at or call.now
    return {
        "id": session.id,
        "user": {name: user.get(name) for name in ("id", "displayName", "email")},
        "role": user["role"],
        "createdAt": instant_text(ends - SESSION_LIFETIME),
        "expiresAt": instant_text(ends),
    }
