"""A contract may name its schemas as JSON Schema does: ``$id``, ``$anchor``, ``$schema``."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from invoice_sandbox.app import create_app
from invoice_sandbox.openapi.operation import compile_contract
from invoice_sandbox.project.code import ProjectError
from tests.support import FROZEN
from tests.toy import contract, serving_contract

pytestmark = pytest.mark.slow

OK = {"description": "ok"}
CORE = "https://json-schema.org/draft/2020-12/vocab/core"
VALIDATION = "https://json-schema.org/draft/2020-12/vocab/validation"
BUYER = {
    "$id": "https://toy.example/buyer",
    "$ref": "#/$defs/named",
    "$defs": {"named": {"$anchor": "named", "properties": {"pin": {"format": "password"}}}},
    "required": ["pin"],
}


def toy(schema: Any, **schemas: Any) -> dict[str, Any]:
    return contract(schema, components={"schemas": schemas})


def meta_schema(**vocabularies: bool) -> dict[str, Any]:
    return {
        "$id": "https://toy.example/meta",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$vocabulary": {CORE: True, **vocabularies},
    }


OWN = {"$schema": "https://toy.example/meta", "type": "object"}
ACCEPTED = {
    "a component by its $id": toy({"$ref": "https://toy.example/buyer"}, Buyer=BUYER),
    "a place in it": toy({"$ref": "https://toy.example/buyer#/$defs/named"}, Buyer=BUYER),
    "an anchor in it": toy({"$ref": "https://toy.example/buyer#named"}, Buyer=BUYER),
    "a place within an inline schema that has an $id": toy(BUYER),
    "an anchor of the document": toy(
        {"$ref": "#/components/schemas/B"},
        A={"$anchor": "text", "type": "object"},
        B={"$ref": "#text"},
    ),
    "the meta-schema": toy({"$ref": "https://json-schema.org/draft/2020-12/schema"}),
    "a place whose name is escaped": toy(
        {"$ref": "#/components/schemas/A/$defs/a%25b"}, A={"$defs": {"a%b": {"type": "object"}}}
    ),
    "an item of a list": toy(
        {"$ref": "#/components/schemas/A/allOf/0"}, A={"allOf": [{"type": "object"}]}
    ),
    "an own meta-schema": toy(OWN, Meta=meta_schema(**{VALIDATION: True})),
    "an optional vocabulary that nobody knows": toy(
        OWN, Meta=meta_schema(**{VALIDATION: True, "https://toy.example/vocab": False})
    ),
    "a default that is not valid": toy(
        {"$ref": "#/components/schemas/A"}, A={"type": "object", "default": 1}
    ),
}
REJECTED = {
    "a required vocabulary that nobody knows": (
        toy(OWN, Meta=meta_schema(**{"https://toy.example/vocab": True})),
        "Unknown vocabulary: 'https://toy.example/vocab'",
    ),
    "a meta-schema in no known dialect": (
        toy(OWN, Meta=meta_schema() | {"$schema": "https://toy.example/other"}),
        "'https://toy.example/other' is not supported: read as JSON Schema 2020-12",
    ),
    "an address that nothing has": (toy({"$ref": "https://toy.example/none"}), "toy.example/none"),
    "such an address in a component": (
        toy(True, A={"$ref": "https://toy.example/none"}),
        "cannot resolve reference 'https://toy.example/none'",
    ),
    "a place that is not there": (
        toy(BUYER | {"$defs": {}}),
        "cannot resolve reference '#/\\$defs/named'",
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_a_contract_may_refer_to(tmp_path: Path, name: str) -> None:
    with serving_contract(tmp_path, ACCEPTED[name]) as client:
        assert client.post("/check", json={"pin": "1"}).status_code == 204


def parameter(schema: Any) -> dict[str, Any]:
    return {"name": "q", "in": "query", "schema": schema}


ELSEWHERE: dict[str, tuple[str, dict[str, Any]]] = {
    "an anchor": ("#text", {"$anchor": "text"}),
    "a dynamic anchor": ("#text", {"$dynamicAnchor": "text"}),
    "an address": ("https://toy.example/text", {"$id": "https://toy.example/text"}),
    "an address in short": ("/text", {"$id": "/text"}),
}


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize("place", ["a component", "a part of one", "another operation"])
@pytest.mark.parametrize(("name", "identifier"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_is_identified_anywhere_in_the_document_is_checked(
    tmp_path: Path, name: str, identifier: dict[str, Any], place: str, keyword: str
) -> None:
    text = {**identifier, "type": "string"}
    document = toy({"items": {keyword: name}})
    if place == "another operation":
        other = {"parameters": [parameter({"allOf": [text]})], "responses": {"200": OK}}
        document["paths"]["/other"] = {"get": other}
    else:
        one = text if place == "a component" else {"properties": {"a": text}}
        document["components"]["schemas"] = {"A": one}
    with serving_contract(tmp_path, document) as client:
        assert [client.post("/check", json=[one]).status_code for one in ("a", 1)] == [204, 400]


@pytest.mark.parametrize("name", REJECTED)
def test_a_contract_is_not_served_that_refers_to(tmp_path: Path, name: str) -> None:
    document, reason = REJECTED[name]
    file = tmp_path / "contract.json"
    file.write_bytes(orjson.dumps(document))
    settings = replace(FROZEN, contract=file, strict=True)
    with pytest.raises(ProjectError, match=reason):
        asyncio.run(create_app(settings, url="http://127.0.0.1"))


SECRETS = {
    "by its $id": toy({"$ref": "https://toy.example/buyer"}, Buyer=BUYER),
    "by its anchor": toy({"$ref": "https://toy.example/buyer#named"}, Buyer=BUYER),
    "within itself": toy(BUYER),
    "from within another resource": toy(
        {"$id": "https://toy.example/own", "$ref": "#/components/schemas/Buyer"}, Buyer=BUYER
    ),
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_found_in_a_schema_that_is_referred_to(name: str) -> None:
    assert compile_contract(SECRETS[name]).operations["check"].secrets == {"pin"}
