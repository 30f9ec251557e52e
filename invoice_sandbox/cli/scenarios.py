"""``invoice-sandbox scenarios``: list, show, check and draw scenario files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import duration_text
from invoice_sandbox.cli.control import control_commands
from invoice_sandbox.cli.options import FAILED, OFFLINE, Command, UsableError, options
from invoice_sandbox.openapi.load.documents import DocumentError, load_document, place_of
from invoice_sandbox.openapi.schema.file_schema import suggestion
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.loader import Project, default_project, load_project, load_vocabulary
from invoice_sandbox.scenarios.checks import SCHEMA, scenario_file_problems
from invoice_sandbox.scenarios.drawing import mermaid, notes, step_views, svg, trigger_in_words
from invoice_sandbox.scenarios.library import check_beginning, scenario_files
from invoice_sandbox.scenarios.script import Scenario
from invoice_sandbox.scenarios.simulation import Run, main_run

PROBLEMS: Final = (DocumentError, ProjectError)
_WIDE: Final = 160


@dataclass(frozen=True)
class Place:
    """Where scenarios are: a project (None: the bundled one), and a folder of the user."""

    project: Path | None = None
    own: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder of the project."""
        return self.project or default_project()

    def load(self) -> Project:
        """The project with all its scenarios. Raises ProjectError."""
        return load_project(self.folder, self.own)


_AS_JSON: Final = {"--json as_json": {"is_flag": True, "help": "Print JSON."}}


def _offline(more: dict[str, dict[str, Any]] | None = None) -> Callable[[Command], Command]:
    """Options of a command that reads scenarios from files."""
    return options({**(more or {}), **OFFLINE})


def _run(do: Callable[[Place], Any], project: Path | None, scenarios: Path | None) -> Any:
    """Run a function on the scenarios of a project; problems of their files end the command."""
    try:
        return do(Place(project, scenarios))
    except PROBLEMS as error:
        raise UsableError(str(error)) from None


class _Scenarios(click.Group):
    """The commands for files; those of ``scenario``, for a running server, are found too."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        if found is None:
            group = control_commands()["scenario"]
            return group.commands.get(cmd_name) if isinstance(group, click.Group) else None
        return found


@click.group(cls=_Scenarios)
def scenarios() -> None:
    """Read, check and draw scenario files. No server is needed.

    To choose a scenario on a running server, use 'invoice-sandbox scenario'.

    \b
    invoice-sandbox scenarios list
    invoice-sandbox scenarios show late-payment
    invoice-sandbox scenarios validate mine/my-scenario.yaml
    invoice-sandbox scenarios diagram late-payment --format svg --output late-payment.svg
    """


@scenarios.command("list")
@_offline(_AS_JSON)
def _list(*, as_json: bool, project: Path | None, scenarios: Path | None) -> None:
    """List every scenario: its trigger, what happens, when a client passes.

    \b
    invoice-sandbox scenarios list
    """
    _run(lambda place: list_scenarios(place, as_json=as_json), project, scenarios)


@scenarios.command("show")
@click.argument("name")
@_offline(_AS_JSON)
def _show(name: str, *, as_json: bool, project: Path | None, scenarios: Path | None) -> None:
    """Show the scenario NAME step by step.

    \b
    invoice-sandbox scenarios show late-payment
    """
    _run(lambda place: show_scenario(place, name, as_json=as_json), project, scenarios)


@scenarios.command("validate")
@click.argument(
    "files", metavar="[FILE]...", nargs=-1, type=click.Path(dir_okay=False, path_type=Path)
)
@_offline()
def _validate(files: tuple[Path, ...], project: Path | None, scenarios: Path | None) -> None:
    """Check scenario files: one line for each problem and status 1, or 'fine'.

    Without FILE, it checks the scenarios of --scenarios, or those of the project.

    \b
    invoice-sandbox scenarios validate mine/my-scenario.yaml
    """
    if _run(lambda place: validate(place, files), project, scenarios):
        sys.exit(FAILED)


@scenarios.command("schema")
def _schema() -> None:
    """Print the JSON Schema of scenario files, for editors.

    \b
    invoice-sandbox scenarios schema > scenario.schema.json
    """
    print_schema()


@scenarios.command("diagram")
@click.argument("name")
@_offline(
    {
        "--format form": {
            "type": click.Choice(["mermaid", "svg"]),
            "default": "mermaid",
            "show_default": True,
            "help": "Format of the diagram.",
        },
        "--output": {
            "metavar": "FILE",
            "type": click.Path(dir_okay=False, path_type=Path),
            "help": "Write the diagram to this file.",
        },
    }
)
def _diagram(
    name: str, form: str, output: Path | None, project: Path | None, scenarios: Path | None
) -> None:
    """Draw the scenario NAME as a state diagram.

    \b
    invoice-sandbox scenarios diagram late-payment
    invoice-sandbox scenarios diagram late-payment --format svg --output late-payment.svg
    """
    _run(lambda place: draw_scenario(place, name, form, output), project, scenarios)


def print_schema() -> None:
    """Print the JSON Schema of scenario files."""
    click.echo(SCHEMA.read_text(encoding="utf-8"), nl=False)


def list_scenarios(place: Place, *, as_json: bool) -> None:
    """Print every scenario: name, trigger, what happens, when the client passes."""
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
    # Without a terminal there is no width; a table in a file should not be cut to 80 columns.
    width = None if sys.stdout.isatty() else _WIDE
    Console(width=width, markup=False, highlight=False).print(table)


def show_scenario(place: Place, name: str, *, as_json: bool) -> None:
    """Print one scenario in words. Raises click.ClickException for an unknown name."""
    project = place.load()
    scenario, run = _found(project, name)
    if as_json:
        _print_json(_whole(scenario, run))
        return
    for line in _description(scenario, run):
        click.echo(line)


def draw_scenario(place: Place, name: str, form: str, output: Path | None) -> None:
    """Print or write a diagram of one scenario. Raises click.ClickException."""
    scenario, run = _found(place.load(), name)
    text = svg(scenario, run) if form == "svg" else mermaid(scenario, run)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{output}: {error.strerror}") from None


def validate(place: Place, files: Sequence[Path]) -> bool:
    """Print one line for every problem of the files, or ``fine``; True when there is any.

    Without files it checks those of the user's folder, or those of the project.
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
    """A scenario of the user cannot have the name or the beginning of one of the project."""
    theirs = place.folder / "scenarios" / file.name
    if theirs.exists() and not (file.exists() and theirs.samefile(file)) and file.exists():
        yield (
            place_of(file, ("name",)),
            f"the project has a scenario '{file.stem}' (choose another name)",
        )
        return
    begins = _begins(file)
    for other in scenario_files(place.folder / "scenarios") if begins else []:
        try:
            if other.stem != file.stem:
                check_beginning(file, begins, other.stem, _begins(other))
        except DocumentError as error:
            yield error.place, f"{error.problem} ({error.advice})"


