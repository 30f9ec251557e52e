"""``invoice-sandbox coverage``: the contract coverage of a running server."""

from __future__ import annotations

import sys

import click

from invoice_sandbox.base.coverage import lines, shortfall
from invoice_sandbox.cli.options import FAILED, client, print_data, with_connection
from invoice_sandbox.cli.output import Row, plain


@click.command()
@click.option(
    "--fail-under",
    "least",
    metavar="PERCENT",
    type=click.FloatRange(0, 100),
    default=0,
    help="Exit with status 1 if the coverage is below PERCENT.",
)
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
    print_data(report, _show_coverage)
    missing = shortfall(report, least)
    if missing:
        click.echo(missing, err=True)
        sys.exit(FAILED)


def _show_coverage(report: Row) -> None:
    for line in lines(report):
        click.echo(plain(line))
