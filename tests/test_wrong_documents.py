"""Whatever is wrong with a document: it is served with warnings or rejected, and no operation that
needs a credential is served without one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from invoice_sandbox.base.errors import UserError
from invoice_sandbox.project.loader import load_contract

PET: dict[str, Any] = {
    "type": "object",
    "required": ["id", "name"],
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "enum": ["a", "b"]},
        "owner": {"oneOf": [{"$ref": "#/components/schemas/Owner"}, {"type": "string"}]},
    },
}
CONTENT: dict[str, Any] = {
    "application/json": {
        "schema": {"$ref": "#/components/schemas/Pet"},
        "examples": {"one": {"value": {"id": 1, "name": "a"}}},
    },
    "application/x-www-form-urlencoded": {
        "schema": {"type": "object"},
        "encoding": {"a": {"contentType": "text/plain", "headers": {"X-A": {"schema": {}}}}},
    },
}
ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
RESPONSES: dict[str, Any] = {
    "200": {
        "description": "ok",
        "headers": {"X-Total": {"schema": {"type": "integer"}, "example": 5}},
        "content": CONTENT,
        "links": {"next": {"operationId": "getPet", "parameters": {"id": "$response.body#/id"}}},
    },
    "default": {"$ref": "#/components/responses/Error"},
}
SECURED: dict[str, Any] = {"key": []}
BASE: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1", "license": {"name": "MIT"}},
    "servers": [{"url": "https://{v}.example/api", "variables": {"v": {"default": "v1"}}}],
    "security": [SECURED],
    "tags": [{"name": "pets"}],
    "paths": {
        "/pets": {
            "parameters": [{"$ref": "#/components/parameters/Limit"}],
            "get": {"operationId": "listPets", "tags": ["pets"], "responses": RESPONSES},
            "post": {
                "requestBody": {"required": True, "content": CONTENT},
                "responses": RESPONSES,
                "security": [{"oauth": ["write"], "key": []}],
                "callbacks": {"done": {"{$request.body#/url}": {"post": {"responses": {}}}}},
            },
        },
        "/pets/{id}": {
            "parameters": [ID],
            "get": {"operationId": "getPet", "responses": RESPONSES},
            "delete": {"responses": {"204": {"description": "gone"}}},
        },
    },
    "components": {
        "schemas": {"Pet": PET, "Owner": {"allOf": [{"$ref": "#/components/schemas/Pet"}]}},
        "responses": {"Error": {"description": "no", "content": {"text/plain": {}}}},
        "parameters": {"Limit": {"name": "limit", "in": "query", "schema": {"type": "integer"}}},
        "securitySchemes": {
            "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
            "oauth": {
                "type": "oauth2",
                "flows": {
                    "clientCredentials": {
                        "tokenUrl": "https://id.example/token",
                        "scopes": {"write": ""},
                    }
                },
            },
        },
    },
}

WRONG: list[Any] = [
    *(None, 5, -1.5, 10**30, True, "", "x", "é", "$ref", [], {}, [None], [5], ["a", "a"]),
    *(
        {"$ref": one}
        for one in ("#/nowhere", "", "#", 5, "http://a.example/b", "#/paths", "b.yaml")
    ),
    *({"type": "strong"}, {"type": []}, {"": ""}, {"x-a": None}, {"allOf": 5}, {"enum": []}),
    *({"pattern": "("}, {"$id": "a b"}, {"oneOf": [{"$ref": "#/components/schemas"}]}),
]
NAMES = ["", "{", "/{a}/{a}", "a/b", "~1", "$ref", "5", "x-a", "X Y"]
Place = tuple[str | int, ...]


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    if here:
        yield here
    every = value if isinstance(value, list) else ()
    for key, one in value.items() if isinstance(value, dict) else enumerate(every):
        yield from places(one, (*here, key))


def at(document: Any, place: Place) -> Any:
    for step in place:
        document = document[step]
    return document


def with_a_fault(document: Any, draw: Any) -> Place:
    """Change one place of the document; which."""
    place: Place = draw(st.sampled_from([*places(document)]))
    around, key = at(document, place[:-1]), place[-1]
    match draw(st.sampled_from(["replace", "remove", "rename", "copy", "add"])):
        case "remove":
            del around[key]
        case "rename" if isinstance(around, dict):
            name = draw(st.sampled_from([*NAMES, str(key).upper(), f"{key}x"]))
            around[name] = around.pop(key)
        case "copy":
            around[key] = deepcopy(at(document, draw(st.sampled_from([*places(document)]))))
        case "add" if isinstance(around[key], dict):
            name = draw(st.sampled_from([*NAMES, "type", "schema", "content", "$dynamicRef"]))
            around[key][name] = deepcopy(draw(st.sampled_from(WRONG)))
        case _:
            around[key] = deepcopy(draw(st.sampled_from(WRONG)))
    return place


def may_let_everybody_in(place: Place) -> bool:
    """Whether the place says what is required, or the name of a scheme."""
    schemes = ("components", "securitySchemes", place[-1])
    return "security" in place or place == schemes[: len(place)]


@settings(
    derandomize=True,
    max_examples=250,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.data())
def test_a_wrong_document_is_served_or_rejected_and_stays_secured(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    document = json.loads(json.dumps(BASE))  # in which no part stands twice
    document["openapi"] = data.draw(st.sampled_from(["3.0.3", "3.1.0"]))
    faults = [with_a_fault(document, data.draw) for _ in range(data.draw(st.integers(1, 3)))]
    file = tmp_path_factory.getbasetemp() / "wrong.json"
    file.write_text(json.dumps(document))
    stateful, project = data.draw(st.booleans()), None
    with suppress(UserError):
        project = load_contract(file, stateful=stateful)
    if project is not None and not any(map(may_let_everybody_in, faults)):
        assert not any(one.security.optional for one in project.contract.operations.values())
