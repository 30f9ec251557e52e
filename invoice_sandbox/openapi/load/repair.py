"""Small faults that many documents have: repaired, and told, so that the rest can be served."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import jsonschema_rs

from invoice_sandbox.openapi.load.model import SCHEMA, walk
from invoice_sandbox.openapi.operation import Note, named_operations, operation_id


def repair(document: dict[str, Any]) -> tuple[Note, ...]:
    """Change ``document`` where it would keep everything else from being served; what, and where.

    A name that stands twice in ``required`` is there once. A pattern that is no regular expression
    as ECMA-262 and Rust have them is left out. A security scheme that is declared nowhere is not
    asked for. Told as well, though nothing is changed: the names of operations without an
    operationId that are numbered.
    """
    notes = [
        Note((*pointer, *place), text)
        for pointer, kind, value in walk(document)
        if kind == SCHEMA and isinstance(value, dict)
        for place, text in _repair_schema(value)
    ]
    return (*notes, *_repair_security(document), *_numbered_names(document))


def _repair_schema(schema: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    required = schema.get("required")
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        once = list(dict.fromkeys(required))
        if once != required:
            schema["required"] = once
            yield ("required",), "a name that stands twice in 'required' is read once"
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not _is_pattern(pattern):
        del schema["pattern"]
        yield ("pattern",), "this pattern cannot be compiled, and is not checked"
    patterns = schema.get("patternProperties")
    for wrong in [one for one in patterns or () if not _is_pattern(one)]:
        del schema["patternProperties"][wrong]
        yield (
            ("patternProperties", wrong),
            "this pattern cannot be compiled, and is not checked",
        )


@cache
def _is_pattern(text: str) -> bool:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": text})
    except ValueError:
        return False
    return True


def _repair_security(document: dict[str, Any]) -> Iterator[Note]:
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


def _numbered_names(document: dict[str, Any]) -> Iterator[Note]:
    if not isinstance(document.get("paths"), dict):
        return
    for name, (path, method, raw) in named_operations(document).items():
        if name != operation_id(path, method, raw):
            yield Note(("paths", path, method), f"without operationId: it is called {name} here")
