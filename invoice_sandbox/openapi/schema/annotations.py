"""Annotations of members that have an effect here: readOnly, writeOnly and ``format: password``.

A member that is ``readOnly`` is the server's, so no request needs it even where it is ``required``;
one that is ``writeOnly`` is the client's, so no response needs it, and none is generated with it.
Sent all the same, neither is rejected. A member with the format ``password`` is a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from invoice_sandbox.openapi.load.model import SCHEMA, Node, address, node, walk
from invoice_sandbox.openapi.load.pointers import ContractError, named

Mark = Literal["readOnly", "writeOnly"]
OF_THE_SERVER: Final[Mark] = "readOnly"
OF_THE_CLIENT: Final[Mark] = "writeOnly"

_MARKS: Final = frozenset({OF_THE_SERVER, OF_THE_CLIENT})

Resolve = Callable[[str], Any]
"""The schema that a ``$ref`` names; ValueError or LookupError if there is none."""


def is_marked_anywhere(document: Mapping[str, Any], mark: Mark) -> bool:
    """True if a schema of a document has ``mark``."""
    return any(here.is_schema and here.value.get(mark) is True for here in walk(node(document)))


def marked_members(schema: Any, mark: Mark, resolve: Resolve) -> frozenset[str]:
    """Return the names of members of ``schema``, and of all of its ``allOf``, with ``mark``."""
    found = set[str]()
    for part in all_parts(schema, resolve):
        properties = part.get("properties")
        members = properties.items() if isinstance(properties, Mapping) else ()
        found |= {name for name, member in members if _has(member, mark, resolve)}
    return frozenset(found)


def without(required: Any, names: frozenset[str]) -> Any:
    """Return a ``required`` that does not ask for ``names``; what is not a list stays."""
    if not isinstance(required, list):
        return required
    return [name for name in required if not isinstance(name, str) or name not in names]


def _has(schema: Any, mark: Mark, resolve: Resolve) -> bool:
    """True if the first part with a mark has this one: a schema goes before its ``allOf``."""
    marked = (part for part in all_parts(schema, resolve) if _MARKS & part.keys())
    return next(marked, {}).get(mark) is True


def all_parts(schema: Any, resolve: Resolve) -> Iterator[Mapping[str, Any]]:
    """Yield the schema, all that it refers to, and all of its ``allOf``, each once."""
    waiting, seen = [schema], set[int]()
    for part in waiting:
        if isinstance(part, Mapping) and id(part) not in seen:
            seen.add(id(part))
            yield part
            waiting += parts(part, resolve)


def parts(schema: Mapping[str, Any], resolve: Resolve) -> Iterator[Any]:
    """Yield what applies to the same value: the schema referred to, and those of ``allOf``."""
    if isinstance(schema.get("$ref"), str):
        with suppress(LookupError, ValueError):  # the compiler of the schemas reports it
            yield resolve(schema["$ref"])
    parts = schema.get("allOf")
    yield from parts if isinstance(parts, list) else ()


_UNNAMED: Final = frozenset(
    {
        *("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"),
        *("additionalProperties", "patternProperties", "unevaluatedProperties"),
        *("allOf", "anyOf", "oneOf", "then", "else", "schema", "content"),
    }
)
"""Keywords of what has no name of its own: the secret is then what contains it."""


@dataclass(frozen=True)
class Passwords:
    """Finds what is declared as ``format: password``; ``identified`` are the document and its
    schemas by their addresses.

    A member is secret if its schema is so declared, or that of its items, of members whose names
    are not declared, or of one of its alternatives.
    """

    identified: Mapping[str, Any]

    @cached_property
    def _has_any(self) -> bool:
        return any(_is_password(here) for here in walk(node(self.identified[""])))

    def of(self, operation: Mapping[str, Any]) -> frozenset[str]:
        """Return the names of secret members. Raises ContractError for a reference to nothing."""
        whole, names, seen = node(operation, "operation"), set[str](), set[int]()
        keys = ("parameters", "requestBody", "responses") if self._has_any else ()
        waiting = [whole.child(key, operation.get(key)) for key in keys]
        while waiting:
            for here in walk(waiting.pop()):
                target = None if here.reference is None else self._target(here)
                if target is not None and id(target.value) not in seen:
                    seen.add(id(target.value))
                    waiting.append(target)
                properties = here.value.get("properties") if here.is_schema else None
                if isinstance(properties, Mapping):
                    members = here.child("properties", properties).children()
                    names |= {str(name) for name, member in members if self._is_secret(member)}
        return frozenset(names)

    def is_secret(self, value: Any, type_: str) -> bool:
        """True if a secret without a name is in a body, or is a parameter (``type_``)."""
        return self._has_any and self._is_secret(node(value, type_))

    def _is_secret(self, start: Node) -> bool:
        waiting, seen = [start], set[int]()
        while waiting:
            here = waiting.pop()
            if not isinstance(here.value, Mapping) or id(here.value) in seen:
                continue
            seen.add(id(here.value))
            if _is_password(here):
                return True
            if here.reference is not None:
                waiting.append(self._target(here))
            for key in _UNNAMED & here.value.keys():
                child = here.child(key, here.value[key])
                is_plain = child.type in {SCHEMA, "mediaType"}
                waiting += [child] if is_plain else [inner for _, inner in child.children()]
        return False

    def _target(self, here: Node) -> Node:
        reference = str(here.reference)
        found = named(reference, here.base, self.identified)
        if found is None and reference.startswith("#/components/"):
            found = named(reference, "", self.identified)
        if found is None and reference.startswith("#/"):
            raise ContractError(f"{reference} names nothing in the document")
        return node(found, here.type, base=address(reference, here.base).partition("#")[0])


def _is_password(here: Node) -> bool:
    return here.is_schema and here.value.get("format") == "password"
