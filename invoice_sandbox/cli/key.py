"""``invoice-sandbox key``: a new API key."""

from __future__ import annotations

import click

from invoice_sandbox.base.ids import new_key


@click.command()
def key() -> None:
    """Print a new API key for 'serve --key'.

    Only a server that is started with it knows it.

    \b
    export INVOICE_SANDBOX_KEY=$(invoice-sandbox key)
    invoice-sandbox serve --host 0.0.0.0
    """
    click.echo(new_key())
