"""``invoice-sandbox scenarios``: choose a scenario; list, show and check scenario files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.cli.options import (
    FAILED,
    JSON,
    OFFLINE,
    Commands,
    client,
    options,
    passed,
    print_data,
    with_connection,
)
from invoice_sandbox.cli.output import Row, Table, marker, print_lines, print_table
from invoice_sandbox.openapi.load.documents import place_of
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.project.loader import load_project, load_vocabulary
from invoice_sandbox.scenarios.checks import Vocabulary, load_scenario, scenario_errors
from invoice_sandbox.scenarios.descriptions import notes, step_views, trigger_in_words
from invoice_sandbox.scenarios.library import same_beginning, scenario_files
from invoice_sandbox.scenarios.script import Scenario
from invoice_sandbox.scenarios.simulation import Run, main_run

_SERVED: Final = Table(
    {"": marker, "name": "name", "purpose": "purpose", "steps": lambda row: str(len(row["steps"]))},
    empty="No scenarios.",
)


@click.group(cls=Commands, invoke_without_command=True)
@with_connection
@click.pass_context
def scenarios(context: click.Context) -> None:
    """List, choose and validate scenarios.

    Without a command, it lists those of the server; the current one is marked with *. 'use' chooses
    one there. The other commands read scenario files and need no server.

    \b
    invoice-sandbox scenarios
    invoice-sandbox scenarios use manual
    invoice-sandbox scenarios list
    invoice-sandbox scenarios show late-payment
    """
    if context.invoked_subcommand is None:
        print_data(client().ask("GET", "/scenarios"), lambda rows: print_table(_SERVED, rows))


@scenarios.command("use")
@click.argument("name")
@click.option(
    "--with",
    "conditions",
    type=JSON,
    help='Values for conditions of the scenario, such as {"delay":"PT2S"}.',
)
@click.option("--end-runs", is_flag=True, help="Cancel the steps of the runs under way.")
@with_connection
def _use(name: str, conditions: Any, *, end_runs: bool) -> None:
    """Choose the scenario for every new record.

    Runs under way go on with the scenario that began them, unless they are ended.

    \b
    invoice-sandbox scenarios use auto-progress
    invoice-sandbox scenarios use manual --end-runs
    invoice-sandbox scenarios use rate-limited --with '{"rejections": 1}'
    """
    ended = {"endRuns": True} if end_runs else {}
    body = {"name": name, **ended, **passed(**{"with": conditions})}
    print_data(client().ask("PUT", "/scenario", body), _show_chosen)


def _show_chosen(scenario: Row) -> None:
    print_lines([scenario["name"], scenario["purpose"]])
    for step in scenario["steps"]:
        print_lines([f"  {step['after']}", "after", step["on"], step["do"]])
    if scenario["dropped"]:
        click.echo(f"Steps that were cancelled: {scenario['dropped']}")
    if scenario["continuing"]:
        click.echo(f"Runs that go on with another scenario: {scenario['continuing']}")


@scenarios.command("list")
@options(OFFLINE)
def _list(project: Path, scenarios: Path | None) -> None:
    """List every scenario: its trigger, what happens, when a client passes.

    \b
    invoice-sandbox scenarios list
    """
    found = load_project(project, scenarios).scenarios
    print_table(_LISTED, [_summary(found[name]) for name in sorted(found)])


_LISTED: Final = Table(
    {
        "name": "name",
        "trigger": "trigger",
        "what happens": "purpose",
        "the client passes when": "passes",
    },
    empty="No scenarios.",
)


@scenarios.command("show")
@click.argument("name")
@options(OFFLINE)
def _show(name: str, project: Path, scenarios: Path | None) -> None:
    """Show the scenario NAME step by step.

    \b
    invoice-sandbox scenarios show late-payment
    """
    for line in description(*_found(name, project, scenarios)):
        click.echo(line)


@scenarios.command("validate")
@click.argument("files", metavar="[FILE|DIR]...", nargs=-1, type=click.Path(path_type=Path))
@options(OFFLINE)
def _validate(files: tuple[Path, ...], project: Path, scenarios: Path | None) -> None:
    """Check scenario files: one line for each problem and status 1, or 'fine'.

    DIR stands for the files in it. Without FILE or DIR, it checks the scenarios of --scenarios, or
    those of the project.

    \b
    invoice-sandbox scenarios validate mine/my-scenario.yaml
    """
    vocabulary, folder = load_vocabulary(project), project / "scenarios"
    wanted = [*_files(files or (scenarios or folder,))]
    known = {*wanted, *scenario_files(folder)}
    problems: list[DocumentError] = []
    for file in wanted:
        found = [*scenario_errors(file, vocabulary), *_taken(file, folder)]
        problems += found or _clashes(file, known, vocabulary)
    click.echo("\n".join(map(str, problems)) or "fine")
    sys.exit(FAILED if problems else 0)


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """Scenario files, also those of folders. Raises click.BadParameter for a folder without any."""
    for path in paths:
        found = scenario_files(path) if path.is_dir() else [path]
        if not found:
            raise click.BadParameter(f"no file in '{path}' ends in .yaml", param_hint="DIR")
        yield from found


def _taken(file: Path, project: Path) -> Iterator[DocumentError]:
    """A scenario of the user cannot have the name of one in ``project``."""
    theirs = project / file.name
    if theirs.exists() and file.exists() and not theirs.samefile(file):
        problem = f"the project has a scenario '{file.stem}'"
        yield DocumentError(place_of(file, ("name",)), problem, "choose another name")


def _clashes(file: Path, known: Set[Path], vocabulary: Vocabulary) -> Iterator[DocumentError]:
    """Yield the error of a scenario that begins with the same members as another one."""
    begins = load_scenario(file, vocabulary).begins
    for other in sorted(known) if begins else ():
        if other.exists() and not other.samefile(file):
            with suppress(DocumentError):  # it is reported for the other file
                scenario = load_scenario(other, vocabulary)
                if scenario.begins == begins:
                    yield same_beginning(file, scenario.name)


def _found(name: str, folder: Path, own: Path | None) -> tuple[Scenario, Run]:
    project = load_project(folder, own)
    scenario = project.scenarios.get(name)
    if scenario is None:
        lists = "'invoice-sandbox scenarios list' lists all of them"
        advice = suggestion(name, sorted(project.scenarios), where=lists)
        raise click.BadParameter(f"there is no scenario '{name}' ({advice})", param_hint="NAME")
    return scenario, main_run(scenario, project.vocabulary.machine, project.actions)


def description(scenario: Scenario, run: Run) -> Iterator[str]:
    """The lines that show a scenario to people."""
    yield scenario.name
    yield scenario.purpose
    if scenario.passes:
        yield f"Passes when: {scenario.passes}"
    yield ""
    yield f"Trigger: {trigger_in_words(scenario)}"
    for member, values in scenario.needs.items():
        yield f"To start it later, {member} must be: {', '.join(map(str, values))}"
    for name, value in scenario.conditions.items():
        yield f"Condition {name}: {jsonio.dumps(value).decode()}"
    if run:
        yield ""
        yield from _table(run)
    for title, lines in notes(scenario):
        yield ""
        yield f"{title}:"
        yield from (f"  {line}" for line in lines)
    expected = [str(expectation["that"]) for expectation in scenario.expects]
    if expected:
        yield ""
        yield "Expected of the client:"
        yield from (f"  {line}" for line in expected)


def _table(run: Run) -> Iterator[str]:
    views = step_views(run)
    first = max(len(view.when) for view in views)
    second = max(len(view.what) for view in views)
    for view in views:
        leads = view.leads if not view.simulated.possible else f"-> {view.leads}"
        yield f"{view.when:<{first}}  {view.what:<{second}}  {leads}"
        small = [view.why] if view.why else []
        small += [f"records {', '.join(view.events)}"] if view.events else []
        if small:
            yield f"{'':<{first}}  {'; '.join(small)}"


def _summary(scenario: Scenario) -> dict[str, Any]:
    return {
        "name": scenario.name,
        "trigger": trigger_in_words(scenario),
        "purpose": scenario.purpose,
        "passes": scenario.passes or None,
    }
