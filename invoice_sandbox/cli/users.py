"""``invoice-sandbox users``: the users of a workspace, and the hash of a password."""

from __future__ import annotations

import click

from invoice_sandbox.cli import Command, Commands
from invoice_sandbox.cli.control import commands_below
from invoice_sandbox.cli.options import connection_options, read_password
from invoice_sandbox.state.passwords import hash_password


@click.command("hash", cls=Command)
def hash_command() -> None:
    """Print the Argon2 hash of a password, for 'passwordHash' in the file of 'serve --users'.

    The password is read from the terminal without showing it, or from the first line of the input.
    """
    click.echo(hash_password(read_password()))


users = Commands(
    "users",
    commands={**commands_below("users"), "hash": hash_command},
    params=list(connection_options()),
    help="""Add, list and disable the users of a workspace.

    They log in through the API and the console. With a database a workspace begins without users.

    \b
    invoice-sandbox users add ann@corp.example --role auditor
    invoice-sandbox users list
    invoice-sandbox users disable ann@corp.example
    """,
)
