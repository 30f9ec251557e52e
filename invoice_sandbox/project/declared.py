"""The members that the schemas of a document declare, through references and compositions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from invoice_sandbox.openapi.load.pointers import ContractError, dereference
from invoice_sandbox.openapi.schema.compile import Checker

Document = Mapping[str, Any]

ABSENT: Final = object()
"""The value of a member that is not there."""
_DEEPEST: Final = 8
_MOST: Final = 100
_COMPOSED: Final = ("allOf", "oneOf", "anyOf")


def properties(document: Document, schema: Any) -> dict[str, Any]:
    """Return the schema of each declared member. One that is declared twice has an ``allOf``."""
    found: dict[str, list[Any]] = {}
    for part in parts(document, schema):
        for name, member in part.get("properties", {}).items():
            found.setdefault(name, []).append(member)
    return {
        name: every[0] if len(every) == 1 else {"allOf": every} for name, every in found.items()
    }


def required(document: Document, schema: Any) -> dict[str, None]:
    """Return the names of the members that every value of the schema has, in their order."""
    every = parts(document, schema, ("allOf",))
    return dict.fromkeys(name for part in every for name in part.get("required", []))


def keyword(document: Document, schema: Any, name: str, default: Any = None) -> Any:
    """Return what the schema, or one of its ``allOf``, declares for a keyword."""
    every = parts(document, schema, ("allOf",))
    return next((part[name] for part in every if name in part), default)


def items(document: Document, schema: Any) -> Any:
    """Return the schema of the items of a list; None if the schema is not one of a list."""
    return next((part["items"] for part in parts(document, schema) if "items" in part), None)


def parts(
    document: Document, schema: Any, keywords: tuple[str, ...] = _COMPOSED
) -> Iterator[Mapping[str, Any]]:
    """Yield the schema and what it is composed of, up to a number that no usual one reaches."""
    return islice(_all_parts(document, schema, keywords, 0), _MOST)


def _all_parts(
    document: Document, schema: Any, keywords: tuple[str, ...], depth: int
) -> Iterator[Mapping[str, Any]]:
    try:
        found = dereference(document, schema)
    except ContractError:
        return
    if not isinstance(found, Mapping) or depth > _DEEPEST:
        return
    yield found
    for name in keywords:
        for part in found.get(name, []):
            yield from _all_parts(document, part, keywords, depth + 1)


def members(value: Any) -> Mapping[str, Any]:
    """Return the members of an object; none of anything else."""
    return value if isinstance(value, Mapping) else {}


def is_valid(checker: Checker | None, value: Any) -> bool:
    """True if the schema allows the value; without a schema every value is allowed."""
    return checker is None or checker.is_valid(value)
