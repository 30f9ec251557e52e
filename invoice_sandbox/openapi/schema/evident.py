"""Schemas that evidently have a value, which the generator finds: none has to be made to know it.

A value with the required members only is thought of. What is not plain is not evident: then one is
made, by ``sample``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.openapi.schema.compile import Schema, SchemaError, Schemas
from invoice_sandbox.openapi.schema.generation_view import ITSELF
from invoice_sandbox.openapi.schema.sample import CannotGenerate, generate

_MAX_PARTS: Final = 500
"""Values inside of one, itself included: the generator builds that many in an attempt."""

_MAX_LEVELS: Final = 30
_CHOICE: Final = 5
"""Parts that alternatives count as: 100 of them take no more than ``MAX_EFFORT`` to validate."""

_ANNOTATIONS: Final = frozenset(
    {"title", "summary", "description", "default", "example", "examples", "deprecated", "$comment"}
    | {"readOnly", "writeOnly", "nullable", "xml", "externalDocs"}
)
_OF_OBJECTS: Final = frozenset({"properties", "required", "additionalProperties"})
_OF_PARTS: Final = _OF_OBJECTS | {"allOf", "type", "discriminator"}
_OF_LISTS: Final = frozenset({"items", "maxItems", "uniqueItems"})
_OF_TEXTS_AND_NUMBERS: Final = frozenset(
    {"enum", "const", "format", "pattern", "minLength", "maxLength", "contentEncoding"}
    | {"contentMediaType"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
)
_PLAIN_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "null"})
_TYPES: Final[Mapping[type, str]] = {str: "string", bool: "boolean", type(None): "null"}

_Size = tuple[int, int]
"""Parts and levels of the value that is thought of."""

_ONE: Final = (1, 1)


class Evident:
    """What is evident about the schemas of one document."""

    def __init__(self, schemas: Schemas) -> None:
        """``schemas`` are those of what is generated."""
        self._schemas = schemas
        self._sizes: dict[int, tuple[Schema, _Size | None]] = {}
        self._plain: dict[bytes, bool] = {}

    def has_value(self, schema: Schema) -> bool:
        """Whether the schema evidently has a value; False: it is unknown."""
        return self._size(schema) is not None

    def _size(self, schema: Any, around: int = 0) -> _Size | None:
        """``around`` are the schemas that lead to this one."""
        if not isinstance(schema, Mapping):
            return _ONE if schema is True else None
        if id(schema) not in self._sizes:  # which keep it, as another could have its id then
            self._sizes[id(schema)] = schema, None  # for whatever requires it in itself
            if around <= 2 * _MAX_LEVELS:
                self._sizes[id(schema)] = schema, self._size_of(schema, around + 1)
        return self._sizes[id(schema)][1]

    def _size_of(self, schema: Mapping[str, Any], around: int) -> _Size | None:
        said = {key for key in schema if key not in _ANNOTATIONS and not key.startswith("x-")}
        declared = schema.get("type")
        types = {declared} if isinstance(declared, str) else set(declared or ())
        said.discard("type")
        if said == {"$ref"} and not types:
            return self._referred(schema["$ref"], around)
        if said == {"anyOf"} and not types:
            size = self._size(schema["anyOf"][0], around) if schema["anyOf"] else None
            return size and (_CHOICE * size[0], size[1])
        if not said:
            return _ONE
        if said <= _OF_OBJECTS | {"allOf"}:
            parts = [*islice(self._parts(schema, 0), _MAX_PARTS + 1)]
            return self._object(parts, around) if all(map(_is_object, parts)) else None
        if said <= _OF_LISTS:
            return _ONE
        if said <= _OF_TEXTS_AND_NUMBERS and types <= _PLAIN_TYPES:
            plain = {key: schema[key] for key in sorted({*said, *({"type"} & schema.keys())})}
            return _ONE if self._is_plain(plain) else None
        return None

    def _referred(self, reference: str, around: int) -> _Size | None:
        try:
            schema: Any = self._schemas.resolve(reference)
        except SchemaError:  # it is by an address or an anchor
            return None
        if isinstance(schema, Mapping) and "discriminator" in schema:
            schema = self._subtype(schema, reference)
        size = self._size(schema, around)
        return size and (size[0] + 1, size[1])

    def _subtype(self, schema: Mapping[str, Any], reference: str) -> Schema:
        """What the generator takes first for a schema whose discriminator chooses."""
        if not schema.keys().isdisjoint({"anyOf", "oneOf"}):
            return False
        view = self._schemas.generation_view.at(reference)
        for one in view.get("anyOf", ()) if isinstance(view, Mapping) else ():
            first: Schema = one
            return first
        return {key: one for key, one in schema.items() if key != "discriminator"}

    def _parts(self, schema: Any, steps: int) -> Iterator[Any]:
        """The schema and those of its ``allOf``, which apply to the same value."""
        yield schema
        for one in schema.get("allOf", ()) if isinstance(schema, Mapping) else ():
            part = one
            if isinstance(one, Mapping) and one.keys() - _ANNOTATIONS == {"$ref"}:
                with suppress(SchemaError):
                    part = self._schemas.resolve(one["$ref"].removeprefix(ITSELF))
            yield from self._parts(part, steps + 1) if steps < _MAX_LEVELS else [False]

    def _object(self, schemas: Sequence[Mapping[str, Any]], around: int) -> _Size | None:
        """The size of an object with the required members."""
        parts, levels = len(schemas), 1
        for name in dict.fromkeys(name for one in schemas for name in one.get("required", ())):
            members = [
                one.get("properties", {}).get(name, one.get("additionalProperties", True))
                for one in schemas
            ]
            size = self._size(_together([one for one in members if one is not True]), around)
            if size is None:
                return None
            parts, levels = parts + size[0], max(levels, 1 + size[1])
        return (parts, levels) if parts <= _MAX_PARTS and levels <= _MAX_LEVELS else None

    def _is_plain(self, schema: dict[str, Any]) -> bool:
        """Whether a schema of a text or a number alone has a value, which is made."""
        types = schema.get("type", [])
        if schema.keys() <= {"enum", "type"}:
            names = {_TYPES.get(type(one), "") for one in schema.get("enum", [])}
            if "enum" not in schema or names & ({types} if isinstance(types, str) else set(types)):
                return True
        key = jsonio.dumps(schema)
        if key not in self._plain:
            self._plain[key] = self._can_be_made(schema)
        return self._plain[key]

    def _can_be_made(self, schema: dict[str, Any]) -> bool:
        view = self._schemas.generation_view
        try:
            is_valid = self._schemas.compile(schema, "").is_valid
            generate(schema, resolve=view.at, is_valid=is_valid, seed=0)
        except (SchemaError, CannotGenerate):
            return False
        return True


def _is_object(schema: Any) -> bool:
    """Whether a part of an ``allOf`` has nothing but members, which an object can have."""
    if not isinstance(schema, Mapping):
        return False
    types = schema.get("type", "object")
    said = {key for key in schema if key not in _ANNOTATIONS and not key.startswith("x-")}
    return said <= _OF_PARTS and "object" in ([types] if isinstance(types, str) else types)


def _together(schemas: Sequence[Any]) -> Any:
    """A schema that allows what all of these allow; False if that is not plain."""
    if all(one == schemas[0] for one in schemas):
        return schemas[0] if schemas else True
    merged = dict[str, Any]()
    for one in schemas:
        plain = {k: v for k, v in one.items() if k not in _ANNOTATIONS} if one else {"": False}
        if not plain.keys() <= _OF_TEXTS_AND_NUMBERS | {"type"}:
            return False
        if any(merged.get(key, value) != value for key, value in plain.items()):
            return False
        merged |= plain
    return merged
