"""Schemas that lead back into themselves in several ways at once.

A tree whose children are ``oneOf`` two types of trees is checked twice at every level: the effort
doubles with each, for every validator. So values for such schemas are looked at to a depth only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from invoice_sandbox.openapi.load.model import SCHEMA, Node, node, walk
from invoice_sandbox.openapi.schema.generation_view import COMPONENTS

MAX_LEVELS: Final = 16
"""Levels of a value that is checked against such a schema."""

MAX_EXPLAINED: Final = 8
"""Levels of a value whose problems are explained, which takes more effort for each alternative."""

_SEVERAL: Final = ("oneOf", "anyOf", "allOf")


class Branching:
    """Which schemas of a document lead to one that branches into itself."""

    def __init__(self, components: Mapping[str, Any]) -> None:
        """``components`` are the schemas that others refer to."""
        self._direct = {name: frozenset(_names(schema)) for name, schema in components.items()}
        self._reached: dict[str, frozenset[str]] = {}
        self._branching = frozenset(
            name for name, schema in components.items() if self._comes_back(name, schema)
        )

    def is_in(self, schema: Any) -> bool:
        """Whether a value for ``schema`` may be one for a schema that branches into itself."""
        return bool(self._branching) and not self._branching.isdisjoint(self._reach(schema))

    def _comes_back(self, name: str, schema: Any) -> bool:
        return any(
            sum(name in self._reach(branch) for branch in branches) > 1
            for branches in _alternatives(schema)
        )

    def _reach(self, schema: Any) -> set[str]:
        """The components that ``schema`` refers to, in however many steps."""
        return {one for name in set(_names(schema)) for one in self._from(name)}

    def _from(self, name: str) -> frozenset[str]:
        if name not in self._reached:
            seen, waiting = {name}, [name]
            while waiting:
                more = self._direct.get(waiting.pop(), frozenset()) - seen
                seen |= more
                waiting += more
            self._reached[name] = frozenset(seen)
        return self._reached[name]


def levels(value: Any, most: int) -> int:
    """How deep lists and objects are nested in ``value``, counted up to one beyond ``most``."""
    found, layer = 0, [value]
    while layer and found <= most:
        layer = [
            child
            for one in layer
            if isinstance(one, Mapping | list)
            for child in (one.values() if isinstance(one, Mapping) else one)
        ]
        found += 1
    return found


def shallow(is_valid: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """``is_valid`` for values of no more than MAX_LEVELS; deeper ones are not."""
    return lambda value: levels(value, MAX_LEVELS) <= MAX_LEVELS and is_valid(value)


def _alternatives(value: Any) -> Iterator[Sequence[Any]]:
    for here in _schemas_in(value):
        yield from (here.value[key] for key in _SEVERAL if isinstance(here.value.get(key), list))


def _names(value: Any) -> Iterator[str]:
    for here in _schemas_in(value):
        if here.reference is not None and here.reference.startswith(COMPONENTS):
            yield here.reference.removeprefix(COMPONENTS).partition("/")[0]


def _schemas_in(schema: Any) -> Iterator[Node]:
    return (here for here in walk(node(schema, SCHEMA)) if here.is_schema)
