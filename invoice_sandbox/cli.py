"""The command line: ``serve``, ``contract``, and the levers of a server that is running.

Each lever command asks one lever of the workspace that its key opens, and says how to show it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from invoice_sandbox import __version__, lever_command
from invoice_sandbox.credentials import DEMO_KEY
from invoice_sandbox.lever_command import Connection, Data, given, path
from invoice_sandbox.settings import ENVIRONMENT_PREFIX, SETTINGS, SettingError, read_settings

_FAILED = 1
_MISUSED = 2
_MOST_DIGITS = 19
_REQUESTS = 20


Command = Callable[..., None]


class UsableError(click.ClickException):
    """A problem that the user can mend: one line on stderr, exit status 2."""

    exit_code = _MISUSED


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="invoice-sandbox")
def main() -> None:
    """A sandbox of the Invoice Liquidity API, served from its OpenAPI 3.1 contract.

    Start it with 'invoice-sandbox serve', then follow the printed address. The other commands pull
    the levers of a server that is running: time, scenarios, faults, webhooks, workspaces.

    \b
    invoice-sandbox serve --clock frozen
    invoice-sandbox clock advance P3D
    invoice-sandbox requests --status 400
    """


def _setting_options(command: Callable[..., None]) -> Callable[..., None]:
    for setting in reversed(SETTINGS):
        variable = f"{ENVIRONMENT_PREFIX}_{setting.name.replace('-', '_').upper()}"
        option = click.option(
            f"--{setting.name}",
            metavar=setting.metavar,
            envvar=variable,
            help=setting.help + (f" Default: {setting.default}." if setting.default else ""),
        )
        command = option(command)
    return command


@main.command()
@_setting_options
def serve(**texts: str | None) -> None:
    """Serve the sandbox until it is stopped.

    Prints one line, with the address and the key, when it is ready to answer. Every option is an
    environment variable too: --rate-limit is INVOICE_SANDBOX_RATE_LIMIT.
    """
    from invoice_sandbox.project import ProjectError
    from invoice_sandbox.server import serve as serve_forever

    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(message)s"
    )
    try:
        settings = read_settings({name.replace("_", "-"): text for name, text in texts.items()})

        def say_ready(url: str) -> None:
            click.echo(f"Invoice Liquidity Sandbox ready on {url} with key {settings.key}")

        serve_forever(settings, say_ready)
    except (SettingError, ProjectError) as error:
        raise UsableError(str(error)) from None


@main.command()
@click.option(
    "--project",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with openapi/, handlers/, fixtures/, scenarios/; by default the one shipped.",
)
@click.option("--base", is_flag=True, help="The published contract alone, without assumptions.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    show_default=True,
    help="How to print it.",
)
@click.option("--assumptions", is_flag=True, help="Print what this sandbox assumes, as a table.")
@click.option(
    "--check",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare another version of the published contract with this one; 1 if anything breaks.",
)
def contract(
    project: Path | None, base: bool, form: str, assumptions: bool, check: Path | None
) -> None:
    """Print the served contract: the published document and this sandbox's assumptions, merged.

    \b
    invoice-sandbox contract --format json > contract.json
    invoice-sandbox contract --assumptions
    invoice-sandbox contract --check next-version.yaml
    """
    from invoice_sandbox import contract_command

    try:
        if check is not None:
            sys.exit(_FAILED if contract_command.check(project, check) else 0)
        if assumptions:
            contract_command.print_assumptions(project)
        else:
            contract_command.print_contract(project, base=base, form=form)
    except contract_command.PROBLEMS as error:
        raise UsableError(str(error)) from None


# --- scenarios, without a server


def _options(rows: dict[str, dict[str, Any]], **common: Any) -> Callable[[Command], Command]:
    """Options from a table of their names and properties, in its order."""

    def add(command: Command) -> Command:
        for names, properties in reversed(rows.items()):
            command = click.option(*names.split(), **common, **properties)(command)
        return command

    return add


_FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)
_OFFLINE: Final[dict[str, dict[str, Any]]] = {
    "--project": {
        "metavar": "DIR",
        "type": _FOLDER,
        "help": "Folder with openapi/, handlers/, scenarios/; by default the one shipped.",
    },
    "--scenarios": {
        "metavar": "DIR",
        "type": _FOLDER,
        "envvar": f"{ENVIRONMENT_PREFIX}_SCENARIOS",
        "help": "Folder with scenarios of your own, besides the project's.",
    },
}
_AS_JSON: Final = {"--json as_json": {"is_flag": True, "help": "Print it as JSON, for scripts."}}


def _offline(more: dict[str, dict[str, Any]] | None = None) -> Callable[[Command], Command]:
    """Options of a command that reads scenarios from files."""
    return _options({**(more or {}), **_OFFLINE})


def _tell(do: Callable[[Any, Any], Any], project: Path | None, scenarios: Path | None) -> Any:
    """Do something with the scenarios of a project; its problems are the user's to mend."""
    from invoice_sandbox import scenario_command

    try:
        return do(scenario_command, scenario_command.Place(project, scenarios))
    except scenario_command.PROBLEMS as error:
        raise UsableError(str(error)) from None


