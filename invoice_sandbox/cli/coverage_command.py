"""What ``invoice-sandbox coverage`` does: read recordings or ask a server, then report."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from invoice_sandbox.base import jsonio
from invoice_sandbox.cli import control_output as lever_command
from invoice_sandbox.cli.control_output import Connection, plain
from invoice_sandbox.coverage.page import page
from invoice_sandbox.coverage.recording import RecordingError, read_recordings
from invoice_sandbox.coverage.report import Report, report_from, report_of, rounded
from invoice_sandbox.coverage.text import lines
from invoice_sandbox.project.loader import (
    Project,
    ProjectError,
    default_project,
    load_contract,
    load_project,
)

PROBLEMS: Final = (ProjectError, RecordingError)


@dataclass(frozen=True)
class Place:
    """What was served when the files were recorded; nothing given is the project shipped."""

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
    """How to report: which kinds, with levers or not, as JSON or text, as a page in a file too."""

    kinds: Collection[str]
    levers: bool = False
    as_json: bool = False
    html: Path | None = None


def from_files(files: Sequence[Path], place: Place) -> tuple[Report, str]:
    """What was recorded, and of what it tells. Raises ProjectError and RecordingError."""
    project = place.load()
    report = report_of(project, read_recordings(files, project))
    return report, str(project.contract.document["info"]["title"])


def from_server(connection: Connection) -> tuple[Report, str]:
    """What the workspace of a key touched. Raises click.ClickException."""
    data = lever_command.ask(connection, "GET", "/coverage").data
    try:
        return report_from(data), connection.url
    except (KeyError, TypeError):
        raise click.ClickException(f"{connection.url} tells no coverage that is known") from None


def tell(report: Report, title: str, options: ReportOptions) -> Report:
    """Print and write what was asked for; the report that was told. Raises ClickException."""
    told = report.only(options.kinds)
    if not options.levers:
        told = told.without_levers()
    if options.html is not None:
        _write(options.html, page(told, title))
    if options.as_json:
        click.echo(jsonio.dumps_pretty(told.data()), nl=False)
    else:
        for line in lines(told):
            click.echo(plain(line))
    return told


def falls_short(report: Report, least: float) -> bool:
    """Whether less than ``least`` percent was touched; said on stderr if so."""
    if report.percent >= least:
        return False
    click.echo(f"{rounded(report.percent):g} % is less than {least:g} %.", err=True)
    return True


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{file}: {error.strerror}") from None
