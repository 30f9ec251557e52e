"""Actions: what a scheduled step does, by functions of the project's ``domain/actions.py``.

An action is ``async def pay(step: Step, *, amount: Decimal) -> None``; its name is the function's,
with hyphens, and its keyword-only parameters, in camel case, are what a scenario may tell it. Only
an action marked with ``scenario_action`` may be used in a scenario; others are scheduled by
handlers, and read ``step.arguments``.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal, NewType, TypeVar

Trigger = NewType("Trigger", str)
"""Type of a parameter that names a trigger of the lifecycle."""

_Function = TypeVar("_Function", bound=Callable[..., Awaitable[None]])
_MARK: Final = "_story"

KINDS: Final[Mapping[Any, str]] = {
    str: "a string",
    Trigger: "a trigger",
    bool: "true or false",
    int: "a whole number",
    Decimal: "a number",
    list: "a list",
}
"""The types that a parameter may have, as people call them."""


class ActionError(ValueError):
    """An action that cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Parameter:
    """What an action may be told: its name in a scenario, its type, whether it must be told.

    ``words`` are all that it may be, if they are few.
    """

    name: str
    python_name: str
    type: Any
    required: bool
    words: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What it must be, as people say it: ``a string``, ``one of Passed, Failed``."""
        return f"one of {', '.join(self.words)}" if self.words else KINDS[self.type]


@dataclass(frozen=True)
class Action:
    """One action. ``triggers`` and ``events`` are all that it may pull and record."""

    name: str
    function: Callable[..., Awaitable[None]]
    summary: str = ""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    in_scenarios: bool = False
    triggers: tuple[str, ...] = ()
    events: tuple[str, ...] = ()

    async def do(self, step: Any, arguments: Mapping[str, Any]) -> None:
        """Do it, as a scenario or a handler asked for it."""
        told = {
            self.parameters[name].python_name: value
            for name, value in arguments.items()
            if name in self.parameters
        }
        await self.function(step, **told)


def scenario_action(
    *triggers: str, events: tuple[str, ...] = ()
) -> Callable[[_Function], _Function]:
    """Let scenarios do this action, which pulls one of ``triggers`` and may record ``events``."""

    def mark(function: _Function) -> _Function:
        setattr(function, _MARK, (triggers, events))
        return function

    return mark


def action_of(function: Callable[..., Awaitable[None]]) -> Action:
    """The action that a function is. Raises ActionError for a parameter that it cannot have."""
    triggers, events = getattr(function, _MARK, ((), ()))
    name = function.__name__.replace("_", "-")
    types = typing.get_type_hints(function)
    parameters = {}
    for one in inspect.signature(function).parameters.values():
        if one.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        kind = types.get(one.name)
        words = typing.get_args(kind) if typing.get_origin(kind) is Literal else ()
        if kind not in KINDS and not words:
            known = ", ".join(KINDS.values())
            raise ActionError(f"{name}: {one.name} must be of type {known}, or a Literal")
        required = one.default is inspect.Parameter.empty
        with_conditions = _camel(one.name)
        parameters[with_conditions] = Parameter(with_conditions, one.name, kind, required, words)
    return Action(
        name=name,
        function=function,
        summary=(inspect.getdoc(function) or "").partition("\n")[0],
        parameters=parameters,
        in_scenarios=hasattr(function, _MARK),
        triggers=triggers,
        events=events,
    )


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
