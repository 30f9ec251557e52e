"""What an operation without a handler returns: only what its contract says, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from jsonschema import Draft202012Validator

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.cases import in_turn
from tests.support import FROZEN, serving
from tests.toy import serving_contract

THING: dict[str, Any] = {
    "type": "object",
    "required": ["id", "kind", "amount", "dueDate", "tags"],
    "properties": {
        "id": {"type": "string", "pattern": "^thing_[0-9]{4}$"},
        "kind": {"enum": ["small", "large"]},
        "amount": {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5},
        "dueDate": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2, "uniqueItems": True},
    },
    "additionalProperties": False,
}


def operation(responses: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A contract whose only operation, ``GET /thing``, has these responses."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Toy", "version": "1.0.0"},
        "paths": {"/thing": {"get": {"responses": responses, **members}}},
        "components": {
            "examples": {"Five": {"value": {"n": 5}}},
            "schemas": {"Thing": THING},
            "securitySchemes": {"Key": {"type": "http", "scheme": "bearer"}},
        },
    }


def response(media_type: str = "application/json", **media: Any) -> dict[str, Any]:
    return {"description": "ok", "content": {media_type: media}}


def response_of(folder: Path, document: dict[str, Any], seed: int | None = FROZEN.seed) -> bytes:
    file = folder / "contract.json"
    file.write_bytes(orjson.dumps(document))
    with (
        serving(replace(FROZEN, contract=file, seed=seed)) as running,
        running.client(None) as client,
    ):
        return client.get("/thing").content


REFERRED = {"a": {"$ref": "#/components/examples/Five"}}
ELSEWHERE = {"a": {"externalValue": "https://toy.example/a.json"}}
JSON = "application/json"
RESPONSES: dict[str, tuple[dict[str, Any], tuple[int, str | None, bytes]]] = {
    "an example by reference": ({"200": response(examples=REFERRED)}, (200, JSON, b'{"n":5}')),
    "an example elsewhere is not fetched": (
        {"200": response(schema={"const": 3}, examples=ELSEWHERE)},
        (200, JSON, b"3"),
    ),
    "an example of the schema": (
        {"200": response(schema={"type": "integer", "examples": [77]})},
        (200, JSON, b"77"),
    ),
    "no content": ({"204": {"description": "done"}}, (204, None, b"")),
    "text": ({"200": response("text/plain", example="hello")}, (200, "text/plain", b"hello")),
    "a kind of JSON": (
        {"200": response("application/vnd.toy+json", example=[1])},
        (200, "application/vnd.toy+json", b"[1]"),
    ),
    "success stands behind an error": (
        {"404": response(example=0), "201": response(example=1)},
        (201, JSON, b"1"),
    ),
    "a range of statuses": ({"2XX": response(example=1)}, (200, JSON, b"1")),
    "a default": ({"default": response(example=1)}, (200, JSON, b"1")),
    "nothing but an error": ({"404": response(example=0)}, (404, JSON, b"0")),
}


GENERATED: dict[str, dict[str, Any]] = {
    "an object": THING,
    "a list": {"type": "array", "items": THING, "minItems": 3},
    "by reference": {"$ref": "#/components/schemas/Thing"},
    "one of two": {"oneOf": [{"type": "integer", "minimum": 5}, {"type": "boolean"}]},
    "all of them": {"allOf": [THING, {"properties": {"kind": {"const": "small"}}}]},
    "anything": {},
}


@pytest.fixture(scope="module")
def mock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A server without handlers that has every row of the tables at a path of its own."""
    rows = {name: responses for name, (responses, _) in RESPONSES.items()}
    rows |= {name: {"200": response(schema=schema)} for name, schema in GENERATED.items()}
    document = operation({})
    document["paths"] = {path(name): {"get": {"responses": rows[name]}} for name in rows}
    with serving_contract(tmp_path_factory.mktemp("contract"), document) as client:
        yield client


def path(name: str) -> str:
    return "/" + name.replace(" ", "-")


@in_turn("name", RESPONSES)
def test_the_success_response_is_given_as_the_contract_shows_it(
    mock: httpx.Client, name: str
) -> None:
    response = mock.get(path(name))
    given = (response.status_code, response.headers.get("content-type"), response.content)
    assert given == RESPONSES[name][1]


@in_turn("name", GENERATED)
def test_a_generated_response_is_valid_in_the_eyes_of_another_validator(
    mock: httpx.Client, name: str
) -> None:
    schema = {**GENERATED[name], "components": operation({})["components"]}
    format_checker = Draft202012Validator.FORMAT_CHECKER
    validator = Draft202012Validator(schema, format_checker=format_checker)
    validator.validate(mock.get(path(name)).json())


def test_a_generated_response_is_the_same_for_the_same_seed_and_only_for_it(tmp_path: Path) -> None:
    document = operation({"200": response(schema=THING)})
    assert response_of(tmp_path, document, seed=7) == response_of(tmp_path, document, seed=7)
    assert response_of(tmp_path, document, seed=7) != response_of(tmp_path, document, seed=8)


@pytest.mark.parametrize(
    ("schema", "status"),
    [
        ({"type": "integer", "minimum": 100}, 404),
        ({"type": "string"}, "Status"),
        ({"const": 500}, 500),
    ],
)
def test_the_status_of_a_problem_is_that_of_its_response(
    tmp_path: Path, schema: Any, status: Any
) -> None:
    """RFC 9457, section 3.1.2; unless the schema does not allow it."""
    problem = {"type": "object", "required": ["status"], "properties": {"status": schema}}
    errors = response("application/problem+json", schema=problem)
    document = operation({"200": response(schema={"const": 1}), "4XX": errors})
    with serving_contract(tmp_path, document) as client:
        shown = client.get("/thing", headers={"Prefer": "code=404"})
    assert (shown.status_code, shown.json()) == (404, {"status": status})


def test_the_request_is_checked_all_the_same(tmp_path: Path) -> None:
    limit = {"name": "limit", "in": "query", "schema": {"type": "integer"}, "required": True}
    document = operation({"200": response(example=1)}, parameters=[limit])
    with serving_contract(tmp_path, document) as client:
        assert client.get("/thing").status_code == 400
        assert client.get("/thing?limit=x").status_code == 400
        assert client.get("/thing?limit=1").status_code == 200


def test_who_may_ask_is_what_the_contract_says(tmp_path: Path) -> None:
    closed = operation({"200": response(example=1)}, security=[{"Key": []}])
    with serving_contract(tmp_path, closed) as client:
        assert client.get("/thing", headers={"Authorization": ""}).status_code == 401
        allowed = client.get("/thing", headers={"Authorization": f"Bearer {DEMO_KEY}"})
        assert allowed.status_code == 200


def test_an_error_has_the_envelope_even_where_the_contract_declares_none(tmp_path: Path) -> None:
    with serving_contract(tmp_path, operation({"200": response(example=1)})) as client:
        rejected = client.post("/thing")
    assert (rejected.status_code, rejected.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
    assert rejected.json()["error"]["code"] == "invalid_request"
    assert rejected.headers["x-contract-version"] == "1.0.0"
