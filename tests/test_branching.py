"""Schemas that lead back into themselves in several ways: bounded effort, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from invoice_sandbox.openapi.schema.branching import MAX_EXPLAINED, MAX_LEVELS, Branching, levels
from tests.scenario_docs import project
from tests.support import little_work
from tests.toy import serving_contract

N, M = {"$ref": "#/components/schemas/N"}, {"$ref": "#/components/schemas/M"}
TEXT = {"type": "string"}


def tree(kind: str, *children: Any) -> dict[str, Any]:
    child = {"oneOf": list(children)}
    return {"type": "object", "properties": {"kind": {"const": kind}, "child": child}}


TREES: dict[str, Any] = {"N": tree("n", N, M), "M": tree("m", N, M)}
SEVERAL: dict[str, tuple[dict[str, Any], bool]] = {
    "two kinds of children": (TREES, True),
    "the same in allOf": ({"N": {"properties": {"c": {"allOf": [N, N]}}}}, True),
    "by way of another": ({"N": {"items": {"anyOf": [M, N]}}, "M": {"items": N}}, True),
    "a list of itself": ({"N": {"type": "array", "items": N}}, False),
    "itself or a text": ({"N": {"items": {"oneOf": [N, TEXT]}}}, False),
    "built upon another": ({"N": {"allOf": [M, {"properties": {"next": N}}]}, "M": TEXT}, False),
    "members side by side": ({"N": {"properties": {"a": N, "b": N}}}, False),
}


@pytest.mark.parametrize(("schemas", "expected"), SEVERAL.values(), ids=SEVERAL)
def test_what_branches_into_itself_is_known(schemas: dict[str, Any], expected: bool) -> None:
    assert Branching(schemas).is_in({"items": N}) == expected
    assert not Branching(schemas).is_in(TEXT)


def test_no_schema_of_ours_does() -> None:
    for contract in (project().contract, project().control):
        components = contract.document["components"]["schemas"]
        branching = Branching(components)
        assert components
        assert not any(branching.is_in(schema) for schema in components.values())


@pytest.mark.parametrize(
    ("value", "expected"), [(1, 1), ([], 1), ({"a": [1]}, 3), ([[[[1]]]], 4), ([1, [2]], 3)]
)
def test_levels_are_counted_to_a_bound(value: Any, expected: int) -> None:
    assert levels(value, 3) == min(expected, 4)


def nested(depth: int, inner: Any) -> Any:
    return inner if depth == 0 else {"child": nested(depth - 1, inner)}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server that takes trees."""
    post = {
        "requestBody": {"content": {"application/json": {"schema": N}}},
        "responses": {"204": {"description": "ok"}},
    }
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Trees", "version": "1"},
        "paths": {"/trees": {"post": post}},
        "components": {"schemas": TREES},
    }
    with serving_contract(tmp_path_factory.mktemp("trees"), document) as one:
        yield one


@pytest.mark.parametrize(
    ("depth", "told"),
    [
        (2, "must be an object"),
        (MAX_EXPLAINED, "does not satisfy its schema"),
        (MAX_LEVELS - 1, "does not satisfy its schema"),
        (MAX_LEVELS, "more than 16 levels"),
        (200, "more than 16 levels"),
    ],
)
def test_a_nested_value_is_validated_with_little_work(
    client: httpx.Client, depth: int, told: str
) -> None:
    with little_work():
        answer = client.post("/trees", json=nested(depth, 1))
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
    assert told in answer.json()["error"]["message"]


def test_a_right_value_is_taken(client: httpx.Client) -> None:
    assert client.post("/trees", json={"kind": "n", "child": {"kind": "m"}}).status_code == 204
