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
from .errors import OTHER_PARTNER
from .financing import REQUESTS
from .invoices import load_invoice
from .offers import OFFERS
from .routing import default_partner, load_partner

SESSION_LIFETIME: Final = timedelta(hours=8)

_COOKIE: Final = "ils_session"
_USERS: Final = "users"
_ROLE_OF_KEYS: Final = "demo_seller"
_PARTNER_ROLES: Final = frozenset({"partner", "demo_partner"})
_PARTNER_SCOPES: Final = frozenset(
    {"invoices:read", "financing:read", "offers:read", "offers:write", "partners:read"}
    | {"assignment:read"}
)
"""What a partner's session can be allowed: whatever shows nothing of other partners."""
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
        scopes=_scopes(user),
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


async def partner_of(call: Call) -> str | None:
    """The partner that the caller's session belongs to, or None for a caller that sees all.

    A user with the role of a partner who belongs to none has the id of no partner: "".
    """
    if call.caller is None or call.caller.type != "session":
        return None
    user = await call.state.get(_USERS, call.caller.subject) or _NO_USER
    return _partner_id(user)


async def visible_requests(call: Call) -> tuple[Condition, ...]:
    """The condition of the financing requests that the caller may see."""
    partner_id = await partner_of(call)
    return () if partner_id is None else (Condition("routedPartnerIds", "has", partner_id),)


async def visible_partners(call: Call) -> tuple[Condition, ...]:
    """The condition of the partners that the caller may see."""
    partner_id = await partner_of(call)
    return () if partner_id is None else (Condition("id", "=", partner_id),)


async def visible_offers(call: Call) -> tuple[Condition, ...]:
    """The condition of the offers that the caller may see."""
    partner_id = await partner_of(call)
    return () if partner_id is None else (Condition("partnerId", "=", partner_id),)


async def visible_invoices(call: Call) -> tuple[Condition, ...]:
    """The condition of the invoices that the caller may see: a partner's are those of its requests
    and offers."""
    requests = await _all(call, REQUESTS, await visible_requests(call))
    offers = await _all(call, OFFERS, await visible_offers(call))
    if requests is None or offers is None:
        return ()
    ids = {str(one["invoiceId"]) for one in offers}.union(*(one["invoiceIds"] for one in requests))
    return (Condition("id", "in", tuple(sorted(ids))),)


async def load_visible_invoice(call: Call, invoice_id: str) -> Record:
    """The invoice of that id. Raises ApiError 404 also for one that the caller may not see."""
    if any(invoice_id not in one.value for one in await visible_invoices(call)):
        raise reject("unknown_resource", kind="invoice", member="id")
    return await load_invoice(call, invoice_id)


async def partner_of_offer(call: Call) -> Record:
    """The partner of a new offer: that of the session, else the named one, else the first one.

    Raises ApiError 403 when the session belongs to another partner, 404 for an unknown partner or
    an invoice that the caller may not see.
    """
    own, body = await partner_of(call), call.body
    if own is None:
        named = body.get("partnerId")
        return await (default_partner(call) if named is None else load_partner(call, named))
    if body.get("partnerId", own) != own or not own:
        raise reject(OTHER_PARTNER)
    if "invoiceId" in body:
        await load_visible_invoice(call, body["invoiceId"])
    return await load_partner(call, own)


async def _all(
    call: Call, collection: str, where: tuple[Condition, ...]
) -> tuple[Record, ...] | None:
    """All records of a condition, or None without one."""
    if not where:
        return None
    limit = await call.state.count(collection, where)
    return tuple((await call.state.page(collection, limit=limit, where=where)).records)


def _partner_id(user: Record) -> str | None:
    return user.get("partnerId", "" if user["role"] in _PARTNER_ROLES else None)


def _scopes(user: Record) -> list[str]:
    """The scopes of a session of the user."""
    if _partner_id(user) is None:
        return list(user["scopes"])
    return [scope for scope in user["scopes"] if scope in _PARTNER_SCOPES]


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
        **({"partnerId": user["partnerId"]} if "partnerId" in user else {}),
        "workspaceId": call.workspace.id,
        "scopes": _scopes(user),
        "expiresAt": expires_at,
    }
