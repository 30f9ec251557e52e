"""Actions: functions of the project that scheduled steps call.

An action is ``def pay(step: Step, *, amount: Decimal) -> None``. Its name in a scenario is
the function's, with hyphens; its arguments are the keyword-only parameters, in camel case. Only an
action marked with ``scenario_action`` may be used in a scenario. Handlers schedule the others,
which read ``step.arguments``.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal, NewType, TypeVar

from invoice_sandbox.base.ids import camel_case

Trigger = NewType("Trigger", str)
"""Type of a parameter that names a trigger of the lifecycle."""

Percent = NewType("Percent", int)
"""Type of a parameter from 1 to 100."""

_Function = TypeVar("_Function", bound=Callable[..., None])
_MARK: Final = "_scenario_action"

_TYPES: Final[Mapping[Any, tuple[str, Mapping[str, Any]]]] = {
    str: ("a string", {"type": "string"}),
    Trigger: ("a trigger", {"$ref": "#/$defs/trigger"}),
    Percent: ("a whole number from 1 to 100", {"type": "integer", "minimum": 1, "maximum": 100}),
    bool: ("true or false", {"type": "boolean"}),
    int: ("a whole number", {"type": "integer", "minimum": 0}),
    Decimal: ("a number", {"type": "number"}),
    list: ("a list", {"type": "array"}),
}
"""The types that a parameter may have, with their names in the documentation and schemas."""


class ActionError(ValueError):
    """An action that cannot be used; the message names it and the reason."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of an action: its name in a scenario, its type, and whether it is required.

    ``choices`` are the allowed values of a Literal.
    """

    name: str
    python_name: str
    type: Any
    required: bool
    choices: tuple[str, ...] = ()

    @property
    def type_name(self) -> str:
        """The type in the documentation: ``a string``, ``one of Passed, Failed``."""
        return f"one of {', '.join(self.choices)}" if self.choices else _TYPES[self.type][0]

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of its values."""
        if self.choices:
            return {"title": self.name, "enum": self.choices}
        return _TYPES[self.type][1]


@dataclass(frozen=True)
class Action:
    """An action. ``triggers`` are all that it may cause, ``events`` all that it may record."""

    name: str
    function: Callable[..., None]
    summary: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    in_scenarios: bool = False
    triggers: tuple[str, ...] = ()
    events: tuple[str, ...] = ()

    def schema(self, triggers: Sequence[str]) -> Mapping[str, Any]:
        """Return the JSON Schema of its arguments, where ``triggers`` are those of the machine."""
        parameters = self.parameters.values()
        return {
            "type": "object",
            "properties": {parameter.name: parameter.schema for parameter in parameters},
            "required": [parameter.name for parameter in parameters if parameter.required],
            "additionalProperties": False,
            "$defs": {"trigger": {"title": "trigger", "enum": triggers}},
        }

    def run(self, step: Any, arguments: Mapping[str, Any]) -> None:
        """Call the function with the arguments of a scenario or a handler."""
        keywords = {
            self.parameters[name].python_name: value
            for name, value in arguments.items()
            if name in self.parameters
        }
        self.function(step, **keywords)


def scenario_action(
    *triggers: str, events: tuple[str, ...] = ()
) -> Callable[[_Function], _Function]:
    """Allow scenarios to use this action, which causes one of ``triggers``.

    ``events`` are the types of other events that it may record.
    """

    def mark(function: _Function) -> _Function:
        setattr(function, _MARK, (triggers, events))
        return function

    return mark


def action_of(function: Callable[..., None]) -> Action:
    """Return the action of a function. Raises ActionError for a parameter of another type."""
    triggers, events = getattr(function, _MARK, ((), ()))
    name = function.__name__.replace("_", "-")
    types = typing.get_type_hints(function)
    parameters = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        type_ = types.get(parameter.name)
        type_ = list if typing.get_origin(type_) is list else type_
        choices = typing.get_args(type_) if typing.get_origin(type_) is Literal else ()
        if type_ not in _TYPES and not choices:
            known = ", ".join(
                getattr(known_type, "__name__", str(known_type)) for known_type in _TYPES
            )
            raise ActionError(
                f"{name}: annotate '{parameter.name}' with one of {known}, or a Literal"
            )
        required = parameter.default is inspect.Parameter.empty
        scenario_name = camel_case(parameter.name)
        parameters[scenario_name] = Parameter(
            scenario_name, parameter.name, type_, required, choices
        )
    return Action(
        name=name,
        function=function,
        summary=(inspect.getdoc(function) or "").partition("\n")[0],
        parameters=parameters,
        in_scenarios=hasattr(function, _MARK),
        triggers=triggers,
        events=events,
    )
