"""Workspace sessions of demo users."""

from __future__ import annotations

import hmac
from datetime import timedelta
from typing import Any, Final

from invoice_sandbox.project.api import (
    ApiError,
    Call,
    Condition,
    Record,
    Response,
    instant_text,
    open_session,
    reject,
)
from invoice_sandbox.project.api import close_session as close

from ..domain.audit import audit

_USERS: Final = "users"
_COOKIE: Final = "ils_session"
_LIFETIME: Final = timedelta(hours=8)
_ROLE_OF_KEYS: Final = "demo_seller"
_NOBODY: Final[Record] = {"role": _ROLE_OF_KEYS, "scopes": []}


async def login(call: Call) -> Response | ApiError:
    """Open a session for a demo user; its id is in the cookie only, and new every time.

    Every failed login is the same 401. The demo password is public, so it opens nothing on a
    server that others can reach.
    """
    user = await _user(call)
    if user is None:
        await audit(call, "session.login", outcome="Failure")
        return reject("login_failed", ("WWW-Authenticate", 'Bearer realm="sandbox"'))
    expires = call.now + _LIFETIME
    secret = await open_session(
        call.state,
        workspace_id=call.workspace.id,
        subject=user["id"],
        scopes=user["scopes"],
        expires_at=expires,
    )
    await audit(call, "session.login", ("user", user["id"]))
    cookie = _cookie(call, secret, int(_LIFETIME.total_seconds()))
    return Response(_session(call, user, instant_text(expires)), (("Set-Cookie", cookie),))


async def get_session(call: Call) -> Record:
    """The session of the cookie, or the demo role session that stands for an API key."""
    caller = call.caller
    if caller is not None and caller.type == "session":
        user = await call.state.get(_USERS, caller.subject)
        if user is not None and caller.expires_at is not None:
            return _session(call, user, instant_text(caller.expires_at))
    users = await call.state.page(_USERS, limit=1, where=(Condition("role", "=", _ROLE_OF_KEYS),))
    user = users.records[0] if users.records else _NOBODY
    return {**_session(call, user, None), "scopes": sorted(caller.scopes) if caller else []}


async def logout(call: Call) -> Response:
    """Clear the session and its cookie. An API key has no session; it stays as it is."""
    if call.caller is not None and call.caller.type == "session":
        await close(call.state, call.caller)
        await audit(call, "session.logout", ("user", call.caller.subject))
    return Response({"authenticated": False}, (("Set-Cookie", _cookie(call, "", 0)),))


async def _user(call: Call) -> Record | None:
    email, password = call.body.get("email"), call.body.get("password")
    if not call.local or not isinstance(email, str) or not isinstance(password, str):
        return None
    users = await call.state.page(_USERS, limit=1, where=(Condition("email", "=", email.lower()),))
    expected = users.records[0]["password"] if users.records else ""
    same = hmac.compare_digest(password.encode("utf-8", "replace"), expected.encode())
    return users.records[0] if users.records and same else None


def _session(call: Call, user: Record, expires_at: str | None) -> dict[str, Any]:
    return {
        "authenticated": True,
        "demo": True,
        "role": user["role"],
        "user": {name: user.get(name) for name in ("id", "displayName", "email")},
        "workspaceId": call.workspace.id,
        "scopes": user["scopes"],
        "expiresAt": expires_at,
    }


def _cookie(call: Call, secret: str, seconds: int) -> str:
    secure = "; Secure" if call.base_url.startswith("https://") else ""
    return f"{_COOKIE}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}"