@main.group()
def scenarios() -> None:
    """Read, check and draw scenarios, from their files. No server is needed.

    To choose one on a server that is running, see 'invoice-sandbox scenario'.

    \b
    invoice-sandbox scenarios list
    invoice-sandbox scenarios show late-payment
    invoice-sandbox scenarios validate mine/my-story.yaml
    invoice-sandbox scenarios diagram late-payment --format svg --output late-payment.svg
    """


@scenarios.command("list")
@_offline(_AS_JSON)
def list_scenarios(*, as_json: bool, project: Path | None, scenarios: Path | None) -> None:
    """List every scenario: what chooses it, what happens, when a client passes.

    \b
    invoice-sandbox scenarios list
    """
    _tell(lambda do, place: do.list_scenarios(place, as_json=as_json), project, scenarios)


@scenarios.command("show")
@click.argument("name")
@_offline(_AS_JSON)
def show_scenario(
    name: str, *, as_json: bool, project: Path | None, scenarios: Path | None
) -> None:
    """Tell the story of the scenario NAME in words: when, what, how.

    \b
    invoice-sandbox scenarios show late-payment
    """
    _tell(lambda do, place: do.show_scenario(place, name, as_json=as_json), project, scenarios)


@scenarios.command("validate")
@click.argument(
    "files", metavar="[FILE]...", nargs=-1, type=click.Path(dir_okay=False, path_type=Path)
)
@_offline()
def validate_scenarios(
    files: tuple[Path, ...], project: Path | None, scenarios: Path | None
) -> None:
    """Check scenario files: one line for each problem and status 1, or 'fine'.

    Without a FILE, those of --scenarios are checked, else those of the project.

    \b
    invoice-sandbox scenarios validate mine/my-story.yaml
    """
    if _tell(lambda do, place: do.validate(place, files), project, scenarios):
        sys.exit(_FAILED)


@scenarios.command("diagram")
@click.argument("name")
@_offline(
    {
        "--format form": {
            "type": click.Choice(["mermaid", "svg"]),
            "default": "mermaid",
            "show_default": True,
            "help": "A Mermaid state diagram, or a picture.",
        },
        "--output": {
            "metavar": "FILE",
            "type": click.Path(dir_okay=False, path_type=Path),
            "help": "Where to write it, instead of to the terminal.",
        },
    }
)
def draw_scenario(
    name: str, form: str, output: Path | None, project: Path | None, scenarios: Path | None
) -> None:
    """Draw the story of the scenario NAME.

    \b
    invoice-sandbox scenarios diagram late-payment
    invoice-sandbox scenarios diagram late-payment --format svg --output late-payment.svg
    """
    _tell(lambda do, place: do.draw_scenario(place, name, form, output), project, scenarios)


# --- the levers of a server that is running


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep an option of the connection. A group's holds for its commands, unless they say else."""
    name = parameter.name or ""
    connection = context.ensure_object(dict)
    if name not in connection or context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        connection[name] = value


