"""The levers of a server that is running.

Each command asks one lever of the workspace that its key opens, and says how to show the answer.
"""

from __future__ import annotations

from typing import Any, Final

import click

from invoice_sandbox.cli import control_output as lever_command
from invoice_sandbox.cli.control_output import given, path
from invoice_sandbox.cli.options import connection, is_bare, lever, options, pull

_MOST_DIGITS: Final = 19
_REQUESTS: Final = 20


# clock


@click.group(invoke_without_command=True)
@lever
def clock() -> None:
    """Show the clock of the workspace, or move it. Days pass in a moment.

    \b
    invoice-sandbox clock
    invoice-sandbox clock freeze
    invoice-sandbox clock advance P3D
    """
    if is_bare():
        pull("GET", "/clock", show=lever_command.show_clock)


@clock.command("advance")
@click.argument("duration", required=False)
@click.option("--to", metavar="INSTANT", help="Where to go, instead of how far.")
@lever
def advance_clock(duration: str | None, to: str | None) -> None:
    """Move the clock forward by DURATION. Everything that falls due on the way is done.

    Prints one line for each step: instant, action, outcome, subject, reason, events.

    \b
    invoice-sandbox clock advance PT10S
    invoice-sandbox clock advance P3D
    invoice-sandbox clock advance --to 2026-12-24T18:00:00Z
    """
    if (duration is None) == (to is None):
        raise click.UsageError("say how far, such as P3D, or where to, with --to")
    body = given({"by": duration, "to": to})
    pull("POST", "/clock/advance", body, show=lever_command.show_advance)


@clock.command("freeze")
@lever
def freeze_clock() -> None:
    """Stop the clock where it stands.

    \b
    invoice-sandbox clock freeze
    """
    _set_clock(mode="frozen")


@clock.command("release")
@lever
def release_clock() -> None:
    """Let the clock go on with real time, from where it stands.

    \b
    invoice-sandbox clock release
    """
    _set_clock(mode="live")


@clock.command("set")
@click.argument("instant")
@lever
def set_clock(instant: str) -> None:
    """Set the clock to INSTANT. Everything that falls due on the way is done.

    A clock never goes backwards; take a snapshot if you want to come back.

    \b
    invoice-sandbox clock set 2026-12-24T18:00:00Z
    """
    _set_clock(now=instant)


def _set_clock(**change: str) -> None:
    pull("PUT", "/clock", change, show=lever_command.show_advance)


@click.command()
@lever
def agenda() -> None:
    """Show what is due in the workspace, and what it did by itself.

    \b
    invoice-sandbox agenda
    """
    pull("GET", "/agenda", show=lever_command.show_agenda)


# workspaces and snapshots


@click.group()
@lever
def workspace() -> None:
    """Make, list and delete workspaces. Each has its own state, clock and key.

    \b
    invoice-sandbox workspace new --seed 7 --clock frozen
    invoice-sandbox workspace list
    """


@workspace.command("new")
@options(
    {
        "--seed": {"type": int, "metavar": "N", "help": "The same seed gives the same ids."},
        "--scenario": {"metavar": "NAME", "help": "What happens by itself."},
        "--clock": {"type": click.Choice(["live", "frozen"]), "help": "How its clock goes."},
        "--now": {"metavar": "INSTANT", "help": "Where its clock begins."},
    }
)
@lever
def new_workspace(**members: Any) -> None:
    """Make a workspace and print its key. The key is shown only here.

    \b
    invoice-sandbox workspace new
    invoice-sandbox workspace new --seed 7 --scenario manual --clock frozen
    """
    show = lever_command.show_new_workspace
    pull("POST", "/workspaces", given(members), show=show)


@workspace.command("list")
@lever
def list_workspaces() -> None:
    """List the workspace of the key, marked *, and those made from it.

    \b
    invoice-sandbox workspace list
    """
    pull("GET", "/workspaces", show=lever_command.show_workspaces)


