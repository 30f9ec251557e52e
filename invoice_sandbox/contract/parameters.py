"""Path, query, header and cookie parameters: from the text of a request to checked values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from invoice_sandbox.contract.schemas import Checker, Schema, SchemaError, Schemas

_STYLES: Final = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_DELIMITERS: Final = {"simple": ",", "form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}
_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


@dataclass(frozen=True)
class Parameter:
    """One declared parameter. ``kind`` is the JSON type its text is read as; a ``secret`` one is
    declared as ``format: password``."""

    name: str
    location: str
    required: bool
    kind: str
    item_kind: str
    delimiter: str
    explode: bool
    checker: Checker
    secret: bool = False

    def problem(self, texts: Sequence[str]) -> str | None:
        """A clause such as ``limit must be at most 100``, or None when the value is allowed."""
        if len(texts) > 1 and self.kind != "array":
            return f"{self.name} is given more than once"
        problems = self.checker.problems(self.value(texts))
        return problems[0].sentence(self.name) if problems else None

    def value(self, texts: Sequence[str]) -> Any:
        """The parameter's value; text that is not of its type stays text, for the checker."""
        if self.kind != "array":
            return _read(texts[0], self.kind)
        parts = texts if self.explode else texts[0].split(self.delimiter)
        return [_read(part, self.item_kind) for part in parts]


def compile_parameter(raw: Mapping[str, Any], schemas: Schemas, place: str) -> Parameter:
    """The compiled form of one Parameter Object. Raises SchemaError for a style not served here."""
    location = raw["in"]
    style = raw.get("style", _STYLES[location])
    if style not in _DELIMITERS or "schema" not in raw:
        raise SchemaError(f"{place}: style '{style}' with 'content' or objects is not supported")
    schema = raw["schema"]
    return Parameter(
        name=raw["name"],
        location=location,
        required=bool(raw.get("required", False)),
        kind=_kind(schema, schemas),
        item_kind=_kind(_items(schema, schemas), schemas),
        delimiter=_DELIMITERS[style],
        explode=bool(raw.get("explode", style == "form")),
        checker=schemas.compile(schema, place),
        secret=isinstance(schema, Mapping) and schema.get("format") == "password",
    )


def _kind(schema: Schema, schemas: Schemas) -> str:
    while isinstance(schema, Mapping) and "type" not in schema and "$ref" in schema:
        schema = schemas.resolve(schema["$ref"])
    kind = schema.get("type", "string") if isinstance(schema, Mapping) else "string"
    return str(kind[0] if isinstance(kind, list) else kind)


def _items(schema: Schema, schemas: Schemas) -> Schema:
    if isinstance(schema, Mapping) and "$ref" in schema:
        schema = schemas.resolve(schema["$ref"])
    items: Schema = schema.get("items", True) if isinstance(schema, Mapping) else True
    return items


def _read(text: str, kind: str) -> Any:
    if kind == "integer" and _INTEGER.fullmatch(text):
        return int(text) if len(text) <= 18 else Decimal(text)
    if kind == "number" and _NUMBER.fullmatch(text):
        return Decimal(text)
    if kind == "boolean" and text in {"true", "false"}:
        return text == "true"
    return text
