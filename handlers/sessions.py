"""Sessions of users who logged in."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record

from ..domain.credentials import end_session, sessions


async def list_sessions(call: Call) -> list[Record]:
    """The open sessions, those that end last first."""
    return await sessions(call)


async def revoke_session(call: Call) -> Record:
    """End a session from the next request on; 404."""
    return await end_session(call, call.path["id"])
