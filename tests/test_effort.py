"""Validation takes a bounded number of steps, whatever the schema and the value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from invoice_sandbox.openapi.load.effort import Efforts
from invoice_sandbox.openapi.load.reading import ReadContract, read_contract
from invoice_sandbox.openapi.load.text import DocumentError
from tests.scenario_docs import project
from tests.toy import serving_contract

N, M = {"$ref": "#/components/schemas/N"}, {"$ref": "#/components/schemas/M"}
TEXT = {"type": "string"}


def tree(kind: str, *children: Any) -> dict[str, Any]:
    child = {"oneOf": list(children)}
    return {"type": "object", "properties": {"kind": {"const": kind}, "child": child}}


TREES: dict[str, Any] = {"N": tree("n", N, M), "M": tree("m", N, M)}
MEMBERS: dict[str, Any] = {
    f"L{level}": {"anyOf": [{"properties": {"child": one}} for one in [{"$ref": REF}] * 2]}
    for level in range(30)
    for REF in [f"#/components/schemas/L{level + 1}"]
} | {"L30": TEXT}
SEVERAL: dict[str, tuple[dict[str, Any], bool]] = {
    "two kinds of children": (TREES, True),
    "the same in allOf": ({"N": {"properties": {"c": {"allOf": [N, N]}}}}, True),
    "by way of another": ({"N": {"items": {"anyOf": [M, N]}}, "M": {"items": N}}, True),
    "a member by name and by pattern": (
        {"N": {"properties": {"c": N}, "patternProperties": {"c": N}}},
        True,
    ),
    "100 alternatives": ({"N": {"anyOf": [TEXT] * 100}}, True),
    "a list of itself": ({"N": {"type": "array", "items": N}}, False),
    "itself or a text": ({"N": {"items": {"oneOf": [N, TEXT]}}}, False),
    "built upon another": ({"N": {"allOf": [M, {"properties": {"next": N}}]}, "M": TEXT}, False),
    "members side by side": ({"N": {"properties": {"a": N, "b": N}}}, False),
    "a long list of members": (
        {"N": {"properties": {f"a{i}": TEXT for i in range(500)}}},
        False,
    ),
}


def efforts(schemas: dict[str, Any]) -> Efforts:
    return Efforts({"components": {"schemas": schemas}})


@pytest.mark.parametrize(("schemas", "expected"), SEVERAL.values(), ids=SEVERAL)
def test_steps_are_counted_where_they_can_be_many(schemas: dict[str, Any], expected: bool) -> None:
    found = efforts(schemas)
    assert found.is_counted(found.of({"items": N})) == expected
    assert not found.is_counted(found.of(TEXT))


def test_they_are_not_counted_for_our_own_schemas() -> None:
    for contract in (project().contract, project().control):
        found = Efforts(contract.document)
        schemas = contract.document["components"]["schemas"].values()
        assert schemas
        assert not any(found.is_counted(found.of(schema)) for schema in schemas)


COSTS: dict[str, tuple[Any, Any, int]] = {
    "a text": (TEXT, "x", 1),
    "a reference": (M, "x", 2),
    "each item": ({"items": TEXT}, ["x", "y", "z"], 7),
    "a member that is declared": ({"properties": {"a": M}}, {"a": 1}, 4),
    "a member that is not": ({"properties": {"a": M}}, {"b": 1}, 2),
    "every alternative": ({"anyOf": [M, M, TEXT]}, 1, 6),
    "a pattern that is matched by trial and error": ({"pattern": "(?=a)b"}, "x", 501),
    "what the same schema costs twice": ({"allOf": [{"items": M}, {"items": M}]}, [1], 10),
}


@pytest.mark.parametrize(("schema", "value", "steps"), COSTS.values(), ids=COSTS)
def test_each_schema_that_is_applied_is_a_step(schema: Any, value: Any, steps: int) -> None:
    found = efforts({"M": TEXT})
    assert found.steps(found.of(schema), value, 1000) == steps


def doubling(levels: int, keyword: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Schemas of which each applies the next one twice."""
    schemas = {
        f"L{one}": keyword(*[{"$ref": f"#/components/schemas/L{one + 1}"}] * 2)
        for one in range(levels)
    }
    return {**schemas, f"L{levels}": TEXT}


