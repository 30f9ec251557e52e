"""The users who may log in: the demo users of a project, or those of a file of one's own."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.openapi.load.documents import load_document, place_of
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.schema.file_schema import check_form
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.loader import Project
from invoice_sandbox.settings import SettingError
from invoice_sandbox.state import USERS
from invoice_sandbox.state.passwords import hash_password, is_password_hash

_SCHEMA: Final = Path(__file__).with_name("users.schema.json")


def with_users(
    project: Project,
    file: Path | None,
    *,
    local: bool,
    is_persistent: bool,
) -> tuple[Project, dict[str, str]]:
    """The project with its users, and the random passwords that were made, by e-mail address.

    Users of a ``file`` replace the demo users. The password of demo users is public, so on a server
    that is not ``local`` they get random ones. In a persistent store there are no users but those
    that were added. Raises ProjectError, and SettingError for a file beside such a store.
    """
    if is_persistent:
        if file is not None:
            raise SettingError(
                "--users: users of a file are for --store memory; "
                "a database keeps those of 'invoice-sandbox users add'"
            )
        return _with(project, []) if USERS in project.fixtures else project, {}
    if file is not None:
        if USERS not in project.fixtures:
            raise ProjectError("--users: this project has no users; its fixtures need users.yaml")
        own = _read(file)
        _check_references(project, own, file)
        return _with(project, own), {}
    users = project.fixtures.get(USERS, [])
    if local or not users:
        return project, {}
    passwords = {str(user["email"]): secrets.token_urlsafe(16) for user in users}
    return _with(project, [_hashed(user, passwords[user["email"]]) for user in users]), passwords


def _with(project: Project, users: list[Mapping[str, Any]]) -> Project:
    return replace(project, fixtures={**project.fixtures, USERS: users})


def _hashed(user: Mapping[str, Any], password: str) -> Mapping[str, Any]:
    others = {name: value for name, value in user.items() if name != "password"}
    return {**others, "passwordHash": hash_password(password)}


def _check_references(project: Project, users: list[Mapping[str, Any]], file: Path) -> None:
    """Raise ProjectError for a member such as ``hotelId`` that names no record of the fixtures."""
    known = {str(one["id"]) for records in project.fixtures.values() for one in records}
    for index, user in enumerate(users):
        for member in (name for name in user if name.endswith("Id") and user[name] not in known):
            place = place_of(file, ("records", index, member))
            advice = suggestion(user[member], sorted(known), "see the fixtures of the project")
            raise ProjectError(f"--users: {place}: there is no '{user[member]}' ({advice})")


def _read(file: Path) -> list[Mapping[str, Any]]:
    try:
        document = load_document(file)
        check_form(document, file, _SCHEMA)
    except DocumentError as error:
        raise ProjectError(f"--users: {error}") from None
    users: list[Mapping[str, Any]] = document["records"]
    for index, user in enumerate(users):
        if not is_password_hash(user["passwordHash"]):
            place = place_of(file, ("records", index, "passwordHash"))
            raise ProjectError(
                f"--users: {place}: not a password hash; make one with 'invoice-sandbox users hash'"
            )
    for member in ("id", "email"):
        if len({user[member] for user in users}) < len(users):
            raise ProjectError(f"--users: {file}: two users have the same {member}")
    return users
