"""``invoice-sandbox verdicts``: the client judged by what it did in the workspace."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from invoice_sandbox.acceptance.live import State, live_verdicts
from invoice_sandbox.cli.options import FAILED, FILE, client, print_data, with_connection
from invoice_sandbox.cli.output import Row, Table, print_lines, print_table

_WORDS: Final = {"broken": "broken", "kept": "kept", "notSeen": "not seen yet"}
_VERDICTS: Final = Table(
    {
        "verdict": lambda row: _WORDS[row["verdict"]],
        "check": "id",
        "requirement": "requirement",
        "found": "found",
    },
    empty="The plan has no invariants.",
)


@click.command()
@click.option("--plan", type=FILE, help="Plan with the invariants; by default that of the project.")
@with_connection
def verdicts(plan: Path | None) -> None:
    """Judge the client by what it did in the workspace.

    Prints the verdict on each invariant of the acceptance plan over the journal and the deliveries,
    broken ones first, with the exchanges that prove it. Exits with status 1 if one is broken.

    \b
    invoice-sandbox verdicts
    invoice-sandbox verdicts --json
    """
    order = [*State]
    found = sorted(live_verdicts(client(), plan), key=lambda verdict: order.index(verdict.state))
    print_data([verdict.shown() for verdict in found], _show)
    if any(verdict.state is State.BROKEN for verdict in found):
        sys.exit(FAILED)


def _show(rows: Sequence[Row]) -> None:
    print_table(_VERDICTS, rows)
    for row in rows:
        for exchange in row["exchanges"]:
            name = exchange.get("requestId") or exchange["deliveryId"]
            print_lines([row["id"], exchange["at"], exchange["line"], name])
