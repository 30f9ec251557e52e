"""Resolves references: by JSON Pointer, ``$id``, ``$anchor`` or ``$dynamicAnchor``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote, urldefrag

from invoice_sandbox.base.errors import UserError
from invoice_sandbox.openapi.load.model import (
    DOCUMENT,
    FILE,
    SCHEMA,
    Node,
    Pointer,
    address,
    node,
    walk,
)

_ANCHORS: Final = ("$anchor", "$dynamicAnchor")


class ContractError(UserError, ValueError):
    """A contract that cannot be served; the message says which place and why."""


def identified(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schemas with an identifier, by address, and by address and anchor.

    The document itself is at the empty address.
    """
    return {"": document, **{name: here.value for name, here in identified_nodes(document)}}


def identified_nodes(document: Any, type_: str = DOCUMENT) -> Iterator[tuple[str, Node]]:
    """The same, but for the document itself, with the places; ``type_`` is that of the document."""
    for here in walk(node(document, type_)):
        if here.type not in {SCHEMA, FILE} or not isinstance(here.value, Mapping):
            continue
        if here.base and isinstance(here.value.get("$id"), str):
            yield here.base, here
        for keyword in _ANCHORS:
            if isinstance(here.value.get(keyword), str):
                yield f"{here.base}#{here.value[keyword]}", here


def named(reference: str, base: str, known: Mapping[str, Any]) -> Any:
    """Return what ``reference``, which stands at ``base``, names among the identified, or None."""
    whole = address(reference, base)
    resource, fragment = urldefrag(whole)
    if fragment.startswith("/"):
        return at_pointer(known.get(resource), fragment)
    return known.get(whole if fragment else resource)


def at_pointer(value: Any, fragment: str) -> Any:
    """Return what the JSON Pointer of a URI fragment names, or None (RFC 6901, section 6)."""
    for step in steps_of(fragment):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isascii() and step.isdigit():
            value = dict(enumerate(value)).get(int(step))
        else:
            return None
    return value


def node_at(here: Node, steps: Sequence[str | int]) -> Node | None:
    """Return the node at the end of ``steps`` that start ``here``, or None."""
    for step in steps:
        is_index = isinstance(here.value, list) and str(step).isdecimal()
        key = int(step) if is_index else step
        try:
            here = here.child(key, here.value[key])
        except (LookupError, TypeError):
            return None
    return here


@lru_cache(maxsize=4096)
def steps_of(fragment: str) -> tuple[str, ...]:
    """Return the steps of the JSON Pointer of a URI fragment."""
    steps = (unquote(step) for step in fragment[1:].split("/"))
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps)


def dereference(document: Mapping[str, Any], value: Any) -> Any:
    """Return what ``value`` is behind references. Raises ContractError for any but a local one."""
    return located(document, (), value)[1]


def followed(document: Mapping[str, Any], value: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the steps to what the local ``$ref`` of ``value`` names, and it itself; if that is a
    reference, too, what it names, and so on. Raises ContractError for any other reference."""
    seen: set[str] = set()
    while isinstance(value, Mapping) and isinstance(value.get("$ref"), str):
        reference = value["$ref"]
        if not reference.startswith("#/") or reference in seen:
            raise ContractError(f"{reference}: only references within the document are followed")
        seen.add(reference)
        value = at_pointer(document, reference[1:])
        if value is None:
            raise ContractError(f"cannot resolve {reference} in the document")
        yield steps_of(reference[1:]), value


def located(document: Mapping[str, Any], pointer: Pointer, value: Any) -> tuple[Pointer, Any]:
    """Return what ``value``, which is at ``pointer``, is behind references, and where that is.

    Raises ContractError for any but a local reference.
    """
    *_, found = (pointer, value), *followed(document, value)
    return found
