"""Credentials: the scopes of a new API key, and the sessions of demo users."""

from __future__ import annotations

import asyncio
import hmac
from datetime import timedelta
from typing import Any, Final

from invoice_sandbox.project.api import (
    KEYS,
    Call,
    Condition,
    Context,
    Record,
    allows,
    instant_text,
    missing_scope,
    open_session,
    password_matches,
    reject,
    revoke_key,
)

from .audit import audit

SESSION_LIFETIME: Final = timedelta(hours=8)

_COOKIE: Final = "ils_session"
_USERS: Final = "users"
_ROLE_OF_KEYS: Final = "demo_seller"
_NO_USER: Final[Record] = {"role": _ROLE_OF_KEYS, "scopes": []}
_DEFAULT_SCOPES: Final = (
    "invoices:write",
    "registry:fingerprint",
    "verification:run",
    "financing:write",
    "offers:write",
    "partners:read",
    "partners:route",
    "audit:read",
    "webhooks:write",
    "webhooks:test",
    "connectors:write",
    "assignment:read",
    "keys:read",
)
"""The scopes of a key that names none: all but managing keys and the control API."""


def granted_scopes(call: Call) -> list[str]:
    """The scopes of a new key, each of which the caller has. Raises ApiError 403."""
    held = call.caller.scopes if call.caller else frozenset[str]()
    scopes = call.body.get("scopes")
    if scopes is None:
        return [scope for scope in _DEFAULT_SCOPES if allows(held, scope)]
    lacking = missing_scope(held, scopes)
    if lacking is not None:
        raise reject("scope_not_grantable", scope=lacking)
    return list(dict.fromkeys(scopes))


async def load_key(call: Call, key_id: str) -> Record:
    """The metadata of a key other than the caller's. Raises ApiError 404 and 409."""
    metadata = await call.state.get(KEYS, key_id)
    if metadata is None:
        raise reject("unknown_resource", kind="API key", member="id")
    if call.caller is not None and metadata["id"] == call.caller.subject:
        raise reject(
            "conflict",
            problem="A key cannot revoke itself",
            advice="Use another key of the same workspace.",
        )
    return metadata


async def revoke(context: Context, metadata: Record) -> Record:
    """The metadata of a key that is revoked from the next request on, and audited."""
    revoked = await revoke_key(context.state, metadata, context.timestamp)
    await audit(context, "api_key.revoked", ("api_key", revoked["id"]))
    return revoked


async def authenticated_user(call: Call) -> Record | None:
    """The user of the email address and password in the body, or None.

    An unknown address takes as long as a wrong password, by the hash of another user.
    """
    email, password = call.body.get("email"), call.body.get("password")
    if not isinstance(email, str) or not isinstance(password, str):
        return None
    user = await _first_user(call, "email", email.lower())
    other = user or await _first_user(call)
    if other is not None and "passwordHash" in other:
        same = await asyncio.to_thread(password_matches, password, other["passwordHash"])
    else:
        expected = str(other["password"]) if other else ""
        same = call.local and hmac.compare_digest(
            password.encode("utf-8", "replace"), expected.encode()
        )  # the password of demo users is public
    return user if same else None


async def start_session(call: Call, user: Record) -> tuple[Record, str]:
    """The public view of a new session, and its cookie."""
    expires_at = call.now + SESSION_LIFETIME
    secret = await open_session(
        call.state,
        workspace_id=call.workspace.id,
        subject=user["id"],
        scopes=user["scopes"],
        expires_at=expires_at,
    )
    await audit(call, "session.login", ("user", user["id"]))
    cookie = session_cookie(call, secret, int(SESSION_LIFETIME.total_seconds()))
    return _public_session(call, user, instant_text(expires_at)), cookie


async def current_session(call: Call) -> Record:
    """The public view of the caller's session, or of the demo session that an API key has."""
    caller = call.caller
    if caller is not None and caller.type == "session":
        user = await call.state.get(_USERS, caller.subject)
        if user is not None and caller.expires_at is not None:
            return _public_session(call, user, instant_text(caller.expires_at))
    user = await _first_user(call, "role", _ROLE_OF_KEYS) or _NO_USER
    return {**_public_session(call, user, None), "scopes": sorted(caller.scopes) if caller else []}


def session_cookie(call: Call, secret: str, seconds: int) -> str:
    """The ``Set-Cookie`` header of a session; 0 seconds clear the cookie."""
    secure = "; Secure" if call.base_url.startswith("https://") else ""
    return f"{_COOKIE}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}"


async def _first_user(call: Call, member: str = "", value: str = "") -> Record | None:
    where = (Condition(member, "=", value),) if member else ()
    users = await call.state.page(_USERS, limit=1, where=where)
    return users.records[0] if users.records else None


def _public_session(call: Call, user: Record, expires_at: str | None) -> dict[str, Any]:
    return {
        "authenticated": True,
        "demo": True,
        "role": user["role"],
        "user": {name: user.get(name) for name in ("id", "displayName", "email")},
        "workspaceId": call.workspace.id,
        "scopes": user["scopes"],
        "expiresAt": expires_at,
    }
