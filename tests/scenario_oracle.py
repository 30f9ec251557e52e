"""Is a scenario sound? A second opinion, which shares no code with the checks of the engine.

Where the checks say more than this does, that is theirs; what this finds they must have found.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator

from invoice_sandbox.base.clock import parse_duration
from invoice_sandbox.scenarios import checks
from invoice_sandbox.scenarios.actions import Trigger
from invoice_sandbox.scenarios.checks import Vocabulary
from invoice_sandbox.scenarios.lifecycle import Machine

_SCHEMA: Final = Draft202012Validator(
    json.loads(Path(checks.__file__).with_name("scenario.schema.json").read_text())
)
_MOST: Final = 1_500
"""Situations that are looked at before a walk is given up, as one that proves nothing."""


def nonsense(document: Any, name: str, vocabulary: Vocabulary) -> list[str]:
    """What is wrong with a scenario; nothing if it can be run to the end."""
    reported = _with_conditions(document, document.get("conditions", {}))
    wrong = [one.message for one in _SCHEMA.iter_errors(reported)]
    wrong += [
        f"no {what}: {word}"
        for what, word, known in _names(reported, vocabulary)
        if word not in known
    ]
    if reported.get("name") != name:
        wrong.append(f"the name is {reported.get('name')}")
    texts = set(_texts({**document, "conditions": {}}))
    wrong += [f"unused: {one}" for one in document.get("conditions", {}) if f"${one}" not in texts]
    wrong += [f"unknown: {one}" for one in _texts(reported) if one.startswith("$")]
    return wrong or [f"step {index} has no moment" for index in _never(reported, vocabulary)]


def _with_conditions(value: Any, conditions: Mapping[str, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _with_conditions(one, conditions) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_conditions(one, conditions) for one in value]
    known = isinstance(value, str) and value[:1] == "$" and value[1:] in conditions
    return conditions[value[1:]] if known else value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
    elif isinstance(value, str):
        yield value


# Names --------------------------------------------------------------------------------------------

Name = tuple[str, Any, Any]
"""What it names, the name, and those that there are."""


def _names(reported: Any, vocabulary: Vocabulary) -> Iterator[Name]:
    machine = _machine(vocabulary)
    for part in ("begins", "needs"):
        for member in reported.get(part, {}):
            yield "member", member, vocabulary.members
    for status in reported.get("needs", {}).get("status", []):
        yield "status", status, machine.states
    for one in reported.get("expects", []):
        yield from _names_of_rule(one, reported, vocabulary)
    for one in reported.get("faults", []):
        yield from _names_of_fault(one, vocabulary)
    for one in reported.get("deliveries", []):
        if "event" in one:
            yield "event", one["event"], vocabulary.lifecycle.events
    for step in reported.get("steps", []):
        yield from _names_of_step(step, vocabulary)


def _names_of_fault(one: Any, vocabulary: Vocabulary) -> Iterator[Name]:
    if "operation" in one:
        yield "operation", one["operation"], vocabulary.operations
    if one.get("kind") == "error":
        asked = [one["operation"]] if "operation" in one else list(vocabulary.operations)
        declared = {key for name in asked for key in vocabulary.operations[name].responses}
        yield "declared answer", str(int(one.get("status", 429))), declared


def _names_of_rule(rule: Any, reported: Any, vocabulary: Vocabulary) -> Iterator[Name]:
    asked = rule.get("request", [])
    for name in [asked] if isinstance(asked, str) else asked:
        yield "operation", name, {"*", *vocabulary.operations}
    for member, others in (("delivery", {"*"}), ("after", {"start"}), ("until", set())):
        if member in rule:
            yield "event", rule[member], others | set(vocabulary.lifecycle.events)
    if "kind" in rule:
        yield "fault", rule["kind"], [one["kind"] for one in reported.get("deliveries", [])]


def _names_of_step(step: Any, vocabulary: Vocabulary) -> Iterator[Name]:
    on = step["on"]
    if isinstance(on, str):
        yield "event", on, {"start", *vocabulary.lifecycle.events}
    elif "call" in on:
        yield "operation", on["call"], vocabulary.operations
    else:
        yield "member", on["date"], vocabulary.members
        yield "event", on.get("event", "start"), {"start", *vocabulary.lifecycle.events}
    actions = {name: one for name, one in vocabulary.actions.items() if one.in_scenarios}
    yield "action", step["do"], actions
    action = actions[step["do"]]
    arguments = step.get("with", {})
    for name in arguments:
        yield "parameter", name, action.parameters
    for name, parameter in action.parameters.items():
        if parameter.required:
            yield "argument", name, arguments
        if name in arguments and parameter.type is Trigger:
            triggers = {one.trigger for one in _machine(vocabulary).transitions}
            yield "trigger", arguments[name], triggers


def _machine(vocabulary: Vocabulary) -> Machine:
    machine = vocabulary.machine
    assert machine is not None
    return machine


# The walk -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Situation:
    """How the invoice stands, and how long it is until which steps."""

    status: str
    before: str | None
    queue: tuple[tuple[timedelta, int], ...] = ()


@dataclass
class _Walk:
    """Everything that can come about in a scenario, one situation after the other."""

    steps: Mapping[int, Any]
    vocabulary: Vocabulary
    done: set[int] = field(default_factory=set)

    def begin(self, status: str, *, clients: bool) -> bool:
        """Walk on until every step was done, or there is nothing new; False: given up."""
        waiting = deque([self.with_reactions(_Situation(status, None), "start")])
        seen = set(waiting)
        while waiting and self.done != self.steps.keys():
            if len(seen) > _MOST:
                return False
            here = waiting.popleft()
            following = [*self.by_step(here), *(self.by_clients(here) if clients else ())]
            new = [one for one in following if one not in seen]
            seen.update(new)
            waiting.extend(new)
        return True

    def by_step(self, here: _Situation) -> Iterator[_Situation]:
        if not here.queue:
            return
        (wait, index), *others = here.queue
        left = _Situation(
            here.status, here.before, tuple((time - wait, one) for time, one in others)
        )
        action = self.vocabulary.actions[self.steps[index]["do"]]
        pulled = [*action.triggers]
        for name, value in self.steps[index].get("with", {}).items():
            if action.parameters[name].type is Trigger:
                pulled.append(value)
        ends = list(self.moved(left, pulled))
        if ends or not pulled:
            self.done.add(index)
        for end in ends or [left]:
            reached = end
            for kind in action.events:
                reached = self.with_reactions(reached, kind)
            yield reached

    def by_clients(self, here: _Situation) -> Iterator[_Situation]:
        yield from self.moved(here, _machine(self.vocabulary).by_clients)

    def moved(self, here: _Situation, triggers: Any) -> Iterator[_Situation]:
        for one in _machine(self.vocabulary).transitions:
            if one.from_ == here.status and one.trigger in triggers:
                to = here.before if one.to == "previous" else one.to
                if to is not None:
                    there = _Situation(to, here.status, here.queue)
                    yield self.with_reactions(there, one.event)

    def with_reactions(self, here: _Situation, kind: str | None) -> _Situation:
        due = [(_wait(one), index) for index, one in self.steps.items() if _sets_off(one) == kind]
        return _Situation(here.status, here.before, tuple(sorted([*here.queue, *due])))


def _sets_off(step: Any) -> str:
    return step["on"] if isinstance(step["on"], str) else step["on"].get("event", "start")


def _wait(step: Any) -> timedelta:
    since = parse_duration(step["on"]["else"]) if isinstance(step["on"], dict) else timedelta()
    return since + parse_duration(step["after"])


def _never(reported: Any, vocabulary: Vocabulary) -> list[int]:
    """The steps that are never done, if the scenario is begun where it is meant to be."""
    steps = {
        index: one
        for index, one in enumerate(reported.get("steps", []))
        if isinstance(one["on"], str) or "date" in one["on"]
    }
    machine = _machine(vocabulary)
    needed = reported.get("needs", {}).get("status", [])
    status = machine.initial if machine.initial in needed or not needed else needed[0]
    walk = _Walk(steps, vocabulary)
    proven = walk.begin(status, clients=False) and walk.begin(status, clients=True)
    return sorted(steps.keys() - walk.done) if proven else []
