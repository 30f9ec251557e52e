"""``invoice-sandbox users`` and ``session``: who may log in, and who has.

Their operations are those of the bundled project.
"""

from __future__ import annotations

from typing import Final

import click

from invoice_sandbox.cli.options import (
    ID,
    Commands,
    client,
    passed,
    print_data,
    read_password,
    with_connection,
)
from invoice_sandbox.cli.output import Row, Table, print_lines, print_table
from invoice_sandbox.control.client import path

_USERS: Final = Table(
    {
        **{name: name for name in ("id", "email", "role", "status")},
        "bound to": lambda row: ", ".join(row[name] for name in row if name.endswith("Id")),
    },
    empty="No users. Add one with 'invoice-sandbox users add EMAIL --role ROLE'.",
)
_SESSIONS: Final = Table(
    {
        "id": "id",
        "user": "user.email",
        "role": "role",
        "began at": "createdAt",
        "ends": "expiresAt",
    },
    empty="No sessions.",
)


def _show_user(user: Row) -> None:
    print_lines(_USERS.cells(user))


def _show_ended(session: Row) -> None:
    print_lines([session["id"], session["user"]["email"], "ended"])


@click.group(cls=Commands)
@with_connection
def users() -> None:
    """Add, list and disable the users of a workspace.

    They log in through the API and the console. With a database a workspace begins without users.

    \b
    invoice-sandbox users add ann@corp.example --role auditor
    invoice-sandbox users list
    invoice-sandbox users disable ann@corp.example
    """


@users.command("list")
@with_connection
def list_users() -> None:
    """List users.

    The users who may log in to the workspace, newest first, without their passwords.
    """
    print_data(client().ask("GET", "/users"), lambda rows: print_table(_USERS, rows))


@users.command("add")
@click.argument("email")
@click.option(
    "--role",
    type=click.Choice(["seller", "partner", "auditor"]),
    required=True,
    help="What the user may do.",
)
@click.option(
    "--display-name",
    "displayName",
    metavar="NAME",
    help="Name of the user. Default is the e-mail address.",
)
@click.option(
    "--partner-id",
    "partnerId",
    metavar="ID",
    help="The partner that a user with the role partner works for.",
)
@click.option(
    "--seller-id",
    "sellerId",
    metavar="ID",
    help="The seller that a user with the role seller works for. The session sees and does only "
    "what is this seller's. Without it, it sees all sellers.",
)
@with_connection
def add_user(**values: str | None) -> None:
    """Add a user.

    Asks for the password, or reads it from the first line of the input. A user who is disabled is
    enabled again, with the new password and role.

    \b
    invoice-sandbox users add ann@corp.example --role seller
    invoice-sandbox users add ben@alder.example --role partner --partner-id ptn_sandbox_alder
    """
    body = {**passed(**values), "password": read_password()}
    print_data(client().ask("POST", "/users", body), _show_user)


@users.command("disable")
@click.argument("user", type=ID)
@with_connection
def disable_user(user: str) -> None:
    """Disable a user.

    From the next request on, the user cannot log in, all sessions of the user have ended, and the
    API keys that were created in them are revoked. Disabling a user again changes nothing.
    """
    print_data(client().ask("POST", path("/users/{user}/disable", user=user)), _show_user)


@click.group(cls=Commands)
@with_connection
def session() -> None:
    """List sessions of users, or end one.

    \b
    invoice-sandbox session list
    invoice-sandbox session revoke ses_sandbox_k2v5q7xa_0001
    """


@session.command("list")
@with_connection
def list_sessions() -> None:
    """List sessions.

    The open sessions of the workspace, those that end last first, without their cookies.
    """
    print_data(client().ask("GET", "/sessions"), lambda rows: print_table(_SESSIONS, rows))


@session.command("revoke")
@click.argument("session_id", metavar="ID", type=ID)
@with_connection
def revoke_session(session_id: str) -> None:
    """End a session.

    The cookie of the session is not valid from the next request on.
    """
    print_data(client().ask("DELETE", path("/sessions/{id}", id=session_id)), _show_ended)
