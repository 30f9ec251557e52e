"""The common part of several commands: groups, types of options, client, and printing."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import click
from click.core import ParameterSource

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import parse_duration, parse_instant
from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.cli.output import print_json
from invoice_sandbox.control.client import (
    DEFAULT_URL,
    ControlClient,
    SandboxError,
    checked_key,
    checked_url,
)
from invoice_sandbox.openapi.load.remote import downloaded, is_remote
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.settings import ENVIRONMENT_PREFIX, default_project
from invoice_sandbox.state.credentials import DEMO_KEY

FAILED: Final = 1
"""Exit status: a check failed, or the server rejected the request."""

Command = Callable[..., None]


class Commands(click.Group):
    """A group of commands: suggestions for misspelt ones, and whole sentences in its help."""

    def summaries(self, ctx: click.Context) -> Mapping[str, str]:
        """The first sentence of the help of each command, by name."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {
            name: command.get_short_help_str(_ANY)
            for name, command in commands.items()
            if command is not None
        }

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([*self.summaries(ctx).items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name. Raises click.UsageError with a suggestion."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            lists_all = f"'{ctx.command_path} --help' lists all of them"
            advice = suggestion(name, self.list_commands(ctx), where=lists_all)
            ctx.fail(f"there is no command '{name}'; {advice}")
        return super().resolve_command(ctx, args)


_ANY: Final = 1000


# Types of options and arguments


class _Text(click.ParamType[str]):
    """A text in a format that is checked before anything is sent."""

    def __init__(self, name: str, check: Callable[[str], Any]) -> None:
        self.name = name
        self._check = check

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            self._check(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value


def _check_not_empty(text: str) -> None:
    if not text:
        raise ValueError("it must not be empty")


INSTANT: Final = _Text("instant", parse_instant)
DURATION: Final = _Text("duration", parse_duration)
ID: Final = _Text("id", _check_not_empty)
"""An identifier in a path: without one it would be another path."""


class _Json(click.ParamType[Any]):
    """A JSON value, or @FILE for one that is read from a file."""

    name = "json|@file"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            text = Path(value[1:]).read_bytes() if value.startswith("@") else value.encode()
            parsed = jsonio.loads(text)
        except jsonio.JsonError as error:
            advice = 'use JSON such as {"name": 1}, or @FILE'
            self.fail(f"'{value}': {error}; {advice}", param, ctx)
        return NULL if parsed is None else parsed


NULL: Final = object()
"""A value that was passed, and is null."""

JSON: Final = _Json()
FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)
FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


class Document(click.Path):
    """A file, or the address of one over http or https, which is downloaded."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path of the file."""
        if not is_remote(str(value)):
            return super().convert(value, param, ctx)
        try:
            return downloaded(str(value))
        except DocumentError as error:
            self.fail(str(error), param, ctx)


# Options that several commands have


def options(rows: dict[str, dict[str, Any]], **common: Any) -> Callable[[Command], Command]:
    """Options from a table of their names and properties, in its order."""

    def add(command: Command) -> Command:
        for names, properties in reversed(rows.items()):
            command = click.option(*names.split(), **common, **properties)(command)
        return command

    return add


OFFLINE: Final[dict[str, dict[str, Any]]] = {
    "--project": {
        "metavar": "DIR",
        "type": FOLDER,
        "default": default_project,
        "help": "Project folder with openapi/, handlers/, scenarios/. Default: the bundled one.",
    },
    "--scenarios": {
        "metavar": "DIR",
        "type": FOLDER,
        "envvar": f"{ENVIRONMENT_PREFIX}_SCENARIOS",
        "help": "Folder with scenarios of your own, in addition to those of the project.",
    },
}


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    """Keep an option of the connection. One of a group applies to its commands as well."""
    name = parameter.name or ""
    connection = context.ensure_object(dict)
    if name not in connection or context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        connection[name] = value


def checked(check: Callable[[str], str], text: str) -> str:
    """A checked option. Raises click.BadParameter."""
    try:
        return check(text)
    except SandboxError as error:
        raise click.BadParameter(str(error)) from None


CONNECTION: Final[dict[str, dict[str, Any]]] = {
    "--url": {
        "metavar": "URL",
        "envvar": f"{ENVIRONMENT_PREFIX}_URL",
        "default": DEFAULT_URL,
        "show_default": True,
        "show_envvar": True,
        "callback": lambda context, parameter, text: _remember(
            context, parameter, checked(checked_url, text)
        ),
        "help": "URL of the server.",
    },
    "--key": {
        "metavar": "KEY",
        "envvar": f"{ENVIRONMENT_PREFIX}_KEY",
        "default": DEMO_KEY,
        "show_default": "the demo key",
        "show_envvar": True,
        "callback": lambda context, parameter, text: _remember(
            context, parameter, checked(checked_key, text)
        ),
        "help": "API key of the workspace.",
    },
    "--json": {
        "is_flag": True,
        "callback": _remember,
        "help": "Print the data of the response as JSON.",
    },
}


with_connection = options(CONNECTION, expose_value=False)
"""Every command that sends requests to a server takes these options."""


def client() -> ControlClient:
    """The client for the server and the workspace of this command."""
    connection = click.get_current_context().find_object(dict) or {}
    url, key = connection["url"], connection["key"]
    return ControlClient(url, key, loads=jsonio.loads, dumps=_written)


def _written(body: Any) -> str | bytes:
    try:
        return jsonio.dumps(body)
    except TypeError:  # an argument that is not Unicode, which the server rejects
        return json.dumps(body)


def passed(**values: Any) -> dict[str, Any]:
    """Return the values that were passed: those that are not None. NULL becomes None."""
    given = {name: value for name, value in values.items() if value is not None}
    return {name: None if value is NULL else value for name, value in given.items()}


def with_query(path: str, query: Mapping[str, Any]) -> str:
    """Return a path with a query."""
    texts = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
    }
    return path + (f"?{urlencode(texts, errors='replace')}" if texts else "")


def read_password() -> str:
    """A password: from the terminal, without showing it, or the first line of the input.

    Raises click.UsageError for an empty one, and for one that is not UTF-8.
    """
    if sys.stdin.isatty():
        prompt = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        password = str(prompt)
    else:
        try:
            password = sys.stdin.readline().rstrip("\r\n")
        except UnicodeDecodeError:
            raise click.UsageError("the password is not UTF-8") from None
    if not password:
        raise click.UsageError("the password is empty")
    return password


def wants_json() -> bool:
    """True if the command prints JSON."""
    return bool((click.get_current_context().find_object(dict) or {})["json"])


def print_row(row: Any, show: Callable[[Any], None]) -> None:
    """Print one of many rows as JSON on one line, or by ``show`` for people."""
    if wants_json():
        click.echo(jsonio.dumps(row).decode())
    else:
        show(row)


def print_data(data: Any, show: Callable[[Any], None]) -> None:
    """Print the data of a response as JSON, or by ``show`` for people."""
    if wants_json():
        print_json(data)
    else:
        show(data)
