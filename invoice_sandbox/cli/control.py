"""Commands of the control API, made from its contract.

An operation lists its commands in ``x-cli``. Each entry has:

- ``command``: the words of the command, such as ``clock advance``
- ``show``: the view that prints the result (``cli.views``)
- ``examples``: command lines for the help
- ``summary``, ``help``: texts for the help, unless those of the operation fit
- ``arguments``: inputs that are passed by position; path parameters always are
- ``options``: other inputs that are options; by default all
- ``body``: members of the body that are fixed, ``defaults``: values of inputs that are not passed
- ``columns``, ``empty``: instead of ``show``, members of the rows for a table, and what to print
  without rows

Two operations may have the same command: the first runs when the arguments that only the second
has are not passed.

An input is a parameter of the operation or a member of its JSON body. Its schema gives the type,
the range and the help. A password (``format: password``) is no option, which others could see: the
command asks for it, or reads it from the input. A tag describes a group of commands in the same
way; its ``reads`` are operations of the API by path, with the parameters that their commands send.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import click

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import parse_duration, parse_instant
from invoice_sandbox.base.errors import InputProblem, InputProblems, ended
from invoice_sandbox.cli import Command, Commands
from invoice_sandbox.cli.options import (
    FILE,
    FOLDER,
    Number,
    OneOf,
    WholeNumber,
    client,
    connection_options,
    print_reply,
    print_row,
    read_password,
)
from invoice_sandbox.cli.output import Table, print_table
from invoice_sandbox.cli.views import VIEWS, show_new_request, show_request
from invoice_sandbox.control.client import Reply, SandboxError, path, shown_value
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.settings import default_project

Raw = Mapping[str, Any]

_FOREVER: Final = "forever"
"""How the command line spells a null number."""

_NULL: Final = object()

_CONTROL: Final = "/sandbox"


@cache
def control_contract() -> dict[str, Any]:
    """The contract of the control API with that of the bundled project, as their files have it."""
    common = load_document(Path(__file__).parents[1] / "control" / "openapi.yaml")
    own = load_document(default_project() / "openapi" / "sandbox.yaml")
    schemas = {**common["components"]["schemas"], **own["components"]["schemas"]}
    return {
        **common,
        "tags": [*common["tags"], *own["tags"]],
        "paths": {**common["paths"], **own["paths"]},
        "components": {**common["components"], "schemas": schemas},
    }


def commands_below(group: str) -> dict[str, click.Command]:
    """The commands of the contract that belong to a group with a module of its own, by name."""
    made = _commands(control_contract())
    return {one.words[1]: one.command() for one in made if one.words[0] == group}


def command_group(name: str) -> click.Group:
    """A new group of the contract with its commands, for a module that adds commands to it."""
    document = control_contract()
    made = _by_words(document)
    entries = [tag["x-cli"] for tag in document["tags"] if "x-cli" in tag]
    return _group(next(one for one in entries if one["group"] == name), made)


@cache
def control_commands() -> dict[str, click.Command]:
    """The commands and groups of the control API by name, in the order of its tags."""
    document = control_contract()
    made = _by_words(document)
    commands: dict[str, click.Command] = {}
    for tag in document["tags"]:
        if "x-cli" in tag:
            group = _group(tag["x-cli"], made)
            commands[str(group.name)] = group
    for words, command in made.items():
        if len(words) == 1:
            commands.setdefault(words[0], command)
    commands["requests"] = _with_show(commands["requests"])
    commands["replay"] = _with_bundles(commands["replay"])
    return commands


# Inputs -----------------------------------------------------------------------------------------


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
            self.fail(f"{typed}: {error}", param, ctx)
        return _NULL if parsed is None else parsed


class _NumberOrForever(WholeNumber):
    """A number, or ``forever`` for null."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _NULL if value == _FOREVER else super().convert(value, param, ctx)


_DURATION: Final = _Text("duration", parse_duration)
_INSTANT: Final = _Text("instant", parse_instant)


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
        if "enum" in schema:
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
        return _DURATION if str(schema.get("pattern", "")).startswith("^P") else click.STRING

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
        return self.name.upper()

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
        name = self.metavar or self.name.upper()
        metavar = name if required else f"[{name}]"
        made = click.Argument([self.name], type=self.type, metavar=metavar, required=required)
        made.name = self.name  # click writes the name of an argument in small letters
        return made