@workspace.command("delete")
@click.argument("workspace_id", metavar="ID")
@lever
def delete_workspace(workspace_id: str) -> None:
    """Delete a workspace with everything in it. It was made from the workspace of the key.

    \b
    invoice-sandbox workspace delete wsp_sandbox_k2v5q7xa
    """
    _delete("/workspaces/{id}", workspace_id)


@click.command()
@lever
def reset() -> None:
    """Start afresh. State, clock and scenario are as when the workspace was made; no faults.

    \b
    invoice-sandbox reset
    """
    pull("POST", "/reset", show=lever_command.show_workspace)


@click.group(invoke_without_command=True)
@lever
def snapshot() -> None:
    """Remember the workspace as it is, and go back to it later.

    Without a command, it takes a snapshot.

    \b
    invoice-sandbox snapshot
    invoice-sandbox snapshot list
    invoice-sandbox snapshot restore snp_sandbox_k2v5q7xa_0001
    """
    if is_bare():
        _take_snapshot()


@snapshot.command("take")
@lever
def take_snapshot() -> None:
    """Remember state, clock, agenda, scenario, faults and keys.

    \b
    invoice-sandbox snapshot take
    """
    _take_snapshot()


def _take_snapshot() -> None:
    pull("POST", "/snapshots", show=lever_command.show_snapshot)


@snapshot.command("list")
@lever
def list_snapshots() -> None:
    """List what can be gone back to, newest first.

    \b
    invoice-sandbox snapshot list
    """
    pull("GET", "/snapshots", show=lever_command.show_snapshots)


@snapshot.command("restore")
@click.argument("snapshot_id", metavar="ID")
@lever
def restore_snapshot(snapshot_id: str) -> None:
    """Go back to a snapshot, clock included. The snapshot stays.

    \b
    invoice-sandbox snapshot restore snp_sandbox_k2v5q7xa_0001
    """
    lever = path("/snapshots/{id}/restore", id=snapshot_id)
    pull("POST", lever, show=lever_command.show_workspace)


@snapshot.command("delete")
@click.argument("snapshot_id", metavar="ID")
@lever
def delete_snapshot(snapshot_id: str) -> None:
    """Forget a snapshot; the workspace stays as it is.

    \b
    invoice-sandbox snapshot delete snp_sandbox_k2v5q7xa_0001
    """
    _delete("/snapshots/{id}", snapshot_id)


def _delete(template: str, wanted: str) -> None:
    pull("DELETE", path(template, id=wanted), show=lever_command.show_deleted)


# scenarios and faults


@click.group(invoke_without_command=True)
@lever
def scenario() -> None:
    """List the scenarios, or choose one. The scenario in force is marked *.

    To read, check and draw their files without a server, see 'invoice-sandbox scenarios'.

    \b
    invoice-sandbox scenario
    invoice-sandbox scenario use manual
    """
    if is_bare():
        pull("GET", "/scenarios", show=lever_command.show_scenarios)


@scenario.command("use")
@click.argument("name")
@lever
def use_scenario(name: str) -> None:
    """Put the scenario NAME in force. What another one had in store is dropped.

    \b
    invoice-sandbox scenario use auto-progress
    """
    pull("PUT", "/scenario", {"name": name}, show=lever_command.show_scenario)


