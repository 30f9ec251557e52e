"""``invoice-sandbox listen``: forward webhooks to a receiver on this machine."""

from __future__ import annotations

import click

from invoice_sandbox.cli import forwarding
from invoice_sandbox.cli.options import client, options, wants_json, with_connection
from invoice_sandbox.cli.receiver import checked_secret, checked_target, identity_of


def _types(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    types = tuple(one.strip() for one in text.split(","))
    if not all(types):
        raise click.BadParameter(f"'{text}': use types of events, separated by commas")
    return types


def _secret(_context: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    return None if text is None else checked_secret(text)


@click.command()
@options(
    {
        "--forward-to": {
            "metavar": "URL",
            "required": True,
            "callback": lambda _context, _parameter, text: checked_target(text),
            "help": "Your receiver: a URL, or a port of this machine.",
        },
        "--events": {
            "metavar": "TYPE,...",
            "default": "*",
            "callback": _types,
            "help": "Only events of these types. Default: all.",
        },
        "--secret": {
            "metavar": "WHSEC",
            "callback": lambda _context, _parameter, text: (
                None if text is None else checked_secret(text)
            ),
            "help": "Signing secret. Default: the one remembered for this receiver.",
        },
    }
)
@with_connection
def listen(forward_to: str, events: tuple[str, ...], secret: str | None) -> None:
    """Forward webhooks to your own receiver, until stopped.

    It registers a webhook endpoint and prints its signing secret, then a line for each delivery:
    time, type, webhook-id, response of your receiver, duration, and 'retry' if it is one. Headers
    and body are forwarded as they were signed. After a lost connection it catches up on missed
    deliveries. With --json each line is a JSON object.

    The secret is the same each time for the same receiver, unless the project chooses it.
    At the end the endpoint is deleted.
    Another 'listen' for the same receiver and key takes over.

    \b
    invoice-sandbox listen --forward-to 3000
    invoice-sandbox listen --forward-to http://localhost:3000/hooks --events invoice.paid,offer.*
    """
    identity = identity_of(forward_to, secret)
    forwarding.listen(client(), forward_to, events, identity, as_json=wants_json())
