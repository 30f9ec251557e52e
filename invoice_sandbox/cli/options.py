"""What several commands have in common: their options, the client, and how they end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click
from click.core import ParameterSource

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import did_you_mean, number_within
from invoice_sandbox.cli.output import print_json
from invoice_sandbox.control.client import (
    DEFAULT_URL,
    ControlClient,
    Reply,
    SandboxError,
    checked_key,
    checked_url,
)
from invoice_sandbox.settings import ENVIRONMENT_PREFIX
from invoice_sandbox.state.credentials import DEMO_KEY

FAILED: Final = 1
"""Exit status: a check failed, or the server rejected the request."""

Command = Callable[..., None]


class OneOf(click.Choice[str]):
    """One of several words, with a suggestion for a misspelt one."""

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's signature
        return f"Choose from: {', '.join(map(str, self.choices))}"

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        advice = did_you_mean(str(value), map(str, self.choices))
        if not advice:
            return super().get_invalid_choice_message(value, ctx)
        return f"'{value}' is unknown; {advice}"


class WholeNumber(click.IntRange):
    """A whole number within limits, whose errors call it so."""

    name = "whole number"


class Number(click.FloatRange):
    """A number within limits, whose errors call it so, and repeat what was typed."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            return number_within(str(value), self.min, self.max)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def options(rows: dict[str, dict[str, Any]], **common: Any) -> Callable[[Command], Command]:
    """Options from a table of their names and properties, in its order."""

    def add(command: Command) -> Command:
        for names, properties in reversed(rows.items()):
            command = click.option(*names.split(), **common, **properties)(command)
        return command

    return add


FOLDER: Final = click.Path(exists=True, file_okay=False, path_type=Path)
FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
OFFLINE: Final[dict[str, dict[str, Any]]] = {
    "--project": {
        "metavar": "DIR",
        "type": FOLDER,
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


def connection_options() -> Iterator[click.Option]:
    """The same options, for a command that is made from its parts."""
    for name, properties in CONNECTION.items():
        yield click.Option([name], expose_value=False, **properties)


def client() -> ControlClient:
    """The client for the server and the workspace of this command."""
    connection = click.get_current_context().find_object(dict) or {}
    url, key = connection["url"], connection["key"]
    return ControlClient(url, key, loads=jsonio.loads, dumps=_written)


def _written(body: Any) -> str | bytes:
    try:
        return jsonio.dumps(body)
    except TypeError:  # an argument that is no Unicode, which the server rejects
        return json.dumps(body)


def read_password() -> str:
    """A password: from the terminal, without showing it, or the first line of the input.

    Raises click.UsageError for an empty one, and for one that is no text.
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
    """Whether the command prints JSON."""
    return bool((click.get_current_context().find_object(dict) or {})["json"])


def print_row(row: Any, show: Callable[[Any], None]) -> None:
    """Print one of many rows as JSON on one line, or by ``show`` for people."""
    if wants_json():
        click.echo(jsonio.dumps(row).decode())
    else:
        show(row)


def print_reply(reply: Reply, show: Callable[[Reply], None]) -> None:
    """Print the data of a reply as JSON, or by ``show`` for people."""
    if wants_json():
        print_json(reply.data)
    else:
        show(reply)
