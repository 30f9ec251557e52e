"""Checks of scenario files: schema, names, and a simulation. One message for each problem."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.base.clock import parse_duration
from invoice_sandbox.base.errors import close_word, suggestion
from invoice_sandbox.openapi.load.documents import parse_text, place_of, read_text
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.schema.file_schema import (
    FileProblem,
    Pointer,
    schema_problems,
)
from invoice_sandbox.scenarios.actions import Action, Percent, Trigger
from invoice_sandbox.scenarios.faults import fault_problem, response_problem
from invoice_sandbox.scenarios.lifecycle import Lifecycle, Machine
from invoice_sandbox.scenarios.script import START, Scenario, resolved, scenario_of
from invoice_sandbox.scenarios.simulation import simulate

LIFECYCLE: Final = "lifecycle"
"""The name of the lifecycle file, which is in the same folder."""

SCHEMA: Final = Path(__file__).with_name("scenario.schema.json")
"""The JSON Schema of a scenario file."""

_MAX_WAIT: Final = timedelta(days=3650)
"""The longest wait of a step; the sum of many waits must stay below the year 9999."""

_TRANSITION: Final = "transition"
"""The action that fires a trigger of the lifecycle."""

_MAX_TEXT: Final = 400
_MAX_ADVICE: Final = 1200
_CONFLICT: Final = 409


@dataclass(frozen=True, eq=False)  # a vocabulary equals only itself, and can be a cache key
class Vocabulary:
    """The names that scenarios may use: those of the contract, the lifecycle, actions by name, the
    members of records, and those of them that are dates or instants."""

    contract: Contract
    lifecycle: Lifecycle
    actions: Mapping[str, Action]
    members: Collection[str]
    dates: Collection[str]

    @property
    def operations(self) -> Mapping[str, Operation]:
        """The operations of the contract, by id."""
        return self.contract.operations

    @property
    def machine(self) -> Machine | None:
        """The machine that scenarios are about: the first with a ``created`` event."""
        machines = self.lifecycle.machines.values()
        return next((machine for machine in machines if machine.created), None)


def load_scenario(file: Path, vocabulary: Vocabulary) -> Scenario:
    """The scenario in a file. Raises DocumentError for the first problem."""
    check_extension(file)
    with _one_line_errors():
        text = read_text(file)
    return _load_scenario(file, text, vocabulary)


@lru_cache(maxsize=512)  # a check simulates all ways in which the scenario can run
def _load_scenario(file: Path, text: str, vocabulary: Vocabulary) -> Scenario:
    """Checked once for each version of a file, since all ways that it can run are simulated."""
    document = _parsed(file, text)
    for problem in scenario_problems(document, file.stem, vocabulary):
        raise _located(file, problem)
    return scenario_of(document)


def check_extension(file: Path) -> None:
    """Raise DocumentError for a file whose name does not end in ``.yaml``."""
    if file.suffix != ".yaml":
        name = file.with_suffix(".yaml").name
        raise DocumentError(
            str(file), "the file name does not end in .yaml", f"rename it to {name}"
        )


def scenario_file_problems(file: Path, vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    """``place, problem`` for every problem of a file."""
    try:
        with _one_line_errors():
            text = read_text(file)
        check_extension(file)
        document = _parsed(file, text)
    except DocumentError as error:
        yield _row(error)
        return
    for problem in scenario_problems(document, file.stem, vocabulary):
        yield _row(_located(file, problem))


def _row(error: DocumentError) -> tuple[str, str]:
    return error.place, error.problem + (f" ({error.advice})" if error.advice else "")


def _parsed(file: Path, text: str) -> Any:
    with _one_line_errors():
        return parse_text(text, str(file))


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Put the problem of a DocumentError into one line."""
    try:
        yield
    except DocumentError as error:
        raise DocumentError(error.place, _one_line(error.problem), error.advice) from None


def _located(file: Path, problem: FileProblem) -> DocumentError:
    place = place_of(file, problem.pointer)
    return DocumentError(place, _one_line(problem.text), _one_line(problem.advice, _MAX_ADVICE))


def _one_line(text: str, most: int = _MAX_TEXT) -> str:
    """The text in one line, with control characters escaped."""
    shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text[:most])
    return shown if len(text) <= most else f"{shown}..."


