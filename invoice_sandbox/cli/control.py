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

An input (``cli.inputs``) is a parameter of the operation or a member of its JSON body. A password
is no option, which others could see: the command asks for it, or reads it from the input.

A tag describes a group of commands in the same way; its ``reads`` are operations of the API by
path, with the parameters that their commands send. Their entries may have ``of``: a path of the API
that must exist when there are no rows, so that an unknown id is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import click

from invoice_sandbox.base.errors import CONTRACT_LISTS, InputProblem, InputProblems, ended
from invoice_sandbox.cli import Command, Commands
from invoice_sandbox.cli.combined import with_bundles, with_show
from invoice_sandbox.cli.inputs import NULL, Input, Raw, address, body_of, inputs_of
from invoice_sandbox.cli.options import client, connection_options, print_reply, read_password
from invoice_sandbox.cli.output import Table, print_table
from invoice_sandbox.cli.views import VIEWS
from invoice_sandbox.control.client import Reply, SandboxError, path, shown_value
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.settings import default_project

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


def command_group(name: str) -> Commands:
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
    commands["requests"] = with_show(commands["requests"])
    commands["replay"] = with_bundles(commands["replay"])
    return commands


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
            reply = client().send(
                self.method, address(place, query), body if "requestBody" in self.raw else None
            )
        except SandboxError as error:
            text = str(error)
            if error.inputs is not None:
                text = self._worded(error.inputs, passed)
            elif error.status == HTTPStatus.NOT_FOUND:
                text = self._not_found(text)
            raise SandboxError(text, error.status, error.code) from None
        if "of" in self.entry and not reply.data:
            self._check_subject(passed)
        return reply

    def _check_subject(self, passed: Mapping[str, Any]) -> None:
        """Raise SandboxError if what the rows are about does not exist, if the key may read it."""
        try:
            client().send("GET", path(self.entry["of"], **passed))
        except SandboxError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                raise

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
        text = text.replace(CONTRACT_LISTS, f"{client().url}/sandbox/openapi.json lists")
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
        return {name: None if passed[name] is NULL else passed[name] for name in names}


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
            second.callback(**values)  # type: ignore[misc]  # see combined.with_show
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
        body = body_of(document, raw)
        alternatives = [name for one in body.get("oneOf", ()) for name in one["required"]]
        for entry in raw.get("x-cli", ()):
            yield ControlCommand(
                operation=raw["operationId"],
                method=method.upper(),
                path=route,
                raw=raw,
                entry=entry,
                inputs=tuple(inputs_of(document, raw)),
                alternatives=frozenset(alternatives),
            )


def _group(entry: Raw, made: Mapping[tuple[str, ...], click.Command]) -> Commands:
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
