"""Users of the workspace."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record, WorkThenRespond

from ..domain import users


def list_users(call: Call) -> list[Record]:
    """All users, newest first, without their passwords."""
    return users.users(call)


def add_user(call: Call) -> WorkThenRespond:
    """Add a user, or enable a disabled one again. 404 for an unknown partner; 409 for an address
    that another user has."""
    return users.add_user(call)


def disable_user(call: Call) -> Record:
    """End all access of a user from the next request on; 404."""
    return users.disable_user(call, call.path["user"])
