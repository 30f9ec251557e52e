"""An OpenAPI 3.0 document as the 3.1 document that means the same.

OpenAPI 3.0 has schemas of its own; 3.1 has JSON Schema 2020-12. Where they differ:

- ``nullable`` becomes the type ``null`` beside ``type``. Elsewhere, and where ``enum`` does not
  list null, it has no effect (OpenAPI 3.0.3, Schema Object, and its clarification of nullable);
- ``exclusiveMinimum: true`` becomes the bound itself, and so does ``exclusiveMaximum``;
- ``example`` becomes ``examples``;
- a discriminator may have members that mean nothing, which are left out;
- ``format: byte`` is ``contentEncoding: base64``, ``format: binary`` is bytes;
- what stands beside ``$ref`` has no effect, and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from invoice_sandbox.openapi.load.model import Node, node

_VERSION: Final = "3.1.0"


def as_31(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the 3.1 form of a valid ``document``; one of a later version stays as it is."""
    if not document["openapi"].startswith("3.0."):
        return dict(document)
    return {**_converted(node(document)), "openapi": _VERSION}


def _converted(here: Node) -> Any:
    if here.reference is not None:
        return {"$ref": here.reference}
    copy = here.copy(_converted)
    return _schema(copy) if here.is_schema else copy


def _schema(raw: dict[str, Any]) -> dict[str, Any]:
    nullable = raw.pop("nullable", False) is True
    schema = dict(_members(raw))
    if nullable and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
    return schema


def _members(raw: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the members of a schema, each as 3.1 has it."""
    for key, value in raw.items():
        exclusive = f"exclusive{key[:1].upper()}{key[1:]}"
        if key in {"minimum", "maximum"} and raw.get(exclusive) is True:
            yield exclusive, value
        elif key in {"exclusiveMinimum", "exclusiveMaximum"} and isinstance(value, bool):
            continue
        elif key == "example":
            yield "examples", [value]
        elif key == "discriminator" and isinstance(value, Mapping):
            yield key, {name: value[name] for name in ("propertyName", "mapping") if name in value}
        else:
            yield key, value
    if raw.get("type") == "string" and raw.get("format") == "byte":
        yield "contentEncoding", "base64"
    if raw.get("type") == "string" and raw.get("format") == "binary":
        yield "contentMediaType", "application/octet-stream"