def scenario_problems(document: Any, name: str, vocabulary: Vocabulary) -> Iterator[FileProblem]:
    """Every problem of a document, in three rounds: schema, names, simulation.

    A round runs only when the earlier ones found nothing.
    """
    conditions = document.get("conditions", {}) if isinstance(document, dict) else {}
    usable = conditions if isinstance(conditions, dict) else {}
    body = resolved(document, usable)
    by_schema = list(dict.fromkeys(schema_problems(body, SCHEMA)))
    yield from by_schema
    if by_schema:
        return
    by_name = [
        *_wrong_conditions(document, usable),
        *_beyond_limits(document, usable),
        *_wrong_names(body, name, vocabulary),
    ]
    yield from by_name
    if not by_name and vocabulary.machine is not None:
        yield from simulate(scenario_of(document), vocabulary.machine, vocabulary.actions)


def _wrong_conditions(document: Any, known: Mapping[str, Any]) -> Iterator[FileProblem]:
    for name, value in known.items():
        if isinstance(value, str) and value.startswith("$"):
            text = f"condition '{name}' refers to another condition"
            yield FileProblem(("conditions", name), text, "write a value")
    used = set()
    body = {name: value for name, value in document.items() if name != "conditions"}
    for pointer, text in _texts(body, ()):
        if text.startswith("$"):
            used.add(text[1:])
            if text[1:] not in known:
                advice = suggestion(text[1:], known) if known else "add it to 'conditions'"
                yield FileProblem(pointer, f"there is no condition '{text[1:]}'", advice)
    for name in known:
        if name not in used:
            place = ("conditions", name)
            yield FileProblem(place, f"condition '{name}' is not used", f"write ${name} in a step")


def _beyond_limits(document: Any, known: Mapping[str, Any]) -> Iterator[FileProblem]:
    for name, limit in document.get("limits", {}).items():
        if name not in known:
            advice = suggestion(name, known) if known else "add it to 'conditions'"
            yield FileProblem(("limits", name), f"there is no condition '{name}'", advice)
            continue
        value, most = known[name], limit["most"]
        size, largest = _size(value), _size(most)
        if size is None or type(size) is not type(largest):
            text = f"'{most}' is no limit of '{value}'"
            yield FileProblem(("limits", name, "most"), text, "both are durations, or numbers")
        elif size > largest:
            text = f"'{value}' is more than {most}"
            yield FileProblem(("conditions", name), text, limit["because"])


