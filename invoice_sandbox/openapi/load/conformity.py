"""A fast check that an OpenAPI document is valid, so that the slow validator need not look.

It is never less strict than openapi-spec-validator: what it finds nothing in, that validator finds
nothing in either. What it does not accept is for that validator to judge and to word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import jsonschema_rs

from invoice_sandbox.base import jsonio
from invoice_sandbox.openapi.load.model import DATA, METHODS, Node, node, walk
from invoice_sandbox.openapi.load.operations import parameter_key, path_names
from invoice_sandbox.openapi.load.pointers import dereference, node_at, steps_of

_PLACES: Final = ("#/components/", "#/paths/")
_DRAFT: Final = "http://json-schema.org/draft-04/schema#"
"""What openapi-spec-validator takes schemas of OpenAPI 3.0 for."""

_ADDRESSES: Final = re.compile(rb'"(?:\$(?:id|anchor|schema|dynamic\w+)|jsonSchemaDialect)":"')
"""Members by which a schema has another address, or is of another dialect."""


def conforms(document: dict[str, Any]) -> bool:
    """Whether the document is certainly valid OpenAPI 3.0 or 3.1; False: it is unknown."""
    checks: tuple[Callable[[dict[str, Any]], bool], ...] = (
        _has_the_form,
        _has_no_addresses,
        _resolves,
        _has_valid_operations,
        _has_valid_schemas,
    )
    try:
        return all(check(document) for check in checks)
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return False


def _has_the_form(document: dict[str, Any]) -> bool:
    is_30 = _is_30(document)
    form = jsonschema_rs.validator_for(official_form(document), validate_formats=is_30)
    names = [tag["name"] for tag in document.get("tags", ())]
    return form.is_valid(document) and len(names) == len(set(names))


def official_form(document: Mapping[str, Any]) -> dict[str, Any]:
    """The official schema of the version of a document, for any names of components.

    That of 3.1 rejects all components of a section for the name of one; that of 3.0 looks at none
    with such a name. That of 3.0 has the security schemes of 3.1, too.
    """
    from openapi_spec_validator.schemas import schema_v30, schema_v31

    if _is_30(document):
        definitions = {**schema_v30["definitions"]}
        schemes = [*definitions["SecurityScheme"]["oneOf"], _OF_CONNECTIONS]
        definitions["SecurityScheme"] = {"oneOf": schemes}
        components = {**definitions["Components"]}
        components["properties"] = {
            section: {"type": "object", "additionalProperties": one}
            for section, declared in components["properties"].items()
            for one in declared["patternProperties"].values()
        }
        return {**schema_v30, "definitions": {**definitions, "Components": components}}
    components = {**schema_v31["$defs"]["components"]}
    del components["patternProperties"]
    return {**schema_v31, "$defs": {**schema_v31["$defs"], "components": components}}


_OF_CONNECTIONS: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"enum": ["mutualTLS"]}, "description": {"type": "string"}},
    "patternProperties": {"^x-": {}},
    "additionalProperties": False,
}
"""The security scheme that 3.1 has, and 3.0 has not."""


def _is_30(document: Mapping[str, Any]) -> bool:
    version: str = document["openapi"]
    return version.startswith("3.0.")


def _has_no_addresses(document: dict[str, Any]) -> bool:
    return _is_30(document) or not _ADDRESSES.search(jsonio.dumps(document))


def _resolves(document: dict[str, Any]) -> bool:
    """Whether every reference is a pointer to a place that the other checks look at."""
    start = node(document)
    found = {one.reference for one in walk(start)} - {None}
    return all(
        one.startswith(_PLACES)
        and dereference(document, {"$ref": one}) is not None
        and _is_looked_at(node_at(start, steps_of(one[1:])))
        for one in found
        if one is not None
    )


def _is_looked_at(place: Node | None) -> bool:
    return place is not None and place.type != DATA


def _has_valid_operations(document: dict[str, Any]) -> bool:
    ids: list[str] = []
    for path, declared in document.get("paths", {}).items():
        item = dereference(document, declared)
        shared = [dereference(document, one) for one in item.get("parameters", ())]
        wanted = set(path_names(path))
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
    keys = [parameter_key(one) for one in parameters]
    return len(keys) == len(set(keys))


def _has_valid_schemas(document: dict[str, Any]) -> bool:
    if not _is_30(document):
        return all(map(meta_schema_31().is_valid, _outermost(node(document))))
    return all(
        isinstance(schema, Mapping) and jsonschema_rs.meta.is_valid({**schema, "$schema": _DRAFT})
        for schema in _outermost(node(document))
    )


@cache
def meta_schema_31() -> jsonschema_rs.Draft202012Validator:
    """What openapi-spec-validator compares schemas of OpenAPI 3.1 with.

    No public name has the parts of the meta-schema, so ``pyproject.toml`` allows only versions that
    were tried with this import.
    """
    from openapi_schema_validator import OAS31Validator
    from openapi_schema_validator._specifications import REGISTRY

    return jsonschema_rs.Draft202012Validator(
        OAS31Validator.META_SCHEMA,
        validate_formats=True,
        retriever=REGISTRY.contents,
    )


def _outermost(here: Node) -> Iterator[Any]:
    if here.is_schema:
        yield here.value
        return
    for child in here.containers():
        yield from _outermost(child)
