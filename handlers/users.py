"""Users of the workspace."""

from __future__ import annotations

from functools import partial

from invoice_sandbox.project.api import (
    DISABLED_USER,
    USERS,
    Call,
    Record,
    WorkThenRespond,
    end_access,
    is_disabled,
    reject,
)

from ..domain.audit import audit
from ..domain.routing import load_partner
from ..domain.users import MAX_USERS, ROLES, public_user, user_of_address


def list_users(call: Call) -> list[Record]:
    """Return all users, newest first, without their passwords."""
    return [public_user(user) for user in call.state.page(USERS).records]


def add_user(call: Call) -> WorkThenRespond:
    """Add a user, or enable one again who is disabled, with a new password.

    Raises ApiError 404 for an unknown partner, 409 for an address that another user has.
    """
    _check_new(call)
    call.passwords.count(call.workspace.id)
    return WorkThenRespond(partial(call.passwords.hashed, call.body["password"]), _store)


def _store(call: Call, hashed: str) -> Record:
    earlier = _check_new(call)
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


def _check_new(call: Call) -> Record | None:
    """Return the disabled user whose place the new one takes, if any. Raises ApiError 404, 409."""
    if "partnerId" in call.body:
        load_partner(call, call.body["partnerId"])
    earlier = user_of_address(call, call.body["email"])
    if earlier is not None and not is_disabled(earlier):
        raise reject(
            "conflict",
            problem="A user with this e-mail address exists already",
            advice="Disable that user first; then add the user with a new password.",
        )
    if earlier is None and call.state.count(USERS) >= MAX_USERS:
        raise reject(
            "conflict",
            problem=f"The workspace has {MAX_USERS:,} users, which is its limit",
            advice="Use another workspace.",
        )
    return earlier


def _new_id(call: Call) -> str:
    """Return an id that no user has: the counter goes back when a snapshot is restored."""
    while True:
        user_id = call.new_id("usr_sandbox")
        if call.state.get(USERS, user_id) is None:
            return user_id


def disable_user(call: Call) -> Record:
    """End all access of the user of an id or address from the next request on.

    Sessions end, and keys that were made in them are revoked. Raises ApiError 404.
    """
    name = call.path["user"]
    user = call.state.get(USERS, name) or user_of_address(call, name)
    if user is None:
        raise reject("unknown_resource", kind="user", member="id or e-mail address", value=name)
    if not is_disabled(user):
        user = {**user, "status": DISABLED_USER, "disabledAt": call.timestamp}
        call.state.put(USERS, user["id"], user)
        audit(call, "user.disabled", ("user", user["id"]))
    end_access(call.state, user["id"], call.timestamp)
    return public_user(user)
