"""The members that a schema describes at any depth, as the comparison of two versions needs them.

Whether one allows what another does is decided by the canonical form of jsonschema-rs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs

from invoice_sandbox.openapi.load.model import SCHEMA, Node, Pointer, node
from invoice_sandbox.openapi.load.pointers import at_pointer, steps_of

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """A value in a document and the pointer to it, behind any reference."""

    document: Document
    value: Any
    pointer: Pointer

    def get(self, key: str | int) -> Part:
        """The member of that name, or the item of that index; an empty object if there is none."""
        missing = isinstance(self.value, Mapping) and key not in self.value
        value = {} if missing else self.value[key]
        return Part(self.document, value, (*self.pointer, key)).resolved()

    def resolved(self) -> Part:
        """What the references that stand here lead to."""
        value, pointer, seen = self.value, self.pointer, set[str]()
        while isinstance(value, Mapping) and isinstance(value.get("$ref"), str):
            reference = value["$ref"]
            if not reference.startswith("#/") or reference in seen:
                return Part(self.document, {}, pointer)
            seen.add(reference)
            value, pointer = at_pointer(self.document, reference[1:]), (*steps_of(reference[1:]),)
        return Part(self.document, value, pointer)


@dataclass(frozen=True)
class Member:
    """A member at any depth, with every schema that applies to it; ``parent`` is a name as well."""

    required: bool
    schemas: tuple[Part, ...]
    pointer: Pointer
    parent: str = ""

    @property
    def is_closed(self) -> bool:
        """Whether it takes no members but those declared."""
        keys = ("additionalProperties", "unevaluatedProperties")
        return any(one.value.get(key) is False for one in self.schemas for key in keys)

    @property
    def facets(self) -> dict[str, Any]:
        """Its keywords but for those about members, which are compared one by one."""
        return {
            key: value
            for one in self.schemas
            for key, value in one.value.items()
            if key not in _NO_FACETS and not key.startswith("x-")
        }

    def canonical(self, *, closed: bool) -> jsonschema_rs.CanonicalSchema:
        """The canonical form of the facets; ``closed``: with declared members only."""
        schemas = [_Expansion(one.document, closed).of_facets(one.value) for one in self.schemas]
        return jsonschema_rs.canonicalize(
            {"allOf": schemas}, draft=jsonschema_rs.Draft202012, validate_formats=True
        )


_NO_FACETS: Final = frozenset(
    {"properties", "items", "required", "$ref", "allOf", "title", "description", "$comment"}
    | {"default", "example", "examples", "deprecated", "readOnly", "writeOnly", "externalDocs"}
    | {"$defs", "definitions", "discriminator", "xml"}
)
"""Keywords that are compared elsewhere, or that allow and forbid nothing."""

_MAX_NODES: Final = 2_000


@dataclass
class _Expansion:
    """Writes a schema out without references; one that contains itself ends in its own name."""

    document: Document
    closed: bool
    left: int = _MAX_NODES

    def of_facets(self, schema: Document) -> Any:
        """The facets of ``schema`` with everything that they refer to."""
        own = {key: value for key, value in schema.items() if key not in _NO_FACETS}
        return self._written(node(own, SCHEMA, ("allOf", 0)), frozenset())

    def _written(self, here: Node, above: frozenset[str]) -> Any:
        self.left -= 1
        if here.reference is not None:
            return self._behind(here, here.reference, above)
        copy = here.copy(lambda child: self._written(child, above))
        is_part = here.pointer[-2:-1] == ("allOf",) and isinstance(here.pointer[-1], int)
        if self.closed and here.is_schema and not is_part and "properties" in copy:
            copy.setdefault("additionalProperties", False)
        return copy

    def _behind(self, here: Node, reference: str, above: frozenset[str]) -> Any:
        found = at_pointer(self.document, reference[1:]) if reference[:2] == "#/" else None
        if reference in above or self.left < 0 or found is None:
            return {"const": reference}
        return self._written(node(found, SCHEMA, here.pointer), above | {reference})


def members(
    schema: Part,
    name: str = "",
    required: bool = True,
    parent: str = "",
    above: frozenset[Pointer] = frozenset(),
) -> dict[str, Member]:
    """Every member that ``schema`` describes, by the path to it: ``items[].amount``.

    ``above`` are the schemas that led here: a schema that contains itself is entered once.
    """
    target = schema.resolved()
    if not isinstance(target.value, Mapping) or target.pointer in above:
        return {}
    parts = _parts(schema, 0)
    inside = above | {one.pointer for one in parts}
    found = {name: Member(required, tuple(parts), schema.pointer, parent)}
    demanded = {key: part for part in parts for key in part.value.get("required", [])}
    for part in parts:
        properties = part.value.get("properties", {})
        for key, child in properties.items():
            path = f"{name}.{key}" if name else key
            at = Part(part.document, child, (*part.pointer, "properties", key))
            found.update(members(at, path, key in demanded, name, inside))
        items = Part(part.document, part.value.get("items"), (*part.pointer, "items"))
        found.update(members(items, f"{name}[]", True, name, inside))
    for key, part in sorted(demanded.items()):
        path = f"{name}.{key}" if name else key
        found.setdefault(path, Member(True, (), (*part.pointer, "required"), name))
    return found


def _parts(schema: Part, depth: int) -> Sequence[Part]:
    """The schema itself, what it refers to, and what it is composed of by ``allOf``."""
    if depth > 8 or not isinstance(schema.value, Mapping):
        return []
    parts = [schema]
    target = schema.resolved()
    if target.pointer != schema.pointer:
        parts += _parts(target, depth + 1)
    for index, part in enumerate(schema.value.get("allOf", [])):
        parts += _parts(Part(schema.document, part, (*schema.pointer, "allOf", index)), depth + 1)
    return parts
