"""Is a scenario file one that can be told to its end? One message for each problem."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from yaml.reader import Reader

from invoice_sandbox.base.clock import parse_duration
from invoice_sandbox.openapi.load.documents import DocumentError, load_document, place_of
from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.openapi.schema.file_schema import (
    FileProblem,
    Pointer,
    schema_problems,
    suggestion,
)
from invoice_sandbox.scenarios.actions import Action, Trigger
from invoice_sandbox.scenarios.faults import fault_problem
from invoice_sandbox.scenarios.lifecycle import Lifecycle, Machine
from invoice_sandbox.scenarios.script import START, Scenario, resolved, scenario_of
from invoice_sandbox.scenarios.simulation import simulate

LIFECYCLE: Final = "lifecycle"
"""The one file among the scenarios that is none."""

SCHEMA: Final = Path(__file__).with_name("scenario.schema.json")
"""The JSON Schema of a scenario file."""

_LONGEST: Final = timedelta(days=3650)
"""The longest time that a step may wait: many steps must fit into the years that a clock has."""

_MOST_SAID: Final = 400
_MOST_ADVISED: Final = 1200
_CONFLICT: Final = 409


@dataclass(frozen=True)
class Vocabulary:
    """What a story may speak of: operations by id, the lifecycle, actions by name, the members
    that things have, and those of them that are dates or instants."""

    operations: Mapping[str, Operation]
    lifecycle: Lifecycle
    actions: Mapping[str, Action]
    members: Collection[str]
    dates: Collection[str]

    @property
    def machine(self) -> Machine | None:
        """The machine of the things that stories are about: the first that tells of new ones."""
        machines = self.lifecycle.machines.values()
        return next((machine for machine in machines if machine.created), None)


def load_scenarios(folder: Path, vocabulary: Vocabulary) -> dict[str, Scenario]:
    """Every scenario of a folder by name. Raises DocumentError for the first problem."""
    files = sorted(folder.glob("*.yaml")) if folder.is_dir() else []
    return {file.stem: load_scenario(file, vocabulary) for file in files if file.stem != LIFECYCLE}


def load_scenario(file: Path, vocabulary: Vocabulary) -> Scenario:
    """The scenario that a file tells. Raises DocumentError for the first problem in it."""
    document = _read(file)
    for problem in scenario_problems(document, file.stem, vocabulary):
        raise _located(file, problem)
    return scenario_of(document)


def scenario_file_problems(file: Path, vocabulary: Vocabulary) -> Iterator[tuple[str, str]]:
    """``place, problem`` for everything that is wrong with a file."""
    try:
        document = _read(file)
    except DocumentError as error:
        yield _told(error)
        return
    for problem in scenario_problems(document, file.stem, vocabulary):
        yield _told(_located(file, problem))


def _told(error: DocumentError) -> tuple[str, str]:
    return error.place, error.problem + (f" ({error.advice})" if error.advice else "")


def _read(file: Path) -> Any:
    """The document in a file. Raises DocumentError, with line and column if there is a file."""
    try:
        return load_document(file)
    except DocumentError as error:
        place = _with_column(file, error.place)
        raise DocumentError(place, _one_line(error.problem), error.advice) from None


def _located(file: Path, problem: FileProblem) -> DocumentError:
    place = _with_column(file, place_of(file, problem.pointer))
    return DocumentError(place, _one_line(problem.text), _one_line(problem.advice, _MOST_ADVISED))


def _with_column(file: Path, place: str) -> str:
    """The place with line and column: those of the first character that is none, else the start."""
    line_and_column = place.removeprefix(str(file))
    if line_and_column.count(":") == len(("line", "column")) or not file.is_file():
        return place
    data = file.read_bytes()
    try:
        strange = Reader.NON_PRINTABLE.search(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(errors="replace")
    else:
        before = "" if strange is None else strange.string[: strange.start()]
    return f"{file}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


def _one_line(text: str, most: int = _MOST_SAID) -> str:
    """The text as it can be printed: what breaks lines or moves the cursor is written out."""
    shown = "".join(one if one.isprintable() else repr(one)[1:-1] for one in text[:most])
    return shown if len(text) <= most else f"{shown}..."


def scenario_problems(document: Any, name: str, vocabulary: Vocabulary) -> Iterator[FileProblem]:
    """Everything that is wrong with a document, in three rounds: shape, words, story.

    A later round is held only when the earlier ones found nothing.
    """
    conditions = document.get("conditions", {}) if isinstance(document, dict) else {}
    usable = conditions if isinstance(conditions, dict) else {}
    told = resolved(document, usable)
    misshapen = list(dict.fromkeys(schema_problems(told, SCHEMA)))
    yield from misshapen
    if misshapen:
        return
    misworded = [*_wrong_conditions(document, usable), *_wrong_words(told, name, vocabulary)]
    yield from misworded
    if not misworded and vocabulary.machine is not None:
        yield from simulate(scenario_of(document), vocabulary.machine, vocabulary.actions)


def _wrong_conditions(document: Any, known: Mapping[str, Any]) -> Iterator[FileProblem]:
    for name, value in known.items():
        if isinstance(value, str) and value.startswith("$"):
            text = f"condition '{name}' stands for a value, not for another condition"
            yield FileProblem(("conditions", name), text, "write the value")
    used = set()
    told = {name: value for name, value in document.items() if name != "conditions"}
    for pointer, text in _texts(told, ()):
        if text.startswith("$"):
            used.add(text[1:])
            if text[1:] not in known:
                advice = suggestion(text[1:], known) if known else "name it under 'conditions'"
                yield FileProblem(pointer, f"there is no condition '{text[1:]}'", advice)
    for name in known:
        if name not in used:
            place = ("conditions", name)
            yield FileProblem(place, f"nothing uses condition '{name}'", f"write ${name} there")


def _texts(value: Any, pointer: Pointer) -> Iterator[tuple[Pointer, str]]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _texts(one, (*pointer, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from _texts(one, (*pointer, index))
    elif isinstance(value, str):
        yield pointer, value


def _wrong_words(
    told: Mapping[str, Any], name: str, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    if told["name"] != name:
        yield FileProblem(("name",), f"the file is called '{name}'", "name both the same")
    for index, step in enumerate(told.get("steps", [])):
        yield from _wrong_step(step, ("steps", index), vocabulary)
    for index, fault in enumerate(told.get("faults", [])):
        yield from _wrong_fault(fault, ("faults", index), vocabulary)
    for part, member, what, known in (
        ("deliveries", "event", "kind of event", vocabulary.lifecycle.events),
        ("expects", "operation", "operation", vocabulary.operations),
    ):
        for index, one in enumerate(told.get(part, [])):
            if member in one and one[member] not in known:
                yield _unknown((part, index, member), what, one[member], known)
    yield from _wrong_members(told, vocabulary)


def _wrong_members(told: Mapping[str, Any], vocabulary: Vocabulary) -> Iterator[FileProblem]:
    for part in ("begins", "needs"):
        for member in told.get(part, {}):
            if member not in vocabulary.members:
                yield _unknown((part, member), "member", member, vocabulary.members)
    if vocabulary.machine is not None:
        first = told.get("begins", {}).get("status", vocabulary.machine.initial)
        if first != vocabulary.machine.initial:
            text = f"a new {vocabulary.machine.name} is never '{first}'"
            yield FileProblem(("begins", "status"), text, f"it is {vocabulary.machine.initial}")
        for index, status in enumerate(told.get("needs", {}).get("status", [])):
            if status not in vocabulary.machine.states:
                place = ("needs", "status", index)
                yield _unknown(place, "status", str(status), vocabulary.machine.states)


def _wrong_step(
    step: Mapping[str, Any], place: Pointer, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    on = step["on"]
    if isinstance(on, str):
        if on != START and on not in vocabulary.lifecycle.events:
            yield _unknown(
                (*place, "on"), "kind of event", on, [START, *vocabulary.lifecycle.events]
            )
        if "after" not in step:
            yield FileProblem(place, "a step that follows an event has 'after'", "such as PT1S")
    elif "date" in on:
        if on["date"] not in vocabulary.dates:
            yield _unknown((*place, "on", "date"), "date", on["date"], vocabulary.dates)
        if "after" not in step:
            yield FileProblem(place, "a step that follows a date has 'after'", "such as P1D")
    elif "after" in step:
        text = "a step that goes with a request is done at once"
        yield FileProblem((*place, "after"), text, "take 'after' away")
    yield from _too_long(step, place)
    action = vocabulary.actions.get(step["do"])
    if action is None or not action.in_scenarios:
        known = sorted(name for name, one in vocabulary.actions.items() if one.in_scenarios)
        yield _unknown((*place, "do"), "action", step["do"], known)
        return
    if not isinstance(on, str) and "call" in on:
        yield from _wrong_call(on["call"], action, place, vocabulary)
    yield from _wrong_arguments(action, step.get("with", {}), place, vocabulary)


def _too_long(step: Mapping[str, Any], place: Pointer) -> Iterator[FileProblem]:
    waits = {(*place, "after"): step.get("after")}
    if isinstance(step["on"], dict):
        waits[*place, "on", "else"] = step["on"].get("else")
    for where, wait in waits.items():
        # A condition that is unknown is told of as such.
        if wait is not None and not wait.startswith("$") and parse_duration(wait) > _LONGEST:
            text = f"'{wait}' is longer than a story can wait"
            yield FileProblem(where, text, f"at most P{_LONGEST.days}D")


def _wrong_call(
    call: str, action: Action, place: Pointer, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    where = (*place, "on", "call")
    operation = vocabulary.operations.get(call)
    if operation is None:
        yield _unknown(where, "operation", call, vocabulary.operations)
    elif not operation.security.alternatives:
        known = [one.id for one in vocabulary.operations.values() if one.security.alternatives]
        text = f"{call} is asked without a key, so it goes with no workspace's story"
        yield FileProblem(where, text, suggestion(call, known))
    elif _moves(action) and ("{" not in operation.path or not operation.response_for(_CONFLICT)):
        text = f"'{action.name}' moves a thing, which a request to {call} cannot do"
        yield FileProblem((*place, "do"), text, "let it follow an event, with 'after'")


def _moves(action: Action) -> bool:
    """Whether the action may pull a trigger, which the status of a thing may not allow."""
    named = (one.type is Trigger for one in action.parameters.values())
    return bool(action.triggers) or any(named)


def _wrong_arguments(
    action: Action, told: Mapping[str, Any], place: Pointer, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    for name, value in told.items():
        where = (*place, "with", name)
        if name not in action.parameters:
            known = sorted(action.parameters)
            advice = suggestion(name, known) if known else "it is told nothing"
            yield FileProblem(where, f"'{action.name}' knows no '{name}'", advice)
            continue
        parameter = action.parameters[name]
        if parameter.type is Trigger:
            yield from _wrong_trigger(value, where, vocabulary)
        elif parameter.words and value not in parameter.words:
            yield _unknown(where, name, str(value), parameter.words)
        elif not parameter.words and not _fits(value, parameter.type):
            yield FileProblem(where, f"'{name}' must be {parameter.kind}")
    for parameter in action.parameters.values():
        if parameter.required and parameter.name not in told:
            yield FileProblem(place, f"'{action.name}' must be told '{parameter.name}'", "'with'")


def _wrong_trigger(value: Any, place: Pointer, vocabulary: Vocabulary) -> Iterator[FileProblem]:
    machine = vocabulary.machine
    triggers = [] if machine is None else [one.trigger for one in machine.transitions]
    if value not in triggers:
        yield _unknown(place, "trigger", str(value), dict.fromkeys(triggers))


def _fits(value: Any, kind: Any) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and value >= 0
    if kind in {str, list}:
        return isinstance(value, kind)
    return isinstance(value, (int, float))


def _wrong_fault(
    fault: Mapping[str, Any], place: Pointer, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    operation = fault.get("operation")
    if operation is not None and operation not in vocabulary.operations:
        yield _unknown((*place, "operation"), "operation", operation, vocabulary.operations)
        return
    problem = fault_problem(vocabulary.operations, fault)
    if problem is not None:
        yield FileProblem(place, problem)


def _unknown(pointer: Pointer, what: str, word: str, known: Collection[str]) -> FileProblem:
    return FileProblem(pointer, f"there is no {what} '{word}'", suggestion(word, known))
