"""Commands of ``acceptance`` that ask a server about its runs, or report a task to it."""

from __future__ import annotations

from typing import Final

import click

from invoice_sandbox.cli.options import ID, WholeNumber, client, print_data, with_connection
from invoice_sandbox.cli.output import Row, Table, plain, print_lines, print_table
from invoice_sandbox.control.client import path

_RUNS: Final = Table(
    {
        "run": "id",
        "started at": "startedAt",
        "plan": "plan",
        "state": "state",
        "verdict": "verdict",
        "waiting for you": lambda row: (row["waitingFor"] or {}).get("text"),
    },
    empty="No acceptance runs.",
)
_CHECKS: Final = Table(
    {"verdict": lambda row: row["verdict"] or row["state"], "check": "id", "summary": "summary"},
    empty="No checks.",
)


def show_task(run: str, task: Row) -> None:
    """Print what a run waits for, and how to report it."""
    until = f", until {task['deadline']}" if "deadline" in task else ""
    number = task["task"]
    print_lines([f"waiting for you: {task['text']} (task {number}, {task['check']}{until})"])
    for name, text in task["environment"].items():
        click.echo(f"  {plain(name)}={plain(text)}")
    state = "ready" if task.get("webhooks") else "done"
    _show_how(run, number, state)


def _show_how(run: str, number: int, state: str) -> None:
    click.echo(f"  when {state}: invoice-sandbox acceptance {state} {run} --task {number}")


def _show_run(run: Row) -> None:
    print_lines([run["id"], run["plan"], run["state"], run["verdict"] or "no verdict yet"])
    print_table(_CHECKS, run["checks"])
    waiting, reported = run["waitingFor"], run["reported"] or {}
    if waiting is None:
        return
    click.echo()
    if reported.get("task") != waiting["task"]:
        show_task(run["id"], waiting)
        return
    click.echo(f"task {reported['task']} is reported as {reported['state']}")
    if reported["state"] == "ready":
        _show_how(run["id"], reported["task"], "done")


_RUN: Final = click.argument("run_id", metavar="RUN", type=ID)
_TASK: Final = click.option(
    "--task", metavar="N", type=WholeNumber(1), required=True, help="Number of the task."
)


@click.command("list")
@with_connection
def list_runs() -> None:
    """List acceptance runs.

    The acceptance runs of the workspace, newest first, with what they wait for. The newest 20 are
    kept, until the workspace is reset.
    """
    print_data(client().ask("GET", "/acceptance/runs"), lambda rows: print_table(_RUNS, rows))


@click.command("show")
@_RUN
@with_connection
def show_run(run_id: str) -> None:
    """Show an acceptance run.

    The run with its checks, and what the client must do next, with the environment that it needs
    for it.
    """
    print_data(client().ask("GET", path("/acceptance/runs/{id}", id=run_id)), _show_run)


def _report(run_id: str, task: int, state: str) -> None:
    place = path("/acceptance/runs/{id}/task", id=run_id)
    print_data(client().ask("PUT", place, {"task": task, "state": state}), _show_run)


@click.command("ready")
@_RUN
@_TASK
@with_connection
def report_ready(run_id: str, task: int) -> None:
    """Report that the client receives webhooks.

    It has the secret of the task. The command fails in a task that receives no webhooks.
    """
    _report(run_id, task, "ready")


@click.command("done")
@_RUN
@_TASK
@with_connection
def report_done(run_id: str, task: int) -> None:
    """Report that the client is done with its task.

    The run goes on at once, not after the time for the task.
    """
    _report(run_id, task, "done")


status_commands: Final = (list_runs, show_run, report_ready, report_done)
