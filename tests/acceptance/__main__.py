"""``make acceptance``: known clients through the partner plan, and the pages."""

from __future__ import annotations

import os
import sys

import click

from invoice_sandbox.acceptance.runner import RunReport
from tests.acceptance.page import PAGE, SELFTEST_PAGE, with_tables, with_verdicts
from tests.acceptance.selftest import KnownClient, judge_clients, judging, known_clients, problems
from tests.interop.node import needed_node


def with_node() -> None:
    """Put Node.js of its wheel on PATH. Raises UnavailableError."""
    os.environ["PATH"] = os.pathsep.join([str(needed_node().parent), os.environ["PATH"]])


@click.command()
@click.option("--only", metavar="NAME", multiple=True, help="Only this client. Repeatable.")
@click.option("--bounded", is_flag=True, help="A client with a fault: only the check for it.")
def main(only: tuple[str, ...], *, bounded: bool) -> None:
    """Right clients pass, and each fault is caught by its own check only.

    Status 1 for a false FAIL, a missed fault, or a right client that does not pass. Without options
    it writes the tables of the pages.
    """
    with_node()
    clients = known_clients()
    chosen = [clients[name] for name in only or clients]
    wrong: list[str] = []

    def on_report(client: KnownClient, report: RunReport) -> None:
        found = [*problems(client, report)]
        wrong.extend(found)
        click.echo(f"{'wrong' if found else 'right':<6} {client.name}")

    with judging() as (plan, control):
        reports = judge_clients(chosen, plan, control, own_check_only=bounded, on_report=on_report)
    if not (only or bounded):
        PAGE.write_text(with_tables(PAGE.read_text(), plan))
        SELFTEST_PAGE.write_text(with_verdicts(SELFTEST_PAGE.read_text(), plan, reports))
    for line in wrong:
        click.echo(line, err=True)
    click.echo(f"{len(chosen)} clients, {len(wrong)} wrong verdicts")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
