"""The few errors that documents of others have so often that they are warnings.

The name of an unknown dialect, a pattern that cannot be used, a header name that is none, and a
security scheme that is not declared: the credential stays required.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import jsonschema_rs

from invoice_sandbox.openapi.load.documents import Note
from invoice_sandbox.openapi.load.model import Node, Pointer, node, walk
from invoice_sandbox.openapi.load.pointers import dereference, identified
from invoice_sandbox.openapi.load.validate import DRAFT_2020_12, is_supported


def repair(document: dict[str, Any]) -> Iterator[Note]:
    """Change schemas of a document that is not validated yet; yield what was changed."""
    known = cache(lambda: identified(document))
    yield from _dialect(document, "jsonSchemaDialect", (), known)
    for here in walk(node(document)):
        if here.is_schema:
            yield from _dialect(here.value, "$schema", here.pointer, known)
            yield from _patterns(here)


def repair_valid(document: dict[str, Any]) -> Iterator[Note]:
    """Change headers and security of a valid document; yield what was changed.

    Extensions among paths or responses, which mean nothing here, are left out.
    """
    schemes = document.get("components", {}).get("securitySchemes", {})
    for here in walk(node(document)):
        if here.type == "{[scope]}":
            for name in [name for name in here.value if name not in schemes]:
                schemes[name] = dict(_BEARER)
                text = f"security scheme '{name}' is not declared: it is read as HTTP bearer"
                yield Note((*here.pointer, name), text)
        if here.type == "{header}" and here.pointer[:-1] != ("components",):
            for name in [name for name in here.value if not _TOKEN.fullmatch(name)]:
                del here.value[name]
                yield Note((*here.pointer, name), f"{name!r} is ignored: {_NOT_A_HEADER}")
        if here.type[0] == "<":
            for name in [name for name in here.value if name.startswith("x-")]:
                del here.value[name]
        if here.type == "[parameter]":
            yield from _header_parameters(document, here)
    if schemes:
        document.setdefault("components", {})["securitySchemes"] = schemes


_BEARER: Final = {"type": "http", "scheme": "bearer"}

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A name that a header can have (RFC 9110, section 5.6.2)."""

_NOT_A_HEADER: Final = "no header can have this name"


def _dialect(
    around: dict[str, Any], member: str, at: Pointer, known: Callable[[], Mapping[str, Any]]
) -> Iterator[Note]:
    """Leave out the name of a dialect that is neither supported nor a schema of the document."""
    uri = str(around.get(member, DRAFT_2020_12))
    if not is_supported(uri) and uri not in known():
        del around[member]
        yield Note((*at, member), f"'{uri}' is not supported: read as JSON Schema 2020-12")


def _patterns(here: Node) -> Iterator[Note]:
    pattern, by_pattern = here.value.get("pattern"), here.value.get("patternProperties")
    if isinstance(pattern, str) and not _is_usable(pattern):
        del here.value["pattern"]
        yield Note((*here.pointer, "pattern"), _UNUSABLE)
    patterns = by_pattern if isinstance(by_pattern, dict) else {}
    for wrong in [pattern for pattern in patterns if not _is_usable(pattern)]:
        del patterns[wrong]
        yield Note((*here.pointer, "patternProperties", wrong), _UNUSABLE)


_UNUSABLE: Final = "this pattern cannot be compiled, and is not checked"


@cache
def _is_usable(pattern: str) -> bool:
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern})
    except ValueError:
        return False
    return True


def _header_parameters(document: Mapping[str, Any], here: Node) -> Iterator[Note]:
    wrong = [
        (index, parameter["name"])
        for index, declared in enumerate(here.value)
        if (parameter := dereference(document, declared))["in"] == "header"
        and not _TOKEN.fullmatch(parameter["name"])
    ]
    for index, name in reversed(wrong):
        del here.value[index]
        yield Note((*here.pointer, index), f"{name!r} is ignored: {_NOT_A_HEADER}")
