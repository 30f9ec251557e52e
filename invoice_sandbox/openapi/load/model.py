"""What stands where in an OpenAPI document: the kind of every member of every object.

A kind is the name of an OpenAPI object (``operation``, ``schema``), ``{schema}`` for a map of them
by names of the author's choice, ``<response>`` for such a map that may have extensions (``x-``)
too, or ``[schema]`` for a list. ``data`` is a value that means nothing to the contract, such as an
example; ``other`` is everything else, such as ``info``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Pointer = tuple[str | int, ...]

DATA: Final = "data"
SCHEMA: Final = "schema"

SECTIONS: Final[Mapping[str, str]] = {
    SCHEMA: "schemas",
    "response": "responses",
    "parameter": "parameters",
    "example": "examples",
    "requestBody": "requestBodies",
    "header": "headers",
    "securityScheme": "securitySchemes",
    "link": "links",
    "callback": "callbacks",
}
"""The section of ``components`` for each kind that every version of OpenAPI keeps there."""

_ONE: Final = ("not", "if", "then", "else", "items", "contains", "contentSchema", "propertyNames")
_REST: Final = ("additionalItems", "additionalProperties", "unevaluatedItems")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_EXAMPLES: Final = {"example": DATA, "examples": "{example}"}
_PARAMETER: Final = {"schema": SCHEMA, "content": "{mediaType}", **_EXAMPLES}

_MEMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    "document": {
        "paths": "<pathItem>",
        "webhooks": "{pathItem}",
        "components": "components",
        "x-webhooks": "{pathItem}",
    },
    "components": {section: f"{{{kind}}}" for kind, section in SECTIONS.items()}
    | {"pathItems": "{pathItem}"},
    "pathItem": dict.fromkeys(METHODS, "operation") | {"parameters": "[parameter]"},
    "operation": {
        "parameters": "[parameter]",
        "requestBody": "requestBody",
        "responses": "<response>",
        "callbacks": "{callback}",
    },
    "callback": {},
    "parameter": _PARAMETER,
    "header": _PARAMETER,
    "requestBody": {"content": "{mediaType}"},
    "response": {"headers": "{header}", "content": "{mediaType}", "links": "{link}"},
    "mediaType": {"schema": SCHEMA, "encoding": "{encoding}", **_EXAMPLES},
    "encoding": {"headers": "{header}"},
    "example": {"value": DATA},
    "link": {"parameters": DATA, "requestBody": DATA},
    SCHEMA: dict.fromkeys((*_ONE, *_REST, "unevaluatedProperties"), SCHEMA)
    | dict.fromkeys(_LISTS, "[schema]")
    | dict.fromkeys(_MAPS, "{schema}"),
}
_UNKNOWN: Final = {SCHEMA: DATA}


def kind_below(kind: str, key: str | int, child: Any) -> str:
    """The kind of ``child``, which is the member ``key`` of an object of ``kind``."""
    inner = kind[1:-1]
    if kind[0] == "{" or kind[0] == "[":
        return inner
    if kind[0] == "<":
        return DATA if str(key).startswith("x-") else inner
    found = _MEMBERS.get(kind, {}).get(str(key))
    if found is None:
        if kind == "callback":
            return DATA if str(key).startswith("x-") else "pathItem"
        return DATA if str(key).startswith("x-") else _UNKNOWN.get(kind, "other")
    return "[schema]" if found == SCHEMA and isinstance(child, list) else found


def is_reference(value: Any, kind: str) -> bool:
    """Whether a ``$ref`` stands there: a text, not the schema of a property of that name."""
    return isinstance(value, Mapping) and kind != DATA and isinstance(value.get("$ref"), str)


def walk(document: Any, kind: str = "document") -> Iterator[tuple[Pointer, str, Any]]:
    """Every place of a document in its order, with its kind, data left out."""
    waiting: list[tuple[Pointer, str, Any]] = [((), kind, document)]
    while waiting:
        place = waiting.pop()
        yield place
        pointer, here, value = place
        members = list(_members(value))
        for key, child in reversed(members):
            below = kind_below(here, key, child)
            if below != DATA and isinstance(child, dict | list):
                waiting.append(((*pointer, key), below, child))


def _members(value: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)
