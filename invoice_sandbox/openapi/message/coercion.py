"""Coerces texts to the JSON values that a schema allows.

Parameters and fields of forms are texts. The types that their schema allows, through references and
combinations, decide which of them are numbers, lists or objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, partial
from itertools import islice
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import did_you_mean
from invoice_sandbox.openapi.load.pointers import named
from invoice_sandbox.openapi.schema.annotations import Mark, all_parts, marked_members, parts
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
"""The types that a schema without a type is about, by the keywords that it uses."""


class TextError(ValueError):
    """A text that no value can be read from; the message is a clause such as ``must be JSON``."""


@dataclass(frozen=True)
class Shape:
    """The types, members and items that a schema declares.

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
        keywords = {key for schema in self._applicable for key in schema}
        return next((types for hints, types in _HINTS if hints & keywords), _TEXT)

    @property
    def may_be_text(self) -> bool:
        """True if the schema allows a text, by its types and constants."""
        return "string" in _types(self.schema, self._schemas, frozenset())

    @property
    def is_plain(self) -> bool:
        """True if no value is a list or an object."""
        return not self.types & {"array", "object"}

    @cached_property
    def members(self) -> Mapping[str, Shape]:
        """The declared members of an object."""
        found: dict[str, list[Schema]] = {}
        for properties in self._values("properties"):
            for name, schema in properties.items():
                found.setdefault(name, []).append(schema)
        return {name: self._any_of(schemas) for name, schemas in found.items()}

    @cached_property
    def required(self) -> list[str]:
        """The names of the members that every object has, in their order."""
        return [name for schema in self._certain for name in schema.get("required", [])]

    def marked(self, mark: Mark) -> frozenset[str]:
        """Return the names of the members that are ``readOnly``, or ``writeOnly``."""
        return marked_members(self.schema, mark, partial(_referred, self._schemas))

    def keyword(self, name: str, default: Any = None) -> Any:
        """Return what the schema, or one of its ``allOf``, declares for a keyword."""
        return next((schema[name] for schema in self._certain if name in schema), default)

    @cached_property
    def takes_any_member(self) -> bool:
        """True if the schema declares members without naming them."""
        return not self.members or any(schema is not False for schema in self._values(_OTHERS))

    def member(self, name: str) -> Shape:
        """Return the shape of a member, declared or not."""
        declared = self.members.get(name)
        return self._any_of(self._values(_OTHERS)) if declared is None else declared

    def item(self, index: int) -> Shape:
        """Return the shape of one item, by its place."""
        prefixes = [prefix for prefix in self._values("prefixItems") if index < len(prefix)]
        return self._any_of([prefix[index] for prefix in prefixes] or self._values("items"))

    def undeclared(self, value: Any) -> Mapping[str, str]:
        """The first members that are not declared, of a value and of the objects in it, by their
        places such as ``items[0].dueDat``, each with advice such as ``did you mean dueDate?``.

        None of an object whose members may be declared otherwise than by their names.
        """
        return dict(islice(self.every_undeclared(value, ""), MAX_UNDECLARED))

    def every_undeclared(self, value: Any, place: str) -> Iterator[tuple[str, str]]:
        """Yield all of them, for a value that is at a place."""
        inside: Iterable[tuple[str, Shape, Any]] = ()
        if isinstance(value, dict):
            start = f"{place}." if place else ""
            for name in value if self._names else ():
                if name not in self.members:
                    yield start + name, advice(name, self._names)
            inside = ((start + name[:_LONGEST], self.member(name), value[name]) for name in value)
        elif isinstance(value, list):
            rows = enumerate(value[:_MAX_ITEMS])
            inside = ((f"{place}[{index}]", self.item(index), item) for index, item in rows)
        for at, shape, inner in inside:
            if isinstance(inner, dict | list) and shape.schema is not True:
                yield from shape.every_undeclared(inner, at)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """The names of the members; none if some are declared otherwise than by their names."""
        others = [*self._values(_OTHERS), *self._values("unevaluatedProperties")]
        is_open = any(isinstance(schema, Mapping) and schema for schema in others)
        is_conditional = any(map(_declares_elsewhere, self._applicable))
        return () if is_open or is_conditional else tuple(self.members)

    def _values(self, keyword: str) -> list[Any]:
        return [schema[keyword] for schema in self._applicable if keyword in schema]

    def _any_of(self, schemas: Iterable[Schema]) -> Shape:
        """The shape of what any of the schemas describes; those that say nothing do not count."""
        found = {id(schema): schema for schema in schemas if isinstance(schema, Mapping) and schema}
        key = tuple(found)
        if key not in self._inner:
            each = [*found.values()]
            schema: Schema = {"anyOf": each} if len(each) > 1 else each[0] if each else True
            self._inner[key] = Shape(schema, self._schemas, self._inner)
        return self._inner[key]

    @cached_property
    def _applicable(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(_applicable(self.schema, self._schemas, set()))

    @cached_property
    def _certain(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(all_parts(self.schema, partial(_referred, self._schemas)))


_OTHERS: Final = "additionalProperties"
_CONDITIONAL: Final = frozenset(
    {"patternProperties", "dependentSchemas", "dependencies", "if", "$dynamicRef", "$recursiveRef"}
)
"""Keywords that may declare more members."""

_PATTERNS: Final = "patternProperties"
"""The one of them that ``additionalProperties`` beside it knows of."""

MAX_UNDECLARED: Final = 5
_LONGEST: Final = 60
_FEW: Final = 5
"""Undeclared members that are named, characters of one that gets advice, and declared members of
which all are listed."""

_MAX_ITEMS: Final = 100
"""Items of a list that are looked into."""


def _declares_elsewhere(schema: Mapping[str, Any]) -> bool:
    """True if members may be declared by a condition, and not only by their names."""
    is_closed = schema.get(_OTHERS) is False
    return _PATTERNS in schema if is_closed else bool(_CONDITIONAL & schema.keys())


def advice(name: str, known: tuple[str, ...]) -> str:
    """Return advice on an undeclared name; nothing for a long one."""
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
    """Return the JSON value that a text is. Raises TextError."""
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
        found &= frozenset().union(*(_types(choice, schemas, inside) for choice in choices))
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


def _applicable(schema: Schema, schemas: Schemas, seen: set[int]) -> Iterator[Mapping[str, Any]]:
    """Yield every schema that may apply to a value at its own place."""
    if not isinstance(schema, Mapping) or id(schema) in seen:
        return
    seen.add(id(schema))
    yield schema
    for part in (
        *parts(schema, partial(_referred, schemas)),
        *(choice for some in _choices(schema) for choice in some),
    ):
        yield from _applicable(part, schemas, seen)


def _referred(schemas: Schemas, reference: str) -> Schema:
    found = named(reference, "", schemas.identified)
    return found if isinstance(found, Mapping) else True
