"""``invoice-sandbox trigger``, ``inbox``, ``deliveries`` and ``replay``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from invoice_sandbox.base import jsonio
from invoice_sandbox.cli.options import (
    FILE,
    FOLDER,
    ID,
    client,
    passed,
    print_data,
    with_connection,
)
from invoice_sandbox.cli.output import Row, Table, plain, print_lines, print_table
from invoice_sandbox.control.client import path

_FAULTS: Final = (
    *("fail", "duplicate", "late", "bad-signature", "stale-timestamp", "changed-body"),
    *("previous-secret", "no-signature", "empty-signature", "two-signatures", "other-version"),
    *("changed-id", "no-timestamp", "future-timestamp", "empty-body"),
)


def event_type(message: Row) -> Any:
    """The type of the event that a message delivers; of an altered one what its body has."""
    if message.get("type") is not None:
        return message["type"]
    event = jsonio.parsed(message["body"])
    return event.get("type") if isinstance(event, dict) else None


def _last_response(delivery: Row) -> Any:
    attempts: Sequence[Row] = delivery["attempts"]
    return (attempts[-1]["responseStatus"] or attempts[-1]["error"]) if attempts else None


_TRIGGERED: Final = Table(
    {
        "delivery": "id",
        "endpoint": "endpointId",
        "status": "status",
        "response": _last_response,
        "next attempt": "nextAttemptAt",
    },
    empty="No webhook endpoint subscribes to this event.",
)
_DELIVERIES: Final = Table(
    {
        "attempted at": "attemptedAt",
        "type": "eventType",
        "status": "status",
        "response": _last_response,
        "attempts": lambda row: len(row["attempts"]),
        "next attempt": "nextAttemptAt",
        "endpoint": "endpointId",
        "delivery": "id",
    },
    empty="No webhook deliveries yet.",
)
_INBOX: Final = Table(
    {
        "received at": "receivedAt",
        "type": event_type,
        "webhook-id": lambda row: row["headers"].get("webhook-id"),
        **{name: name for name in ("verified", "duplicate", "problem")},
    },
    empty="No webhooks yet.",
)


@click.command()
@click.argument("type_", metavar="TYPE")
@click.option(
    "--subject",
    "--invoice",
    metavar="ID",
    type=ID,
    help="Id of what the event is about, or of what that belongs to. Default: the newest one. "
    "--invoice is another name.",
)
@with_connection
def trigger(type_: str, subject: str | None) -> None:
    """Record an event of TYPE and deliver it.

    No status changes. Prints the event, then a line for each webhook endpoint that
    subscribes to it.

    \b
    invoice-sandbox trigger invoice.verified --subject inv_sandbox_0003
    invoice-sandbox trigger offer.received --subject inv_sandbox_k2v5q7xa_0001
    """
    sandbox = client()
    body = {"type": type_}
    if subject is not None:
        if sandbox.project.subject is None:
            raise click.UsageError("events of this project have no --subject")
        body[sandbox.project.subject] = subject
    event = sandbox.ask("POST", "/events", body)
    sandbox.ask("POST", "/clock/advance", {"by": "PT0S"})
    deliveries = sandbox.deliveries()
    if deliveries is not None:
        deliveries = [row for row in deliveries if row["eventId"] == event["id"]]
    print_data({"event": event, "deliveries": deliveries}, _show_triggered)


def _show_triggered(triggered: Row) -> None:
    """Print an event and its deliveries, if they are known."""
    event, deliveries = triggered["event"], triggered["deliveries"]
    print_lines([event["id"], event["type"], event["data"].get("id")])
    click.echo()
    if deliveries is None:
        where = "'deliveries' of 'webhooks' in conventions.yaml"
        click.echo(f"Deliveries are not shown: no operation lists them ({where}).")
    else:
        print_table(_TRIGGERED, deliveries)


_LIMIT: Final = click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=20,
    help="Maximum number of rows of the table; --json prints all. Default: 20.",
)


@click.command()
@_LIMIT
@with_connection
def inbox(limit: int) -> None:
    """Show the inbox.

    The first line is the URL of the inbox. Register it as a webhook endpoint.
    """
    print_data(client().ask("GET", "/inbox"), lambda found: _show_inbox(found, limit))


def _show_inbox(inbox: Row, limit: int) -> None:
    click.echo(plain(inbox["url"]))
    _print_newest(_INBOX, inbox["messages"], limit)


def _print_newest(table: Table, rows: Sequence[Row], limit: int) -> None:
    print_table(table, rows[:limit])
    if len(rows) > limit:
        click.echo(f"{limit} of {len(rows)}; --limit shows more.")


@click.command()
@_LIMIT
@with_connection
def deliveries(limit: int) -> None:
    """List webhook deliveries, newest first.

    Prints the last attempt of each: its instant, and the status or error of the receiver.
    """
    sandbox = client()
    rows = sandbox.deliveries()
    if rows is None:
        raise click.ClickException(
            f"the project at {sandbox.url} does not name the operation that lists deliveries; "
            "name it in 'webhooks' of its conventions.yaml"
        )
    print_data(rows[::-1], lambda rows: _print_newest(_DELIVERIES, rows, limit))


@click.command()
@click.argument("target", metavar="ID|FILE.zip", type=ID)
@click.option(
    "--fault",
    type=click.Choice(_FAULTS),
    help="What is wrong with the next attempt. Default is nothing.",
)
@click.option("--project", metavar="DIR", type=FOLDER, help="Project of the bundle.")
@click.option("--contract", metavar="FILE", type=FILE, help="Contract of the bundle.")
@click.option("--scenarios", metavar="DIR", type=FOLDER, help="Scenarios of your own.")
@with_connection
def replay(
    target: str,
    fault: str | None,
    project: Path | None,
    contract: Path | None,
    scenarios: Path | None,
) -> None:
    """Replay a delivery, or a bundle.

    With ID: attempts a delivery again, with the same webhook-id and a new timestamp, and prints
    what came of it. A failed attempt is retried like any other. A delivery to a disabled endpoint
    is rejected. --fault alters the next attempt; a genuine one follows. duplicate sends the message
    twice, late sends it an hour later, after newer events.

    With FILE.zip: sends the requests of a bundle, one after the other, to a new workspace of a
    server in this process, and prints every difference. Opens no connection.
    Status 0 when nothing differs, 1 when something does, 2 for a file that cannot be replayed.

    \b
    invoice-sandbox replay dlv_sandbox_k2v5q7xa_0001
    invoice-sandbox replay dlv_sandbox_k2v5q7xa_0001 --fault bad-signature
    invoice-sandbox replay bug.zip
    """
    file = Path(target)
    if file.suffix == ".zip" or file.is_file():
        from invoice_sandbox.cli.replay import Served, replay_bundle  # imports the server

        replay_bundle(file, Served(project, contract, scenarios))
    else:
        place = path("/deliveries/{id}/replay", id=target)
        delivery = client().ask("POST", place, passed(fault=fault))
        print_data(delivery, lambda row: print_table(_TRIGGERED, [row]))
