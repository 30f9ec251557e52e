"""Who sends a value: members of the other side are not asked of it.

A member that is ``readOnly`` is the server's, so no request needs it even where it is ``required``;
one that is ``writeOnly`` is the client's, so no answer needs it, and none is made up with it. Sent
all the same, neither is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

from invoice_sandbox.openapi.load.model import SCHEMA, walk

Mark = Literal["readOnly", "writeOnly"]
OF_THE_SERVER: Final[Mark] = "readOnly"
OF_THE_CLIENT: Final[Mark] = "writeOnly"

_MOST_STEPS: Final = 40

Resolve = Callable[[str], Any]
"""The schema that a ``$ref`` names; ValueError or LookupError if there is none."""


def is_marked_anywhere(document: Mapping[str, Any], mark: Mark) -> bool:
    """Whether any schema of a document has ``mark``."""
    return any(
        kind == SCHEMA and isinstance(value, Mapping) and value.get(mark) is True
        for _, kind, value in walk(document)
    )


def marked_members(schema: Any, mark: Mark, resolve: Resolve) -> frozenset[str]:
    """Names of the members of ``schema``, and of all of its ``allOf``, that have ``mark``."""
    return frozenset(_marked(schema, mark, resolve, 0))


def without(required: Any, names: frozenset[str]) -> Any:
    """A ``required`` that does not ask for ``names``; what is no list stays as it is."""
    if not isinstance(required, list):
        return required
    return [name for name in required if not isinstance(name, str) or name not in names]


def _marked(schema: Any, mark: Mark, resolve: Resolve, steps: int) -> Iterator[str]:
    if not isinstance(schema, Mapping) or steps > _MOST_STEPS:
        return
    properties = schema.get("properties")
    for name, member in properties.items() if isinstance(properties, Mapping) else ():
        if _has(member, mark, resolve, steps):
            yield name
    for part in _parts(schema, resolve):
        yield from _marked(part, mark, resolve, steps + 1)


def _has(schema: Any, mark: Mark, resolve: Resolve, steps: int) -> bool:
    if not isinstance(schema, Mapping) or steps > _MOST_STEPS:
        return False
    for own in (mark, OF_THE_SERVER, OF_THE_CLIENT):  # what it says itself goes before its parts
        if schema.get(own) is True:
            return own == mark
    if mark in schema:
        return False
    return any(_has(part, mark, resolve, steps + 1) for part in _parts(schema, resolve))


def _parts(schema: Mapping[str, Any], resolve: Resolve) -> Iterator[Any]:
    """What holds for the same value besides: the schema referred to, and those of ``allOf``."""
    if isinstance(schema.get("$ref"), str):
        with suppress(LookupError, ValueError):  # the compiler of the schemas says so
            yield resolve(schema["$ref"])
    parts = schema.get("allOf")
    yield from parts if isinstance(parts, list) else ()
