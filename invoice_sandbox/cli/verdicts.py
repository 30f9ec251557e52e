"""``invoice-sandbox verdicts``: the client judged by what it did in the workspace."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import click

from invoice_sandbox.cli.options import (
    FAILED,
    Commands,
    client,
    print_data,
    print_row,
    with_connection,
)
from invoice_sandbox.cli.output import Row, Table, print_lines, print_table
from invoice_sandbox.control.client import path

_PAUSE: Final = 1.0
_BROKEN: Final = "broken"
_WORDS: Final = {_BROKEN: _BROKEN, "kept": "kept", "not-seen": "not seen yet"}
_VERDICTS: Final = Table(
    {
        "verdict": lambda row: _WORDS[row["verdict"]],
        "check": "check",
        "requirement": "requirement",
        "found": "found",
    },
    empty="The project has no acceptance plan with invariants.",
)


@click.group(cls=Commands, invoke_without_command=True)
@click.option("--follow", "-f", is_flag=True, help="Print changes as they come, until Ctrl-C.")
@with_connection
@click.pass_context
def verdicts(context: click.Context, follow: bool) -> None:
    """Judge the client by what it did in the workspace.

    Without a command, it prints the verdict on each invariant of the acceptance plan, broken ones
    first, with the exchanges that prove it and what to do. The status is 1 if one is broken.

    \b
    invoice-sandbox verdicts
    invoice-sandbox verdicts provoke retry-after
    """
    if context.invoked_subcommand is not None:
        if follow:
            raise click.UsageError("--follow prints verdicts; leave out the command")
        return
    rows = client().ask("GET", "/verdicts")
    if follow:
        with suppress(KeyboardInterrupt):
            _follow(rows := [])
    else:
        print_data(rows, _show)
    if any(row["verdict"] == _BROKEN for row in rows):
        sys.exit(FAILED)


def _follow(rows: list[Row]) -> None:
    """Print all verdicts, then each that changes; ``rows`` has the present ones."""
    while True:
        last = {row["check"]: row for row in rows}
        rows[:] = client().ask("GET", "/verdicts")
        for row in rows:
            if row != last.get(row["check"]):
                print_row(row, _show_changed)
        time.sleep(_PAUSE)


def _show_changed(row: Row) -> None:
    print_lines(_VERDICTS.cells(row))
    _show_evidence(row)


def _show(rows: Sequence[Row]) -> None:
    print_table(_VERDICTS, rows)
    for row in rows:
        if row["exchanges"]:
            click.secho(f"\n{row['check']}", bold=True)
            _show_evidence(row)


def _show_evidence(row: Row) -> None:
    for exchange in row["exchanges"]:
        name = exchange.get("requestId") or exchange["deliveryId"]
        print_lines([" ", exchange["at"], exchange["line"], name])
    if row["advice"]:
        print_lines([" ", row["advice"]])


@verdicts.command()
@click.argument("check", metavar="CHECK")
@with_connection
def provoke(check: str) -> None:
    """Arm what shows if the client keeps a check.

    Injects a fault, or sends a webhook again, and prints what the client has to do next.

    \b
    invoice-sandbox verdicts provoke retry-after
    """
    place = path("/verdicts/{id}/provoke", id=check)
    print_data(client().ask("POST", place), lambda row: print_lines([row["armed"]], [row["next"]]))
