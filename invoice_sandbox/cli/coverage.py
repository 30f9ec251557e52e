"""``invoice-sandbox coverage``: report from recordings, or from a running server."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from invoice_sandbox.cli.options import (
    FAILED,
    FILE,
    OFFLINE,
    UsableError,
    client,
    options,
    renamed,
    wants_json,
    with_connection,
)
from invoice_sandbox.cli.output import plain, print_json
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.coverage.page import page
from invoice_sandbox.coverage.recording import RecordingError, read_recordings
from invoice_sandbox.coverage.report import Report, report_from, report_of, rounded
from invoice_sandbox.coverage.text import lines
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.loader import Project, default_project, load_contract, load_project

PROBLEMS: Final = (ProjectError, RecordingError)


@dataclass(frozen=True)
class Place:
    """What was served when the files were recorded; by default the bundled project."""

    project: Path | None = None
    contract: Path | None = None
    scenarios: Path | None = None

    def load(self) -> Project:
        """The project. Raises ProjectError."""
        if self.contract is not None:
            return load_contract(self.contract, self.scenarios)
        return load_project(self.project or default_project(), self.scenarios)


@dataclass(frozen=True)
class ReportOptions:
    """What to report: which types, with the control API or not; as JSON or text, and as HTML."""

    types: Collection[str]
    control: bool = False
    as_json: bool = False
    html: Path | None = None


_TYPES: Final = ("operations", "statuses", "events", "transitions", "steps")
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
        "type": click.Choice(_TYPES),
        "multiple": True,
        "help": f"Only this type: {', '.join(_TYPES)}. Repeatable. Default: all.",
    },
    "--control-api control": {
        "is_flag": True,
        "help": "Include the operations of the control API.",
    },
    "--levers": {"is_flag": True, **renamed("--levers", "--control-api")},
    "--html": {
        "metavar": "FILE",
        "type": click.Path(dir_okay=False, path_type=Path),
        "help": "Write an HTML report.",
    },
    "--fail-under least": {
        "metavar": "PERCENT",
        "type": click.FloatRange(0, 100),
        "default": 0,
        "help": "Exit with status 1 if the coverage is below PERCENT.",
    },
    "--strict": {"is_flag": True, "help": "Same as --fail-under 100."},
}


@click.command()
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
    chosen = ReportOptions(types or _TYPES, control, wants_json(), html)
    try:
        if files:
            _check_only_files()
            found = from_files(files, Place(**place))
        else:
            _check_only_server(place)
            found = from_server(client())
        shown = print_report(*found, chosen)
    except PROBLEMS as error:
        raise UsableError(str(error)) from None
    if falls_short(shown, 100 if strict else least):
        sys.exit(FAILED)


def _check_only_files() -> None:
    context = click.get_current_context()
    for name in ("url", "key"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} cannot be used with a recording")


def _check_only_server(place: dict[str, Path | None]) -> None:
    context = click.get_current_context()
    for name in place:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} needs a recording; a server reports its own coverage")


def from_files(files: Sequence[Path], place: Place) -> tuple[Report, str]:
    """The coverage of recordings, and its title. Raises ProjectError and RecordingError."""
    project = place.load()
    report = report_of(project, read_recordings(files, project))
    return report, str(project.contract.document["info"]["title"])


def from_server(client: ControlClient) -> tuple[Report, str]:
    """The coverage of the workspace of a key, and its title. Raises SandboxError."""
    data = client.ask("GET", "/coverage")
    try:
        return report_from(data), client.url
    except (KeyError, TypeError):
        raise click.ClickException(
            f"the coverage of {client.url} has an unknown format; is it of the same version?"
        ) from None


def print_report(report: Report, title: str, options: ReportOptions) -> Report:
    """Print and write the chosen parts of a report, and return them. Raises ClickException."""
    shown = report.only(options.types)
    if not options.control:
        shown = shown.without_control_api()
    if options.html is not None:
        _write(options.html, page(shown, title))
    if options.as_json:
        print_json(shown.data())
    else:
        for line in lines(shown):
            click.echo(plain(line))
    return shown


def falls_short(report: Report, least: float) -> bool:
    """Whether less than ``least`` percent is covered; stderr shows it then."""
    if report.percent >= least:
        return False
    click.echo(f"{rounded(report.percent):g} % covered, which is less than {least:g} %.", err=True)
    return True


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