def _begins(file: Path) -> Any:
    """The members that begin a scenario; None for a file that cannot be read."""
    with suppress(DocumentError):
        document = load_document(file)
        return document.get("begins") if isinstance(document, dict) else None
    return None


def _found(project: Project, name: str) -> tuple[Scenario, Run]:
    scenario = project.scenarios.get(name)
    if scenario is None:
        advice = suggestion(name, sorted(project.scenarios))
        raise click.BadParameter(f"there is no scenario '{name}' ({advice})", param_hint="NAME")
    return scenario, main_run(scenario, project.vocabulary.machine, project.actions)


def _description(scenario: Scenario, run: Run) -> Iterator[str]:
    yield scenario.name
    yield scenario.purpose
    if scenario.passes:
        yield f"Passes when: {scenario.passes}"
    yield ""
    yield f"Trigger: {trigger_in_words(scenario)}"
    for member, values in scenario.needs.items():
        yield f"To start it later, {member} must be: {', '.join(map(str, values))}"
    for name, value in scenario.conditions.items():
        yield f"Condition {name}: {_as_json(value)}"
    if run:
        yield ""
        yield from _table(run)
    for title, lines in notes(scenario):
        yield ""
        yield f"{title}:"
        yield from (f"  {line}" for line in lines)
    expected = [str(one["that"]) for one in scenario.expects]
    if expected:
        yield ""
        yield "Expected of the client:"
        yield from (f"  {line}" for line in expected)


def _table(run: Run) -> Iterator[str]:
    views = step_views(run)
    first = max(len(one.when) for one in views)
    second = max(len(one.what) for one in views)
    for one in views:
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


def _whole(scenario: Scenario, run: Run) -> dict[str, Any]:
    shown = [
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
        for one in step_views(run)
    ]
    document: Mapping[str, Any] = scenario.document
    return {**_summary(scenario), "document": dict(document), "steps": shown}


def _as_json(value: Any) -> str:
    return jsonio.dumps(value).decode()


def _print_json(data: Any) -> None:
    sys.stdout.write(jsonio.dumps_pretty(data).decode())
