"""Sessions of users who logged in."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record

from ..domain.credentials import end_session, sessions


def list_sessions(call: Call) -> list[Record]:
    """The open sessions, those that end last first."""
    return sessions(call)


def revoke_session(call: Call) -> Record:
    """End a session from the next request on; 404."""
    return end_session(call, call.path["id"])