def _remember_checked(check: Callable[[str], str]) -> Callable[..., None]:
    return lambda context, parameter, text: _remember(context, parameter, check(text))


_CONNECTION: Final[dict[str, dict[str, Any]]] = {
    "--url": {
        "metavar": "URL",
        "envvar": f"{ENVIRONMENT_PREFIX}_URL",
        "default": lever_command.DEFAULT_URL,
        "show_default": True,
        "show_envvar": True,
        "callback": _remember_checked(lever_command.checked_url),
        "help": "The server to ask.",
    },
    "--key": {
        "metavar": "KEY",
        "envvar": f"{ENVIRONMENT_PREFIX}_KEY",
        "default": DEMO_KEY,
        "show_default": "the demo key",
        "show_envvar": True,
        "callback": _remember_checked(lever_command.checked_key),
        "help": "A key of the workspace.",
    },
    "--json": {
        "is_flag": True,
        "callback": _remember,
        "help": "Print the data of the answer as JSON, for scripts.",
    },
}


_lever = _options(_CONNECTION, expose_value=False)
"""Every command that asks a server takes these."""


def _connection() -> Connection:
    given_options = click.get_current_context().find_object(dict) or {}
    return Connection(given_options["url"], given_options["key"], given_options["json"])


def _pull(
    method: str, lever: str, body: dict[str, Any] | None = None, *, show: Callable[[Data], None]
) -> None:
    lever_command.pull(_connection(), method, lever, body, show=show)


def _is_bare() -> bool:
    """Whether a group was named without one of its commands."""
    return click.get_current_context().invoked_subcommand is None


# clock


@main.group(invoke_without_command=True)
@_lever
def clock() -> None:
    """Show the clock of the workspace, or move it. Days pass in a moment.

    \b
    invoice-sandbox clock
    invoice-sandbox clock freeze
    invoice-sandbox clock advance P3D
    """
    if _is_bare():
        _pull("GET", "/clock", show=lever_command.show_clock)


@clock.command("advance")
@click.argument("duration", required=False)
@click.option("--to", metavar="INSTANT", help="Where to go, instead of how far.")
@_lever
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
    _pull("POST", "/clock/advance", body, show=lever_command.show_advance)


@clock.command("freeze")
@_lever
def freeze_clock() -> None:
    """Stop the clock where it stands.

    \b
    invoice-sandbox clock freeze
    """
    _set_clock(mode="frozen")


@clock.command("release")
@_lever
def release_clock() -> None:
    """Let the clock go on with real time, from where it stands.

    \b
    invoice-sandbox clock release
    """
    _set_clock(mode="live")


@clock.command("set")
@click.argument("instant")
@_lever
def set_clock(instant: str) -> None:
    """Set the clock to INSTANT. Everything that falls due on the way is done.

    A clock never goes backwards; take a snapshot if you want to come back.

    \b
    invoice-sandbox clock set 2026-12-24T18:00:00Z
    """
    _set_clock(now=instant)


def _set_clock(**change: str) -> None:
    _pull("PUT", "/clock", change, show=lever_command.show_advance)


@main.command()
@_lever
def agenda() -> None:
    """Show what is due in the workspace, and what it did by itself.

    \b
    invoice-sandbox agenda
    """
    _pull("GET", "/agenda", show=lever_command.show_agenda)


# workspaces and snapshots


@main.group()
@_lever
def workspace() -> None:
    """Make, list and delete workspaces. Each has its own state, clock and key.

    \b
    invoice-sandbox workspace new --seed 7 --clock frozen
    invoice-sandbox workspace list
    """


@workspace.command("new")
@_options(
    {
        "--seed": {"type": int, "metavar": "N", "help": "The same seed gives the same ids."},
        "--scenario": {"metavar": "NAME", "help": "What happens by itself."},
        "--clock": {"type": click.Choice(["live", "frozen"]), "help": "How its clock goes."},
        "--now": {"metavar": "INSTANT", "help": "Where its clock begins."},
    }
)
@_lever
def new_workspace(**members: Any) -> None:
    """Make a workspace and print its key. The key is shown only here.

    \b
    invoice-sandbox workspace new
    invoice-sandbox workspace new --seed 7 --scenario manual --clock frozen
    """
    show = lever_command.show_new_workspace
    _pull("POST", "/workspaces", given(members), show=show)


