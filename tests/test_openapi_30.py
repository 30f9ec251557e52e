"""An OpenAPI 3.0 document is served as the 3.1 document that means the same, rule by rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from invoice_sandbox.openapi.load.openapi_30 import as_31
from tests.cases import in_turn
from tests.toy import contract, serving_contract


def of_30(schema: Any, **members: Any) -> dict[str, Any]:
    """A 3.0 contract with ``POST /check``, whose body must satisfy ``schema``."""
    return {**contract(schema, **members), "openapi": "3.0.3"}


def schema_in_31(schema: Any) -> Any:
    """What a schema of 3.0 is in 3.1."""
    post = as_31(of_30(schema))["paths"]["/check"]["post"]
    return post["requestBody"]["content"]["application/json"]["schema"]


RULES: dict[str, tuple[Any, Any]] = {
    "nullable": ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
    "not nullable": ({"type": "string", "nullable": False}, {"type": "string"}),
    "nullable without a type": ({"nullable": True}, {}),
    "nullable beside allOf": (
        {"nullable": True, "allOf": [{"type": "object"}]},
        {"allOf": [{"type": "object"}]},
    ),
    "nullable beside enum": (
        {"type": "string", "nullable": True, "enum": ["a", None]},
        {"type": ["string", "null"], "enum": ["a", None]},
    ),
    "an exclusive minimum": (
        {"minimum": 1, "exclusiveMinimum": True},
        {"exclusiveMinimum": 1},
    ),
    "an exclusive maximum": (
        {"maximum": 1, "exclusiveMaximum": True},
        {"exclusiveMaximum": 1},
    ),
    "bounds that are not exclusive": (
        {"minimum": 1, "exclusiveMinimum": False, "maximum": 2, "exclusiveMaximum": False},
        {"minimum": 1, "maximum": 2},
    ),
    "exclusive of nothing": ({"exclusiveMinimum": True}, {}),
    "example": ({"type": "string", "example": "a"}, {"type": "string", "examples": ["a"]}),
    "a discriminator with other members": (
        {"discriminator": {"propertyName": "kind", "type": "string"}},
        {"discriminator": {"propertyName": "kind"}},
    ),
    "bytes in base64": (
        {"type": "string", "format": "byte"},
        {"type": "string", "format": "byte", "contentEncoding": "base64"},
    ),
    "bytes": (
        {"type": "string", "format": "binary"},
        {
            "type": "string",
            "format": "binary",
            "contentMediaType": "application/octet-stream",
        },
    ),
    "what stands beside a reference": (
        {"$ref": "#/components/schemas/A", "maxLength": 1, "nullable": True},
        {"$ref": "#/components/schemas/A"},
    ),
    "a property called nullable": (
        {"properties": {"nullable": {"type": "string", "nullable": True}}},
        {"properties": {"nullable": {"type": ["string", "null"]}}},
    ),
    "a property called example, and one called $ref": (
        {"properties": {"example": {"type": "string"}, "$ref": {"nullable": True}}},
        {"properties": {"example": {"type": "string"}, "$ref": {}}},
    ),
    "a schema in an example, which is data": (
        {"example": {"type": "string", "nullable": True}},
        {"examples": [{"type": "string", "nullable": True}]},
    ),
    "schemas within": (
        {
            "items": {"type": "string", "nullable": True},
            "additionalProperties": {"not": {"minimum": 0, "exclusiveMinimum": True}},
        },
        {
            "items": {"type": ["string", "null"]},
            "additionalProperties": {"not": {"exclusiveMinimum": 0}},
        },
    ),
}


@in_turn(("old", "new"), RULES.values(), ids=RULES)
def test_a_schema_becomes_one_of_31(old: Any, new: Any) -> None:
    assert schema_in_31(old) == new


def test_what_is_no_schema_stays() -> None:
    document = of_30(True, tags=[{"name": "a", "x-own": {"nullable": True}}])
    document["paths"]["/check"]["post"]["responses"]["200"] = {
        "description": "a",
        "content": {"application/json": {"example": {"minimum": 1, "exclusiveMinimum": True}}},
    }
    new = as_31(document)
    assert new == {**document, "openapi": "3.1.0"}


def test_a_document_of_31_stays_as_it_is() -> None:
    document = contract({"type": "string", "example": "a", "nullable": True})
    assert as_31(document) == document


BODIES: dict[str, tuple[Any, Any, int]] = {
    "null where it is allowed": ({"type": "string", "nullable": True}, None, 204),
    "null where it is not": ({"type": "string"}, None, 400),
    "null where enum has none": ({"type": "string", "nullable": True, "enum": ["a"]}, None, 400),
    "the bound itself": ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, 1, 400),
    "what is beyond it": ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, 2, 204),
    "what a sibling of $ref forbids": (
        {"$ref": "#/components/schemas/Text", "maxLength": 1},
        "ab",
        204,
    ),
}


@pytest.mark.parametrize(("schema", "body", "status"), BODIES.values(), ids=BODIES)
def test_a_body_is_checked_as_30_says(tmp_path: Path, schema: Any, body: Any, status: int) -> None:
    document = of_30(schema, components={"schemas": {"Text": {"type": "string"}}})
    with serving_contract(tmp_path, document) as client:
        headers = {"Content-Type": "application/json"}
        content = b"null" if body is None else None
        given: dict[str, Any] = {"content": content} if content else {"json": body}
        assert client.post("/check", headers=headers, **given).status_code == status
        assert client.get("/openapi.json").json()["openapi"] == "3.1.0"
