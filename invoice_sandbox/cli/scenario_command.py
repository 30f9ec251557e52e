"""What ``invoice-sandbox scenarios`` does: list, show, check and draw stories offline."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import duration_text
from invoice_sandbox.openapi.load.documents import DocumentError, place_of
from invoice_sandbox.openapi.schema.file_schema import suggestion
from invoice_sandbox.project.loader import (
    Project,
    ProjectError,
    default_project,
    load_project,
    load_vocabulary,
)
from invoice_sandbox.scenarios.checks import SCHEMA, scenario_file_problems
from invoice_sandbox.scenarios.drawing import mermaid, notes, step_views, svg, trigger_in_words
from invoice_sandbox.scenarios.library import scenario_files
from invoice_sandbox.scenarios.script import Scenario
from invoice_sandbox.scenarios.simulation import Run, main_run

PROBLEMS: Final = (DocumentError, ProjectError)
_WIDE: Final = 160


@dataclass(frozen=True)
class Place:
    """Where stories are read from: a project (None: the one shipped), and a folder of own ones."""

    project: Path | None = None
    own: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder of the project."""
        return self.project or default_project()

    def load(self) -> Project:
        """The project with all its stories. Raises ProjectError."""
        return load_project(self.folder, self.own)


def print_schema() -> None:
    """Print the JSON Schema of scenario files."""
    click.echo(SCHEMA.read_text(encoding="utf-8"), nl=False)


def list_scenarios(place: Place, *, as_json: bool) -> None:
    """Print every story: its name, what chooses it, what happens, when the client passes."""
    scenarios = place.load().scenarios
    rows = sorted(scenarios.values(), key=lambda one: one.name)
    if as_json:
        _print_json([_summary(one) for one in rows])
        return
    table = Table()
    for title in ("name", "trigger", "what happens", "the client passes when"):
        table.add_column(title, overflow="fold", no_wrap=title == "name")
    for one in rows:
        table.add_row(one.name, trigger_in_words(one), one.purpose, one.passes or "-")
    # Beyond a terminal nothing tells the width; a table in a file should not be cut to 80 columns.
    width = None if sys.stdout.isatty() else _WIDE
    Console(width=width, markup=False, highlight=False).print(table)


def show_scenario(place: Place, name: str, *, as_json: bool) -> None:
    """Print one story in words. Raises click.ClickException for an unknown name."""
    project = place.load()
    scenario, way = _found(project, name)
    if as_json:
        _print_json(_whole(scenario, way))
        return
    for line in _story(scenario, way):
        click.echo(line)


def draw_scenario(place: Place, name: str, form: str, output: Path | None) -> None:
    """Print or write a picture of one story. Raises click.ClickException."""
    scenario, way = _found(place.load(), name)
    text = svg(scenario, way) if form == "svg" else mermaid(scenario, way)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{output}: {error.strerror}") from None


def validate(place: Place, files: Sequence[Path]) -> bool:
    """Print one line for every problem of the files, or ``fine``; True when there is any.

    Without files, those of the folder of own ones are meant, else those of the project.
    """
    vocabulary = load_vocabulary(place.folder)
    meant = list(files) or scenario_files(place.own or place.folder / "scenarios")
    found = False
    for file in meant:
        problems = [*scenario_file_problems(file, vocabulary), *_taken(file, place)]
        found = found or bool(problems)
        for where, problem in problems:
            click.echo(f"{where}: {problem}")
    if not found:
        click.echo("fine")
    return found


def _taken(file: Path, place: Place) -> Iterator[tuple[str, str]]:
    """A story of one's own cannot have the name of one that the project tells."""
    theirs = place.folder / "scenarios" / file.name
    if theirs.exists() and not (file.exists() and theirs.samefile(file)) and file.exists():
        yield (
            place_of(file, ("name",)),
            f"the project has a scenario '{file.stem}' (choose another name)",
        )


def _found(project: Project, name: str) -> tuple[Scenario, Run]:
    scenario = project.scenarios.get(name)
    if scenario is None:
        advice = suggestion(name, sorted(project.scenarios))
        raise click.BadParameter(f"there is no scenario '{name}' ({advice})", param_hint="NAME")
    return scenario, main_run(scenario, project.vocabulary.machine, project.actions)


def _story(scenario: Scenario, way: Run) -> Iterator[str]:
    yield scenario.name
    yield scenario.purpose
    if scenario.passes:
        yield f"Passes when: {scenario.passes}"
    yield ""
    yield f"Trigger: {trigger_in_words(scenario)}"
    for member, values in scenario.needs.items():
        yield f"Begun later, it needs {member}: {', '.join(map(str, values))}"
    for name, value in scenario.conditions.items():
        yield f"Condition {name}: {_as_json(value)}"
    if way:
        yield ""
        yield from _table(way)
    for title, lines in notes(scenario):
        yield ""
        yield f"{title}:"
        yield from (f"  {line}" for line in lines)
    expected = [str(one["that"]) for one in scenario.document.get("expects", [])]
    if expected:
        yield ""
        yield "Expected of the client:"
        yield from (f"  {line}" for line in expected)


def _table(way: Run) -> Iterator[str]:
    told = step_views(way)
    first = max(len(one.when) for one in told)
    second = max(len(one.what) for one in told)
    for one in told:
        leads = one.leads if not one.simulated.possible else f"-> {one.leads}"
        yield f"{one.when:<{first}}  {one.what:<{second}}  {leads}"
        small = [one.why] if one.why else []
        small += [f"records {', '.join(one.events)}"] if one.events else []
        if small:
            yield f"{'':<{first}}  {'; '.join(small)}"


def _summary(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "trigger": trigger_in_words(scenario),
        "purpose": scenario.purpose,
        "passes": scenario.passes or None,
    }


def _whole(scenario: Scenario, way: Run) -> dict[str, Any]:
    told = [
        {
            "at": duration_text(one.simulated.at),
            "by": "client" if one.simulated.step is None else "scenario",
            "do": one.simulated.do,
            "with": {} if one.simulated.step is None else dict(one.simulated.step.arguments),
            "possible": one.simulated.possible,
            "status": one.simulated.status,
            "others": list(one.simulated.others),
            "events": list(one.events),
        }
        for one in step_views(way)
    ]
    document: Mapping[str, Any] = scenario.document
    return {**_summary(scenario), "document": dict(document), "way": told}


def _as_json(value: Any) -> str:
    return jsonio.dumps(value).decode()


def _print_json(data: Any) -> None:
    sys.stdout.write(jsonio.dumps_pretty(data).decode())
