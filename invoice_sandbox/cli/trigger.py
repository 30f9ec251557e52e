"""``invoice-sandbox trigger``: record an event and deliver it."""

from __future__ import annotations

from difflib import get_close_matches
from http import HTTPStatus
from typing import Any

import click

from invoice_sandbox.cli.options import client, print_reply, with_connection
from invoice_sandbox.cli.views import show_triggered
from invoice_sandbox.control.client import ControlClient, Reply, SandboxError


@click.command()
@click.argument("type_", metavar="TYPE")
@click.option("--invoice", metavar="ID", help="The invoice of the event. Default: the newest one.")
@with_connection
def trigger(type_: str, invoice: str | None) -> None:
    """Record an event of TYPE and deliver it.

    No invoice or offer changes. Prints the event, then a line for each webhook endpoint that
    subscribes to it.

    \b
    invoice-sandbox trigger invoice.verified --invoice inv_sandbox_0003
    invoice-sandbox trigger offer.received --invoice inv_sandbox_k2v5q7xa_0001
    """
    sandbox = client()
    event = _record(sandbox, type_, invoice)
    sandbox.ask("POST", "/clock/advance", {"by": "PT0S"})
    rows = sandbox.ask("GET", "/webhooks", below="/api")["deliveries"]
    deliveries = [row for row in reversed(rows) if row["eventId"] == event["id"]]
    reply = Reply({"event": event, "deliveries": deliveries}, {})
    print_reply(reply, lambda one: show_triggered(one.data))


def _record(sandbox: ControlClient, type_: str, invoice: str | None) -> Any:
    body = {"type": type_, "invoiceId": invoice}
    try:
        return sandbox.ask(
            "POST", "/events", {name: one for name, one in body.items() if one is not None}
        )
    except SandboxError as error:
        known = _event_types(sandbox) if error.status == HTTPStatus.BAD_REQUEST else []
        if not known or type_ in known:
            raise
        raise click.ClickException(_unknown(type_, known)) from None


def _event_types(sandbox: ControlClient) -> list[str]:
    return sorted(sandbox.whole("GET", "/openapi.json").get("webhooks", {}))


def _unknown(type_: str, known: list[str]) -> str:
    close = get_close_matches(type_, known, n=3)
    advice = f"did you mean {' or '.join(close)}?" if close else f"use one of {', '.join(known)}"
    return f"unknown event type '{type_}'; {advice}"
