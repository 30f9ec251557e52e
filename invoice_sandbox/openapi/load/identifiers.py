"""Schemas by the identifiers that a document gives them: ``$id``, ``$anchor``, JSON Pointer.

A schema with an ``$id`` is a resource of its own: references within it start from there, not from
the document (JSON Schema Core 8.2.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_DATA: Final = frozenset({"const", "enum", "default", "example", "examples"})
_MAPS: Final = frozenset(
    {
        *("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "schemas"),
        *("callbacks", "content", "encoding", "headers", "links", "parameters", "pathItems"),
        *("paths", "requestBodies", "responses", "securitySchemes", "variables", "webhooks"),
    }
)


@dataclass(frozen=True)
class Place:
    """Where a walk through a document is: what the keys of the object there are.

    They are names of the author's choice when ``names``, else keywords; ``in_schema`` says whose.
    ``base`` is the address that references start from.
    """

    base: str = ""
    names: bool = False
    in_schema: bool = False

    def is_data(self, key: str) -> bool:
        """Whether below ``key`` there is a value, and nothing that is part of the contract."""
        return key in _DATA and not self.names

    def below(self, key: str, child: Any) -> Place:
        """The place of ``child``, which is the member ``key``."""
        names = key in _MAPS and not self.names
        in_schema = self.in_schema or (not self.names and key in {"schema", "schemas"})
        own = child.get("$id") if isinstance(child, Mapping) and not names else None
        base = urldefrag(address(own, self.base)).url if isinstance(own, str) else self.base
        return Place(base, names, in_schema)


def identified(document: Mapping[str, Any]) -> dict[str, Any]:
    """What ``document`` gives an identifier: by address, and by address and anchor.

    The document itself is at the empty address.
    """
    return {"": document, **dict(_identified(document, Place()))}


def address(reference: str, base: str) -> str:
    """``reference`` in full; a fragment belongs to ``base``, be that a URN."""
    return base + reference if reference.startswith("#") else urljoin(base, reference)


def named(reference: str, base: str, known: Mapping[str, Any]) -> Any:
    """What ``reference``, which stands at ``base``, names among the identified, or None."""
    whole = address(reference, base)
    resource, fragment = urldefrag(whole)
    if fragment.startswith("/"):
        return at_pointer(known.get(resource), fragment)
    return known.get(whole if fragment else resource)


def at_pointer(value: Any, fragment: str) -> Any:
    """What the JSON Pointer of a URI fragment names in ``value``, or None (RFC 6901, section 6)."""
    for escaped in fragment[1:].split("/"):
        step = unquote(escaped).replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isascii() and step.isdigit():
            value = dict(enumerate(value)).get(int(step))
        else:
            return None
    return value


def _identified(value: Any, place: Place, around: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield from _identified(item, place.below("", item), place.base)
    if not isinstance(value, Mapping):
        return
    if place.base != around:
        yield place.base, value
    for keyword in () if place.names else _ANCHORS:
        if isinstance(value.get(keyword), str):
            yield f"{place.base}#{value[keyword]}", value
    for key, child in value.items():
        if not place.is_data(key):
            yield from _identified(child, place.below(key, child), place.base)
