"""Small faults that many documents have: mended, and told, so that the rest can be served."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema_rs

from invoice_sandbox.contract.model import SCHEMA, walk
from invoice_sandbox.contract.operations import Note, operation_id, raw_operations


def mend(document: dict[str, Any]) -> tuple[Note, ...]:
    """Change ``document`` where it would keep everything else from being served; what, and where.

    A name that stands twice in ``required`` is there once. A pattern that is no regular expression
    as ECMA-262 and Rust have them is left out. Operations without an operationId get one if the one
    that is made of their method and path would be another's too. A
    security scheme that is declared nowhere is not asked for.
    """
    notes = [
        Note((*pointer, *place), text)
        for pointer, kind, value in walk(document)
        if kind == SCHEMA and isinstance(value, dict)
        for place, text in _mend_schema(value)
    ]
    return (*notes, *_mend_security(document), *_mend_names(document))


def _mend_schema(schema: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    required = schema.get("required")
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        once = list(dict.fromkeys(required))
        if once != required:
            schema["required"] = once
            yield ("required",), "a name that stands twice in 'required' is read once"
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not _is_pattern(pattern):
        del schema["pattern"]
        yield ("pattern",), "this pattern is no regular expression, and not checked"
    patterns = schema.get("patternProperties")
    for wrong in [one for one in patterns or () if not _is_pattern(one)]:
        del schema["patternProperties"][wrong]
        yield (
            ("patternProperties", wrong),
            "this pattern is no regular expression, and not checked",
        )


@cache
def _is_pattern(text: str) -> bool:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": text})
    except ValueError:
        return False
    return True


def _mend_security(document: dict[str, Any]) -> Iterator[Note]:
    components = document.get("components")
    declared = components.get("securitySchemes", {}) if isinstance(components, dict) else {}
    for pointer, kind, value in walk(document):
        wanted = value.get("security") if kind in {"document", "operation"} else None
        for index, requirement in enumerate(wanted if isinstance(wanted, list) else ()):
            for name in [one for one in requirement if one not in declared]:
                del requirement[name]
                place = (*pointer, "security", index, name)
                yield Note(
                    place, f"{name}: this security scheme is not declared, and not asked for"
                )


def _mend_names(document: dict[str, Any]) -> Iterator[Note]:
    if not isinstance(document.get("paths"), dict):
        return
    every = list(_operations(document))
    taken = {raw["operationId"] for _, _, raw in every if "operationId" in raw}
    for path, method, raw in every:
        if "operationId" in raw:
            continue
        plain = name = operation_id(path, method, raw)
        number = 1
        while name in taken:
            number += 1
            name = f"{plain}_{number}"
        taken.add(name)
        if name != plain:
            raw["operationId"] = name
            yield Note(("paths", path, method), f"without operationId: it is called {name} here")


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Those that can be changed: every one that is an object of its own."""
    seen = set[int]()
    for path, method, raw in raw_operations(document):
        if isinstance(raw, dict) and id(raw) not in seen:
            seen.add(id(raw))
            yield path, method, raw
