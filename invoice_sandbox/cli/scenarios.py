"""Scenarios, read from their files without a server: ``scenarios``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from invoice_sandbox.cli.options import FAILED, OFFLINE, Command, UsableError, options

_AS_JSON: Final = {"--json as_json": {"is_flag": True, "help": "Print it as JSON, for scripts."}}


def _offline(more: dict[str, dict[str, Any]] | None = None) -> Callable[[Command], Command]:
    """Options of a command that reads scenarios from files."""
    return options({**(more or {}), **OFFLINE})


def _tell(do: Callable[[Any, Any], Any], project: Path | None, scenarios: Path | None) -> Any:
    """Do something with the scenarios of a project; its problems are the user's to mend."""
    from invoice_sandbox.cli import scenario_command

    try:
        return do(scenario_command, scenario_command.Place(project, scenarios))
    except scenario_command.PROBLEMS as error:
        raise UsableError(str(error)) from None


@click.group()
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
        sys.exit(FAILED)


@scenarios.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of scenario files, for editors.

    \b
    invoice-sandbox scenarios schema > scenario.schema.json
    """
    from invoice_sandbox.cli import scenario_command

    scenario_command.print_schema()


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