def _times(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Any:
    if text is None or text == "forever":
        return {} if text is None else {"count": None}
    if not (text.isascii() and text.isdigit() and len(text) < _MOST_DIGITS):
        raise click.BadParameter(f"a whole number or 'forever', not '{text}'")
    return {"count": int(text)}


_FAULT_KINDS: Final = (
    *("latency", "status", "error", "reset"),
    *("truncate", "malformed", "drip", "content-type"),
)
_FAULT: Final[dict[str, dict[str, Any]]] = {
    "--operation": {"metavar": "NAME", "help": "Its operationId. Default: every operation."},
    "--kind": {
        "type": click.Choice(_FAULT_KINDS),
        "required": True,
        "help": "What goes wrong.",
    },
    "--status": {"type": click.IntRange(200, 599), "help": "For kinds status and error."},
    "--delay": {"metavar": "DURATION", "help": "How long to wait, for kinds latency and drip."},
    "--up-to upTo": {"metavar": "DURATION", "help": "Wait between --delay and this, for latency."},
    "--when": {
        "type": click.Choice(["before", "after"]),
        "help": "Before the request is carried out, or after.",
    },
    "--count times": {
        "metavar": "N|forever",
        "callback": _times,
        "help": "How often. Default: once.",
    },
    "--probability": {
        "type": click.FloatRange(0, 1),
        "help": "Share of the requests. Default: 1.",
    },
}


@click.group()
@lever
def fault() -> None:
    """Make answers go wrong: delays, errors, broken connections.

    \b
    invoice-sandbox fault add --operation createInvoice --kind status --status 503
    invoice-sandbox fault list
    invoice-sandbox fault clear
    """


@fault.command("add")
@options(_FAULT)
@lever
def add_fault(times: dict[str, int | None], **members: Any) -> None:
    """Make the next answers of an operation, or of every one, go wrong.

    \b
    invoice-sandbox fault add --kind latency --delay PT2S --up-to PT3S --count forever
    invoice-sandbox fault add --operation createInvoice --kind status --status 503
    invoice-sandbox fault add --kind reset --when after --count 3 --probability 0.5
    """
    body = given(members) | times
    pull("POST", "/faults", body, show=lambda one: lever_command.show_faults([one]))


@fault.command("list")
@lever
def list_faults() -> None:
    """List the faults in force, in the order they are tried in.

    \b
    invoice-sandbox fault list
    """
    pull("GET", "/faults", show=lever_command.show_faults)


@fault.command("clear")
@lever
def clear_faults() -> None:
    """Remove every fault; answers are as the contract says again.

    \b
    invoice-sandbox fault clear
    """
    pull("DELETE", "/faults", show=lever_command.show_faults)


@fault.command("remove")
@click.argument("fault_id", metavar="ID")
@lever
def remove_fault(fault_id: str) -> None:
    """Remove one fault; the others stay in force.

    \b
    invoice-sandbox fault remove flt_sandbox_k2v5q7xa_0001
    """
    _delete("/faults/{id}", fault_id)


# the journal


@click.command()
@options(
    {
        "--operation": {"metavar": "NAME", "help": "Only this operationId."},
        "--method": {"metavar": "METHOD", "help": "Only this method."},
        "--status": {"type": click.IntRange(100, 599), "help": "Only this status."},
        "--fault/--no-fault": {
            "default": None,
            "help": "Only requests that a fault touched, or only others.",
        },
        "--limit": {
            "type": click.IntRange(1, lever_command.MOST_REQUESTS),
            "help": "At most so many, the newest. Default: 20.",
        },
    }
)
@click.option("--show", metavar="REQUEST_ID", help="One request in full: headers, bodies, why.")
@lever
def requests(show: str | None, **filters: Any) -> None:
    """Show what was asked of the API, what was answered, and why.

    \b
    invoice-sandbox requests --status 400
    invoice-sandbox requests --operation createInvoice --method POST --limit 5
    invoice-sandbox requests --show req_sandbox_01M7YQ1WE00CMTVAXC8FJJVNF7
    """
    chosen = given(filters)
    if show is None:
        lever_command.show_requests(connection(), {"limit": _REQUESTS} | chosen)
    elif chosen:
        raise click.UsageError("--show takes one request by its id; leave out the filters")
    else:
        lever_command.show_request(connection(), show)


# the inbox


@click.command()
@lever
def inbox() -> None:
    """Show the webhooks that the built-in receiver got, newest first.

    The first line is its address, to be registered as a webhook endpoint.

    \b
    invoice-sandbox inbox
    """
    pull("GET", "/inbox", show=lever_command.show_inbox)
