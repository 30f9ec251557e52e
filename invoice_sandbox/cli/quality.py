"""What a run proves: ``fuzz``, ``coverage``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from invoice_sandbox.cli import control_output as lever_command
from invoice_sandbox.cli.options import (
    CONNECTION,
    FAILED,
    FOLDER,
    OFFLINE,
    UsableError,
    connection,
    lever,
    options,
)
from invoice_sandbox.settings import ENVIRONMENT_PREFIX

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_KINDS: Final = ("operations", "statuses", "events", "transitions", "steps")
_COVERAGE: Final[dict[str, dict[str, Any]]] = {
    "--project": {**OFFLINE["--project"], "help": "Folder that the recorded servers served."},
    "--contract": {
        "metavar": "FILE",
        "type": _FILE,
        "help": "Contract that the recorded servers served alone.",
    },
    "--scenarios": OFFLINE["--scenarios"],
    "--only kinds": {
        "metavar": "KIND",
        "type": click.Choice(_KINDS),
        "multiple": True,
        "help": f"Only this kind: {', '.join(_KINDS)}. May be said again. Default: all of them.",
    },
    "--levers": {"is_flag": True, "help": "Count the operations of the levers, too."},
    "--html": {
        "metavar": "FILE",
        "type": click.Path(dir_okay=False, path_type=Path),
        "help": "Write a page of it.",
    },
    "--fail-under least": {
        "metavar": "PERCENT",
        "type": click.FloatRange(0, 100),
        "default": 0,
        "help": "Status 1 if less was touched of what is reported.",
    },
    "--strict": {"is_flag": True, "help": "The same as --fail-under 100."},
}


@click.command()
@click.argument("files", metavar="[RECORDING]...", nargs=-1, type=_FILE)
@options(_COVERAGE)
@lever
def coverage(
    files: tuple[Path, ...],
    kinds: tuple[str, ...],
    levers: bool,
    html: Path | None,
    least: float,
    strict: bool,
    **place: Path | None,
) -> None:
    """Show what was touched, and what is missing.

    Operations, their statuses, kinds of events, transitions of the lifecycle, steps of scenarios.
    Without a RECORDING, a server is asked what the workspace of the key touched, and those made
    from it. A RECORDING is what 'serve --coverage FILE' writes; several count together.

    \b
    invoice-sandbox coverage
    invoice-sandbox coverage --only operations --only statuses
    invoice-sandbox coverage run.txt --html coverage.html --fail-under 80
    """
    from invoice_sandbox.cli import coverage_command

    options = coverage_command.ReportOptions(kinds or _KINDS, levers, connection().as_json, html)
    try:
        if files:
            _check_only_files()
            found = coverage_command.from_files(files, coverage_command.Place(**place))
        else:
            _check_only_server(place)
            found = coverage_command.from_server(connection())
        told = coverage_command.tell(*found, options)
    except coverage_command.PROBLEMS as error:
        raise UsableError(str(error)) from None
    if coverage_command.falls_short(told, 100 if strict else least):
        sys.exit(FAILED)


def _check_only_files() -> None:
    context = click.get_current_context()
    for name in ("url", "key"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} is for a server; a recording needs none")


def _check_only_server(place: dict[str, Path | None]) -> None:
    context = click.get_current_context()
    for name in place:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} is for a recording; a server knows what it serves")


def _seconds(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | None:
    from invoice_sandbox.base.clock import parse_duration

    if text is None:
        return None
    try:
        seconds = int(parse_duration(text).total_seconds())
    except ValueError as error:
        raise click.BadParameter(f"{error}; five minutes are PT5M") from None
    if seconds < 1:
        raise click.BadParameter("a second at least, PT1S")
    return seconds


_WRITTEN: Final = click.Path(dir_okay=False, writable=True, path_type=Path)
_FUZZ: Final[dict[str, dict[str, Any]]] = {
    "--url": {
        "metavar": "URL",
        "envvar": f"{ENVIRONMENT_PREFIX}_URL",
        "show_envvar": True,
        "callback": lambda _context, _parameter, text: text and lever_command.checked_url(text),
        "help": "Fuzz the server that is running there. Default: one of its own is started.",
    },
    "--key": {
        **CONNECTION["--key"],
        "callback": lambda _context, _parameter, text: lever_command.checked_key(text),
        "help": "A key of that server, from whose workspace new ones are made.",
    },
    "--contract contracts": {
        "type": click.Choice(["api", "sandbox"]),
        "multiple": True,
        "help": "Only the API's contract, or only that of the levers. Default: both.",
    },
    "--operation operations": {
        "metavar": "NAME",
        "multiple": True,
        "help": "Only this operationId. May be said again.",
    },
    "--seed": {
        "type": click.IntRange(0, 2**32 - 1),
        "metavar": "N",
        "default": 7,
        "show_default": True,
        "help": "The same seed sends the same requests.",
    },
    "--max-examples": {
        "type": click.IntRange(1),
        "metavar": "N",
        "default": 30,
        "show_default": True,
        "help": "Generated requests for each operation and phase, and sequences of requests.",
    },
    "--time seconds": {
        "metavar": "DURATION",
        "callback": _seconds,
        "help": "Go on until this time is spent, and not longer: PT5M.",
    },
    "--project": {
        "metavar": "DIR",
        "type": FOLDER,
        "help": "Folder that its own server serves; by default the one shipped.",
    },
    "--document": {
        "metavar": "FILE",
        "type": click.Path(exists=True, dir_okay=False, path_type=Path),
        "help": "OpenAPI file that its own server serves alone, from its examples.",
    },
    "--junit": {"metavar": "FILE", "type": _WRITTEN, "help": "Write a JUnit XML report."},
    "--json as_json": {"metavar": "FILE", "type": _WRITTEN, "help": "Write a JSON report."},
    "--table": {"is_flag": True, "help": "Print how often each operation answered what."},
    "--keep": {
        "is_flag": True,
        "help": "Leave the fuzzed workspace on the server of --url, as every request met it.",
    },
}


@click.command()
@options(_FUZZ)
def fuzz(
    contracts: tuple[str, ...],
    seconds: int | None,
    project: Path | None,
    junit: Path | None,
    as_json: Path | None,
    table: bool,
    **plan: Any,
) -> None:
    """Try thousands of requests, and judge the answers.

    Schemathesis generates them: right ones, wrong ones, and sequences that follow links. It works
    in two new workspaces, deleted afterwards, of which none may read what is the other's. Each
    request meets the same state, so what was found is found again. Status 1 when anything is wrong,
    and when nothing was proved: an operation that never succeeded, a valid key that was refused.
    Needs: pip install './invoice-liquidity-sandbox[fuzz]'

    \b
    invoice-sandbox fuzz
    invoice-sandbox fuzz --contract api --operation createInvoice --seed 1 --max-examples 200
    invoice-sandbox fuzz --url http://127.0.0.1:8080 --time PT5M --junit fuzz.xml
    invoice-sandbox fuzz --document my-api.yaml
    """
    from invoice_sandbox.fuzzing import command

    own = {"--project": project, "--document": plan["document"]}
    ask = plan["url"] is not None
    for name in [name for name, value in own.items() if value is not None and ask]:
        raise click.UsageError(f"{name} is for a server of its own; the one of --url has started")
    if project is not None and plan["document"] is not None:
        raise click.UsageError("--document serves one file alone; it cannot be used with --project")
    if plan["keep"] and not ask:
        raise click.UsageError("--keep needs --url; a server of its own stops at the end")
    made = command.Plan(
        **plan, seconds=seconds, folder=project, contracts=contracts or tuple(command.CONTRACTS)
    )
    try:
        passed = command.fuzz(made, junit=junit, json=as_json, with_table=table)
    except command.PROBLEMS as error:
        raise UsableError(str(error)) from None
    except KeyboardInterrupt:
        click.echo("Stopped; nothing was judged.", err=True)
        sys.exit(command.INTERRUPTED)
    sys.exit(0 if passed else FAILED)
