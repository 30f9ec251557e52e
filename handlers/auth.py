"""Workspace sessions of users."""

from __future__ import annotations

from invoice_sandbox.project.api import (
    ApiError,
    Call,
    Record,
    Response,
    WorkThenRespond,
    close_session,
)

from ..domain.audit import audit
from ..domain.credentials import current_session, log_in, session_cookie


def login(call: Call) -> Response | ApiError | WorkThenRespond:
    """Open a session for a user. Only the cookie has its secret, which is new every time.

    Every failed login gives the same 401.
    """
    return log_in(call)


def get_session(call: Call) -> Record:
    """The session of the cookie, or the demo session that an API key has."""
    return current_session(call)


def logout(call: Call) -> Response:
    """Close the session and clear its cookie. An API key has no session and stays valid."""
    if call.caller is not None and call.caller.type == "session":
        close_session(call.state, call.caller)
        audit(call, "session.logout", ("user", call.caller.subject))
    return Response({"authenticated": False}, (("Set-Cookie", session_cookie(call, "", 0)),))
