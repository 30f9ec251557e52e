"""``invoice-sandbox transition`` and ``offer``: records move along their lifecycle.

Their operations are those of the bundled project (``openapi/sandbox.yaml``).
"""

from __future__ import annotations

from typing import Final

import click

from invoice_sandbox.cli.options import ID, Commands, client, print_data, with_connection
from invoice_sandbox.cli.output import Row, Table, print_lines, print_table
from invoice_sandbox.control.client import path

_OFFERS: Final = Table(
    {name: name for name in ("id", "status", "partnerId", "netProceeds", "currency", "validUntil")},
    empty="No offers on this invoice.",
)


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


@click.group(cls=Commands)
@with_connection
def offer() -> None:
    """List the offers on an invoice; accept, decline or withdraw one.

    \b
    invoice-sandbox offer list inv_sandbox_0005
    invoice-sandbox offer accept off_sandbox_k2v5q7xa_0001
    """


@offer.command("list")
@click.argument("invoice_id", type=ID)
@with_connection
def list_offers(invoice_id: str) -> None:
    """List the offers on an invoice.

    Newest first, with the status of each.
    """
    rows = client().content("GET", path("/api/offers?invoiceId={id}", id=invoice_id))
    print_data(rows, lambda found: print_table(_OFFERS, found))


def _decide(offer_id: str, decision: str) -> None:
    place = path(f"/offers/{{id}}/{decision}", id=offer_id)
    print_data(client().ask("POST", place, {}), _show_record)


@offer.command("accept")
@click.argument("offer_id", metavar="ID", type=ID)
@with_connection
def accept_offer(offer_id: str) -> None:
    """Accept an offer.

    The seller accepts the offer. All other live offers on the invoice are superseded, and the
    invoice and its financing request move along. An offer on a synthetic invoice moves without one.
    If the status of the offer or of the invoice does not allow it, the response is a 409 and
    nothing changes.
    """
    _decide(offer_id, "accept")


@offer.command("decline")
@click.argument("offer_id", metavar="ID", type=ID)
@with_connection
def decline_offer(offer_id: str) -> None:
    """Decline an offer.

    The seller declines the offer. If no other offer on the invoice is live, the invoice waits for
    offers again.
    """
    _decide(offer_id, "decline")


@offer.command("withdraw")
@click.argument("offer_id", metavar="ID", type=ID)
@with_connection
def withdraw_offer(offer_id: str) -> None:
    """Withdraw an offer.

    The partner withdraws a live offer, or the accepted one before anything is paid out. If no other
    offer on the invoice is live, the invoice waits for offers again.
    """
    _decide(offer_id, "withdraw")