def _size(value: Any) -> Any:
    """A value that can be compared: a duration or a number; None for others."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        with suppress(ValueError):
            return parse_duration(value)
        return None
    return Decimal(str(value))


def _texts(value: Any, pointer: Pointer) -> Iterator[tuple[Pointer, str]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _texts(one, (*pointer, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _texts(one, (*pointer, index))
    elif isinstance(value, str):
        yield pointer, value


def _wrong_names(
    body: Mapping[str, Any], name: str, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    if body["name"] != name:
        text = f"the name differs from the file name '{name}'"
        yield FileProblem(("name",), text, f"write 'name: {name}'")
    for index, step in enumerate(body.get("steps", [])):
        yield from _wrong_step(step, ("steps", index), vocabulary)
    for index, fault in enumerate(body.get("faults", [])):
        yield from _wrong_fault(fault, ("faults", index), vocabulary)
    events = vocabulary.lifecycle.events
    for index, one in enumerate(body.get("deliveries", [])):
        if "event" in one and one["event"] not in events:
            yield _unknown(("deliveries", index, "event"), "event type", one["event"], events)
    kinds = {one["kind"] for one in body.get("deliveries", [])}
    for index, rule in enumerate(body.get("expects", [])):
        yield from _wrong_expectation(rule, ("expects", index), vocabulary, kinds)
    yield from _wrong_members(body, vocabulary)


_OF_REQUESTS: Final = ("times", "atLeast", "atMost", "same", "gaps")
"""What a rule says of requests."""

_NEEDS: Final = {
    "request": ("status", "until", "within", *_OF_REQUESTS),
    "delivery": ("kind", "response"),
}
"""Which members need the member of the key."""


def _wrong_expectation(
    rule: Mapping[str, Any], place: Pointer, vocabulary: Vocabulary, kinds: Collection[str]
) -> Iterator[FileProblem]:
    """What is wrong with a rule: unknown names, and members that do not go together."""
    named = rule.get("request", [])
    events = vocabulary.lifecycle.events
    known: list[tuple[str, str, Sequence[str], Collection[str]]] = [
        ("request", "operation", [named] if isinstance(named, str) else named, ["*"]),
        ("delivery", "event type", _listed(rule, "delivery"), ["*", *events]),
        ("after", "event type", _listed(rule, "after"), [START, *events]),
        ("until", "event type", _listed(rule, "until"), events),
        ("kind", "fault among the 'deliveries' of this scenario", _listed(rule, "kind"), kinds),
    ]
    for member, what, words, others in known:
        names = [*others, *vocabulary.operations] if member == "request" else others
        for word in words:
            if word not in names:
                yield _unknown((*place, member), what, word, names)
    for subject, members in _NEEDS.items():
        for member in members:
            if member in rule and subject not in rule:
                yield FileProblem((*place, member), f"'{member}' needs '{subject}'", "add it")
    if "request" in rule and not any(member in rule for member in _OF_REQUESTS):
        advice = f"add one of {', '.join(_OF_REQUESTS)}"
        yield FileProblem(place, "the rule has no condition for the requests", advice)
    if rule.get("atLeast", 0) > rule.get("atMost", rule.get("atLeast", 0)):
        yield FileProblem((*place, "atMost"), "'atMost' is less than 'atLeast'", "exchange them")
    if "request" not in rule and "response" not in rule:
        text = "the rule is about neither requests nor deliveries"
        yield FileProblem(place, text, "add 'request', or 'delivery' with 'response'")


def _listed(rule: Mapping[str, Any], member: str) -> list[str]:
    return [rule[member]] if member in rule else []


def _wrong_members(body: Mapping[str, Any], vocabulary: Vocabulary) -> Iterator[FileProblem]:
    for part in ("begins", "needs"):
        for member in body.get(part, {}):
            if member not in vocabulary.members:
                yield _unknown((part, member), "member", member, vocabulary.members)
    if vocabulary.machine is not None:
        first = body.get("begins", {}).get("status", vocabulary.machine.initial)
        if first != vocabulary.machine.initial:
            text = f"the status of a new {vocabulary.machine.name} is never '{first}'"
            yield FileProblem(("begins", "status"), text, f"write {vocabulary.machine.initial}")
        for index, status in enumerate(body.get("needs", {}).get("status", [])):
            if status not in vocabulary.machine.states:
                place = ("needs", "status", index)
                yield _unknown(place, "status", str(status), vocabulary.machine.states)


def _wrong_start(
    step: Mapping[str, Any], place: Pointer, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    """What is wrong with the trigger of a step, and with its delay."""
    on, events = step["on"], vocabulary.lifecycle.events
    if isinstance(on, dict) and "call" in on:
        if "after" in step:
            text = "a step that runs with a request cannot wait"
            yield FileProblem((*place, "after"), text, "remove 'after'")
        return
    if isinstance(on, str):
        what, example, named, where = "an event", "PT1S", on, (*place, "on")
    else:
        what, example, named, where = "a date", "P1D", on.get("event"), (*place, "on", "event")
        if on["date"] not in vocabulary.dates:
            yield _unknown((*place, "on", "date"), "date", on["date"], vocabulary.dates)
    if named is not None and named not in (START, *events):
        yield _unknown(where, "event type", named, [START, *events])
    if "after" not in step:
        text = f"a step that follows {what} needs 'after'"
        yield FileProblem(place, text, f"write 'after: {example}', for example")


def _wrong_step(
    step: Mapping[str, Any], place: Pointer, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    on = step["on"]
    yield from _wrong_start(step, place, vocabulary)
    yield from _too_long(step, place)
    action = vocabulary.actions.get(step["do"])
    if action is None or not action.in_scenarios:
        yield _unknown_action(step["do"], (*place, "do"), vocabulary)
        return
    if not isinstance(on, str) and "call" in on:
        yield from _wrong_call(on["call"], action, place, vocabulary)
    yield from _wrong_arguments(action, step.get("with", {}), place, vocabulary)


def _too_long(step: Mapping[str, Any], place: Pointer) -> Iterator[FileProblem]:
    waits = {(*place, "after"): step.get("after")}
    if isinstance(step["on"], dict):
        waits[*place, "on", "else"] = step["on"].get("else")
    for where, wait in waits.items():
        # A text with $ is an unknown condition, which is reported elsewhere.
        if wait is not None and not wait.startswith("$") and parse_duration(wait) > _MAX_WAIT:
            text = f"'{wait}' is too long"
            yield FileProblem(where, text, f"at most P{_MAX_WAIT.days}D")


def _wrong_call(
    call: str, action: Action, place: Pointer, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    where = (*place, "on", "call")
    operation = vocabulary.operations.get(call)
    if operation is None:
        yield _unknown(where, "operation", call, vocabulary.operations)
    elif not operation.security.alternatives:
        known = [one.id for one in vocabulary.operations.values() if one.security.alternatives]
        text = f"{call} needs no key, so it belongs to no workspace and no scenario"
        yield FileProblem(where, text, suggestion(call, known))
    elif _moves(action) and ("{" not in operation.path or not operation.response_for(_CONFLICT)):
        text = f"'{action.name}' changes a status, which is not possible with a request to {call}"
        yield FileProblem((*place, "do"), text, "let the step follow an event, with 'after'")


def _moves(action: Action) -> bool:
    """Whether the action may cause a transition, which the status may not allow."""
    named = (one.type is Trigger for one in action.parameters.values())
    return bool(action.triggers) or any(named)


def _wrong_arguments(
    action: Action, arguments: Mapping[str, Any], place: Pointer, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    for name, value in arguments.items():
        where = (*place, "with", name)
        if name not in action.parameters:
            known = sorted(action.parameters)
            advice = suggestion(name, known) if known else "it has no arguments"
            yield FileProblem(where, f"'{action.name}' has no argument '{name}'", advice)
            continue
        parameter = action.parameters[name]
        if parameter.type is Trigger:
            yield from _wrong_trigger(value, where, vocabulary)
        elif parameter.choices and value not in parameter.choices:
            yield _unknown(where, name, str(value), parameter.choices)
        elif not parameter.choices and not _fits(value, parameter.type):
            yield FileProblem(where, f"'{name}' must be {parameter.type_name}")
    for parameter in action.parameters.values():
        if parameter.required and parameter.name not in arguments:
            text = f"'{action.name}' needs the argument '{parameter.name}'"
            yield FileProblem(place, text, "add it to 'with'")


def _wrong_trigger(value: Any, place: Pointer, vocabulary: Vocabulary) -> Iterator[FileProblem]:
    machine = vocabulary.machine
    triggers = [] if machine is None else [one.trigger for one in machine.transitions]
    if value not in triggers:
        yield _unknown(place, "trigger", str(value), dict.fromkeys(triggers))


def _fits(value: Any, type_: Any) -> bool:
    if type_ is bool or isinstance(value, bool):
        return type_ is bool and isinstance(value, bool)
    if type_ in {int, Percent}:
        least, most = (1, 100) if type_ is Percent else (0, value)
        return isinstance(value, int) and least <= value <= most
    if type_ in {str, list}:
        return isinstance(value, type_)
    return isinstance(value, (int, float))


def _wrong_fault(
    fault: Mapping[str, Any], place: Pointer, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    operation = fault.get("operation")
    if operation is not None and operation not in vocabulary.operations:
        yield _unknown((*place, "operation"), "operation", operation, vocabulary.operations)
        return
    problem = fault_problem(vocabulary.operations, fault)
    problem = problem or response_problem(vocabulary.contract, fault)
    if problem is not None:
        yield FileProblem(place, problem)


def _unknown_action(name: str, place: Pointer, vocabulary: Vocabulary) -> FileProblem:
    known = sorted(other for other, one in vocabulary.actions.items() if one.in_scenarios)
    moves = vocabulary.machine.transitions if vocabulary.machine is not None else ()
    triggers = {one.trigger: None for one in moves if _TRANSITION in known}
    plain = name.lower().replace("_", "-").replace(" ", "-")
    close = close_word(plain, [*triggers, *known])
    if close in triggers:
        advice = f"use {_TRANSITION} with trigger: {close}"
        return FileProblem(place, f"there is no action '{name}'", advice)
    return _unknown(place, "action", name, known)


def _unknown(pointer: Pointer, what: str, word: str, known: Collection[str]) -> FileProblem:
    return FileProblem(pointer, f"there is no {what} '{word}'", suggestion(word, known))
