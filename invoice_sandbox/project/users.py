"""The demo users of a project, who may log in to workspaces in memory."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from invoice_sandbox.project.loader import Project
from invoice_sandbox.state import USERS
from invoice_sandbox.state.passwords import hash_password


def with_users(
    project: Project, *, local: bool, is_persistent: bool
) -> tuple[Project, dict[str, str]]:
    """Return the project with its users, and the random passwords, by e-mail address.

    The password of demo users is public, so on a server that is not ``local`` they get random ones.
    A persistent store has only the users that were added.
    """
    users = project.fixtures.get(USERS, [])
    if is_persistent:
        return _with(project, []) if users else project, {}
    if local or not users:
        return project, {}
    passwords = {str(user["email"]): secrets.token_urlsafe(16) for user in users}
    return _with(project, [_hashed(user, passwords[user["email"]]) for user in users]), passwords


def _with(project: Project, users: list[Mapping[str, Any]]) -> Project:
    return replace(project, fixtures={**project.fixtures, USERS: users})


def _hashed(user: Mapping[str, Any], password: str) -> Mapping[str, Any]:
    others = {name: value for name, value in user.items() if name != "password"}
    return {**others, "passwordHash": hash_password(password)}
