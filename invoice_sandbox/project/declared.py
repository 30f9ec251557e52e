"""The members that a schema declares, a few levels deep, whatever an example shows of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from invoice_sandbox.openapi.load.pointers import ContractError, dereference

_DEEPEST: Final = 8
_MOST: Final = 100
_PARTS: Final = ("allOf", "oneOf", "anyOf")

Document = Mapping[str, Any]


def outline(document: Document, schema: Any, levels: int = 3) -> Any:
    """A value with every declared member: an object, a list with one item, or ``""``."""
    return _outline(document, [schema], levels)


def schemas_at(document: Document, schema: Any, steps: Sequence[str]) -> list[Any]:
    """The schemas of the member that these names lead to."""
    found = [schema]
    for one in steps:
        found = _members(document, found).get(one, [])
    return found


def keywords_at(document: Document, schema: Any, steps: Sequence[str], keyword: str) -> list[Any]:
    """The values of a keyword in the schemas of the member that these names lead to."""
    found = schemas_at(document, schema, steps)
    parts = (part for one in found for part in _parts(document, one))
    return [part[keyword] for part in parts if keyword in part]


def _outline(document: Document, schemas: Sequence[Any], levels: int) -> Any:
    members = _members(document, schemas) if levels else {}
    if members:
        return {name: _outline(document, one, levels - 1) for name, one in members.items()}
    parts = [part for one in schemas for part in _parts(document, one)]
    items = [part["items"] for part in parts if "items" in part]
    return [_outline(document, items, levels)] if items and levels else ""


def _members(document: Document, schemas: Sequence[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for schema in schemas:
        for part in _parts(document, schema):
            for name, one in part.get("properties", {}).items():
                found.setdefault(name, []).append(one)
    return found


def _parts(document: Document, schema: Any) -> Iterator[Mapping[str, Any]]:
    """The schema and what it is composed of, up to a number that no usual schema reaches."""
    return islice(_all_parts(document, schema, 0), _MOST)


def _all_parts(document: Document, schema: Any, depth: int) -> Iterator[Mapping[str, Any]]:
    try:
        found = dereference(document, schema)
    except ContractError:
        return
    if not isinstance(found, Mapping) or depth > _DEEPEST:
        return
    yield found
    for keyword in _PARTS:
        for one in found.get(keyword, []):
            yield from _all_parts(document, one, depth + 1)