@workspace.command("list")
@_lever
def list_workspaces() -> None:
    """List the workspace of the key, marked *, and those made from it.

    \b
    invoice-sandbox workspace list
    """
    _pull("GET", "/workspaces", show=lever_command.show_workspaces)


@workspace.command("delete")
@click.argument("workspace_id", metavar="ID")
@_lever
def delete_workspace(workspace_id: str) -> None:
    """Delete a workspace with everything in it. It was made from the workspace of the key.

    \b
    invoice-sandbox workspace delete wsp_sandbox_k2v5q7xa
    """
    _delete("/workspaces/{id}", workspace_id)


@main.command()
@_lever
def reset() -> None:
    """Start afresh. State, clock and scenario are as when the workspace was made; no faults.

    \b
    invoice-sandbox reset
    """
    _pull("POST", "/reset", show=lever_command.show_workspace)


@main.group(invoke_without_command=True)
@_lever
def snapshot() -> None:
    """Remember the workspace as it is, and go back to it later.

    Without a command, it takes a snapshot.

    \b
    invoice-sandbox snapshot
    invoice-sandbox snapshot list
    invoice-sandbox snapshot restore snp_sandbox_k2v5q7xa_0001
    """
    if _is_bare():
        _take_snapshot()


@snapshot.command("take")
@_lever
def take_snapshot() -> None:
    """Remember state, clock, agenda, scenario, faults and keys.

    \b
    invoice-sandbox snapshot take
    """
    _take_snapshot()


def _take_snapshot() -> None:
    _pull("POST", "/snapshots", show=lever_command.show_snapshot)


@snapshot.command("list")
@_lever
def list_snapshots() -> None:
    """List what can be gone back to, newest first.

    \b
    invoice-sandbox snapshot list
    """
    _pull("GET", "/snapshots", show=lever_command.show_snapshots)


@snapshot.command("restore")
@click.argument("snapshot_id", metavar="ID")
@_lever
def restore_snapshot(snapshot_id: str) -> None:
    """Go back to a snapshot, clock included. The snapshot stays.

    \b
    invoice-sandbox snapshot restore snp_sandbox_k2v5q7xa_0001
    """
    lever = path("/snapshots/{id}/restore", id=snapshot_id)
    _pull("POST", lever, show=lever_command.show_workspace)


@snapshot.command("delete")
@click.argument("snapshot_id", metavar="ID")
@_lever
def delete_snapshot(snapshot_id: str) -> None:
    """Forget a snapshot; the workspace stays as it is.

    \b
    invoice-sandbox snapshot delete snp_sandbox_k2v5q7xa_0001
    """
    _delete("/snapshots/{id}", snapshot_id)


def _delete(template: str, wanted: str) -> None:
    _pull("DELETE", path(template, id=wanted), show=lever_command.show_deleted)


# scenarios and faults


@main.group(invoke_without_command=True)
@_lever
def scenario() -> None:
    """List the scenarios, or choose one. The scenario in force is marked *.

    To read, check and draw their files without a server, see 'invoice-sandbox scenarios'.

    \b
    invoice-sandbox scenario
    invoice-sandbox scenario use manual
    """
    if _is_bare():
        _pull("GET", "/scenarios", show=lever_command.show_scenarios)


@scenario.command("use")
@click.argument("name")
@_lever
def use_scenario(name: str) -> None:
    """Put the scenario NAME in force. What another one had in store is dropped.

    \b
    invoice-sandbox scenario use auto-progress
    """
    _pull("PUT", "/scenario", {"name": name}, show=lever_command.show_scenario)


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


@main.group()
@_lever
def fault() -> None:
    """Make answers go wrong: delays, errors, broken connections.

    \b
    invoice-sandbox fault add --operation createInvoice --kind status --status 503
    invoice-sandbox fault list
    invoice-sandbox fault clear
    """


