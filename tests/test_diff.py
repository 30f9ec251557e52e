"""What another version of a contract changes, and whether that breaks a client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from invoice_sandbox.cli import main
from invoice_sandbox.openapi.diff import Difference, differences
from tests.cases import in_turn

INT, TEXT = {"type": "integer"}, {"type": "string"}
CARD = {"type": "object", "properties": {"card": TEXT}, "required": ["card"]}
IBAN = {"type": "object", "properties": {"iban": TEXT}, "required": ["iban"]}


def obj(required: str = "", **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split()}


def document(schema: Any, *, request: bool, **components: Any) -> dict[str, Any]:
    """A contract whose only schema is that of a request body, or of a response."""
    content = {"content": {"application/json": {"schema": schema}}}
    operation: dict[str, Any] = {"operationId": "pay", "responses": {"200": {"description": "ok"}}}
    if request:
        operation["requestBody"] = content
    else:
        operation["responses"]["200"] |= content
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pay", "version": "1"},
        "paths": {"/pay": {"post": operation}},
        "components": {"schemas": components},
    }


def changes(old: Any, new: Any, *, request: bool, **components: Any) -> list[Difference]:
    both = (document(one, request=request, **components) for one in (old, new))
    return list(differences(*both))


# old, new, whether it breaks a request, whether it breaks a response, what is reported
SAFE, BREAKS = False, True
TABLE: Mapping[str, tuple[Any, Any, bool, bool, str]] = {
    "maxLength widened": (
        {**TEXT, "maxLength": 5},
        {**TEXT, "maxLength": 8},
        *(SAFE, BREAKS, "the value changed: maxLength 5 → 8"),
    ),
    "maxLength narrowed": (
        obj(a={**TEXT, "maxLength": 8}),
        obj(a={**TEXT, "maxLength": 5}),
        *(BREAKS, SAFE, "member a changed: maxLength 8 → 5"),
    ),
    "maxLength dropped": (
        {**TEXT, "maxLength": 8},
        TEXT,
        *(SAFE, BREAKS, "the value changed: maxLength 8 → none"),
    ),
    "enum narrowed": (
        {"enum": ["A", "B"]},
        {"enum": ["A"]},
        *(BREAKS, SAFE, "the value changed: enum without B"),
    ),
    "enum widened": (
        {"enum": ["A"]},
        {"enum": ["B", "A"]},
        *(SAFE, BREAKS, "the value changed: enum with B"),
    ),
    "another type": (
        obj(a=INT),
        obj(a=TEXT),
        *(BREAKS, BREAKS, "member a changed: type integer → string"),
    ),
    "null allowed": (
        obj(a=TEXT),
        obj(a={"type": ["string", "null"]}),
        *(SAFE, BREAKS, "member a changed: type string → string or null"),
    ),
    "integer to number": (INT, {"type": "number"}, SAFE, BREAKS, "type integer → number"),
    "alternative added": (
        {"anyOf": [CARD]},
        {"anyOf": [CARD, IBAN]},
        *(SAFE, BREAKS, "the value changed: anyOf"),
    ),
    "member of an alternative added": (
        {"oneOf": [CARD, IBAN]},
        {"oneOf": [{**CARD, "properties": {"card": TEXT, "cvc": INT}}, IBAN]},
        *(SAFE, SAFE, "the value changed: oneOf"),
    ),
    "a pattern, which nobody can compare": (
        {**TEXT, "pattern": "^a"},
        {**TEXT, "pattern": "^[ab]"},
        *(BREAKS, BREAKS, "the value changed: pattern ^a → ^[ab]"),
    ),
    "optional member added": (obj(), obj(a=INT), SAFE, SAFE, "member a is new"),
    "required member added": (obj(), obj("a", a=INT), BREAKS, SAFE, "required member a is new"),
    "member added to a closed object": (
        {**obj(), "additionalProperties": False},
        {**obj(a=INT), "additionalProperties": False},
        *(SAFE, BREAKS, "member a is new"),
    ),
    "member gone": (obj(a=INT), obj(), SAFE, BREAKS, "member a is gone"),
    "member gone from a closed object": (
        {**obj(a=INT), "additionalProperties": False},
        {**obj(), "additionalProperties": False},
        *(BREAKS, BREAKS, "member a is gone"),
    ),
    "member now required": (obj(a=INT), obj("a", a=INT), BREAKS, SAFE, "a is now required"),
    "member no longer required": (
        obj("a", a=INT),
        obj(a=INT),
        *(SAFE, BREAKS, "a is no longer required"),
    ),
    "items of a list": (
        {"type": "array", "items": INT},
        {"type": "array", "items": TEXT},
        *(BREAKS, BREAKS, "member [] changed: type integer → string"),
    ),
}


@in_turn("name", TABLE)
@in_turn("request_side", [True, False], ids=["request", "response"])
def test_a_request_may_allow_more_and_a_response_less(name: str, request_side: bool) -> None:
    old, new, breaks_request, breaks_response, text = TABLE[name]
    (found,) = changes(old, new, request=request_side)
    assert found.text.endswith(text)
    assert found.breaking == (breaks_request if request_side else breaks_response)


@in_turn(
    ("old", "new"),
    [
        pytest.param({"anyOf": [INT, TEXT]}, {"anyOf": [TEXT, INT]}, id="alternatives reordered"),
        pytest.param({"enum": ["A", "B"]}, {"enum": ["B", "A"]}, id="enum reordered"),
        pytest.param({"const": 1}, {"enum": [1]}, id="a constant as an enum"),
        pytest.param({"anyOf": [INT, TEXT]}, {"type": ["string", "integer"]}, id="list of types"),
        pytest.param(obj(a=INT), {"allOf": [obj(a=INT)]}, id="moved into allOf"),
        pytest.param(obj(a=INT), {"$ref": "#/components/schemas/A"}, id="moved into a component"),
        pytest.param(TEXT, {**TEXT, "description": "d", "x-a": 1, "example": "e"}, id="prose"),
    ],
)
def test_another_spelling_of_the_same_schema_is_no_difference(old: Any, new: Any) -> None:
    for request in (True, False):
        assert changes(old, new, request=request, A=obj(a=INT)) == []


def test_a_change_is_found_behind_references_at_its_own_place() -> None:
    old, new = (
        document(
            {"$ref": "#/components/schemas/Pay"},
            request=True,
            Pay={"allOf": [{"$ref": "#/components/schemas/Base"}]},
            Base=obj(amount={"type": type_}),
        )
        for type_ in ("integer", "string")
    )
    (found,) = differences(old, new)
    assert found.pointer == ("components", "schemas", "Base", "properties", "amount")


def test_a_schema_that_contains_itself_is_compared_once() -> None:
    node = {"$ref": "#/components/schemas/Node"}
    old, new = (
        document(node, request=True, Node=obj(v=one, kids={"type": "array", "items": node}))
        for one in (INT, {"type": "number"})
    )
    (found,) = differences(old, new)
    assert (found.breaking, found.text) == (
        False,
        "pay, request body: member v changed: type integer → number",
    )


@pytest.mark.parametrize(
    ("old", "new", "breaking"),
    [
        pytest.param([{"key": []}], [{"key": []}, {"token": []}], False, id="another way"),
        pytest.param([{"key": []}, {"token": []}], [{"token": []}, {"key": []}], None, id="order"),
        pytest.param([{"key": []}, {"token": []}], [{"token": []}], True, id="one way less"),
    ],
)
def test_a_further_way_to_authenticate_breaks_nobody(
    old: Any, new: Any, breaking: bool | None
) -> None:
    both = [document(True, request=True) for _ in range(2)]
    for one, security in zip(both, (old, new), strict=True):
        one["security"] = security
    found = [one.breaking for one in differences(*both)]
    assert found == ([] if breaking is None else [breaking])


def test_the_name_of_a_header_is_the_same_in_other_capitals() -> None:
    both = [document(True, request=True) for _ in range(2)]
    for one, (name, of_operation) in zip(both, (("X-T", TEXT), ("x-t", INT)), strict=True):
        parameters = [{"name": name, "in": "header", "schema": of_operation}]
        one["paths"]["/pay"]["post"]["parameters"] = parameters
        one["paths"]["/pay"]["parameters"] = [{"name": "x-T", "in": "header", "schema": TEXT}]
    (found,) = differences(*both)
    assert found.text == "pay, parameter x-t: the value changed: type string → integer"
    both[0]["paths"]["/pay"]["post"]["parameters"] = []
    both[0]["paths"]["/pay"]["parameters"] = []
    (found,) = differences(*both)
    assert found.text == "pay: header parameter 'x-t' is new"


def test_the_command_prints_the_differences_as_json(tmp_path: Path) -> None:
    file = tmp_path / "next.json"
    file.write_text(json.dumps(document(TEXT, request=True)))
    ran = CliRunner().invoke(main, ["contract", "--check", str(file), "--json"])
    report = json.loads(ran.stdout)
    breaking = [one for one in report["differences"] if one["breaking"]]
    assert (ran.exit_code, report["breaking"]) == (1, len(breaking))
    assert breaking[0].keys() == {"breaking", "place", "text"}
