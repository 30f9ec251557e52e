"""The fast check of a document accepts nothing that openapi-spec-validator rejects."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from copy import deepcopy
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV30SpecValidator, OpenAPIV31SpecValidator
from packaging.requirements import Requirement

from invoice_sandbox.openapi.load.conformity import conforms

Document = dict[str, Any]
ORDER = {"$ref": "#/components/schemas/Order"}
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
PROJECT = Path(__file__).parents[1] / "pyproject.toml"
VALID: Document = {
    "openapi": "3.0.3",
    "info": {"title": "Shop", "version": "1"},
    "tags": [{"name": "orders"}],
    "paths": {
        "/orders/{id}": {
            "parameters": [ID],
            "get": {
                "operationId": "getOrder",
                "parameters": [{"name": "id", "in": "query", "schema": {"type": "string"}}],
                "responses": {
                    "200": {
                        "description": "It.",
                        "content": {"application/json": {"schema": ORDER}},
                    }
                },
            },
            "delete": {
                "operationId": "deleteOrder",
                "responses": {"204": {"$ref": "#/components/responses/Gone"}},
            },
        }
    },
    "components": {
        "responses": {"Gone": {"description": "It is deleted."}},
        "schemas": {
            "Order": {
                "type": "object",
                "required": ["id"],
                "properties": {
                    "id": {"type": "string", "nullable": True},
                    "parent": ORDER,
                    "total": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                },
            }
        },
    },
}


def at(document: Document, *steps: str) -> Any:
    for step in steps:
        document = document[step]
    return document


PATH = ("paths", "/orders/{id}")
GET = (*PATH, "get")
TOTAL = ("components", "schemas", "Order", "properties", "total")
WRONG: dict[str, Callable[[Document], Any]] = {
    "no title": lambda one: one["info"].pop("title"),
    "a member that is not declared": lambda one: one.update(colour="red"),
    "no responses": lambda one: at(one, *GET).pop("responses"),
    "the same tag twice": lambda one: one["tags"].append({"name": "orders"}),
    "an operationId twice": lambda one: at(one, *GET).update(operationId="deleteOrder"),
    "a parameter twice": lambda one: at(one, *GET)["parameters"].append(
        {"name": "id", "in": "query", "schema": {}}
    ),
    "a parameter of the path twice": lambda one: at(one, *PATH)["parameters"].append(ID),
    "a path parameter that is missing": lambda one: at(one, *PATH).pop("parameters"),
    "a path parameter too many": lambda one: at(one, *GET)["parameters"].append(
        {**ID, "name": "line"}
    ),
    "a type that does not exist": lambda one: at(one, *TOTAL).update(type="decimal"),
    "a schema that is a number": lambda one: at(one, "components", "schemas").update(Line=7),
    "required that is a boolean": lambda one: at(one, *TOTAL).update(required=True),
    "a negative length": lambda one: at(one, *TOTAL).update(maxLength=-1),
    "an enum without values": lambda one: at(one, *TOTAL).update(enum=[]),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_what_the_validator_rejects_does_not_conform(change: Callable[[Document], Any]) -> None:
    document = deepcopy(VALID)
    change(document)
    assert list(OpenAPIV30SpecValidator(document).iter_errors())
    assert not conforms(document)


VALID_31 = deepcopy(VALID)
VALID_31["openapi"] = "3.1.0"
VALID_31["servers"] = [{"url": "{base}", "variables": {"base": {"default": "/"}}}]
at(VALID_31, *TOTAL).update(type=["number", "null"], exclusiveMinimum=0)
WRONG_31: dict[str, Callable[[Document], Any]] = {
    **WRONG,
    "a type among several that does not exist": lambda one: at(one, *TOTAL).update(
        type=["number", "decimal"]
    ),
    "a bound that is a boolean": lambda one: at(one, *TOTAL).update(exclusiveMinimum=True),
    "a discriminator without a member": lambda one: at(one, *TOTAL).update(discriminator={}),
    "an unknown dialect": lambda one: one.update(jsonSchemaDialect="https://toy.example/dialect"),
    "an unknown dialect of a schema": lambda one: at(one, "components", "schemas", "Order").update(
        {"$schema": "https://toy.example/dialect"}
    ),
}
del WRONG_31["no responses"], WRONG_31["an enum without values"]  # which are allowed


@pytest.mark.parametrize("change", WRONG_31.values(), ids=WRONG_31)
def test_neither_does_what_is_not_openapi_31(change: Callable[[Document], Any]) -> None:
    document = deepcopy(VALID_31)
    change(document)
    assert list(OpenAPIV31SpecValidator(document).iter_errors())
    assert not conforms(document)


@pytest.mark.parametrize("member", ["$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$schema"])
def test_schemas_with_addresses_are_left_to_the_validator(member: str) -> None:
    document = deepcopy(VALID_31)
    schemas = at(document, "components", "schemas")
    schemas["Named"] = {"properties": {member: {"type": "string"}}}
    assert conforms(document)
    schemas["Named"] = {member: "https://json-schema.org/draft/2020-12/schema"}
    assert not conforms(document)


UNKNOWN: dict[str, Callable[[Document], Any]] = {
    "an extension among the paths": lambda one: one["paths"].update({"x-a": []}),
    "a reference to nothing": lambda one: order_schema(one).update(
        {"$ref": "#/components/schemas/No"}
    ),
    "a reference to a file": lambda one: order_schema(one).update({"$ref": "order.yaml"}),
    "a reference beside the contract": lambda one: (
        one.update({"x-schemas": {"Order": {"type": "decimal"}}}),
        order_schema(one).update({"$ref": "#/x-schemas/Order"}),
    ),
    "a reference into an extension": lambda one: (
        one["components"].update({"x-schemas": {"Order": {"type": "decimal"}}}),
        order_schema(one).update({"$ref": "#/components/x-schemas/Order"}),
    ),
    "a reference into an example": lambda one: (
        one["components"].update(examples={"Order": {"value": {"$ref": "order.yaml"}}}),
        order_schema(one).update({"$ref": "#/components/examples/Order/value"}),
    ),
    "a reference into itself": lambda one: at(one, "components", "schemas").update(Order=ORDER),
}


def order_schema(document: Document) -> Any:
    return at(document, *GET, "responses", "200", "content", "application/json", "schema")


@pytest.mark.parametrize("valid", [VALID, VALID_31], ids=["3.0", "3.1"])
@pytest.mark.parametrize("change", UNKNOWN.values(), ids=UNKNOWN)
def test_what_it_does_not_look_at_is_left_to_the_validator(
    change: Callable[[Document], Any], valid: Document
) -> None:
    document = deepcopy(valid)
    change(document)
    assert not conforms(document)


VALUES: dict[str, Callable[[Document], Any]] = {
    "an example": lambda one: order_schema(one).update(example={"a": {"$ref": "order.yaml"}}),
    "an example of a component": lambda one: one["components"].update(
        examples={"order": {"value": {"a": {"$ref": "order.yaml"}}}}
    ),
    "an extension": lambda one: one["info"].update({"x-a": {"$ref": "order.yaml#/a"}}),
}


@pytest.mark.parametrize("valid", [VALID, VALID_31], ids=["3.0", "3.1"])
@pytest.mark.parametrize("change", VALUES.values(), ids=VALUES)
def test_what_looks_like_a_reference_in_a_value_needs_no_other_validator(
    change: Callable[[Document], Any], valid: Document
) -> None:
    document = deepcopy(valid)
    order_schema(document).clear()
    order_schema(document)["type"] = "object"
    change(document)
    assert conforms(document)


def test_a_valid_document_needs_no_other_validator() -> None:
    assert not list(OpenAPIV30SpecValidator(VALID).iter_errors())
    assert not list(OpenAPIV31SpecValidator(VALID_31).iter_errors())
    assert conforms(VALID)
    assert conforms(VALID_31)


def test_a_library_whose_private_name_is_imported_is_one_that_was_tried() -> None:
    wanted = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
    ranges = {one.name: one.specifier for one in map(Requirement, wanted)}
    tried = ranges["openapi-schema-validator"]
    assert version("openapi-schema-validator") in tried
    assert not {"0.8.9", "0.10.0"} & {*tried.filter(["0.8.9", "0.10.0"])}
