"""Responses made from schemas that refer far and wide; readOnly, writeOnly, and alternatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import orjson
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from invoice_sandbox.openapi.operation import Contract, compile_contract
from invoice_sandbox.openapi.responses import contract_response
from invoice_sandbox.project.loader import load_contract
from tests.cases import in_turn
from tests.support import FROZEN, Running, serving

TEXT = {"type": "string"}
SEEDS = range(3)
BASE = "https://document.example/"


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def obj(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def document(schema: dict[str, Any], **components: Any) -> dict[str, Any]:
    """A contract whose only operation, ``POST /thing``, takes and returns ``schema``."""
    content = {"application/json": {"schema": schema}}
    operation = {
        "operationId": "makeThing",
        "requestBody": {"content": content},
        "responses": {"200": {"description": "ok", "content": content}},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Toy", "version": "1.0.0"},
        "paths": {"/thing": {"post": operation}},
        "components": {"schemas": components},
    }


def responses(whole: dict[str, Any]) -> Iterator[Any]:
    """What the operation returns, for several seeds."""
    contract: Contract = compile_contract(whole)
    for seed in SEEDS:
        yield contract_response(contract, contract.operations["makeThing"], seed).body


def is_valid(whole: dict[str, Any], value: Any) -> bool:
    """The judgement of another validator, which reads the document for itself."""
    resource = DRAFT202012.create_resource({"$id": BASE, **whole})
    registry: Registry[Any] = Registry().with_resource(BASE, resource)
    for inner in whole["components"]["schemas"].values():
        if "$id" in inner:
            registry = registry.with_resource(inner["$id"], DRAFT202012.create_resource(inner))
    schema = whole["paths"]["/thing"]["post"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    name = schema.get("$ref", "").rpartition("/")[2]
    own = whole["components"]["schemas"].get(name, {}).get("$id")
    absolute = {"$ref": own} if own else with_base(schema)
    return bool(Draft202012Validator(absolute, registry=registry).is_valid(value))


def with_base(value: Any) -> Any:
    """A schema whose references are to the document, for who does not stand in it."""
    if isinstance(value, list):
        return [with_base(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: BASE + child if key == "$ref" else with_base(child) for key, child in value.items()
    }


TREE = {
    "$id": "https://schemas.example/tree",
    "$dynamicAnchor": "node",
    **obj({"data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}}),
}
STRICT_TREE = {
    "$id": "https://schemas.example/strict-tree",
    "$dynamicAnchor": "node",
    "$ref": "tree",
    "required": ["data", "children"],
    "unevaluatedProperties": False,
}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "a list that leads back to itself": document(
        ref("Node"), Node=obj({"name": TEXT, "next": ref("Node")}, "name")
    ),
    "two that need each other": document(
        ref("A"),
        A=obj({"b": {"type": "array", "items": ref("B")}}, "b"),
        B=obj({"a": ref("A")}, "a"),
    ),
    "a reference into a component": document(
        {"$ref": "#/components/schemas/Invoice/properties/amount"},
        Invoice=obj({"amount": {"type": "integer", "minimum": 5}}),
    ),
    "a reference to an anchor": document(
        ref("Order"),
        Order={
            "$id": "https://schemas.example/order",
            **obj({"line": {"$ref": "#line"}}, "line"),
            "$defs": {"x": {"$anchor": "line", "type": "integer", "minimum": 3}},
        },
    ),
    "a tree whose nodes are those of the tree": document(ref("Tree"), Tree=TREE),
    "a tree that another makes strict": document(ref("Strict"), Strict=STRICT_TREE, Tree=TREE),
}


@in_turn("whole", DOCUMENTS.values(), ids=DOCUMENTS)
def test_an_response_is_valid_wherever_its_schema_leads(whole: dict[str, Any]) -> None:
    for value in responses(whole):
        assert is_valid(whole, value), value


def test_the_strict_tree_is_strict_at_every_level() -> None:
    """The other validator can distinguish them, so the test above means something."""
    whole = document(ref("Strict"), Strict=STRICT_TREE, Tree=TREE)
    assert is_valid(whole, {"data": 1, "children": [{"data": 2, "children": []}]})
    assert not is_valid(whole, {"data": 1, "children": [{"data": 2}]})


# --- discriminators

CAT = obj({"petType": TEXT, "lives": {"type": "integer"}}, "petType", "lives")
DOG = obj({"petType": TEXT, "bark": {"type": "boolean"}}, "petType", "bark")
EITHER = {"oneOf": [ref("Cat"), ref("Dog")]}


def by(**discriminator: Any) -> dict[str, Any]:
    return {"discriminator": {"propertyName": "petType", **discriminator}}


@pytest.mark.parametrize(
    ("mapping", "names"),
    [
        ({}, ("Cat", "Dog")),
        ({"mapping": {"meow": "#/components/schemas/Cat", "woof": "Dog"}}, ("meow", "woof")),
        ({"mapping": {"meow": "Cat"}}, ("meow", "Dog")),
    ],
)
def test_the_member_that_distinguishes_alternatives_is_right(
    mapping: dict[str, Any], names: tuple[str, str]
) -> None:
    for first, second in (("Cat", "Dog"), ("Dog", "Cat")):
        either = {"oneOf": [ref(first), ref(second)], **by(**mapping)}
        whole = document(either, Cat=CAT, Dog=DOG)
        name = names[0] if first == "Cat" else names[1]
        for value in responses(whole):
            assert is_valid(whole, value)
            assert value.keys() == {"petType", "lives" if first == "Cat" else "bark"}
            assert value["petType"] == name


# --- readOnly and writeOnly

ACCOUNT = obj(
    {
        "id": {**TEXT, "readOnly": True},
        "owner": ref("Owner"),
        "secret": ref("Secret"),
    },
    *("id", "owner", "secret"),
    additionalProperties=False,
)
OWNER = {
    "allOf": [obj({"number": {"type": "integer", "readOnly": True}, "name": TEXT})],
    "required": ["number", "name"],
}
SECRET = {**TEXT, "minLength": 8, "writeOnly": True}
ACCOUNTS = document(ref("Account"), Account=ACCOUNT, Owner=OWNER, Secret=SECRET)


def test_what_only_clients_send_is_never_returned() -> None:
    for value in responses(ACCOUNTS):
        assert value.keys() == {"id", "owner"}
        assert value["owner"].keys() >= {"number", "name"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server that takes accounts, pets, and returns them."""
    file = tmp_path_factory.mktemp("made") / "contract.json"
    whole = document(ref("Account"), Account=ACCOUNT, Owner=OWNER, Secret=SECRET, Cat=CAT, Dog=DOG)
    pets = document({**EITHER, **by()})["paths"]["/thing"]["post"]
    whole["paths"]["/pets"] = {"post": {**pets, "operationId": "makePet"}}
    file.write_bytes(orjson.dumps(whole))
    with serving(replace(FROZEN, contract=file)) as running, running.client() as one:
        yield one


