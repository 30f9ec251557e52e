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
    existing,
    is_disabled,
)

from ..domain.audit import audit
from ..domain.users import check_new_user, public_user, store_user, user_of_address


def list_users(call: Call) -> list[Record]:
    """Return all users, newest first, without their passwords."""
    return [public_user(user) for user in call.state.page(USERS).records]


def add_user(call: Call) -> WorkThenRespond:
    """Add a user, or enable one again who is disabled, with a new password.

    Raises ApiError 404 for an unknown partner, 409 for an address that another user has.
    """
    check_new_user(call)
    call.passwords.count(call.workspace.id)
    return WorkThenRespond(partial(call.passwords.hashed, call.body["password"]), store_user)


def disable_user(call: Call) -> Record:
    """End all access of the user of an id or address from the next request on.

    Sessions end, and keys that were made in them are revoked. Raises ApiError 404.
    """
    name = call.path["user"]
    user = call.state.get(USERS, name) or user_of_address(call, name)
    user = existing(user, "user", name, "id or e-mail address")
    if not is_disabled(user):
        user = {**user, "status": DISABLED_USER, "disabledAt": call.timestamp}
        call.state.put(USERS, user["id"], user)
        audit(call, "user.disabled", ("user", user["id"]))
    end_access(call.state, user["id"], call.timestamp)
    return public_user(user)
