"""Workspace sessions of demo users."""

from __future__ import annotations

from invoice_sandbox.project.api import ApiError, Call, Record, Response, close_session, reject

from ..domain.audit import audit
from ..domain.credentials import authenticated_user, current_session, session_cookie, start_session
from ..domain.errors import LOGIN_FAILED


async def login(call: Call) -> Response | ApiError:
    """Open a session for a demo user. Only the cookie has its id, which is new every time.

    Every failed login gives the same 401.
    """
    user = await authenticated_user(call)
    if user is None:
        await audit(call, "session.login", outcome="Failure")
        return reject(LOGIN_FAILED, ("WWW-Authenticate", 'Bearer realm="sandbox"'))
    session, cookie = await start_session(call, user)
    return Response(session, (("Set-Cookie", cookie),))


async def get_session(call: Call) -> Record:
    """The session of the cookie, or the demo session that an API key has."""
    return await current_session(call)


async def logout(call: Call) -> Response:
    """Close the session and clear its cookie. An API key has no session and stays valid."""
    if call.caller is not None and call.caller.type == "session":
        await close_session(call.state, call.caller)
        await audit(call, "session.logout", ("user", call.caller.subject))
    return Response({"authenticated": False}, (("Set-Cookie", session_cookie(call, "", 0)),))
