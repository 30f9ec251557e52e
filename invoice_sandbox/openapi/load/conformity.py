"""A fast check that an OpenAPI 3.0 document is valid, so that the slow validator need not look.

It is never less strict than openapi-spec-validator: what it finds nothing in, that validator finds
nothing in either. What it does not accept is for that validator to judge and to word.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import jsonschema_rs

from invoice_sandbox.openapi.load.model import METHODS, Node, node
from invoice_sandbox.openapi.load.pointers import dereference

_PLACES: Final = ("#/components/", "#/paths/")
_DRAFT: Final = "http://json-schema.org/draft-04/schema#"
"""What openapi-spec-validator takes schemas of OpenAPI 3.0 for."""


def conforms(document: dict[str, Any]) -> bool:
    """Whether the document is certainly valid OpenAPI 3.0; False: it is unknown."""
    if not document["openapi"].startswith("3.0."):
        return False
    checks: tuple[Callable[[dict[str, Any]], bool], ...] = (
        _has_the_form,
        _resolves,
        _has_valid_operations,
        _has_valid_schemas,
    )
    try:
        return all(check(document) for check in checks)
    except (LookupError, TypeError, ValueError, RecursionError):
        return False


def _has_the_form(document: dict[str, Any]) -> bool:
    from openapi_spec_validator.schemas import schema_v30

    form = jsonschema_rs.validator_for({**schema_v30}, validate_formats=True)
    names = [tag["name"] for tag in document.get("tags", ())]
    return form.is_valid(document) and len(names) == len(set(names))


def _resolves(document: dict[str, Any]) -> bool:
    """Whether every reference is a pointer to a place that the other checks look at."""
    found = set(_references(document))
    return all(
        one.startswith(_PLACES) and dereference(document, {"$ref": one}) is not None
        for one in found
    )


def _references(document: Any) -> Iterator[str]:
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _has_valid_operations(document: dict[str, Any]) -> bool:
    ids: list[str] = []
    for path, declared in document["paths"].items():
        item = dereference(document, declared)
        shared = [dereference(document, one) for one in item.get("parameters", ())]
        wanted = {name for _, name, *_ in string.Formatter().parse(path) if name}
        for method in METHODS:
            operation = item.get(method)
            if operation is None:
                continue
            own = [dereference(document, one) for one in operation.get("parameters", ())]
            ids += [operation["operationId"]] if "operationId" in operation else []
            if not _are_distinct(shared) or not _are_distinct(own):
                return False
            if {one["name"] for one in [*shared, *own] if one["in"] == "path"} != wanted:
                return False
    return len(ids) == len(set(ids))


def _are_distinct(parameters: Iterable[Mapping[str, Any]]) -> bool:
    keys = [(one["name"], one["in"]) for one in parameters]
    return len(keys) == len(set(keys))


def _has_valid_schemas(document: dict[str, Any]) -> bool:
    return all(
        isinstance(schema, Mapping) and jsonschema_rs.meta.is_valid({**schema, "$schema": _DRAFT})
        for schema in _outermost(node(document))
    )


def _outermost(here: Node) -> Iterator[Any]:
    if here.is_schema:
        yield here.value
        return
    for child in here.containers():
        yield from _outermost(child)
