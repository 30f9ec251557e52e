"""Checks of scenario files: schema, names, and a simulation. One message for each problem."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.base.clock import parse_duration
from invoice_sandbox.base.errors import close_word, suggestion
from invoice_sandbox.openapi.load.documents import load_document, parse_text, read_text
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.schema.file_schema import (
    FileProblem,
    FileSchema,
    Pointer,
    located,
    reject_problems,
)
from invoice_sandbox.scenarios.actions import Action, Trigger
from invoice_sandbox.scenarios.faults import fault_problem, response_problem
from invoice_sandbox.scenarios.lifecycle import Lifecycle, Machine
from invoice_sandbox.scenarios.script import START, Scenario, resolved, scenario_of, texts
from invoice_sandbox.scenarios.simulation import simulate

LIFECYCLE: Final = "lifecycle"
"""The name of the lifecycle file, which is in the same folder."""

SCHEMA: Final = Path(__file__).with_name("scenario.schema.json")
"""The JSON Schema of a scenario file."""

_MAX_WAIT: Final = timedelta(days=3650)
"""The longest wait of a step; the sum of many waits must stay below the year 9999."""

_TRANSITION: Final = "transition"
"""The action that fires a trigger of the lifecycle."""

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

    @property
    def triggers(self) -> list[str]:
        """The triggers of that machine."""
        transitions = () if self.machine is None else self.machine.transitions
        return list(dict.fromkeys(transition.trigger for transition in transitions))

    @cached_property
    def schema(self) -> FileSchema:
        """The JSON Schema of a scenario that uses these names."""
        events, machine = self.lifecycle.events, self.machine
        names: dict[str, Collection[str]] = {
            "operation": self.operations,
            "operationOrAll": ["*", *self.operations],
            "event": events,
            "eventOrAll": ["*", *events],
            "eventOrStart": [START, *events],
            "member": sorted(self.members),
            "date": sorted(self.dates),
        }
        if machine is not None:
            names |= {"status": machine.states, "initial": [machine.initial]}
        return FileSchema.read(SCHEMA, names)

    @cached_property
    def arguments(self) -> Mapping[str, FileSchema]:
        """The JSON Schemas of the arguments of actions."""
        return {
            name: FileSchema(name, action.schema(self.triggers))
            for name, action in self.actions.items()
        }


def load_scenario(file: Path, vocabulary: Vocabulary) -> Scenario:
    """Return the scenario in a file. Raises DocumentError with all problems of a round."""
    check_extension(file)
    return _load_scenario(file, read_text(file), vocabulary)


@lru_cache(maxsize=512)  # a check simulates all ways in which the scenario can run
def _load_scenario(file: Path, text: str, vocabulary: Vocabulary) -> Scenario:
    """Check each version of a file once, since all ways that it can run are simulated."""
    document = parse_text(text, str(file))
    reject_problems(file, scenario_problems(document, file.stem, vocabulary))
    return scenario_of({**document, "conditions": _all_conditions(document, vocabulary)})


def _all_conditions(document: Mapping[str, Any], vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the conditions of a scenario, and those that every scenario of the project has."""
    return {**vocabulary.lifecycle.conditions, **document.get("conditions", {})}


def check_extension(file: Path) -> None:
    """Raise DocumentError for a file whose name does not end in ``.yaml``."""
    if file.suffix != ".yaml":
        name = file.with_suffix(".yaml").name
        raise DocumentError(
            str(file), "the file name does not end in .yaml", f"rename it to {name}"
        )


def scenario_errors(file: Path, vocabulary: Vocabulary) -> list[DocumentError]:
    """Return every problem of a file with its place."""
    try:
        document = load_document(file)
        check_extension(file)
    except DocumentError as error:
        return [error]
    return located(file, scenario_problems(document, file.stem, vocabulary))


def scenario_problems(document: Any, name: str, vocabulary: Vocabulary) -> list[FileProblem]:
    """Return the problems of a document, by the first of three rounds that finds any: the schema,
    what a schema cannot express, and a simulation."""
    if not isinstance(document, dict):
        return vocabulary.schema.problems(document)
    conditions = document.get("conditions", {})
    conditions = conditions if isinstance(conditions, dict) else {}
    body = resolved(document, conditions)
    problems = _first_round(document, body, conditions, vocabulary) or [
        *_beyond_limits(document, conditions),
        *_wrong_names(body, name, vocabulary),
    ]
    if problems or vocabulary.machine is None:
        return problems
    return list(simulate(scenario_of(document), vocabulary.machine, vocabulary.actions))


def _first_round(
    document: Any, body: Any, conditions: Mapping[str, Any], vocabulary: Vocabulary
) -> list[FileProblem]:
    """Return the problems of conditions, and those that the schema finds elsewhere."""
    problems = list(_wrong_conditions(document, conditions, vocabulary.lifecycle.conditions))
    reported = {problem.pointer for problem in problems}
    by_schema = vocabulary.schema.problems(body)
    return [*problems, *(other for other in by_schema if other.pointer not in reported)]


