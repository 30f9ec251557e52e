"""Which JSON value a text stands for.

Parameters and fields of forms are texts. The types that their schema allows, through references and
combinations, decide which of them are numbers, lists or objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, lru_cache, partial
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

    @cached_property
    def types(self) -> Types:
        """The JSON types that the schema allows, or is about; text if it declares none."""
        found = _types(self.schema, self._schemas, frozenset())
        if found != _ANY:
            return found or _TEXT
        keywords = {key for face in self._applicable_schemas for key in face}
        return next((types for hints, types in _HINTS if hints & keywords), _TEXT)

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

    def undeclared(self, value: Mapping[str, Any]) -> Mapping[str, str]:
        """The first members of an object that are not declared, each with advice such as ``did you
        mean dueDate?``. None if members may be declared otherwise than by their names.
        """
        names = self._names
        if not names:
            return {}
        found = islice((name for name in value if name not in self.members), _MAX_UNDECLARED)
        return {name: _advice(name, names) if len(name) <= _LONGEST else "" for name in found}

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

_MAX_UNDECLARED: Final = 5
_LONGEST: Final = 60
_FEW: Final = 5
"""Undeclared members that are named, characters of one that gets advice, and declared members of
which all are listed."""


@lru_cache(maxsize=1024)
def _advice(name: str, known: tuple[str, ...]) -> str:
    few = f"known: {', '.join(known)}" if len(known) <= _FEW else ""
    return did_you_mean(name, known) or few


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