def _inputs(document: Raw, raw: Raw) -> Iterator[Input]:
    for one in raw.get("parameters", ()):
        if one["in"] in {"path", "query"}:
            yield Input(one["name"], one["in"], _resolved(document, one["schema"]), _help(one))
    body = _body(document, raw)
    for name, member in body.get("properties", {}).items():
        schema = _resolved(document, member)
        yield Input(name, "body", schema, _help(schema), name in body.get("required", ()))


def _body(document: Raw, raw: Raw) -> Raw:
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


# Commands ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ControlCommand:
    """One command of an operation: its entry in ``x-cli``, and what the operation declares."""

    operation: str
    method: str
    path: str
    raw: Raw
    entry: Raw
    inputs: tuple[Input, ...]
    alternatives: frozenset[str]

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the command: ``("clock", "advance")``."""
        return tuple(self.entry["command"].split())

    def command(self) -> click.Command:
        """The command as click runs it."""
        summary = self.entry.get("summary", self.raw["summary"])
        return Command(
            self.words[-1],
            params=[*self._params(), *connection_options()],
            callback=self.run,
            help=_help_text(summary, self.entry.get("help", self.raw["description"]), self.entry),
            short_help=f"{summary}.",
        )

    def _params(self) -> Iterator[click.Parameter]:
        for one in self.inputs:
            if self._is_argument(one):
                yield one.argument(required=one.name not in self.alternatives)
            elif self._is_option(one):
                yield one.option()

    def _is_argument(self, one: Input) -> bool:
        return one.place == "path" or one.name in self.entry.get("arguments", ())

    def _is_option(self, one: Input) -> bool:
        chosen = self.entry.get("options", [one.name for one in self.inputs])
        return one.name in chosen and not one.is_password and not self._is_argument(one)

    def run(self, **values: Any) -> None:
        """Send the request with the ``values`` that were passed, and print the result."""
        passwords = {one.name: read_password() for one in self.inputs if one.is_password}
        print_reply(self.ask({**values, **passwords}), self._view())

    def _view(self) -> Callable[[Reply], None]:
        if "columns" not in self.entry:
            return VIEWS[self.entry["show"]]
        table = Table({one: one for one in self.entry["columns"]}, self.entry["empty"])
        return lambda reply: print_table(table, reply.data)

    def ask(self, values: Mapping[str, Any]) -> Reply:
        """The response to the request with the ``values`` that were passed."""
        passed = {name: value for name, value in values.items() if value is not None}
        if self.alternatives and len(self.alternatives & passed.keys()) != 1:
            raise click.UsageError(f"pass either {' or '.join(self._alternative_names())}")
        place = path(self.path, **{one: passed[one] for one in self._names("path")})
        query = self.entry.get("defaults", {}) | self._members(passed, "query")
        body = {**self.entry.get("body", {}), **self._members(passed, "body")}
        try:
            return client().send(
                self.method, _address(place, query), body if "requestBody" in self.raw else None
            )
        except SandboxError as error:
            text = str(error)
            if error.inputs is not None:
                text = self._worded(error.inputs, passed)
            elif error.status == HTTPStatus.NOT_FOUND:
                text = self._not_found(text)
            raise SandboxError(text, error.status, error.code) from None

    def _not_found(self, message: str) -> str:
        """A message of a 404, or that the project lacks this."""
        sandbox = client()
        if sandbox.lacks(self.path.removeprefix(_CONTROL)):
            api = "control API" if self.path.startswith(_CONTROL) else "API"
            return (
                f"the project at {sandbox.url} has no such operation: "
                f"its {api} has no {self.method} {self.path}"
            )
        return message

    def _worded(self, inputs: InputProblems, passed: Mapping[str, Any]) -> str:
        """The problems of what was typed: an option with its value, not a member."""
        text = inputs.text([self._label(one, passed) for one in inputs.listed])
        (problem, *others) = inputs.listed
        if others or self._typed(problem, passed) is not None:
            return ended(text)
        about = next((one.help.partition(".")[0] for one in self._about(problem)), "")
        return ended(f"{text}: {about}" if about else text)

    def _label(self, problem: InputProblem, passed: Mapping[str, Any]) -> str:
        names = (
            one.flag if self._is_option(one) else one.metavar or one.name
            for one in self._about(problem)
        )
        label = problem.label(next(names, ""))
        value = self._typed(problem, passed)
        return label if value is None else f"{label} {shown_value(value)}"

    def _about(self, problem: InputProblem) -> Iterator[Input]:
        """The input that a problem is about, unless nobody may see it."""
        for one in self.inputs:
            is_it = (problem.place, problem.steps[:1]) == (one.place, [one.name])
            if is_it and not one.is_password:
                yield one

    def _typed(self, problem: InputProblem, passed: Mapping[str, Any]) -> str | int | None:
        """The text or number that was typed for the input that a problem is about."""
        values = [passed.get(one.name) for one in self._about(problem)]
        is_text = bool(values) and isinstance(values[0], str | int) and len(problem.steps) == 1
        return values[0] if is_text else None

    def _alternative_names(self) -> Iterator[str]:
        arguments = self.entry.get("arguments", ())
        for one in self.inputs:
            if one.name in self.alternatives:
                yield str(one.metavar) if one.name in arguments else one.flag

    def _names(self, place: str) -> list[str]:
        return [one.name for one in self.inputs if one.place == place]

    def _members(self, passed: Mapping[str, Any], place: str) -> dict[str, Any]:
        names = [name for name in self._names(place) if name in passed]
        return {name: None if passed[name] is _NULL else passed[name] for name in names}


def _by_words(document: Raw) -> dict[tuple[str, ...], click.Command]:
    """The commands of the contract by their words."""
    made: dict[tuple[str, ...], click.Command] = {}
    for one in _commands(document):
        first = made.get(one.words)
        made[one.words] = one.command() if first is None else _either(first, one.command())
    return made


def _either(first: click.Command, second: click.Command) -> click.Command:
    """``second``, or ``first`` when the arguments that ``first`` lacks are not passed."""
    names = {one.name for one in first.params}
    more = [one for one in second.params if one.name not in names]

    def run(**values: Any) -> None:
        if any(values[str(one.name)] is not None for one in more):
            second.callback(**values)  # type: ignore[misc]  # see _with_show
        else:
            first.callback(**{name: values[name] for name in names & values.keys()})  # type: ignore[misc]

    for one in more:
        one.required = False
        if isinstance(one, click.Argument):
            one.metavar = f"[{one.metavar}]"
    return Command(
        second.name,
        params=second.params,
        callback=run,
        help=second.help,
        short_help=second.short_help,
    )


def _operations(document: Raw) -> Iterator[tuple[str, str, Raw]]:
    """``path, method, operation`` of the control API, and of what its tags read from the API."""
    for route, item in document["paths"].items():
        yield from ((f"{_CONTROL}{route}", method, raw) for method, raw in item.items())
    for tag in document["tags"]:
        reads = tag.get("x-cli", {}).get("reads", {})
        yield from ((route, "get", raw) for route, raw in reads.items())


def _commands(document: Raw) -> Iterator[ControlCommand]:
    for route, method, raw in _operations(document):
        body = _body(document, raw)
        alternatives = [name for one in body.get("oneOf", ()) for name in one["required"]]
        for entry in raw.get("x-cli", ()):
            yield ControlCommand(
                operation=raw["operationId"],
                method=method.upper(),
                path=route,
                raw=raw,
                entry=entry,
                inputs=tuple(_inputs(document, raw)),
                alternatives=frozenset(alternatives),
            )


def _group(entry: Raw, made: Mapping[tuple[str, ...], click.Command]) -> click.Group:
    """A group with its commands; without one it runs the command of its own name, if it has one."""
    name = entry["group"]
    bare = made.get((name,))

    def run() -> None:
        if click.get_current_context().invoked_subcommand is None and bare is not None:
            bare.invoke(click.get_current_context())

    return Commands(
        name,
        commands={words[1]: one for words, one in made.items() if words[0] == name and words[1:]},
        params=list(connection_options()),
        callback=run,
        invoke_without_command=bare is not None,
        help=_help_text(entry["summary"], entry.get("help", ""), entry),
        short_help=f"{entry['summary']}.",
    )


def _help_text(summary: str, text: str, entry: Raw) -> str:
    lines = [f"invoice-sandbox {line}" for line in entry["examples"]]
    return "\n\n".join([f"{summary}.", text.replace("`", "").strip(), "\n".join(["\b", *lines])])


def _address(place: str, query: Mapping[str, Any]) -> str:
    """The path of an operation, with a query."""
    texts = {name: _query_text(value) for name, value in query.items()}
    return place + (f"?{urlencode(texts, errors='replace')}" if texts else "")


def _query_text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


# replay FILE.zip --------------------------------------------------------------------------------

_BUNDLES: Final = """\
With FILE.zip: sends the requests of a bundle to a new workspace of a server in this process,
with the times that they read then, and prints the first difference. Opens no connection.
Status 0 when nothing differs, 1 when something does, 2 for a file that cannot be replayed.
"""


def _with_bundles(deliveries: click.Command) -> click.Command:
    """The command ``replay`` for a bundle as well, which is no operation."""

    def run(
        project: Path | None, contract: Path | None, scenarios: Path | None, **values: Any
    ) -> None:
        file = Path(values["id"])
        if file.suffix == ".zip" or file.is_file():
            from invoice_sandbox.bundles.environment import Served  # imports the server
            from invoice_sandbox.cli.replay import replay_bundle

            replay_bundle(file, Served(project, contract, scenarios))
        else:
            deliveries.callback(**values)  # type: ignore[misc]  # see _with_show

    target, *options = deliveries.params
    assert isinstance(target, click.Argument)  # noqa: S101 - the id in the path
    return Command(
        deliveries.name,
        params=[
            click.Argument(["id"], metavar="ID|FILE.zip", type=target.type),
            click.Option(["--project"], metavar="DIR", type=FOLDER, help="Project of the bundle."),
            click.Option(["--contract"], metavar="FILE", type=FILE, help="Contract of the bundle."),
            click.Option(
                ["--scenarios"], metavar="DIR", type=FOLDER, help="Scenarios of your own."
            ),
            *options,
        ],
        callback=run,
        help=(deliveries.help or "").replace("\n\n\b\n", f"\n\n{_BUNDLES}\n\b\n")
        + "\ninvoice-sandbox replay bug.zip",
        short_help="Replay a delivery, or a bundle.",
    )


# requests --show, --follow ----------------------------------------------------------------------


def _with_show(listing: click.Command) -> click.Command:
    """The command ``requests`` with the options ``--show`` and ``--follow``."""

    def run(show: str | None, *, follow: bool, **filters: Any) -> None:
        if show is not None and (follow or any(value is not None for value in filters.values())):
            raise click.UsageError("--show takes the id of one request; leave out other options")
        if follow and (filters["limit"] is not None or filters["id"] is not None):
            raise click.UsageError("--follow prints all new requests; leave out --limit and --id")
        if show is not None:
            _print_request(show)
        elif follow:
            passed = {name: value for name, value in filters.items() if value is not None}
            with suppress(KeyboardInterrupt):
                _follow(_address(f"{_CONTROL}/requests/stream", passed))
        else:
            listing.callback(**filters)  # type: ignore[misc]  # a command from the contract has one

    help_text = "Show one request in full: headers, bodies, and why it got its response."
    options = (
        click.Option(["--show"], metavar="REQUEST_ID", help=help_text),
        click.Option(["--follow", "-f"], is_flag=True, help="Print new requests until Ctrl-C."),
    )
    return Command(
        listing.name,
        params=[*options, *listing.params],
        callback=run,
        help=listing.help,
        short_help=listing.short_help,
    )


def _follow(address: str) -> None:
    """Print requests as they come, until the server stops."""
    for event in client().events(address):
        if event.name == "request":
            print_row(event.data, show_new_request)
        else:
            count = event.data["count"]
            click.echo(f"The journal has dropped {count} requests.", err=True)
    raise click.ClickException("the server has stopped, or the workspace was deleted")


def _print_request(request_id: str) -> None:
    reply = client().send("GET", f"/sandbox/requests?id={quote(request_id, safe='')}")
    if not reply.data:
        raise click.ClickException(f"no request '{request_id}' in the journal of this workspace")
    print_reply(reply._replace(data=reply.data[0]), lambda one: show_request(one.data))