def _wrong_conditions(
    document: Any, known: Mapping[str, Any], standing: Mapping[str, Any]
) -> Iterator[FileProblem]:
    for name, value in known.items():
        if isinstance(value, str) and value.startswith("$"):
            text = f"condition '{name}' refers to another condition"
            yield FileProblem(("conditions", name), text, "write a value")
    used = set()
    body = {name: value for name, value in document.items() if name != "conditions"}
    for pointer, text in texts(body):
        if text.startswith("$"):
            used.add(text[1:])
            if text[1:] not in known:
                advice = suggestion(text[1:], known) if known else "add it to 'conditions'"
                yield FileProblem(pointer, f"there is no condition '{text[1:]}'", advice)
    for name, value in known.items():
        if name in standing:
            if type(value) is not type(standing[name]):
                text = f"condition '{name}' is {value!r}, not like {standing[name]!r}"
                yield FileProblem(("conditions", name), text, "write a value of that type")
        elif name not in used:
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
            text = f"'{most}' is not a limit of '{value}'"
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


def _wrong_names(
    body: Mapping[str, Any], name: str, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    if body["name"] != name:
        text = f"the name differs from the file name '{name}'"
        yield FileProblem(("name",), text, f"write 'name: {name}'")
    for index, step in enumerate(body.get("steps", [])):
        yield from _wrong_step(step, ("steps", index), vocabulary)
    for index, fault in enumerate(body.get("faults", [])):
        problem = fault_problem(vocabulary.operations, fault)
        problem = problem or response_problem(vocabulary.contract, fault)
        if problem is not None:
            yield FileProblem(("faults", index), problem)
    kinds = {delivery["kind"]: None for delivery in body.get("deliveries", [])}
    for index, rule in enumerate(body.get("expects", [])):
        yield from _wrong_rule(rule, ("expects", index), kinds)


def _wrong_rule(
    rule: Mapping[str, Any], place: Pointer, kinds: Collection[str]
) -> Iterator[FileProblem]:
    kind = rule.get("kind")
    if kind is not None and kind not in kinds:
        text = f"no fault '{kind}' is among the 'deliveries' of this scenario"
        yield FileProblem((*place, "kind"), text, suggestion(kind, kinds))
    if rule.get("atLeast", 0) > rule.get("atMost", rule.get("atLeast", 0)):
        yield FileProblem((*place, "atMost"), "'atMost' is less than 'atLeast'", "exchange them")


def _wrong_step(
    step: Mapping[str, Any], place: Pointer, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    on = step["on"]
    yield from _too_long(step, place)
    action = vocabulary.actions.get(step["do"])
    if action is None or not action.in_scenarios:
        yield _unknown_action(step["do"], (*place, "do"), vocabulary)
        return
    if not isinstance(on, str) and "call" in on:
        yield from _wrong_call(on["call"], action, place, vocabulary)
    arguments = vocabulary.arguments[action.name]
    yield from arguments.problems(step.get("with", {}), (*place, "with"))


def _too_long(step: Mapping[str, Any], place: Pointer) -> Iterator[FileProblem]:
    waits = {(*place, "after"): step.get("after")}
    if isinstance(step["on"], dict):
        waits[*place, "on", "else"] = step["on"].get("else")
    for pointer, wait in waits.items():
        # A text with $ is an unknown condition, which is reported elsewhere.
        if wait is not None and not wait.startswith("$") and parse_duration(wait) > _MAX_WAIT:
            yield FileProblem(pointer, f"'{wait}' is too long", f"at most P{_MAX_WAIT.days}D")


def _wrong_call(
    call: str, action: Action, place: Pointer, vocabulary: Vocabulary
) -> Iterator[FileProblem]:
    operation = vocabulary.operations[call]
    if not operation.security.alternatives:
        known = [
            other.id for other in vocabulary.operations.values() if other.security.alternatives
        ]
        text = f"{call} needs no key, so it belongs to no workspace and no scenario"
        yield FileProblem((*place, "on", "call"), text, suggestion(call, known))
    elif _moves(action) and ("{" not in operation.path or not operation.response_for(_CONFLICT)):
        text = f"'{action.name}' changes a status, which is not possible with a request to {call}"
        yield FileProblem((*place, "do"), text, "let the step follow an event, with 'after'")


def _moves(action: Action) -> bool:
    """True if the action may cause a transition, which the status may not allow."""
    types = (parameter.type is Trigger for parameter in action.parameters.values())
    return bool(action.triggers) or any(types)


def _unknown_action(name: str, place: Pointer, vocabulary: Vocabulary) -> FileProblem:
    known = sorted(action.name for action in vocabulary.actions.values() if action.in_scenarios)
    triggers = vocabulary.triggers if _TRANSITION in known else []
    plain = name.lower().replace("_", "-").replace(" ", "-")
    close = close_word(plain, [*triggers, *known])
    advice = suggestion(name, known)
    if close in triggers:
        advice = f"use {_TRANSITION} with trigger: {close}"
    return FileProblem(place, f"there is no action '{name}'", advice)
