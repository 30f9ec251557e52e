"""``invoice-sandbox transition``: an invoice moves along its lifecycle.

The operation is one of the bundled project (``openapi/sandbox.yaml``).
"""

from __future__ import annotations

import click

from invoice_sandbox.cli.options import ID, client, print_data, with_connection
from invoice_sandbox.cli.output import Row, print_lines
from invoice_sandbox.control.client import path


def _show_record(record: Row) -> None:
    print_lines([record["id"], record["status"]])


def _show_transitions(now: Row) -> None:
    print_lines([now["status"], "legal now:" if now["triggers"] else "no trigger is legal"])
    print_lines(*([f"  {trigger}"] for trigger in now["triggers"]))


@click.command()
@click.argument("invoice_id", metavar="ID", type=ID)
@click.argument("trigger", required=False)
@with_connection
def transition(invoice_id: str, trigger: str | None) -> None:
    """Move an invoice, or list its legal transitions.

    Applies TRIGGER to an invoice; its financing request and its offers move along. Without TRIGGER,
    it prints the status and the triggers that are legal now, and changes nothing. No trigger waits
    for its date.

    \b
    invoice-sandbox transition inv_sandbox_0006
    invoice-sandbox transition inv_sandbox_0006 become-overdue
    """
    place = path("/invoices/{id}/transition", id=invoice_id)
    if trigger is None:
        print_data(client().ask("GET", place), _show_transitions)
    else:
        print_data(client().ask("POST", place, {"trigger": trigger}), _show_record)
