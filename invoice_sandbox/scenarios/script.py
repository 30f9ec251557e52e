"""Scenarios: stories in YAML of what happens by itself, and after how long.

A file is checked when it is read (``checks``), so that a story which is served can be told to its
end. Texts such as ``$delay`` stand for a condition of the story, which a run may change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from invoice_sandbox.base.clock import parse_duration
from invoice_sandbox.openapi.schema.file_schema import suggestion

START: Final = "start"
"""What sets off the first steps: the story begins, for a thing that is new or named."""

NOW: Final = timedelta()


@dataclass(frozen=True)
class Reaction:
    """A step that follows an event: ``after`` one of kind ``on`` (or START), do ``do``.

    With ``date`` the time counts from the date in that member of the thing, or, if it has none,
    from ``otherwise`` after the beginning. ``index`` is where the step stands in the file.
    """

    index: int
    on: str
    after: timedelta
    do: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    date: str | None = None
    otherwise: timedelta = NOW

    def due(self, now: datetime, thing: Mapping[str, Any]) -> datetime:
        """When the step is due for ``thing``, if what sets it off happens ``now``."""
        start = now
        if self.date is not None:
            start = _date(thing.get(self.date)) or now + self.otherwise
        return max(now, start + self.after)


@dataclass(frozen=True)
class OnCall:
    """A step that goes with a request: the ``nth`` one to ``call``, or every one."""

    index: int
    call: str
    nth: int | None
    do: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """A story.

    ``begins`` are members by which a new thing gets this story without being asked for, ``needs``
    what must hold of a thing that it is begun on later, ``conditions`` what a run may change.
    ``faults`` are bodies as for ``POST /sandbox/faults``, ``deliveries`` what befalls webhooks.
    """

    name: str
    purpose: str = "Nothing happens by itself."
    passes: str = ""
    begins: Mapping[str, str] = field(default_factory=dict)
    needs: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Reaction, ...] = ()
    calls: tuple[OnCall, ...] = ()
    faults: tuple[Mapping[str, Any], ...] = ()
    deliveries: tuple[Mapping[str, Any], ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def reactions(self, kind: str) -> tuple[Reaction, ...]:
        """What follows an event of that kind, or START, in the order of the file."""
        return tuple(step for step in self.steps if step.on == kind)

    def on_call(self, operation_id: str, number: int) -> tuple[OnCall, ...]:
        """What goes with the request to an operation that is its ``number``-th."""
        return tuple(
            step for step in self.calls if step.call == operation_id and step.nth in {None, number}
        )

    def begins_with(self, data: Mapping[str, Any]) -> bool:
        """Whether a new thing with these members gets this story by itself."""
        return bool(self.begins) and all(
            data.get(name) == value for name, value in self.begins.items()
        )


class ConditionError(ValueError):
    """A condition that the story does not have, or a value that it cannot take."""


def scenario_of(document: Mapping[str, Any]) -> Scenario:
    """The scenario that a checked document tells, under its own conditions."""
    told = resolved(document, document.get("conditions", {}))
    steps = list(enumerate(told.get("steps", [])))
    return Scenario(
        name=told["name"],
        purpose=told["purpose"],
        passes=told.get("passes", ""),
        begins=told.get("begins", {}),
        needs=told.get("needs", {}),
        conditions=told.get("conditions", {}),
        steps=tuple(_reaction(index, one) for index, one in steps if not _is_call(one)),
        calls=tuple(_on_call(index, one) for index, one in steps if _is_call(one)),
        faults=tuple(told.get("faults", [])),
        deliveries=tuple(told.get("deliveries", [])),
        document=document,
    )


def changed_document(scenario: Scenario, conditions: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario's document under other conditions. Raises ConditionError for unknown ones."""
    own = scenario.document.get("conditions", {})
    for name, value in conditions.items():
        if name not in own:
            known = suggestion(name, own) if own else "it has none"
            raise ConditionError(f"{scenario.name} has no condition '{name}' ({known})")
        if type(value) is not type(own[name]):
            raise ConditionError(f"condition '{name}' must be like {own[name]!r}")
    return {**scenario.document, "conditions": {**own, **conditions}}


def resolved(value: Any, conditions: Mapping[str, Any]) -> Any:
    """``value`` with every text such as ``$delay`` replaced by the condition of that name.

    What names no condition stays as it is.
    """
    if isinstance(value, Mapping):
        return {name: resolved(one, conditions) for name, one in value.items()}
    if isinstance(value, list):
        return [resolved(one, conditions) for one in value]
    if isinstance(value, str) and value.startswith("$"):
        return conditions.get(value[1:], value)
    return value


def _is_call(raw: Mapping[str, Any]) -> bool:
    return isinstance(raw["on"], Mapping) and "call" in raw["on"]


def _reaction(index: int, raw: Mapping[str, Any]) -> Reaction:
    on, after, told = raw["on"], parse_duration(raw["after"]), raw.get("with", {})
    if isinstance(on, str):
        return Reaction(index, on, after, raw["do"], told)
    otherwise = parse_duration(on["else"])
    return Reaction(index, START, after, raw["do"], told, on["date"], otherwise)


def _date(value: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        return None


def _on_call(index: int, raw: Mapping[str, Any]) -> OnCall:
    on = raw["on"]
    return OnCall(index, on["call"], on.get("nth"), raw["do"], raw.get("with", {}))