def test_steps_that_double_are_counted_without_taking_them() -> None:
    found = efforts(doubling(200, lambda one, other: {"anyOf": [one, other]}))
    assert found.steps(found.of({"$ref": "#/components/schemas/L0"}), 1, 10) > 2**200


def reading(tmp_path: Path, schemas: dict[str, Any]) -> ReadContract:
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(trees(schemas, {"$ref": "#/components/schemas/L0"})))
    return read_contract(file)


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_a_schema_that_doubles_for_one_value_is_an_error_at_start(
    tmp_path: Path, keyword: str
) -> None:
    schemas = doubling(40, lambda one, other: {keyword: [one, other]})
    with pytest.raises(DocumentError, match=r"openapi.json:1:.*more than 5,000 schemas"):
        reading(tmp_path, schemas)


def test_so_is_one_that_is_looked_at_twice_each_time(tmp_path: Path) -> None:
    schemas = doubling(40, lambda one, _: {**one, "unevaluatedProperties": False})
    with pytest.raises(DocumentError, match="more than 5,000 schemas"):
        reading(tmp_path, schemas)


def test_so_is_one_that_a_member_leads_to(tmp_path: Path) -> None:
    schemas = doubling(40, lambda one, other: {"anyOf": [one, other]})
    file = tmp_path / "openapi.json"
    file.write_text(
        json.dumps(trees(schemas, {"properties": {"a": {"$ref": "#/components/schemas/L0"}}}))
    )
    with pytest.raises(DocumentError, match="more than 5,000 schemas"):
        read_contract(file)


def test_a_long_chain_of_references_is_an_error_at_start(tmp_path: Path) -> None:
    schemas = {f"L{i}": {"$ref": f"#/components/schemas/L{i + 1}"} for i in range(5000)}
    with pytest.raises(DocumentError, match="more than 256 schemas, one after the other"):
        reading(tmp_path, {**schemas, "L5000": TEXT})


def test_ten_doublings_are_no_error(tmp_path: Path) -> None:
    assert reading(tmp_path, doubling(10, lambda one, other: {"anyOf": [one, other]}))


def nested(depth: int, inner: Any) -> Any:
    return inner if depth == 0 else {"child": nested(depth - 1, inner)}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server that takes trees."""
    document = trees({**TREES, **MEMBERS}, N)
    document["paths"] |= trees({}, {"$ref": "#/components/schemas/L0"}, "/members")["paths"]
    document["paths"] |= trees({}, {"items": {"type": "object"}}, "/objects")["paths"]
    with serving_contract(tmp_path_factory.mktemp("trees"), document) as one:
        yield one


def trees(schemas: dict[str, Any], body: Any, path: str = "/trees") -> dict[str, Any]:
    """A document with one operation, which takes ``body``."""
    post = {
        "requestBody": {"content": {"application/json": {"schema": body}}},
        "responses": {"204": {"description": "ok"}},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trees", "version": "1"},
        "paths": {path: {"post": post}},
        "components": {"schemas": schemas},
    }


@pytest.mark.parametrize(
    ("depth", "reported"),
    [
        (2, "must be an object"),
        (9, "child.child must be an object"),
        (16, "the body does not satisfy its schema"),
        (40, "more than 500,000 steps"),
        (200, "more than 500,000 steps"),
    ],
)
def test_a_nested_value_is_rejected_with_the_reason(
    client: httpx.Client, depth: int, reported: str
) -> None:
    assert reported in rejection(client, "/trees", nested(depth, 1))


def test_steps_that_double_with_each_member_are_bounded(client: httpx.Client) -> None:
    assert "more than 500,000 steps" in rejection(client, "/members", nested(30, 1))


def test_of_very_many_errors_the_first_is_reported(client: httpx.Client) -> None:
    message = rejection(client, "/objects", [0] * 100_000)
    assert "[0] must be an object. " in message


def rejection(client: httpx.Client, path: str, body: Any) -> str:
    response = client.post(path, json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_request")
    return str(response.json()["error"]["message"])


def test_a_right_value_is_taken(client: httpx.Client) -> None:
    assert client.post("/trees", json={"kind": "n", "child": {"kind": "m"}}).status_code == 204