@fault.command("add")
@_options(_FAULT)
@_lever
def add_fault(times: dict[str, int | None], **members: Any) -> None:
    """Make the next answers of an operation, or of every one, go wrong.

    \b
    invoice-sandbox fault add --kind latency --delay PT2S --up-to PT3S --count forever
    invoice-sandbox fault add --operation createInvoice --kind status --status 503
    invoice-sandbox fault add --kind reset --when after --count 3 --probability 0.5
    """
    body = given(members) | times
    _pull("POST", "/faults", body, show=lambda one: lever_command.show_faults([one]))


@fault.command("list")
@_lever
def list_faults() -> None:
    """List the faults in force, in the order they are tried in.

    \b
    invoice-sandbox fault list
    """
    _pull("GET", "/faults", show=lever_command.show_faults)


@fault.command("clear")
@_lever
def clear_faults() -> None:
    """Remove every fault; answers are as the contract says again.

    \b
    invoice-sandbox fault clear
    """
    _pull("DELETE", "/faults", show=lever_command.show_faults)


@fault.command("remove")
@click.argument("fault_id", metavar="ID")
@_lever
def remove_fault(fault_id: str) -> None:
    """Remove one fault; the others stay in force.

    \b
    invoice-sandbox fault remove flt_sandbox_k2v5q7xa_0001
    """
    _delete("/faults/{id}", fault_id)


# the journal


@main.command()
@_options(
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
@_lever
def requests(show: str | None, **filters: Any) -> None:
    """Show what was asked of the API, what was answered, and why.

    \b
    invoice-sandbox requests --status 400
    invoice-sandbox requests --operation createInvoice --method POST --limit 5
    invoice-sandbox requests --show req_sandbox_01M7YQ1WE00CMTVAXC8FJJVNF7
    """
    chosen = given(filters)
    if show is None:
        lever_command.show_requests(_connection(), {"limit": _REQUESTS} | chosen)
    elif chosen:
        raise click.UsageError("--show takes one request by its id; leave out the filters")
    else:
        lever_command.show_request(_connection(), show)


# webhooks


def _target(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    from invoice_sandbox.listen_command import checked_target

    return checked_target(text)


def _kinds(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    kinds = tuple(one.strip() for one in text.split(","))
    if not all(kinds):
        raise click.BadParameter("kinds of events, with commas between them")
    return kinds


@main.command()
@_options(
    {
        "--forward-to": {
            "metavar": "URL",
            "required": True,
            "callback": _target,
            "help": "Your receiver: a URL, or a port of this machine.",
        },
        "--events": {
            "metavar": "KIND,...",
            "default": "*",
            "callback": _kinds,
            "help": "Only events of these kinds. Default: every one.",
        },
    }
)
@_lever
def listen(forward_to: str, events: tuple[str, ...]) -> None:
    """Forward deliveries to your own receiver, until stopped.

    It registers a webhook endpoint and prints its signing secret, then a line for each delivery:
    time, kind, webhook-id, what your receiver answered, how long that took. Headers and body are
    forwarded as they were signed. A lost connection is made again, and nothing is missed. With
    --json each line is a JSON object.

    \b
    invoice-sandbox listen --forward-to 3000
    invoice-sandbox listen --forward-to http://localhost:3000/hooks --events invoice.paid,offer.*
    """
    from invoice_sandbox import listen_command

    listen_command.listen(_connection(), forward_to, events)


@main.command()
@click.argument("kind")
@click.option("--invoice", metavar="ID", help="Of which invoice to tell. Default: the newest.")
@_lever
def trigger(kind: str, invoice: str | None) -> None:
    """Record an event of KIND as if it had happened, and deliver it. Nothing is moved.

    Prints the event, then a line for each endpoint that subscribes to it.

    \b
    invoice-sandbox trigger invoice.verified --invoice inv_sandbox_0003
    invoice-sandbox trigger offer.received --invoice inv_sandbox_k2v5q7xa_0001
    """
    lever_command.trigger(_connection(), kind, invoice)
