"""Annotations of members that have an effect here: readOnly, writeOnly and ``format: password``.

A member that is ``readOnly`` is the server's, so no request needs it even where it is ``required``;
one that is ``writeOnly`` is the client's, so no response needs it, and none is generated with it.
Sent all the same, neither is rejected. A member with the format ``password`` is a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

from invoice_sandbox.openapi.load.model import SCHEMA, Node, address, node, walk
from invoice_sandbox.openapi.load.pointers import ContractError, named

Mark = Literal["readOnly", "writeOnly"]
OF_THE_SERVER: Final[Mark] = "readOnly"
OF_THE_CLIENT: Final[Mark] = "writeOnly"

_MAX_STEPS: Final = 40

Resolve = Callable[[str], Any]
"""The schema that a ``$ref`` names; ValueError or LookupError if there is none."""


def is_marked_anywhere(document: Mapping[str, Any], mark: Mark) -> bool:
    """Whether any schema of a document has ``mark``."""
    return any(here.is_schema and here.value.get(mark) is True for here in walk(node(document)))


def marked_members(schema: Any, mark: Mark, resolve: Resolve) -> frozenset[str]:
    """Names of the members of ``schema``, and of all of its ``allOf``, that have ``mark``."""
    return frozenset(_marked(schema, mark, resolve, 0))


def without(required: Any, names: frozenset[str]) -> Any:
    """A ``required`` that does not ask for ``names``; what is no list stays as it is."""
    if not isinstance(required, list):
        return required
    return [name for name in required if not isinstance(name, str) or name not in names]


def _marked(schema: Any, mark: Mark, resolve: Resolve, steps: int) -> Iterator[str]:
    if not isinstance(schema, Mapping) or steps > _MAX_STEPS:
        return
    properties = schema.get("properties")
    for name, member in properties.items() if isinstance(properties, Mapping) else ():
        if _has(member, mark, resolve, steps):
            yield name
    for part in parts(schema, resolve):
        yield from _marked(part, mark, resolve, steps + 1)


def _has(schema: Any, mark: Mark, resolve: Resolve, steps: int) -> bool:
    if not isinstance(schema, Mapping) or steps > _MAX_STEPS:
        return False
    for own in (mark, OF_THE_SERVER, OF_THE_CLIENT):  # its own mark goes before those of its parts
        if schema.get(own) is True:
            return own == mark
    if mark in schema:
        return False
    return any(_has(part, mark, resolve, steps + 1) for part in parts(schema, resolve))


def parts(schema: Mapping[str, Any], resolve: Resolve) -> Iterator[Any]:
    """What holds for the same value besides: the schema referred to, and those of ``allOf``."""
    if isinstance(schema.get("$ref"), str):
        with suppress(LookupError, ValueError):  # the compiler of the schemas reports it
            yield resolve(schema["$ref"])
    parts = schema.get("allOf")
    yield from parts if isinstance(parts, list) else ()


Reference = tuple[str, str, str]
"""A reference, the address that it starts from, and the type of what it names."""


_UNNAMED: Final = (
    *("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"),
    *("additionalProperties", "patternProperties", "unevaluatedProperties"),
    *("allOf", "anyOf", "oneOf", "then", "else", "schema", "content"),
)
"""Keywords of what has no name of its own: the secret is then what contains it."""


class Passwords:
    """Finds the secrets of the operations of one document.

    A member is secret if its schema is declared as ``format: password``, or that of its items, of
    members whose names are not declared, or of one of its alternatives. A schema that many
    operations refer to is searched once.
    """

    def __init__(self, identified: Mapping[str, Any]) -> None:
        """``identified`` are the document and its schemas by their addresses."""
        self._identified = identified
        self._seen: dict[Reference, tuple[set[str], set[Reference]]] = {}

    def of(self, operation: Mapping[str, Any]) -> frozenset[str]:
        """Names of members that are secret. Raises ContractError for a reference to nothing."""
        whole = node(operation, "operation")
        names: set[str] = set()
        waiting: set[Reference] = set()
        for key in ("parameters", "requestBody", "responses"):
            found, further = self._searched(whole.child(key, operation.get(key)))
            names |= found
            waiting |= further
        done: set[Reference] = set()
        while waiting:
            reference = waiting.pop()
            done.add(reference)
            found, further = self._behind(reference)
            names |= found
            waiting |= further - done
        return frozenset(names)

    def is_secret(self, value: Any, type_: str) -> bool:
        """Whether a secret without a name is in a body, or is a parameter (``type_``)."""
        return self._is_secret(node(value, type_))

    def _is_secret(self, start: Node) -> bool:
        waiting, seen = [start], set[int]()
        while waiting:
            here = waiting.pop()
            if not isinstance(here.value, Mapping) or id(here.value) in seen:
                continue
            seen.add(id(here.value))
            if here.is_schema and here.value.get("format") == "password":
                return True
            if here.reference is not None:
                waiting.append(self._target(_reference(here)))
            for key in _UNNAMED:
                if key in here.value:
                    child = here.child(key, here.value[key])
                    is_plain = child.type in {SCHEMA, "mediaType"}
                    waiting += [child] if is_plain else [one for _, one in child.children()]
        return False

    def _behind(self, reference: Reference) -> tuple[set[str], set[Reference]]:
        if reference not in self._seen:
            self._seen[reference] = self._searched(self._target(reference))
        return self._seen[reference]

    def _target(self, reference: Reference) -> Node:
        text, base, type_ = reference
        found = named(text, base, self._identified)
        if found is None and text.startswith("#/"):
            raise ContractError(f"{text} names nothing in the document")
        return node(found, type_, base=address(text, base).partition("#")[0])

    def _searched(self, start: Node) -> tuple[set[str], set[Reference]]:
        """Secrets in ``start`` itself, and what it refers to."""
        names, references = set[str](), set[Reference]()
        for here in walk(start):
            if here.reference is not None:
                references.add(_reference(here))
            properties = here.value.get("properties") if here.is_schema else None
            if isinstance(properties, Mapping):
                members = here.child("properties", properties).children()
                names |= {str(name) for name, member in members if self._is_secret(member)}
        return names, references


def _reference(here: Node) -> Reference:
    text = str(here.reference)
    return text, "" if text.startswith("#/components/") else here.base, here.type
