"""Webhooks of a server that is running: ``listen``, ``trigger``."""

from __future__ import annotations

import click

from invoice_sandbox.cli import control_output as lever_command
from invoice_sandbox.cli.options import connection, lever, options


def _target(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    from invoice_sandbox.cli.listen_command import checked_target

    return checked_target(text)


def _kinds(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    kinds = tuple(one.strip() for one in text.split(","))
    if not all(kinds):
        raise click.BadParameter("kinds of events, with commas between them")
    return kinds


@click.command()
@options(
    {
        "--forward-to": {
            "metavar": "URL",
            "required": True,
            "callback": _target,
            "help": "Your receiver: a URL, or a port of this machine.",
        },
        "--events": {
            "metavar": "KIND,...",
            "default": "*",
            "callback": _kinds,
            "help": "Only events of these kinds. Default: every one.",
        },
    }
)
@lever
def listen(forward_to: str, events: tuple[str, ...]) -> None:
    """Forward deliveries to your own receiver, until stopped.

    It registers a webhook endpoint and prints its signing secret, then a line for each delivery:
    time, kind, webhook-id, what your receiver answered, how long that took. Headers and body are
    forwarded as they were signed. A lost connection is made again, and nothing is missed. With
    --json each line is a JSON object.

    \b
    invoice-sandbox listen --forward-to 3000
    invoice-sandbox listen --forward-to http://localhost:3000/hooks --events invoice.paid,offer.*
    """
    from invoice_sandbox.cli import listen_command

    listen_command.listen(connection(), forward_to, events)


@click.command()
@click.argument("kind")
@click.option("--invoice", metavar="ID", help="Of which invoice to tell. Default: the newest.")
@lever
def trigger(kind: str, invoice: str | None) -> None:
    """Record an event of KIND as if it had happened, and deliver it. Nothing is moved.

    Prints the event, then a line for each endpoint that subscribes to it.

    \b
    invoice-sandbox trigger invoice.verified --invoice inv_sandbox_0003
    invoice-sandbox trigger offer.received --invoice inv_sandbox_k2v5q7xa_0001
    """
    lever_command.trigger(connection(), kind, invoice)
