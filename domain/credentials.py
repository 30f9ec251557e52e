"""Credentials: the scopes of a new API key, sessions, and what a session may see."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any, Final

from invoice_sandbox.project.api import (
    KEYS,
    MAX_LISTED,
    USERS,
    ApiError,
    Call,
    Condition,
    Context,
    Credential,
    Record,
    Response,
    WorkThenRespond,
    allows,
    close_session,
    instant_text,
    is_disabled,
    missing_scope,
    open_session,
    open_sessions,
    reject,
    revoke_key,
)

from .audit import audit
from .errors import LOGIN_FAILED, OTHER_PARTNER
from .financing import REQUESTS
from .invoices import INVOICES, load_invoice, seller_of
from .offers import OFFERS
from .routing import default_partner, load_partner
from .users import (
    has_passwords,
    partner_id,
    scopes_of,
    user_of_address,
)

SESSION_LIFETIME: Final = timedelta(hours=8)

_COOKIE: Final = "ils_session"
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


def load_key(call: Call, key_id: str) -> Record:
    """The metadata of a key other than the caller's. Raises ApiError 404 and 409."""
    metadata = call.state.get(KEYS, key_id)
    if metadata is None:
        raise reject("unknown_resource", kind="API key", member="id", value=key_id)
    if metadata["id"] == call.origin.actor_id:
        raise reject(
            "conflict",
            problem="A key cannot revoke itself",
            advice="Use another key of the same workspace.",
        )
    return metadata


def revoke(context: Context, metadata: Record) -> Record:
    """The metadata of a key that is revoked from the next request on, and audited."""
    revoked = revoke_key(context.state, metadata, context.timestamp)
    audit(context, "api_key.revoked", ("api_key", revoked["id"]))
    return revoked


def log_in(call: Call) -> Response | ApiError | WorkThenRespond:
    """The session of the user whose address and password are in the body; 401, the same for every
    reason.

    An address that no user has, or a disabled one, takes as long as a wrong password. Raises
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


def _rejected_login(call: Call) -> ApiError:
    audit(call, "session.login", outcome="Failure")
    return reject(LOGIN_FAILED, ("WWW-Authenticate", 'Bearer realm="sandbox"'))


def _session_of(call: Call, user: Record) -> Response | ApiError:
    """A new session of the user, and its cookie, unless the user is disabled."""
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
    cookie = session_cookie(call, secret, int(SESSION_LIFETIME.total_seconds()))
    return Response(
        _public_session(call, user, instant_text(expires_at)), (("Set-Cookie", cookie),)
    )


def current_session(call: Call) -> Record:
    """The public view of the caller's session, or of the demo session that an API key has."""
    caller, user = call.caller, _user_of_session(call)
    if caller is not None and user is not None and caller.expires_at is not None:
        return _public_session(call, user, instant_text(caller.expires_at))
    where = (Condition("role", "=", _ROLE_OF_KEYS),)
    found = (call.state.page(USERS, limit=1, where=where)).records
    session = _public_session(call, found[0] if found else _NO_USER, None)
    return {**session, "scopes": sorted(caller.scopes) if caller else []}


def sessions(call: Call) -> list[Record]:
    """The open sessions, those that end last first, at most MAX_LISTED."""
    found = (open_sessions(call.state, call.now))[:MAX_LISTED]
    return [_shown_session(call, one) for one in found]


def end_session(call: Call, session_id: str) -> Record:
    """The session of that id, which has ended. Raises ApiError 404."""
    for one in open_sessions(call.state, call.now):
        if one.id == session_id:
            close_session(call.state, one)
            audit(call, "session.revoked", ("user", one.subject), sessionId=one.id)
            return _shown_session(call, one)
    raise reject("unknown_resource", kind="session", member="id", value=session_id)


def _shown_session(call: Call, session: Credential) -> Record:
    user = call.state.get(USERS, session.subject) or _NO_USER
    ends = session.expires_at or call.now
    return {
        "id": session.id,
        "user": {name: user.get(name) for name in ("id", "displayName", "email")},
        "role": user["role"],
        "createdAt": instant_text(ends - SESSION_LIFETIME),
        "expiresAt": instant_text(ends),
    }


