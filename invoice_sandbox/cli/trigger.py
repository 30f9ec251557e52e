"""``invoice-sandbox trigger``: record an event and deliver it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import click

from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.cli import Command
from invoice_sandbox.cli.options import client, print_reply, with_connection
from invoice_sandbox.cli.views import show_triggered
from invoice_sandbox.control.client import ControlClient, Reply, SandboxError


@click.command(cls=Command)
@click.argument("type_", metavar="TYPE")
@click.option(
    "--subject",
    "--invoice",
    metavar="ID",
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
    if subject == "":
        raise click.BadParameter("it must not be empty", param_hint="'--subject'")
    sandbox = client()
    event = _record(sandbox, type_, subject)
    sandbox.ask("POST", "/clock/advance", {"by": "PT0S"})
    reply = Reply({"event": event, "deliveries": _deliveries(sandbox, event["id"])}, {})
    print_reply(reply, lambda one: show_triggered(one.data))


def _deliveries(sandbox: ControlClient, event_id: str) -> list[Any] | None:
    """The deliveries of the event, oldest first; None if the project does not list deliveries."""
    if sandbox.project.deliveries is None:
        return None
    rows = sandbox.content("GET", sandbox.project.deliveries)["deliveries"]
    return [row for row in reversed(rows) if row["eventId"] == event_id]


def _record(sandbox: ControlClient, type_: str, subject: str | None) -> Any:
    body = {"type": type_}
    if subject is not None:
        if sandbox.project.subject is None:
            raise click.UsageError("events of this project have no --subject")
        body[sandbox.project.subject] = subject
    try:
        return sandbox.ask("POST", "/events", body)
    except SandboxError as error:
        if error.status == HTTPStatus.NOT_FOUND and sandbox.lacks("/events"):
            raise click.ClickException(
                f"the project at {sandbox.url} records no events on request: "
                "its control API has no POST /sandbox/events; "
                "docs/handlers.md, 'Webhooks', shows how to add it"
            ) from None
        known = sandbox.event_types() if error.status == HTTPStatus.BAD_REQUEST else []
        if not known or type_ in known:
            raise
        advice = suggestion(type_, known, where=sandbox.lists_events)
        raise click.ClickException(f"unknown event type '{type_}'; {advice}") from None
