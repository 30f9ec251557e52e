"""Which JSON value a text stands for.

Parameters and fields of forms are texts. The types that their schema allows, through references and
combinations, decide which of them are numbers, lists or objects.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, partial
from itertools import islice
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import did_you_mean
from invoice_sandbox.openapi.load.pointers import named
from invoice_sandbox.openapi.schema.annotations import parts
from invoice_sandbox.openapi.schema.compile import Schema, Schemas

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)

Types = frozenset[str]
_ANY: Final[Types] = frozenset(
    {"null", "boolean", "integer", "number", "string", "array", "object"}
)
_TEXT: Final[Types] = frozenset({"string"})
_HINTS: Final[tuple[tuple[frozenset[str], Types], ...]] = (
    (frozenset({"properties", "additionalProperties", "required"}), frozenset({"object"})),
    (frozenset({"items", "prefixItems"}), frozenset({"array"})),
    (
        frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}),
        frozenset({"number", "integer", "string"}),
    ),
)
"""What a schema without a type is about, by the keywords that it uses."""


class TextError(ValueError):
    """A text that no value can be read from; the message is a clause such as ``must be JSON``."""


@dataclass(frozen=True)
class Shape:
    """What a schema declares about its values: ``types`` are the JSON types it allows.

    Members and items are looked up when asked for, so that a schema may contain itself.
    """

    schema: Schema
    _schemas: Schemas = field(repr=False)
    _inner: dict[tuple[int, ...], Shape] = field(default_factory=dict, repr=False, compare=False)
    """The shapes of what is in its values, at any depth, by the identities of their schemas."""

    @cached_property
    def types(self) -> Types:
        """The JSON types that the schema allows, or is about; text if it declares none."""
        found = _types(self.schema, self._schemas, frozenset())
        if found != _ANY:
            return found or _TEXT
        keywords = {key for face in self._applicable_schemas for key in face}
        return next((types for hints, types in _HINTS if hints & keywords), _TEXT)

    @property
    def may_be_text(self) -> bool:
        """Whether the schema allows a text, by its types and constants."""
        return "string" in _types(self.schema, self._schemas, frozenset())

    @cached_property
    def members(self) -> Mapping[str, Shape]:
        """The declared members of an object."""
        return {
            name: Shape(schema, self._schemas)
            for face in reversed(self._applicable_schemas)
            for name, schema in face.get("properties", {}).items()
        }

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The names of the members; none if some are declared otherwise than by their names."""
        for face in self._applicable_schemas:
            others = (face.get(key) for key in (_OTHERS, "unevaluatedProperties"))
            if face.keys() & _CONDITIONAL or any(
                isinstance(one, Mapping) and one for one in others
            ):
                return ()
        return tuple(self.members)

    def undeclared(self, value: Any) -> Mapping[str, str]:
        """The first members that are not declared, of a value and of the objects in it, by their
        places such as ``items[0].dueDat``, each with advice such as ``did you mean dueDate?``.

        None of an object whose members may be declared otherwise than by their names.
        """
        found: dict[str, str] = {}
        waiting: deque[tuple[Shape, Any, str]] = deque([(self, value, "")])
        left = _MAX_LOOKED_INTO
        while waiting:
            shape, one, place = waiting.popleft()
            start = f"{place}." if place else ""
            if isinstance(one, dict) and one.keys() - shape.members.keys():
                for name, text in shape.undeclared_here(one).items():
                    if len(found) == MAX_UNDECLARED:
                        return found
                    found[start + name] = text
            for step, below, inside in islice(shape.below(one), left):
                left -= 1
                at = f"{place}{step}" if isinstance(one, list) else f"{start}{step}"
                waiting.append((below, inside, at[:_LONGEST_PLACE]))
        return found

    def undeclared_here(self, value: Mapping[str, Any]) -> Mapping[str, str]:
        """The first undeclared members of one object, each with advice."""
        names = self._names
        found = (name for name in value if names and name not in self.members)
        return {name: advice(name, names) for name in islice(found, MAX_UNDECLARED)}

    def below(self, value: Any) -> Iterator[tuple[str, Shape, Any]]:
        """The objects and lists in an object or a list, of which something is declared; each with
        its step, such as ``[0]``."""
        if isinstance(value, dict):
            for name, one in value.items():
                if isinstance(one, dict | list) and self._member(name).is_about_more:
                    yield name, self._member(name), one
        elif isinstance(value, list) and self._items.is_about_more:
            for index, one in enumerate(value):
                if isinstance(one, dict | list):
                    yield f"[{index}]", self._items, one

    @cached_property
    def is_about_more(self) -> bool:
        """Whether it declares anything about what is in an object or a list."""
        return bool(self.members) or any(_BELOW & face.keys() for face in self._applicable_schemas)

    def _member(self, name: str) -> Shape:
        return self._all_members.get(name, self._any_other)

    @cached_property
    def _any_other(self) -> Shape:
        found = [face[_OTHERS] for face in self._applicable_schemas if _OTHERS in face]
        return self._any_of(found or [True])

    @cached_property
    def _all_members(self) -> Mapping[str, Shape]:
        """The declared members; of one that is declared in several places all that any of them
        declares."""
        found: dict[str, list[Schema]] = {}
        for face in self._applicable_schemas:
            for name, schema in face.get("properties", {}).items():
                found.setdefault(name, []).append(schema)
        return {name: self._any_of(schemas) for name, schemas in found.items()}

    @cached_property
    def _items(self) -> Shape:
        """What is declared of any item of a list."""
        found = [face["items"] for face in self._applicable_schemas if "items" in face]
        first = (one for face in self._applicable_schemas for one in face.get("prefixItems", ()))
        return self._any_of([*found, *first] or [True])

    def _any_of(self, schemas: list[Schema]) -> Shape:
        key = tuple(sorted({id(one) for one in schemas}))
        if key not in self._inner:
            if len(self._inner) == _MOST_INNER:
                return Shape(True, self._schemas)
            schema = schemas[0] if len(key) == 1 else {"anyOf": schemas}
            self._inner[key] = Shape(schema, self._schemas, self._inner)
        return self._inner[key]

    @cached_property
    def takes_any_member(self) -> bool:
        """Whether the schema declares members without naming them."""
        return any(
            face.get("additionalProperties", False) is not False
            for face in self._applicable_schemas
        ) or (not self.members)

    @cached_property
    def _others(self) -> Shape:
        found = [
            face["additionalProperties"] for face in self._applicable_schemas if _OTHERS in face
        ]
        return Shape(next(iter(found), True), self._schemas)

    def member(self, name: str) -> Shape:
        """The shape of a member, declared or not."""
        return self.members.get(name, self._others)

    @cached_property
    def item(self) -> Shape:
        """The shape of the items of a list."""
        found = [face["items"] for face in self._applicable_schemas if "items" in face]
        return Shape(next(iter(found), True), self._schemas)

    def item_at(self, index: int) -> Shape:
        """The shape of one item, by its place."""
        return self._first_items[index] if index < len(self._first_items) else self.item

    @cached_property
    def _first_items(self) -> tuple[Shape, ...]:
        found = [face["prefixItems"] for face in self._applicable_schemas if "prefixItems" in face]
        return tuple(Shape(one, self._schemas) for one in next(iter(found), []))

    @property
    def is_plain(self) -> bool:
        """Whether no value is a list or an object."""
        return not self.types & {"array", "object"}

    @cached_property
    def _applicable_schemas(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(_applicable_schemas(self.schema, self._schemas, set()))


_OTHERS: Final = "additionalProperties"
_CONDITIONAL: Final = frozenset(
    {"patternProperties", "dependentSchemas", "dependencies", "if", "$dynamicRef", "$recursiveRef"}
)
"""Keywords that may declare more members."""

MAX_UNDECLARED: Final = 5
_LONGEST: Final = 60
_FEW: Final = 5
"""Undeclared members that are named, characters of one that gets advice, and declared members of
which all are listed."""


_MAX_LOOKED_INTO: Final = 1000
_LONGEST_PLACE: Final = 100
_MOST_INNER: Final = 10_000
"""Objects and lists in a value that are looked into, characters of the place of one, and the shapes
that are kept for it."""

_BELOW: Final = frozenset({"items", "prefixItems", "additionalProperties"})


def advice(name: str, known: tuple[str, ...]) -> str:
    """What an undeclared name may have been meant to be; nothing for a long one."""
    few = f"known: {', '.join(known)}" if 0 < len(known) <= _FEW else ""
    return did_you_mean(name, known) or few if len(name) <= _LONGEST else ""


def read_text(text: str, types: Types, *, literally: bool = False) -> Any:
    """The value of the first of these types that ``text`` can be read as: null, a number, true or
    false; else the text itself. ``literally``: a text wherever a text is allowed."""
    if literally and "string" in types:
        return text
    if "number" in types and _NUMBER.fullmatch(text):
        return Decimal(text)
    if "integer" in types and _INTEGER.fullmatch(text):
        return int(text) if len(text) <= 18 else Decimal(text)
    if "boolean" in types and text in {"true", "false"}:
        return text == "true"
    if "null" in types and "string" not in types and text in {"", "null"}:
        return None
    return text


def read_json(text: str) -> Any:
    """The JSON value that a text is. Raises TextError."""
    try:
        return jsonio.loads(text.encode("utf-8", "surrogatepass"), jsonio.MAX_SENT_DEPTH)
    except jsonio.JsonError as error:
        raise TextError(f"cannot be read as JSON: {error}") from None


def _types(schema: Schema, schemas: Schemas, inside: frozenset[int]) -> Types:
    if not isinstance(schema, Mapping) or id(schema) in inside:
        return _ANY
    inside |= {id(schema)}
    found = _own_types(schema)
    for part in parts(schema, partial(_referred, schemas)):
        found &= _types(part, schemas, inside)
    for choices in _choices(schema):
        found &= frozenset().union(*(_types(one, schemas, inside) for one in choices))
    return found


def _own_types(schema: Mapping[str, Any]) -> Types:
    found = _ANY
    if "type" in schema:
        declared = schema["type"]
        found = frozenset(declared if isinstance(declared, list) else [declared])
        found |= {"integer"} if "number" in found else frozenset()
    if isinstance(schema.get("enum"), list):
        found &= frozenset().union(*map(_types_of, schema["enum"]))
    return found & _types_of(schema["const"]) if "const" in schema else found


def _types_of(value: Any) -> Types:
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int | float | Decimal):
        return frozenset({"number", "integer"})
    names = {str: "string", list: "array", dict: "object", type(None): "null"}
    return frozenset({names[type(value)]}) if type(value) in names else _ANY


def _choices(schema: Mapping[str, Any]) -> Iterator[list[Schema]]:
    yield from (schema[key] for key in ("anyOf", "oneOf") if schema.get(key))


def _applicable_schemas(
    schema: Schema, schemas: Schemas, seen: set[int]
) -> Iterator[Mapping[str, Any]]:
    """Every schema that applies to a value at its own place."""
    if not isinstance(schema, Mapping) or id(schema) in seen:
        return
    seen.add(id(schema))
    yield schema
    for part in (
        *parts(schema, partial(_referred, schemas)),
        *(one for some in _choices(schema) for one in some),
    ):
        yield from _applicable_schemas(part, schemas, seen)


def _referred(schemas: Schemas, reference: str) -> Schema:
    found = named(reference, "", schemas.identified)
    return found if isinstance(found, Mapping) else True