def session_cookie(call: Call, secret: str, seconds: int) -> str:
    """The ``Set-Cookie`` header of a session; 0 seconds clear the cookie."""
    secure = "; Secure" if call.base_url.startswith("https://") else ""
    return f"{_COOKIE}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}"


def partner_of(call: Call) -> str | None:
    """The partner that the caller's session belongs to, or None for a caller that sees all.

    A user with the role of a partner who belongs to none has the id of no partner: "".
    """
    user = _user_of_session(call)
    return None if user is None else partner_id(user)


def visible_requests(call: Call) -> tuple[Condition, ...]:
    """The condition of the financing requests that the caller may see."""
    partner, seller = partner_of(call), seller_of(call)
    if partner is not None:
        return (Condition("routedPartnerIds", "has", partner),)
    if seller is None:
        return ()
    own = _own_invoices(call, seller)
    requests = (call.state.page(REQUESTS)).records
    ids = [one["id"] for one in requests if one["invoiceIds"] and own.issuperset(one["invoiceIds"])]
    return (Condition("id", "in", tuple(ids)),)


def visible_partners(call: Call) -> tuple[Condition, ...]:
    """The condition of the partners that the caller may see."""
    partner = partner_of(call)
    return () if partner is None else (Condition("id", "=", partner),)


def visible_offers(call: Call) -> tuple[Condition, ...]:
    """The condition of the offers that the caller may see."""
    partner, seller = partner_of(call), seller_of(call)
    if partner is not None:
        return (Condition("partnerId", "=", partner),)
    if seller is None:
        return ()
    return (Condition("invoiceId", "in", tuple(_own_invoices(call, seller))),)


def visible_invoices(call: Call) -> tuple[Condition, ...]:
    """The condition of the invoices that the caller may see: a seller's own; a partner's are those
    of its requests and offers."""
    seller = seller_of(call)
    if seller is not None:
        return (Condition("sellerId", "=", seller),)
    requests = _all(call, REQUESTS, visible_requests(call))
    offers = _all(call, OFFERS, visible_offers(call))
    if requests is None or offers is None:
        return ()
    ids = {str(one["invoiceId"]) for one in offers}.union(*(one["invoiceIds"] for one in requests))
    return (Condition("id", "in", tuple(sorted(ids))),)


def load_visible_invoice(call: Call, invoice_id: str) -> Record:
    """The invoice of that id. Raises ApiError 404 also for one that the caller may not see."""
    if partner_of(call) is not None and any(
        not isinstance(one.value, tuple) or invoice_id not in one.value
        for one in visible_invoices(call)
    ):
        raise reject("unknown_resource", kind="invoice", member="id", value=invoice_id)
    return load_invoice(call, invoice_id)


def partner_of_offer(call: Call) -> Record:
    """The partner of a new offer: that of the session, else the named one, else the first one.

    Raises ApiError 403 when the session belongs to another partner, 404 for an unknown partner or
    an invoice that the caller may not see.
    """
    own, body = partner_of(call), call.body
    if own is None:
        named = body.get("partnerId")
        return default_partner(call) if named is None else load_partner(call, named)
    if body.get("partnerId", own) != own or not own:
        raise reject(OTHER_PARTNER)
    if "invoiceId" in body:
        load_visible_invoice(call, body["invoiceId"])
    return load_partner(call, own)


def _all(call: Call, collection: str, where: tuple[Condition, ...]) -> tuple[Record, ...] | None:
    """All records of a condition, or None without one."""
    if not where:
        return None
    limit = call.state.count(collection, where)
    return tuple((call.state.page(collection, limit=limit, where=where)).records)


def _own_invoices(call: Call, seller: str) -> set[str]:
    where = (Condition("sellerId", "=", seller),)
    return {one["id"] for one in (call.state.page(INVOICES, where=where)).records}


def _user_of_session(call: Call) -> Record | None:
    """The user of the caller's session, or None for another caller."""
    caller = call.caller
    if caller is None or caller.type != "session":
        return None
    return call.state.get(USERS, caller.subject)


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
