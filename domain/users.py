"""The users of a workspace: who may log in, with which role, and what they are bound to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from invoice_sandbox.project.api import (
    USERS,
    Call,
    Condition,
    Context,
    Record,
    conflict,
    is_disabled,
)

from .audit import audit
from .routing import load_partner

MAX_USERS: Final = 1000
"""Users of a workspace, disabled ones included."""

ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "seller": (
        *("invoices:write", "registry:fingerprint", "verification:run", "financing:write"),
        *("offers:read", "partners:read", "webhooks:write", "sandbox:read"),
    ),
    "partner": ("invoices:read", "financing:read", "offers:write", "partners:read"),
    "auditor": ("invoices:read", "financing:read", "offers:read", "audit:read", "sandbox:read"),
}
"""The scopes of the roles that a new user may have: those of the demo users."""

_PARTNER_ROLES: Final = frozenset({"partner", "demo_partner"})
_PARTNER_SCOPES: Final = frozenset(
    {"invoices:read", "financing:read", "offers:read", "offers:write", "partners:read"}
    | {"assignment:read"}
)
_SELLER_SCOPES: Final = frozenset(
    {"invoices:read", "invoices:write", "verification:run", "financing:read", "financing:write"}
    | {"offers:read", "partners:read", "assignment:read"}
)
"""The scopes that the session of a partner, or of a bound seller, can have: they show nothing of
other partners or sellers."""

_SECRET: Final = ("password", "passwordHash")


def public_user(user: Record) -> Record:
    """Return a user without password and hash."""
    shown = {name: value for name, value in user.items() if name not in _SECRET}
    return {**shown, "status": user.get("status", "Active"), "scopes": scopes_of(user)}


def scopes_of(user: Record) -> list[str]:
    """Return the scopes of a session of the user."""
    if partner_id(user) is not None:
        return [scope for scope in user["scopes"] if scope in _PARTNER_SCOPES]
    if "sellerId" in user:
        return [scope for scope in user["scopes"] if scope in _SELLER_SCOPES]
    return list(user["scopes"])


def partner_id(user: Record) -> str | None:
    """Return the partner that the user works for; "" for a partner's user without one, who sees
    nothing; None for a user who works for none."""
    return user.get("partnerId", "" if user["role"] in _PARTNER_ROLES else None)


def user_of_address(context: Context, email: str) -> Record | None:
    """Return the user with that e-mail address, however it is written, or None."""
    where = (Condition("email", "=", email.lower()),)
    return next(iter(context.state.page(USERS, limit=1, where=where).records), None)


def has_passwords(call: Call) -> bool:
    """True if a user has a password that is not public."""
    return any("passwordHash" in user for user in call.state.page(USERS).records)


def store_user(call: Call, hashed: str) -> Record:
    """Store the user of the body with the hash of its password. Raises ApiError 404 and 409."""
    earlier = check_new_user(call)
    body, email = call.body, str(call.body["email"]).lower()
    user: Record = {
        "id": earlier["id"] if earlier else _new_id(call),
        "email": email,
        "passwordHash": hashed,
        "role": body["role"],
        "displayName": body.get("displayName", email),
        **{name: body[name] for name in ("partnerId", "sellerId") if name in body},
        "scopes": list(ROLES[body["role"]]),
        "status": "Active",
        "createdAt": call.timestamp,
    }
    call.state.put(USERS, user["id"], user)
    audit(call, "user.added", ("user", user["id"]), role=user["role"])
    return public_user(user)


def check_new_user(call: Call) -> Record | None:
    """Return the disabled user whose place the new one takes, if any. Raises ApiError 404, 409."""
    if "partnerId" in call.body:
        load_partner(call, call.body["partnerId"])
    earlier = user_of_address(call, call.body["email"])
    if earlier is not None and not is_disabled(earlier):
        raise conflict(
            "A user with this e-mail address exists already",
            "Disable that user first; then add the user with a new password.",
        )
    if earlier is None and call.state.count(USERS) >= MAX_USERS:
        raise conflict(
            f"The workspace has {MAX_USERS:,} users, which is its limit", "Use another workspace."
        )
    return earlier


def _new_id(call: Call) -> str:
    """Return an id that no user has: the counter goes back when a snapshot is restored."""
    while True:
        user_id = call.new_id("usr_sandbox")
        if call.state.get(USERS, user_id) is None:
            return user_id
