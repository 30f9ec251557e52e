"""``invoice-sandbox deliveries``: the webhook deliveries of a workspace."""

from __future__ import annotations

import click

from invoice_sandbox.cli import Command
from invoice_sandbox.cli.options import client, print_reply, with_connection
from invoice_sandbox.cli.views import show_deliveries
from invoice_sandbox.control.client import Reply


@click.command(cls=Command)
@click.option("--failed", is_flag=True, help="Only those that no receiver has accepted.")
@with_connection
def deliveries(failed: bool) -> None:
    """List webhook deliveries, newest first.

    Prints the last attempt of each: its instant, and the status or error of the receiver.

    \b
    invoice-sandbox deliveries
    invoice-sandbox deliveries --failed
    """
    sandbox = client()
    place = sandbox.project.deliveries
    if place is None:
        raise click.ClickException(
            f"the project at {sandbox.url} does not name the operation that lists deliveries; "
            "name it in 'webhooks' of its conventions.yaml"
        )
    rows = sandbox.content("GET", place)["deliveries"]
    shown = [row for row in rows if not failed or row["status"] in {"Failed", "Exhausted"}]
    empty = "No webhook delivery has failed." if rows else "No webhook deliveries yet."
    print_reply(Reply(shown, {}), lambda one: show_deliveries(one.data, empty))
