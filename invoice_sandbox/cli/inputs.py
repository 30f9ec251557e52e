"""Inputs of an operation as options and arguments of its command.

The schema of an input gives the type, the range and the help.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import click

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import parse_duration, parse_instant
from invoice_sandbox.base.errors import MOST_LISTED
from invoice_sandbox.cli.options import Number, OneOf, WholeNumber
from invoice_sandbox.control.client import shown_value

Raw = Mapping[str, Any]

_FOREVER: Final = "forever"
"""How the command line spells a null number."""

NULL: Final = object()
"""A value that was passed, and is null."""


class _Text(click.ParamType[str]):
    """A text in a format that is checked before anything is sent."""

    def __init__(self, name: str, check: Callable[[str], Any]) -> None:
        self.name = name
        self._check = check

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            self._check(value)
        except ValueError as error:
            for other in [] if ctx is None else ctx.command.params:
                if isinstance(other.type, _Text) and other.type.accepts(value):
                    is_option = isinstance(other, click.Option)
                    place = other.opts[0] if is_option else (other.metavar or "").strip("[]")
                    self.fail(f"'{value}' is no {self.name}; pass it as {place}", param, ctx)
            self.fail(str(error), param, ctx)
        return value

    def accepts(self, value: str) -> bool:
        """Whether the text has this format."""
        try:
            self._check(value)
        except ValueError:
            return False
        return True


class _Json(click.ParamType[Any]):
    """A JSON value, or @FILE for one that is read from a file."""

    name = "json|@file"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            text = Path(value[1:]).read_bytes() if value.startswith("@") else value.encode()
            parsed = jsonio.loads(text)
        except OSError as error:
            self.fail(f"{value[1:]}: {error.strerror}", param, ctx)
        except jsonio.JsonError as error:
            typed = value if value.startswith("@") else shown_value(value)
            advice = 'use JSON such as {"name": 1}, or @FILE'
            self.fail(f"{typed}: {error}; {advice}", param, ctx)
        return NULL if parsed is None else parsed


class _NumberOrForever(WholeNumber):
    """A number, or ``forever`` for null."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return NULL if value == _FOREVER else super().convert(value, param, ctx)


_INSTANT: Final = _Text("instant", parse_instant)


def _check_duration(schema: Raw, text: str) -> None:
    """Raise ValueError for a text that is no duration, or none that the schema allows."""
    usual = " or ".join(reversed(schema.get("examples", ())))
    parse_duration(text, usual)
    if not re.fullmatch(schema["pattern"], text):
        raise ValueError(f"the duration '{text}' must be one such as {usual}")


@dataclass(frozen=True)
class Input:
    """A parameter of an operation, or a member of its body; ``place`` is path, query or body."""

    name: str
    place: str
    schema: Raw
    help: str = ""
    required: bool = False

    @property
    def type(self) -> click.ParamType[Any]:
        """How its text is checked and converted."""
        schema = self.schema
        limits = schema.get("minimum"), schema.get("maximum")
        if "enum" in schema and len(schema["enum"]) <= MOST_LISTED:  # the server knows more words
            return OneOf(schema["enum"])
        match schema.get("type"):
            case ["integer", "null"]:
                return _NumberOrForever(*limits)
            case "integer":
                return WholeNumber(*limits)
            case "number":
                return Number(*limits)
            case "object":
                return _Json()
            case None if not schema.keys() - {"description", "examples"}:  # any value
                return _Json()
            case [*types] if "object" in types:
                return _Json()
        if schema.get("format") == "date-time":
            return _INSTANT
        is_duration = str(schema.get("pattern", "")).startswith("^P")
        return _Text("duration", partial(_check_duration, schema)) if is_duration else click.STRING

    @property
    def metavar(self) -> str | None:
        """How the help names its value; None is how click names the values of its type."""
        match self.type:
            case _NumberOrForever():
                return f"N|{_FOREVER}"
            case click.IntRange():
                return "N"
            case _Text() | _Json() as text:
                return text.name.upper()
            case click.Choice() | click.FloatRange():
                return None
        return self._name

    @property
    def _name(self) -> str:
        """``RETRY_AFTER`` for ``retryAfter``."""
        return self.flag.removeprefix("--").replace("-", "_").upper()

    @property
    def is_password(self) -> bool:
        """Whether nobody else may see it."""
        return self.place == "body" and self.schema.get("format") == "password"

    @property
    def flag(self) -> str:
        """``--up-to`` for ``upTo``."""
        return "--" + re.sub("[A-Z]", lambda letter: f"-{letter.group().lower()}", self.name)

    def option(self) -> click.Option:
        """The option for it."""
        if self.schema.get("type") == "boolean":
            flags = f"{self.flag}/--no-{self.flag.removeprefix('--')}"
            return click.Option([flags, self.name], default=None, help=self.help)
        return click.Option(
            [self.flag, self.name],
            type=self.type,
            metavar=self.metavar,
            help=self.help,
            required=self.required,
        )

    def argument(self, *, required: bool) -> click.Argument:
        """The argument for it."""
        name = self.metavar or self._name
        metavar = name if required else f"[{name}]"
        made = click.Argument(
            [self.name],
            type=self.type,
            metavar=metavar,
            required=required,
            callback=_checked,
        )
        made.name = self.name  # click writes the name of an argument in small letters
        return made


def _checked(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
    """The value of an argument; an empty one would lead to another path."""
    if value == "":
        raise click.BadParameter("it must not be empty")
    return value


def inputs_of(document: Raw, raw: Raw) -> Iterator[Input]:
    """The inputs of an operation."""
    for one in raw.get("parameters", ()):
        if one["in"] in {"path", "query"}:
            yield Input(one["name"], one["in"], _resolved(document, one["schema"]), _help(one))
    body = body_of(document, raw)
    for name, member in body.get("properties", {}).items():
        schema = _resolved(document, member)
        yield Input(name, "body", schema, _help(schema), name in body.get("required", ()))


def body_of(document: Raw, raw: Raw) -> Raw:
    """The schema of the JSON body of an operation; empty without one."""
    content = raw.get("requestBody", {}).get("content", {})
    return _resolved(document, content.get("application/json", {}).get("schema", {}))


def _resolved(document: Raw, schema: Raw) -> Raw:
    """A schema with what it refers to; its own description wins."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    found = document["components"]["schemas"][reference.rpartition("/")[2]]
    return {**_resolved(document, found), **schema}


def _help(raw: Raw) -> str:
    """Its description on one line, without the marks of Markdown."""
    return " ".join(raw.get("description", "").replace("`", "").split())


def address(place: str, query: Mapping[str, Any]) -> str:
    """The path of an operation, with a query."""
    texts = {name: _query_text(value) for name, value in query.items()}
    return place + (f"?{urlencode(texts, errors='replace')}" if texts else "")


def _query_text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
