"""What several commands have in common: their options, and how they end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from invoice_sandbox.cli import control_output as lever_command
from invoice_sandbox.cli.control_output import Connection, Data
from invoice_sandbox.control.client import DEFAULT_URL
from invoice_sandbox.settings import ENVIRONMENT_PREFIX
from invoice_sandbox.state.credentials import DEMO_KEY

FAILED: Final = 1
"""Exit status: what was looked at is not as it should be."""

MISUSED: Final = 2
"""Exit status: it could not begin."""

Command = Callable[..., None]


class UsableError(click.ClickException):
    """A problem that the user can mend: one line on stderr, exit status 2."""

    exit_code = MISUSED


def options(rows: dict[str, dict[str, Any]], **common: Any) -> Callable[[Command], Command]:
    """Options from a table of their names and properties, in its order."""

    def add(command: Command) -> Command:
        for names, properties in reversed(rows.items()):
            command = click.option(*names.split(), **common, **properties)(command)
        return command

    return add


FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)
OFFLINE: Final[dict[str, dict[str, Any]]] = {
    "--project": {
        "metavar": "DIR",
        "type": FOLDER,
        "help": "Folder with openapi/, handlers/, scenarios/; by default the one shipped.",
    },
    "--scenarios": {
        "metavar": "DIR",
        "type": FOLDER,
        "envvar": f"{ENVIRONMENT_PREFIX}_SCENARIOS",
        "help": "Folder with scenarios of your own, besides the project's.",
    },
}


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep an option of the connection. A group's holds for its commands, unless they say else."""
    name = parameter.name or ""
    connection = context.ensure_object(dict)
    if name not in connection or context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        connection[name] = value


def _remember_checked(check: Callable[[str], str]) -> Callable[..., None]:
    return lambda context, parameter, text: _remember(context, parameter, check(text))


CONNECTION: Final[dict[str, dict[str, Any]]] = {
    "--url": {
        "metavar": "URL",
        "envvar": f"{ENVIRONMENT_PREFIX}_URL",
        "default": DEFAULT_URL,
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


lever = options(CONNECTION, expose_value=False)
"""Every command that asks a server takes these."""


def connection() -> Connection:
    """The server and the workspace that the command asks."""
    given_options = click.get_current_context().find_object(dict) or {}
    return Connection(given_options["url"], given_options["key"], given_options["json"])


def pull(
    method: str, lever: str, body: dict[str, Any] | None = None, *, show: Callable[[Data], None]
) -> None:
    """Ask a lever, and show the data of its answer."""
    lever_command.pull(connection(), method, lever, body, show=show)


def is_bare() -> bool:
    """Whether a group was named without one of its commands."""
    return click.get_current_context().invoked_subcommand is None
