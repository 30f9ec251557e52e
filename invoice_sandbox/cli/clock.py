"""``invoice-sandbox clock`` and ``agenda``: simulated time, and what is due."""

from __future__ import annotations

from typing import Final

import click

from invoice_sandbox.cli.options import (
    DURATION,
    INSTANT,
    Commands,
    client,
    passed,
    print_data,
    with_connection,
)
from invoice_sandbox.cli.output import Row, Table, print_lines, print_table


def _action(step: Row) -> str:
    """The action of a step and its arguments: ``transition trigger=dispute``."""
    return " ".join([step["do"], *(f"{name}={value}" for name, value in step["with"].items())])


_DUE: Final = Table(
    {"at": "at", "do": _action, "subject": "subject", "scenario": "scenario"},
    empty="Nothing is due.",
)
_DONE: Final = Table(
    {
        "at": "at",
        "do": _action,
        "outcome": "outcome",
        "subject": "subject",
        "reason": "reason",
        "events": "events",
    },
    empty="No step has run yet.",
)


def clock_text(clock: Row) -> str:
    """Return the clock on one line: ``frozen at 2026-11-23T09:30:00Z, nothing due``."""
    due = clock["nextDue"]
    return f"{clock['mode']} at {clock['now']}, " + (f"next due {due}" if due else "nothing due")


def _show_clock(clock: Row) -> None:
    print_lines([clock_text(clock)])


def _show_advance(advance: Row) -> None:
    print_lines(*map(_DONE.cells, advance["happened"]))
    print_lines(*([*_DUE.cells(step), "pending"] for step in advance.get("pending", ())))
    _show_clock(advance)


def _show_agenda(agenda: Row) -> None:
    print_table(_DUE, agenda["due"])
    click.echo()
    print_table(_DONE, agenda["done"])


@click.group(cls=Commands, invoke_without_command=True)
@with_connection
@click.pass_context
def clock(context: click.Context) -> None:
    """Show or move the clock of the workspace.

    Without a command, it shows the clock.

    \b
    invoice-sandbox clock
    invoice-sandbox clock freeze
    invoice-sandbox clock advance P3D
    """
    if context.invoked_subcommand is None:
        print_data(client().ask("GET", "/clock"), _show_clock)


def _set(mode: str) -> None:
    print_data(client().ask("PUT", "/clock", {"mode": mode}), _show_advance)


@clock.command()
@with_connection
def freeze() -> None:
    """Stop the clock.

    It keeps the instant that it shows, until it is advanced or released.
    """
    _set("frozen")


@clock.command()
@with_connection
def release() -> None:
    """Let the clock run with real time.

    It continues from the instant that it shows.
    """
    _set("live")


@clock.command()
@click.argument("duration", type=DURATION, required=False)
@click.option("--to", type=INSTANT, metavar="INSTANT", help="An instant in UTC, as RFC 3339.")
@with_connection
def advance(duration: str | None, to: str | None) -> None:
    """Move the clock forward.

    Moves the clock by DURATION or to an instant. Every step that falls due meanwhile runs, and its
    webhooks are delivered. Prints a line for each step: instant, action, outcome, subject, reason,
    events.

    \b
    invoice-sandbox clock advance PT10S
    invoice-sandbox clock advance P3D
    invoice-sandbox clock advance --to 2026-12-26T18:00:00Z
    """
    if (duration is None) == (to is None):
        raise click.UsageError("pass either DURATION or --to")
    body = passed(by=duration, to=to)
    print_data(client().ask("POST", "/clock/advance", body), _show_advance)


@click.command()
@with_connection
def agenda() -> None:
    """Show due and finished steps.

    The steps that are due, in order of time, and the steps that ran lately, newest first. A step is
    skipped when the state of its subject no longer fits; the reason explains why.
    """
    print_data(client().ask("GET", "/agenda"), _show_agenda)
