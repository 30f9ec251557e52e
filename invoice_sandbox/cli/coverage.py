"""``invoice-sandbox coverage``: report from recordings, or from a running server."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from invoice_sandbox.cli import Command
from invoice_sandbox.cli.options import (
    FAILED,
    FILE,
    OFFLINE,
    Number,
    OneOf,
    client,
    options,
    wants_json,
    with_connection,
)
from invoice_sandbox.cli.output import plain, print_json
from invoice_sandbox.coverage.page import page
from invoice_sandbox.coverage.recording import read_recordings
from invoice_sandbox.coverage.report import Report, report_from, report_of
from invoice_sandbox.coverage.text import lines, shortfall
from invoice_sandbox.project.loader import default_project, load_contract, load_project
from invoice_sandbox.state.hits import TYPES

_COVERAGE: Final[dict[str, dict[str, Any]]] = {
    "--project": {
        **OFFLINE["--project"],
        "help": "Project of the servers that wrote the recordings.",
    },
    "--contract": {
        "metavar": "FILE",
        "type": FILE,
        "help": "Contract of the recorded servers.",
    },
    "--scenarios": OFFLINE["--scenarios"],
    "--only types": {
        "metavar": "TYPE",
        "type": OneOf(TYPES),
        "multiple": True,
        "help": f"Only this type: {', '.join(TYPES)}. Repeatable. Default: all.",
    },
    "--control-api control": {
        "is_flag": True,
        "help": "Include the operations of the control API.",
    },
    "--html": {
        "metavar": "FILE",
        "type": click.Path(dir_okay=False, path_type=Path),
        "help": "Write an HTML report.",
    },
    "--fail-under least": {
        "metavar": "PERCENT",
        "type": Number(0, 100),
        "default": 0,
        "help": "Exit with status 1 if the coverage is below PERCENT.",
    },
    "--strict": {"is_flag": True, "help": "Same as --fail-under 100."},
}


@click.command(cls=Command)
@click.argument("files", metavar="[RECORDING]...", nargs=-1, type=FILE)
@options(_COVERAGE)
@with_connection
def coverage(
    files: tuple[Path, ...],
    types: tuple[str, ...],
    control: bool,
    html: Path | None,
    least: float,
    strict: bool,
    **place: Path | None,
) -> None:
    """Show the coverage of the contract.

    It counts operations and their statuses, types of events, transitions of the lifecycle, and
    scenario steps.
    Without RECORDING, it shows the coverage of the workspace of the key and of those created from
    it. 'serve --coverage FILE' writes a RECORDING; several are added up.

    \b
    invoice-sandbox coverage
    invoice-sandbox coverage --only operations --only statuses
    invoice-sandbox coverage run.txt --html coverage.html --fail-under 80
    """
    report, title = _from_files(files, **place) if files else _from_server(place)
    report = report.only(types or TYPES)
    report = report if control else report.without_control_api()
    if html is not None:
        html.write_text(page(report, title), encoding="utf-8")
    if wants_json():
        print_json(report.data())
    else:
        for line in lines(report):
            click.echo(plain(line))
    least = 100 if strict else least
    missing = shortfall(report, least)
    if missing:
        click.echo(missing, err=True)
        sys.exit(FAILED)


def _from_files(
    files: Sequence[Path], project: Path | None, contract: Path | None, scenarios: Path | None
) -> tuple[Report, str]:
    """The coverage of recordings, and its title. Raises UserError."""
    _reject("cannot be used with a recording", "url", "key")
    if contract is not None:
        served = load_contract(contract, scenarios)
    else:
        served = load_project(project or default_project(), scenarios)
    report = report_of(served, read_recordings(files, served))
    return report, str(served.contract.document["info"]["title"])


def _from_server(place: Iterable[str]) -> tuple[Report, str]:
    """The coverage of the workspace of a key, and its title. Raises SandboxError."""
    _reject("needs a recording; a server reports its own coverage", *place)
    server = client()
    try:
        return report_from(server.ask("GET", "/coverage")), server.url
    except (KeyError, TypeError):
        raise click.ClickException(
            f"the coverage of {server.url} has an unknown format; is it of the same version?"
        ) from None


def _reject(why: str, *names: str) -> None:
    """Raise UsageError if one of these options was given on the command line."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} {why}")
