"""Credentials: the scopes of a new API key, sessions, and the records that a session may see."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from invoice_sandbox.project.api import (
    KEYS,
    USERS,
    ApiError,
    Call,
    Condition,
    Context,
    Credential,
    Record,
    Response,
    allows,
    conflict,
    existing,
    instant_text,
    is_disabled,
    missing_scope,
    open_session,
    reject,
    revoke_key,
)

from .audit import audit
from .errors import LOGIN_FAILED, OTHER_PARTNER
from .financing import REQUESTS
from .invoices import INVOICES, load_invoice, seller_of
from .offers import OFFERS
from .routing import default_partner, load_partner
from .users import partner_id, scopes_of

SESSION_LIFETIME: Final = timedelta(hours=8)

_COOKIE: Final = "ils_session"

ROLE_OF_KEYS: Final = "demo_seller"
"""The role of the demo session that an API key has."""

NO_USER: Final[Record] = {"role": ROLE_OF_KEYS, "scopes": []}
"""Stands for a user that does not exist."""

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
    """Return the scopes of a new key, each of which the caller has. Raises ApiError 403."""
    held = call.caller.scopes if call.caller else frozenset[str]()
    scopes = call.body.get("scopes")
    if scopes is None:
        return [scope for scope in _DEFAULT_SCOPES if allows(held, scope)]
    lacking = missing_scope(held, scopes)
    if lacking is not None:
        raise reject("scope_not_grantable", scope=lacking)
    return list(dict.fromkeys(scopes))


def load_key(call: Call, key_id: str) -> Record:
    """Return the metadata of a key other than the caller's. Raises ApiError 404 and 409."""
    metadata = existing(call.state.get(KEYS, key_id), "API key", key_id)
    if metadata["id"] == call.origin.actor_id:
        raise conflict("A key cannot revoke itself", "Use another key of the same workspace.")
    return metadata


def revoke(context: Context, metadata: Record) -> Record:
    """Revoke a key from the next request on, audit that, and return the metadata of the key."""
    revoked = revoke_key(context.state, metadata, context.timestamp)
    audit(context, "api_key.revoked", ("api_key", revoked["id"]))
    return revoked


def partner_of(call: Call) -> str | None:
    """Return the partner that the caller's session belongs to; None: the caller sees all.

    A user with the role of a partner who belongs to none has the id of no partner: "".
    """
    user = user_of_session(call)
    return None if user is None else partner_id(user)


def visible_requests(call: Call) -> tuple[Condition, ...]:
    """Return the condition of the financing requests that the caller may see."""
    partner, seller = partner_of(call), seller_of(call)
    if partner is not None:
        return (Condition("routedPartnerIds", "has", partner),)
    if seller is None:
        return ()
    invoices = _invoices_of(call, seller)
    ids = [
        request["id"]
        for request in call.state.page(REQUESTS).records
        if request["invoiceIds"] and invoices.issuperset(request["invoiceIds"])
    ]
    return (Condition("id", "in", tuple(ids)),)


def visible_partners(call: Call) -> tuple[Condition, ...]:
    """Return the condition of the partners that the caller may see."""
    partner = partner_of(call)
    return () if partner is None else (Condition("id", "=", partner),)


def visible_offers(call: Call) -> tuple[Condition, ...]:
    """Return the condition of the offers that the caller may see."""
    partner, seller = partner_of(call), seller_of(call)
    if partner is not None:
        return (Condition("partnerId", "=", partner),)
    if seller is None:
        return ()
    return (Condition("invoiceId", "in", tuple(_invoices_of(call, seller))),)


def visible_invoices(call: Call) -> tuple[Condition, ...]:
    """Return the condition of the invoices that the caller may see: a seller's own; a partner's are
    those of its requests and offers."""
    seller = seller_of(call)
    if seller is not None:
        return (Condition("sellerId", "=", seller),)
    if partner_of(call) is None:
        return ()
    ids = {str(offer["invoiceId"]) for offer in _records(call, OFFERS, visible_offers(call))}
    for request in _records(call, REQUESTS, visible_requests(call)):
        ids.update(request["invoiceIds"])
    return (Condition("id", "in", tuple(sorted(ids))),)


def load_visible_invoice(call: Call, invoice_id: str) -> Record:
    """Return the invoice of that id. Raises ApiError 404 also for one that is not visible."""
    if partner_of(call) is not None and any(
        not isinstance(condition.value, tuple) or invoice_id not in condition.value
        for condition in visible_invoices(call)
    ):
        raise reject("unknown_resource", kind="invoice", member="id", value=invoice_id)
    return load_invoice(call, invoice_id)


def partner_of_offer(call: Call) -> Record:
    """Return the partner of a new offer: that of the session, else the named one, else the first
    one.

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


def _records(call: Call, collection: str, where: tuple[Condition, ...]) -> Sequence[Record]:
    return call.state.page(collection, where=where).records


def _invoices_of(call: Call, seller: str) -> set[str]:
    invoices = _records(call, INVOICES, (Condition("sellerId", "=", seller),))
    return {invoice["id"] for invoice in invoices}


def user_of_session(call: Call) -> Record | None:
    """Return the user of the caller's session, or None for another caller."""
    caller = call.caller
    if caller is None or caller.type != "session":
        return None
    return call.state.get(USERS, caller.subject)


# Sessions


def rejected_login(call: Call) -> ApiError:
    """Audit a failed login, and return its error."""
    audit(call, "session.login", outcome="Failure")
    return reject(LOGIN_FAILED, ("WWW-Authenticate", 'Bearer realm="sandbox"'))


def start_session(call: Call, user: Record) -> Response | ApiError:
    """Open a session of the user, unless the user is disabled."""
    if is_disabled(user):
        return rejected_login(call)
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
    return Response(public_session(call, user, instant_text(expires_at)), (("Set-Cookie", cookie),))


def session_cookie(call: Call, secret: str, seconds: int) -> str:
    """Return the ``Set-Cookie`` header of a session; 0 seconds clear the cookie."""
    secure = "; Secure" if call.base_url.startswith("https://") else ""
    return f"{_COOKIE}={secret}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}"


def public_session(call: Call, user: Record, expires_at: str | None) -> dict[str, Any]:
    """Return the session of a user as the API shows it to that user; None: it has no end."""
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


def shown_session(call: Call, session: Credential) -> Record:
    """Return a session as the control API shows it."""
    user = call.state.get(USERS, session.subject) or NO_USER
    ends = session.expires_at or call.now
    return {
        "id": session.id,
        "user": {name: user.get(name) for name in ("id", "displayName", "email")},
        "role": user["role"],
        "createdAt": instant_text(ends - SESSION_LIFETIME),
        "expiresAt": instant_text(ends),
    }
