"""Scenarios: stories in YAML of what happens by itself, and after how long.

A file is checked when it is read, against its JSON Schema, the kinds of events of the lifecycle
and the actions of the project, so that a story which is served can be told to its end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.clock import parse_duration
from invoice_sandbox.contract.documents import DocumentError, load_document, place_of
from invoice_sandbox.contract.shapes import Pointer, ShapeProblem, near, shape_problems

LIFECYCLE: Final = "lifecycle"
"""The one file among the scenarios that is none."""


@dataclass(frozen=True)
class Reaction:
    """One step of a story: ``after`` the event of kind ``on``, do the action ``do``."""

    on: str
    after: timedelta
    do: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """A story: what it is for, and what follows which event."""

    name: str
    purpose: str = "Nothing happens by itself."
    steps: tuple[Reaction, ...] = ()

    def reactions(self, kind: str) -> tuple[Reaction, ...]:
        """What follows an event of that kind, in the order of the file."""
        return tuple(step for step in self.steps if step.on == kind)


def load_scenarios(
    folder: Path, events: Collection[str], actions: Collection[str]
) -> dict[str, Scenario]:
    """Every scenario of a folder by name. Raises DocumentError for the first problem."""
    files = sorted(folder.glob("*.yaml")) if folder.is_dir() else []
    loaded = {}
    for file in files:
        if file.stem != LIFECYCLE:
            loaded[file.stem] = load_scenario(file, events, actions)
    return loaded


def load_scenario(file: Path, events: Collection[str], actions: Collection[str]) -> Scenario:
    """The scenario that a file tells. Raises DocumentError for the first problem in it."""
    document = load_document(file)
    for problem in _problems(document, file, events, actions):
        raise DocumentError(place_of(file, problem.pointer), problem.text, problem.advice)
    steps = tuple(
        Reaction(one["on"], parse_duration(one["after"]), one["do"], one.get("with", {}))
        for one in document["steps"]
    )
    return Scenario(document["name"], document["purpose"], steps)


def _problems(
    document: Any, file: Path, events: Collection[str], actions: Collection[str]
) -> Iterator[ShapeProblem]:
    misshapen = list(shape_problems(document, _schema_file()))
    yield from misshapen
    if misshapen:
        return
    if document["name"] != file.stem:
        yield ShapeProblem(("name",), f"the file is called '{file.stem}'", "name both the same")
    for index, step in enumerate(document["steps"]):
        if step["on"] not in events:
            yield _unknown(("steps", index, "on"), "kind of event", step["on"], events)
        if step["do"] not in actions:
            yield _unknown(("steps", index, "do"), "action", step["do"], actions)


def _unknown(pointer: Pointer, what: str, word: str, known: Collection[str]) -> ShapeProblem:
    return ShapeProblem(pointer, f"there is no {what} '{word}'", near(word, sorted(known)))


def _schema_file() -> Path:
    return Path(__file__).with_name("scenario.schema.json")