def test_generated_values_are_those_of_the_seed_of_the_workspace(tmp_path: Path) -> None:
    file = tmp_path / "contract.json"
    file.write_bytes(
        orjson.dumps(document(obj({"id": {"type": "string", "format": "uuid"}}, "id")))
    )

    def made(running: Running, key: str) -> Any:
        with running.client(key) as one:
            return one.post("/thing", json={"id": str(UUID(int=1))}).json()

    with serving(replace(FROZEN, contract=file)) as running:
        found = [made(running, running.new_workspace(seed)) for seed in (1, 2, 1)]
    assert found[0] == found[2] != found[1]


def rejection(response: httpx.Response) -> str:
    return str(response.json()["error"]["message"])


def test_a_request_needs_nothing_that_is_the_servers(client: httpx.Client) -> None:
    sent = {"owner": {"name": "Ada"}, "secret": "long enough"}
    response = client.post("/thing", json=sent)
    assert response.status_code == 200
    assert "secret" not in response.json()
    assert "id" in response.json()


def test_what_is_the_clients_is_asked_of_it(client: httpx.Client) -> None:
    response = client.post("/thing", json={"owner": {"name": "Ada"}})
    assert (response.status_code, "secret is required" in rejection(response)) == (400, True)
    response = client.post("/thing", json={"owner": {}, "secret": "long enough"})
    assert (response.status_code, "owner.name is required" in rejection(response)) == (400, True)


def test_what_is_the_servers_may_be_sent_and_is_checked(client: httpx.Client) -> None:
    sent = {"id": "1", "owner": {"name": "Ada", "number": 1}, "secret": "long enough"}
    assert client.post("/thing", json=sent).status_code == 200
    response = client.post("/thing", json={**sent, "id": 1})
    assert (response.status_code, "id must be a string" in rejection(response)) == (400, True)


@pytest.mark.parametrize(
    ("sent", "reported"),
    [
        ({"petType": "Cat", "lives": "nine"}, "lives must be a whole number"),
        ({"petType": "Dog", "bark": 1}, "bark must be true or false"),
        ({}, "petType and lives are required"),
        (7, "the body must be an object"),
    ],
)
def test_an_error_speaks_of_the_alternative_that_was_meant(
    client: httpx.Client, sent: Any, reported: str
) -> None:
    response = client.post("/pets", json=sent)
    assert response.status_code == 400
    assert reported in rejection(response)


def test_an_example_has_up_to_twelve_members_that_are_not_required() -> None:
    names = [f"m{number}" for number in range(20)]
    schema = {"type": "object", "properties": dict.fromkeys(names, TEXT), "required": names[15:17]}
    assert all({*one} == {*names[:12], *names[15:17]} for one in responses(document(schema)))


def test_what_cannot_be_generated_is_one_line_at_the_start_and_501(tmp_path: Path) -> None:
    code = {"type": "string", "pattern": "^a$", "minLength": 2}
    file = tmp_path / "contract.json"
    file.write_bytes(orjson.dumps(document(obj({"lines": obj({"code": code}, "code")}, "lines"))))
    (line,) = load_contract(file).warnings
    assert "makeThing, response 200: /lines/code: no text was found for pattern" in line
    with serving(replace(FROZEN, contract=file)) as running, running.client() as one:
        response = one.post("/thing")
        assert response.status_code == 501
        assert "/lines/code" in rejection(response)
