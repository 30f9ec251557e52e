"""OpenAPI object model: the members of every OpenAPI object, and a walk over a document.

The type of a node is the name of an OpenAPI object (``operation``, ``schema``), ``{schema}`` for a
map of them by names of the author's choice, ``<response>`` for such a map that may have extensions
(``x-``) too, or ``[schema]`` for a list. ``{[scope]}`` is a security requirement. ``data`` is a
value that means nothing to the contract, such as an example; ``other`` is everything else, such as
``license``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urldefrag, urljoin

Pointer = tuple[str | int, ...]

DATA: Final = "data"
DOCUMENT: Final = "document"
FILE: Final = "file"
"""A file of anything that a document refers to: a schema, or schemas by name."""
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
"""The section of ``components`` for each type that every version of OpenAPI keeps there."""

METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
"""The methods that have a member of their own; QUERY since OpenAPI 3.2."""

ADDITIONAL: Final = "additionalOperations"
_ONE: Final = ("not", "if", "then", "else", "items", "contains", "contentSchema", "propertyNames")
_REST: Final = ("additionalItems", "additionalProperties", "unevaluatedItems")
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS: Final = (
    *("properties", "patternProperties", "$defs", "definitions"),
    *("dependentSchemas", "dependencies"),
)
_EXAMPLES: Final = {"example": DATA, "examples": "{example}"}
_SECURITY: Final = "[{[scope]}]"
"""Alternatives, each with the schemes that it requires and their scopes."""
_PARAMETER: Final = {"schema": SCHEMA, "content": "{mediaType}", **_EXAMPLES}

_MEMBERS: Final[Mapping[str, Mapping[str, str]]] = {
    DOCUMENT: {
        "info": "info",
        "tags": "[tag]",
        "servers": "[server]",
        "security": _SECURITY,
        "paths": "<pathItem>",
        "webhooks": "{pathItem}",
        "components": "components",
        "x-webhooks": "{pathItem}",
    },
    "components": {section: f"{{{type_}}}" for type_, section in SECTIONS.items()}
    | {"pathItems": "{pathItem}", "mediaTypes": "{mediaType}"},
    "pathItem": dict.fromkeys(METHODS, "operation")
    | {ADDITIONAL: "{operation}", "parameters": "[parameter]", "servers": "[server]"},
    "operation": {
        "servers": "[server]",
        "security": _SECURITY,
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
    "server": {"variables": "{variable}"},
    "variable": {},
    "securityScheme": {"flows": "<flow>"},
    "flow": {"scopes": "{scope}"},
    "link": {"parameters": DATA, "requestBody": DATA},
    SCHEMA: dict.fromkeys((*_ONE, *_REST, "unevaluatedProperties"), SCHEMA)
    | dict.fromkeys(_LISTS, "[schema]")
    | dict.fromkeys(_MAPS, "{schema}")
    | {"discriminator": "discriminator"},
    "discriminator": {"mapping": DATA},
}
BESIDE_REFERENCE: Final = frozenset(
    {"$ref", "$comment", "title", "summary", "description", "deprecated", "externalDocs", "xml"}
)
"""Members of a reference that change nothing of what it names."""
OBJECTS: Final = frozenset(_MEMBERS)
"""The types of which OpenAPI names the members: what is not a list or a map."""
_RESOURCES: Final = frozenset({SCHEMA, FILE})
_VALUES: Final = frozenset({"const", "enum", "default", "example", "examples"})
_UNKNOWN: Final = {DATA: DATA, SCHEMA: DATA, "callback": "pathItem", FILE: FILE}


class Node(NamedTuple):
    """A value in a document: its ``type``, the steps to it, and the address (``base``) that
    references in it start from, which a schema changes by ``$id`` (JSON Schema Core 8.2.1)."""

    value: Any
    type: str
    pointer: Pointer
    base: str

    @property
    def reference(self) -> str | None:
        """The text of ``$ref``, if the value is a reference; a property may have that name, too."""
        found = self.value.get("$ref") if isinstance(self.value, dict) else None
        return found if isinstance(found, str) and self.type != DATA else None

    @property
    def is_schema(self) -> bool:
        """True for a Schema Object, which ``true`` and ``false`` are not."""
        return self.type == SCHEMA and isinstance(self.value, dict)

    def child(self, key: str | int, value: Any) -> Node:
        """Return the member ``key``, which is ``value``."""
        return node(value, _type_below(self.type, key, value), (*self.pointer, key), self.base)

    def children(self) -> Iterator[tuple[str | int, Node]]:
        """Yield the members of an object, or the items of a list, in their order."""
        for key, value in self._members():
            yield key, self.child(key, value)

    def containers(self) -> list[Node]:
        """Return the children that are objects or lists, data left out."""
        found = []
        for key, value in self._members():
            if isinstance(value, (dict, list)):
                type_ = _type_below(self.type, key, value)
                if type_ != DATA:
                    found.append(node(value, type_, (*self.pointer, key), self.base))
        return found

    def _members(self) -> Iterable[tuple[str | int, Any]]:
        if isinstance(self.value, dict):
            return self.value.items()
        return enumerate(self.value) if isinstance(self.value, list) else ()

    def copy(self, change: Callable[[Node], Any]) -> Any:
        """Return the value with every object and list in it as ``change`` returns it; data stays
        as it is."""
        if self.type == DATA or not isinstance(self.value, (dict, list)):
            return self.value
        copies = [
            (key, change(self.child(key, value)) if isinstance(value, (dict, list)) else value)
            for key, value in self._members()
        ]
        return [copy for _, copy in copies] if isinstance(self.value, list) else dict(copies)


def node(value: Any, type_: str = DOCUMENT, pointer: Pointer = (), base: str = "") -> Node:
    """Return the node of a ``value`` inside of a resource whose address is ``base``."""
    if type_ in _RESOURCES and isinstance(value, dict) and "$id" in value:
        own = value["$id"]
        if isinstance(own, str):
            base = urldefrag(address(own, base)).url
    return _NEW(Node, (value, type_, pointer, base))


_NEW: Final = tuple.__new__  # half of the time of a large document is spent on making nodes


def walk(start: Node) -> Iterator[Node]:
    """Yield every object and list of a document in its order, ``start`` first, data left out."""
    waiting = [start]
    while waiting:
        here = waiting.pop()
        yield here
        waiting += reversed(here.containers())


def _type_below(type_: str, key: str | int, child: Any) -> str:
    if type_[0] in "{[":
        return type_[1:-1]
    known = _MEMBERS.get(SCHEMA if type_ == FILE else type_, {})
    found = known.get(str(key))
    if found == SCHEMA and isinstance(child, list):
        return "[schema]"
    if found is not None:
        return found
    if str(key).startswith("x-") or (type_ == FILE and key in _VALUES):
        return DATA
    return type_[1:-1] if type_[0] == "<" else _UNKNOWN.get(type_, "other")


def address(reference: str, base: str) -> str:
    """``reference`` in full; a fragment belongs to ``base``, be that a URN."""
    return base + reference if reference.startswith("#") else urljoin(base, reference)
