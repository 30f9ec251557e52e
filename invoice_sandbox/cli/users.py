"""``invoice-sandbox users``: users of your own for ``serve --users``."""

from __future__ import annotations

import sys

import click

from invoice_sandbox.state.passwords import hash_password


@click.group()
def users() -> None:
    """Make hashes of passwords for a file of users."""


@users.command("hash")
def hash_command() -> None:
    """Print the hash of a password, for 'passwordHash' in the file of 'serve --users'.

    The password is read from the terminal without showing it, or from the first line of the input.
    """
    if sys.stdin.isatty():
        password = str(
            click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        )
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise click.UsageError("the password is empty")
    click.echo(hash_password(password))
