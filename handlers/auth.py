"""Workspace sessions of users."""

from __future__ import annotations

from functools import partial

from invoice_sandbox.project.api import (
    USERS,
    ApiError,
    Call,
    Condition,
    Record,
    Response,
    WorkThenRespond,
    close_session,
    instant_text,
)

from ..domain.audit import audit
from ..domain.credentials import (
    NO_USER,
    ROLE_OF_KEYS,
    public_session,
    rejected_login,
    session_cookie,
    start_session,
    user_of_session,
)
from ..domain.users import has_passwords, user_of_address


def login(call: Call) -> Response | ApiError | WorkThenRespond:
    """Open a session for the user whose address and password are in the body.

    Only the cookie has its secret, which is new every time. Every failed login gives the same 401:
    an address that no user has, or a disabled one, takes as long as a wrong password. Raises
    ApiError 429 for too many attempts.
    """
    email, password = call.body.get("email"), call.body.get("password")
    if not isinstance(email, str) or not isinstance(password, str):
        return rejected_login(call)
    user = user_of_address(call, email)
    if user is not None and "password" in user:
        same = call.local and call.passwords.matches_public(password, user["password"])
        return start_session(call, user) if same else rejected_login(call)
    if user is None and not has_passwords(call):
        return rejected_login(call)
    succeeded = call.passwords.attempt(call.workspace.id, call.origin.ip, email.lower())
    hashed = user["passwordHash"] if user else None

    def respond(later: Call, same: bool) -> Response | ApiError:
        now = user_of_address(later, email)
        if not same or now is None or now.get("passwordHash") != hashed:
            return rejected_login(later)
        succeeded()
        return start_session(later, now)

    return WorkThenRespond(partial(call.passwords.matches, password, hashed), respond)


def get_session(call: Call) -> Record:
    """Return the session of the cookie, or the demo session that an API key has."""
    caller, user = call.caller, user_of_session(call)
    if caller is not None and user is not None and caller.expires_at is not None:
        return public_session(call, user, instant_text(caller.expires_at))
    where = (Condition("role", "=", ROLE_OF_KEYS),)
    user = next(iter(call.state.page(USERS, limit=1, where=where).records), NO_USER)
    session = public_session(call, user, None)
    return {**session, "scopes": sorted(caller.scopes) if caller else []}


def logout(call: Call) -> Response:
    """Close the session and clear its cookie. An API key has no session and stays valid."""
    if call.caller is not None and call.caller.type == "session":
        close_session(call.state, call.caller)
        audit(call, "session.logout", ("user", call.caller.subject))
    return Response({"authenticated": False}, (("Set-Cookie", session_cookie(call, "", 0)),))
