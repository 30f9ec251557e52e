"""Scenarios as values: the steps that a YAML file schedules, and what triggers each of them.

``checks`` validates a file when it is loaded. A text such as ``$delay`` in a file is replaced by
the condition of that name, which a run may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import LAST, later, parse_duration, start_of_day
from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.openapi.schema.file_schema import Pointer

_LONGEST_SHOWN: Final = 100

START: Final = "start"
"""The trigger of the first steps: the scenario starts for a record."""

NOW: Final = timedelta()


@dataclass(frozen=True)
class Reaction:
    """A step that follows an event: ``after`` an event of type ``on`` (or START), run ``do``.

    With ``date`` the time counts from the date in that member of the record, if that is later than
    the event, or, without a date, from ``otherwise`` after the event. ``index`` is the position of
    the step in the file.
    """

    index: int
    on: str
    after: timedelta
    do: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    date: str | None = None
    otherwise: timedelta = NOW

    def due(self, now: datetime, record: Mapping[str, Any]) -> datetime:
        """Return when the step is due for ``record``, if it is triggered ``now``.

        A step after the year 9999 is due at the last instant of that year. No clock gets there.
        """
        if self.date is None:
            return now + min(self.after, LAST - now)
        start = _date(record.get(self.date)) or later(now, self.otherwise)
        return max(now, later(start, self.after))


@dataclass(frozen=True)
class OnCall:
    """A step that runs with a request: the ``nth`` one to ``call``; None: with every one."""

    index: int
    call: str
    nth: int | None
    do: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Scenario:
    """A scenario. Lists show it in its ``group``.

    A new record with the members ``begins`` gets the scenario automatically. If another scenario
    begins with the record too, it starts beside it, with the event ``joins`` (or START). Without
    ``joins`` it starts alone. ``needs`` are the
    values that an existing record must have before the scenario can start on it. ``conditions`` are
    the values that a run may change. ``faults`` are bodies of ``POST /sandbox/faults``,
    ``deliveries`` the faults of webhook deliveries, ``expects`` the rules that a correct client
    keeps (``expectation`` in scenario.schema.json).
    """

    name: str
    purpose: str = "Nothing happens automatically."
    group: str = ""
    passes: str = ""
    begins: Mapping[str, str] = field(default_factory=dict)
    joins: str = ""
    needs: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Reaction, ...] = ()
    calls: tuple[OnCall, ...] = ()
    faults: tuple[Mapping[str, Any], ...] = ()
    deliveries: tuple[Mapping[str, Any], ...] = ()
    expects: tuple[Mapping[str, Any], ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def by_event(self) -> Mapping[str, tuple[Reaction, ...]]:
        """The steps that follow each type of event, and START, in the order of the file."""
        steps: dict[str, tuple[Reaction, ...]] = {}
        for step in self.steps:
            steps[step.on] = (*steps.get(step.on, ()), step)
        return steps

    def deliveries_of(self, event_type: str) -> Sequence[Mapping[str, Any]]:
        """Return the faults of the deliveries of a type of event."""
        if not self.deliveries:
            return ()
        return [fault for fault in self.deliveries if fault.get("event", event_type) == event_type]

    def on_call(self, operation_id: str, number: int) -> tuple[OnCall, ...]:
        """Return the steps that run with the ``number``-th request to an operation."""
        return tuple(
            step for step in self.calls if step.call == operation_id and step.nth in {None, number}
        )


class ConditionError(ValueError):
    """A condition that the scenario does not have, or a value of the wrong type."""


def scenario_of(document: Mapping[str, Any]) -> Scenario:
    """Return the scenario of a checked document, under the conditions in that document."""
    body = resolved(document, document.get("conditions", {}))
    steps = list(enumerate(body.get("steps", [])))
    return Scenario(
        name=body["name"],
        purpose=body["purpose"],
        group=body.get("group", ""),
        passes=body.get("passes", ""),
        begins=body.get("begins", {}),
        joins=body.get("joins", ""),
        needs=body.get("needs", {}),
        conditions=body.get("conditions", {}),
        steps=tuple(_reaction(index, step) for index, step in steps if not _is_call(step)),
        calls=tuple(_on_call(index, step) for index, step in steps if _is_call(step)),
        faults=tuple(body.get("faults", [])),
        deliveries=tuple(body.get("deliveries", [])),
        expects=tuple(body.get("expects", [])),
        document=document,
    )


def changed_document(scenario: Scenario, conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scenario's document with other conditions. Raises ConditionError."""
    defaults = scenario.document.get("conditions", {})
    for name, value in conditions.items():
        if name not in defaults:
            known = suggestion(name, defaults) if defaults else "it has no conditions"
            raise ConditionError(f"{scenario.name} has no condition '{name}' ({known})")
        if type(value) is not type(defaults[name]):
            given = jsonio.dumps(value).decode()[:_LONGEST_SHOWN]
            raise ConditionError(f"condition '{name}' must be like {defaults[name]!r}, not {given}")
    return {**scenario.document, "conditions": {**defaults, **conditions}}


def resolved(value: Any, conditions: Mapping[str, Any]) -> Any:
    """Return ``value`` with every text such as ``$delay`` replaced by the condition of that name.

    A text that names no condition is kept.
    """
    if isinstance(value, Mapping):
        return {name: resolved(member, conditions) for name, member in value.items()}
    if isinstance(value, list):
        return [resolved(item, conditions) for item in value]
    if isinstance(value, str) and value.startswith("$"):
        return conditions.get(value[1:], value)
    return value


def texts(value: Any, pointer: Pointer = ()) -> Iterator[tuple[Pointer, str]]:
    """Yield every text in ``value``, which is at ``pointer``, with its place."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from texts(member, (*pointer, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts(item, (*pointer, index))
    elif isinstance(value, str):
        yield pointer, value


def _is_call(raw: Mapping[str, Any]) -> bool:
    return isinstance(raw["on"], Mapping) and "call" in raw["on"]


def _reaction(index: int, raw: Mapping[str, Any]) -> Reaction:
    on, after, arguments = raw["on"], parse_duration(raw["after"]), raw.get("with", {})
    if isinstance(on, str):
        return Reaction(index, on, after, raw["do"], arguments)
    otherwise = parse_duration(on["else"])
    event = on.get("event", START)
    return Reaction(index, event, after, raw["do"], arguments, on["date"], otherwise)


def _date(value: Any) -> datetime | None:
    try:
        return start_of_day(value[:10])
    except (TypeError, ValueError):
        return None


def _on_call(index: int, raw: Mapping[str, Any]) -> OnCall:
    on = raw["on"]
    return OnCall(index, on["call"], on.get("nth"), raw["do"], raw.get("with", {}))
