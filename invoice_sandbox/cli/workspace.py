"""``invoice-sandbox workspace``, ``snapshot``, ``reset`` and ``key``."""

from __future__ import annotations

from typing import Any, Final

import click

from invoice_sandbox.base.ids import new_key
from invoice_sandbox.cli.clock import clock_text
from invoice_sandbox.cli.options import (
    ID,
    INSTANT,
    Commands,
    client,
    passed,
    print_data,
    with_connection,
)
from invoice_sandbox.cli.output import (
    Row,
    Table,
    marker,
    plain,
    print_lines,
    print_table,
    show_deleted,
)
from invoice_sandbox.control.client import path

_MAX_SEED: Final = 2**63 - 1
_WORKSPACES: Final = Table(
    {
        "": marker,
        "id": "id",
        "scenario": "scenario",
        "seed": "seed",
        "clock": "clock.mode",
        "now": "clock.now",
        "deleted after idle": lambda row: row["keptIdleFor"] or "never",
    },
    empty="No workspaces.",
)
_SNAPSHOTS: Final = Table({"id": "id", "taken at": "takenAt"}, empty="No snapshots.")


def _show_workspace(workspace: Row) -> None:
    seed = [f"seed {workspace['seed']}"] if "seed" in workspace else []
    shown = [workspace["id"], f"scenario {workspace['scenario']}", *seed]
    print_lines([*shown, clock_text(workspace["clock"])])


def _show_new_workspace(workspace: Row) -> None:
    _show_workspace(workspace)
    click.echo("The key is shown only once. To use the workspace:")
    click.echo(f"export INVOICE_SANDBOX_KEY={plain(workspace['key'])}")


def _show_snapshot(snapshot: Row) -> None:
    print_lines([snapshot["id"], f"taken at {snapshot['takenAt']}"])


@click.group(cls=Commands)
@with_connection
def workspace() -> None:
    """Create, list and delete workspaces.

    Each workspace has its own state, clock, faults and key.

    \b
    invoice-sandbox workspace new --seed 7 --clock frozen
    invoice-sandbox workspace list
    """


@workspace.command("list")
@with_connection
def list_workspaces() -> None:
    """List workspaces.

    The workspace of the key is marked with *. The others were created from it.
    """
    print_data(client().ask("GET", "/workspaces"), lambda rows: print_table(_WORKSPACES, rows))


@workspace.command("new")
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(0, _MAX_SEED),
    help="The same seed gives the same identifiers. Default is a random seed.",
)
@click.option("--scenario", metavar="NAME", help="Name of a scenario of the project.")
@click.option(
    "--clock",
    type=click.Choice(["live", "frozen"]),
    help="A live clock runs with real time; a frozen one stands still.",
)
@click.option("--now", type=INSTANT, metavar="INSTANT", help="First instant of the clock.")
@with_connection
def new_workspace(**values: Any) -> None:
    """Create an isolated workspace.

    The new workspace has the starting data and an API key of its own, which is shown only once. The
    same seed gives the same identifiers. A workspace that is not used for a day is deleted. The
    number of workspaces of a server is limited.

    \b
    invoice-sandbox workspace new
    invoice-sandbox workspace new --seed 7 --scenario manual --clock frozen
    """
    print_data(client().ask("POST", "/workspaces", passed(**values)), _show_new_workspace)


@workspace.command("delete")
@click.argument("workspace_id", metavar="ID", type=ID)
@with_connection
def delete_workspace(workspace_id: str) -> None:
    """Delete a workspace.

    Deletes a workspace that was created from the workspace of the API key, with everything in it
    and the workspaces created from it. The workspace of the API key itself cannot be deleted.
    """
    print_data(client().ask("DELETE", path("/workspaces/{id}", id=workspace_id)), show_deleted)


@click.group(cls=Commands)
def snapshot() -> None:
    """Save the workspace and restore it.

    \b
    invoice-sandbox snapshot take
    invoice-sandbox snapshot list
    invoice-sandbox snapshot restore snp_sandbox_k2v5q7xa_0001
    """


@snapshot.command("take")
@with_connection
def take_snapshot() -> None:
    """Take a snapshot.

    It has state, clock, agenda, scenario, faults, API keys and counters. It waits up to 2 s for
    deliveries in flight; a restored workspace sends those that are still without a response again.
    The number of snapshots of a workspace is limited.
    """
    print_data(client().ask("POST", "/snapshots"), _show_snapshot)


@snapshot.command("list")
@with_connection
def list_snapshots() -> None:
    """List snapshots.

    The snapshots that can be restored, newest first.
    """
    print_data(client().ask("GET", "/snapshots"), lambda rows: print_table(_SNAPSHOTS, rows))


@snapshot.command("restore")
@click.argument("snapshot_id", metavar="ID", type=ID)
@with_connection
def restore_snapshot(snapshot_id: str) -> None:
    """Restore a snapshot.

    The workspace is again as it was when the snapshot was taken, including its clock; a live clock
    continues from that instant. The snapshot and the journal stay. An API key that is newer than
    the snapshot cannot be used for it, because that key would be deleted.
    """
    place = path("/snapshots/{id}/restore", id=snapshot_id)
    print_data(client().ask("POST", place), _show_workspace)


@click.command()
@with_connection
def reset() -> None:
    """Reset the workspace.

    Restores the workspace to its creation: starting data, clock, scenario and counters, without
    faults and without other API keys. It needs the API key that was created with the workspace,
    because all others are deleted.
    """
    print_data(client().ask("POST", "/reset"), _show_workspace)


@click.command()
def key() -> None:
    """Print a new API key for 'serve --key'.

    Only a server that is started with it knows it.

    \b
    export INVOICE_SANDBOX_KEY=$(invoice-sandbox key)
    invoice-sandbox serve --host 0.0.0.0
    """
    click.echo(new_key())
