"""``invoice-sandbox fault``: fault injection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from invoice_sandbox.cli.options import (
    DURATION,
    ID,
    JSON,
    NULL,
    Commands,
    client,
    options,
    passed,
    print_data,
    with_connection,
)
from invoice_sandbox.cli.output import Row, Table, print_table, show_deleted
from invoice_sandbox.control.client import path

_KINDS: Final = (
    *("latency", "status", "error", "reset", "truncate", "malformed", "drip", "content-type"),
    *("html", "patch", "response"),
)
_FOREVER: Final = "forever"
_MAX_COUNT: Final = 1_000_000
_FAULTS: Final = Table(
    {
        "id": "id",
        "kind": "kind",
        "operation": lambda row: row["operation"] or "every",
        "status": "status",
        "delay": "delay",
        "up to": "upTo",
        "when": "when",
        "left": lambda row: _FOREVER if row["count"] is None else row["count"],
        "probability": "probability",
        "fired": "fired",
    },
    empty="No faults.",
)


def _show_faults(rows: Sequence[Row]) -> None:
    print_table(_FAULTS, rows)


class _Count(click.IntRange):
    """A number, or ``forever`` for null."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return NULL if value == _FOREVER else super().convert(value, param, ctx)


@click.group(cls=Commands)
@with_connection
def fault() -> None:
    """Inject faults into responses.

    A fault delays a response, replaces it by an error, or breaks the connection.

    \b
    invoice-sandbox fault add --operation createInvoice --kind status --status 503
    invoice-sandbox fault list
    invoice-sandbox fault clear
    """


@fault.command("list")
@with_connection
def list_faults() -> None:
    """List faults.

    The faults in force, in the order in which they are tried.
    """
    print_data(client().ask("GET", "/faults"), _show_faults)


@fault.command("add")
@options(
    {
        "--operation": {
            "metavar": "ID",
            "help": "The operationId. Default is every operation of the API.",
        },
        "--kind": {
            "type": click.Choice(_KINDS),
            "required": True,
            "help": "What the fault does to the response.",
        },
        "--status": {
            "metavar": "N",
            "type": click.IntRange(200, 599),
            "help": "Status for error (one that the operation declares, default 429), for status "
            "(default 503), for html (default 502) and for response (default is the success).",
        },
        "--body": {
            "type": JSON,
            "help": "The whole body of a response: any JSON, at most 64 KiB. Default is that of "
            "the contract.",
        },
        "--headers": {"type": JSON, "help": "The headers of a response."},
        "--delay": {
            "type": DURATION,
            "help": "Delay for latency and drip, in seconds up to PT999S. Default is PT2S.",
        },
        "--up-to upTo": {
            "type": DURATION,
            "help": "Longest delay for latency; the seed chooses a time between delay and this.",
        },
        "--when": {
            "type": click.Choice(["before", "after"]),
            "help": "Before or after the request takes effect. Default is after for truncate, "
            "malformed, drip, content-type and patch, which need the response; before for the "
            "others.",
        },
        "--retry-after retryAfter": {
            "type": DURATION,
            "help": "The header Retry-After of error, status and html, in seconds up to PT999S. "
            "Default is PT1S for the statuses 429 and 503.",
        },
        "--patch": {
            "type": JSON,
            "help": "For patch, the JSON Merge Patch (RFC 7396) of the response.",
        },
        "--count": {
            "metavar": f"N|{_FOREVER}",
            "type": _Count(1, _MAX_COUNT),
            "help": "How often it takes effect. Default is 1.",
        },
        "--probability": {
            "type": click.FloatRange(0, 1),
            "help": "Share of the requests, chosen by the seed. Default is 1.",
        },
    }
)
@with_connection
def add_fault(**values: Any) -> None:
    """Inject a fault.

    Changes the next responses of an operation, or of all operations. For each request the first
    fault that matches takes effect; older faults come first.

    \b
    latency       waits for delay of real time, or for a time between delay and up-to
    error         returns an error that the operation declares
    status        returns any status
    response      returns body, which the contract must allow for status, with headers;
                  without body it is the contract's own response
    reset         resets the connection
    truncate      ends the connection in the middle of the body
    malformed     sends a body that is not JSON
    drip          sends the body slowly over delay
    content-type  sends a wrong media type
    html          returns an HTML page with a status
    patch         changes members of the response

    If when is before, the request has no effect; if it is after, its changes are kept.

    \b
    invoice-sandbox fault add --kind latency --delay PT2S --up-to PT3S --count forever
    invoice-sandbox fault add --operation createInvoice --kind status --status 503
    invoice-sandbox fault add --kind reset --when after --count 3 --probability 0.5
    invoice-sandbox fault add --operation createInvoice --kind response --status 400
    """
    body = passed(**values)
    print_data(client().ask("POST", "/faults", body), lambda row: _show_faults([row]))


@fault.command("remove")
@click.argument("fault_id", metavar="ID", type=ID)
@with_connection
def remove_fault(fault_id: str) -> None:
    """Remove a fault.

    The other faults stay in force.
    """
    print_data(client().ask("DELETE", path("/faults/{id}", id=fault_id)), show_deleted)


@fault.command("clear")
@with_connection
def clear_faults() -> None:
    """Remove all faults.

    Responses follow the contract again.
    """
    print_data(client().ask("DELETE", "/faults"), _show_faults)
