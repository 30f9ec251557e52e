"""Workspace sessions of users."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

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
    is_disabled,
    open_session,
    reject,
)

from ..domain.audit import audit
from ..domain.credentials import NO_USER, ROLE_OF_KEYS, SESSION_LIFETIME, user_of_session
from ..domain.errors import LOGIN_FAILED
from ..domain.users import has_passwords, scopes_of, user_of_address

_COOKIE: Final = "ils_session"


def login(call: Call) -> Response | ApiError | WorkThenRespond:
    """Open a session for the user whose address and password are in the body.

    Only the cookie has its secret, which is new every time. Every failed login gives the same 401:
    an address that no user has, or a disabled one, takes as long as a wrong password. Raises
    ApiError 429 for too many attempts.
    """
    email, password = call.body.get("email"), call.body.get("password")
    if not isinstance(email, str) or not isinstance(password, str):
        return _rejected_login(call)
    user = user_of_address(call, email)
    if user is not None and "password" in user:
        same = call.local and call.passwords.matches_public(password, user["password"])
        return _session_of(call, user) if same else _rejected_login(call)
    if user is None and not has_passwords(call):
        return _rejected_login(call)
    succeeded = call.passwords.attempt(call.workspace.id, call.origin.ip, email.lower())
    hashed = user["passwordHash"] if user else None

    def respond(later: Call, same: bool) -> Response | ApiError:
        now = user_of_address(later, email)
        if not same or now is None or now.get("passwordHash") != hashed:
            return _rejected_login(later)
        succeeded()
        return _session_of(later, now)

    return WorkThenRespond(partial(call.passwords.matches, password, hashed), respond)


def get_session(call: Call) -> Record:
    """Return the session of the cookie, or the demo session that an API key has."""
    caller, user = call.caller, user_of_session(call)
    if caller is not None and user is not None and caller.expires_at is not None:
        return _public_session(call, user, instant_text(caller.expires_at))
    where = (Condition("role", "=", ROLE_OF_KEYS),)
    user = next(iter(call.state.page(USERS, limit=1, where=where).records), NO_USER)
    session = _public_session(call, user, None)
    return {**session, "scopes": sorted(caller.scopes) if caller else []}


def logout(call: Call) -> Response:
    """Close the session and clear its cookie. An API key has no session and stays valid."""
    if call.caller is not None and call.caller.type == "session":
        close_session(call.state, call.caller)
        audit(call, "session.logout", ("user", call.caller.subject))
    return Response({"authenticated": False}, (("Set-Cookie", _cookie(call, "", 0)),))


def _rejected_login(call: Call) -> ApiError:
    audit(call, "session.login", outcome="Failure")
    return reject(LOGIN_FAILED, ("WWW-Authenticate", 'Bearer realm="sandbox"'))


def _session_of(call: Call, user: Record) -> Response | ApiError:
    """Open a session of the user, unless the user is disabled."""
    if is_disabled(user):
        return _rejected_login(call)
    expires_at = call.now + SESSION_LIFETIME
    secret = open_session(
        call.state,
        workspace_id=call.workspace.id,
        subject=user["id"],
        scopes=scopes_of(user),
        expires_at=expires_at,
    )
    audit(call, "session.login", ("user", user["id"]))
    cookie = _cookie(call, secret, int(SESSION_LIFETIME.total_seconds()))
    return Response(
        _public_session(call, user, instant_text(expires_at)), (("Set-Cookie", cookie),)
    )


def _cookie(call: Call, secret: str, seconds: int) -> str:
    """Return the ``Set-Cookie`` header of a session; 0 seconds clear the cookie."""
    secure = "; Secure" if call.base_url.startswith("https://") else ""
    return f"{_COOKIE}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}"


def _public_session(call: Call, user: Record, expires_at: str | None) -> dict[str, Any]:
    return {
        "authenticated": True,
        "demo": str(user["role"]).startswith("demo_"),
        "role": user["role"],
        "user": {name: user.get(name) for name in ("id", "displayName", "email")},
        **{name: user[name] for name in ("partnerId", "sellerId") if name in user},
        "workspaceId": call.workspace.id,
        "scopes": scopes_of(user),
        "expiresAt": expires_at,
    }
