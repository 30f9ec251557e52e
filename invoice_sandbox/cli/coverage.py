"""``invoice-sandbox coverage``: the contract coverage of a running server."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from invoice_sandbox.base.coverage import lines, shortfall
from invoice_sandbox.cli import Command
from invoice_sandbox.cli.options import (
    FAILED,
    Number,
    client,
    options,
    wants_json,
    with_connection,
)
from invoice_sandbox.cli.output import plain, print_json

_COVERAGE: Final[dict[str, dict[str, Any]]] = {
    "--fail-under least": {
        "metavar": "PERCENT",
        "type": Number(0, 100),
        "default": 0,
        "help": "Exit with status 1 if the coverage is below PERCENT.",
    },
}


@click.command(cls=Command)
@options(_COVERAGE)
@with_connection
def coverage(least: float) -> None:
    """Show the coverage of the contract.

    It counts the operations that were called and the declared statuses that they returned, in the
    workspace of the key and in those created from it.

    \b
    invoice-sandbox coverage
    invoice-sandbox coverage --fail-under 80
    """
    report = client().ask("GET", "/coverage")
    if wants_json():
        print_json(report)
    else:
        for line in lines(report):
            click.echo(plain(line))
    missing = shortfall(report, least)
    if missing:
        click.echo(missing, err=True)
        sys.exit(FAILED)
