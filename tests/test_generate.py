"""Values generated from schemas: always valid, and the same for the same seed."""

import json
import os
import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest

from invoice_sandbox.openapi.operation import Contract, compile_contract
from invoice_sandbox.openapi.responses import Choice, NoResponseError, contract_response
from invoice_sandbox.openapi.schema.compile import Schemas
from invoice_sandbox.openapi.schema.generate import CannotGenerate, generate
from invoice_sandbox.project.loader import default_project, load_project
from tests.cases import in_turn
from tests.keywords import groups, response_contract
from tests.support import little_work

Schema = dict[str, Any] | bool


def obj(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def rooted(schema: Any) -> Any:
    """The schema as a component: its references into itself lead there."""
    if isinstance(schema, list):
        return [rooted(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: ROOT + one[1:] if key == "$ref" else rooted(one) for key, one in schema.items()}


def example_of(schema: Schema, seed: int | str = 1, *, dynamic: bool = False) -> Any:
    schemas = Schemas({"components": {"schemas": {"Root": rooted(schema)}}})
    return generate(schemas, {"$ref": ROOT}, seed, dynamic=dynamic)


ROOT = "#/components/schemas/Root"
INT, TEXT = {"type": "integer"}, {"type": "string"}
PASSWORD = r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[@$!%*?&])[A-Za-z\d@$!%*?&]{8,}$"
NODE = obj(
    {"name": TEXT, "parent": {"$ref": "#/$defs/n"}, "kids": {"items": {"$ref": "#/$defs/n"}}},
    *("name", "kids"),
)
CAT = obj({"kind": {"const": "cat"}, "lives": INT}, "kind", "lives")
DOG = obj({"kind": {"const": "dog"}, "bark": {"type": "boolean"}}, "kind", "bark")
EXPRESSION = {
    "$ref": "#/$defs/e",
    "$defs": {
        "e": {"anyOf": [{"$ref": "#/$defs/sum"}, {"type": "number"}]},
        "sum": obj({"l": {"$ref": "#/$defs/e"}, "r": {"$ref": "#/$defs/e"}}, "l", "r"),
    },
}
US = obj({"country": {"enum": ["US", "CA"]}, "code": TEXT}, "country", "code") | {
    "if": {"properties": {"country": {"const": "US"}}},
    "then": {"properties": {"code": {"pattern": "^[0-9]{5}(-[0-9]{4})?$"}}},
    "else": {"properties": {"code": {"pattern": "^[A-Z][0-9][A-Z] [0-9][A-Z][0-9]$"}}},
}

SCHEMAS: dict[str, Schema] = {
    "true": True,
    "empty": {},
    "several types": {"type": ["integer", "null"]},
    "const": {"const": {"a": [1, None]}},
    "enum within bounds": {"enum": ["a", 1, 5, None], "minimum": 3, "type": "integer"},
    "an invalid default": {"type": "integer", "default": "many", "minimum": 4},
    "invalid examples": {**obj({"a": INT}, "a"), "examples": [{}, {"a": "x"}]},
    "inherited example": {"allOf": [{**obj({}), "examples": [{}]}, {"required": ["x"]}]},
    "minimum": {"type": "integer", "minimum": 10_000_000_000},
    "exclusive bounds of a number": {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "exclusive bounds of an integer": {**INT, "exclusiveMinimum": 4, "exclusiveMaximum": 6},
    "cents": {"type": "number", "multipleOf": 0.01, "minimum": 0.07, "maximum": 0.09},
    "integer multiple of a fraction": {**INT, "multipleOf": 1.5, "minimum": 4},
    "maxLength": {"type": "string", "title": "Invoice number", "maxLength": 3},
    "empty string": {"type": "string", "maxLength": 0},
    "pattern with lengths": {"pattern": "^[A-Z]+$", "minLength": 15, "maxLength": 16, **TEXT},
    "pattern without anchors": {"type": "string", "pattern": "INV", "minLength": 12},
    "two patterns": {**TEXT, "allOf": [{"pattern": "^[a-z0-9]+$"}, {"pattern": "[0-9]$"}]},
    "password": {"type": "string", "pattern": PASSWORD},
    "escapes": {"type": "string", "pattern": r"^\x41\u0042\/\.\t[\]\-\\]\$$"},
    "negative look-ahead": {"type": "string", "pattern": "^(?!0)[0-9]{3}(?<!9)$"},
    "nested repeats": {"type": "string", "pattern": "^((a|b{2,3})+?:){2}(?:x?|y*)$"},
    "iban": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$", "maxLength": 20},
    "format with pattern": {**TEXT, "format": "date", "pattern": "^20[0-9]{2}-"},
    "required without properties": {"type": "object", "required": ["a", "b"]},
    "additionalProperties": {"required": ["z"], "additionalProperties": INT},
    "no additional members": obj({"a": INT, "b": TEXT}, "a", additionalProperties=False),
    "patternProperties": {
        "patternProperties": {"^x-[a-z]+$": INT},
        "additionalProperties": False,
        "minProperties": 3,
    },
    "optional and forbidden": obj({"a": INT, "b": INT, "c": False}),
    "prefixItems": {"prefixItems": [INT, TEXT, {"type": "null"}], "items": False, "minItems": 3},
    "minContains": {"contains": {"const": 7}, "minContains": 3, "maxContains": 3, "minItems": 5},
    "uniqueItems": {"items": {"enum": [1, 2, 3, 4]}, "uniqueItems": True, "minItems": 4},
    "unique dates": {"items": {**TEXT, "format": "date"}, "uniqueItems": True, "minItems": 9},
    "allOf of closed objects": {
        "allOf": [obj({"a": INT, "b": INT}, additionalProperties=False), obj({"c": INT})]
    },
    "unevaluatedProperties": {
        "allOf": [obj({"a": INT}, "a")],
        "properties": {"b": INT},
        "required": ["b"],
        "unevaluatedProperties": False,
    },
    "oneOf by a constant": {"oneOf": [CAT, DOG]},
    "oneOf by presence": obj({"a": INT, "b": INT}, oneOf=[{"required": [n]} for n in "ab"]),
    "oneOf in a list": {"type": "array", "items": {"oneOf": [CAT, DOG]}, "minItems": 6},
    "if then else": US,
    "not a type": {"not": {"type": ["string", "number", "object"]}},
    "not required": obj({"a": INT, "b": INT}, "b", **{"not": {"required": ["a"]}}),
    "not any of": {"type": "string", "not": {"anyOf": [{"const": "text"}, {"maxLength": 5}]}},
    "keywords of other types": {**INT, "pattern": "x", "minItems": 2, "required": ["a"]},
    "not a reference": {"not": {"$ref": "#/$defs/i"}, "$defs": {"i": INT}, "type": ["integer"]}
    | {"type": ["integer", "string"]},
    "reference with siblings": {"$ref": "#/$defs/i", "minimum": 7, "$defs": {"i": INT}},
    "reference to itself among others": {"anyOf": [{"$ref": "#"}, INT]},
    "tree": {"$ref": "#/$defs/n", "$defs": {"n": NODE}},
    "expression": EXPRESSION,
    "linked list from the root": obj({"value": INT, "next": {"$ref": "#"}}, "value"),
}
FORMATS = [
    "date",
    "date-time",
    "time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uri-template",
    "uuid",
    "regex",
    "json-pointer",
    "relative-json-pointer",
]
SCHEMAS |= {f"format {name}": {"type": "string", "format": name} for name in FORMATS}
SCHEMAS |= {
    f"distinct {name}": {
        "items": {"type": "string", "format": name},
        "uniqueItems": True,
        "minItems": 5,
    }
    for name in FORMATS
}


@in_turn("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_a_value_is_valid_whatever_the_seed(schema: Schema) -> None:
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    for seed in range(5):
        value = example_of(schema, seed)
        validator.validate(json.loads(json.dumps(value, allow_nan=False)))


@pytest.mark.process
def test_the_same_seed_gives_the_same_value_in_every_process() -> None:
    code = (
        "import json; from tests.test_generate import SCHEMAS, example_of;"
        "print(json.dumps([example_of(each, 'seed') for each in SCHEMAS.values()]))"
    )
    made = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        check=True,
    ).stdout
    assert json.loads(made) == [example_of(each, "seed") for each in SCHEMAS.values()]


@in_turn(
    ("schema", "problem"),
    [
        pytest.param(False, "the value: its keywords exclude each other", id="false"),
        pytest.param({**INT, "minimum": 5, "maximum": 4}, "no number was found", id="bounds"),
        pytest.param(
            obj({"a": {**TEXT, "pattern": "^a$", "minLength": 2}}, "a"),
            "/a: no text was found for pattern",
            id="pattern against length",
        ),
        pytest.param({"allOf": [INT, TEXT]}, "its keywords exclude", id="types"),
        pytest.param(obj({"a": False}, "a"), "/a: its keywords exclude", id="forbidden member"),
        pytest.param(obj({"a": {"$ref": "#"}}, "a"), "leads back to itself", id="endless"),
        pytest.param(
            obj({n: {"anyOf": [{"$ref": "#"}] * 4} for n in "abc"}, *"abc"),
            "leads back to itself",
            id="endless tree",
        ),
        pytest.param(
            {"items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3, "type": "array"},
            "does not satisfy 'uniqueItems'",
            id="too few different items",
        ),
        pytest.param(
            {"type": "object", "minProperties": 3, "additionalProperties": False},
            "must have at least 3 members",
            id="no room for members",
        ),
        pytest.param({"oneOf": [TEXT, TEXT]}, "more than one alternative", id="oneOf with a twin"),
        pytest.param(
            {"type": "array", "minItems": 10**18},
            "too many members and items",
            id="a list without end",
        ),
        pytest.param({**TEXT, "minLength": 10**18}, "a text of more than", id="a text without end"),
        pytest.param({**TEXT, "pattern": r"^\p{Script=Han}$"}, "for the pattern", id="a script"),
    ],
)
def test_an_impossible_schema_is_rejected_with_little_work_with_place_and_advice(
    schema: Schema, problem: str
) -> None:
    with little_work(2), pytest.raises(CannotGenerate) as caught:
        example_of(schema)
    assert problem in str(caught.value)
    assert "add an example" in str(caught.value)


def test_a_pattern_that_explodes_is_rejected_with_little_work() -> None:
    schema = {"type": "string", "pattern": "^((a{900}){900}){900}$"}
    with little_work(2), pytest.raises(CannotGenerate, match="is not a"):
        generate(Schemas({}), schema, 1, problems=lambda _: ())


@in_turn(
    ("schema", "value"),
    [
        pytest.param({"type": "string", "examples": ["INV-1"]}, "INV-1", id="examples"),
        pytest.param({"type": "string", "example": "INV-2"}, "INV-2", id="example"),
        pytest.param({"type": "integer", "default": 30}, 30, id="default"),
        pytest.param(
            {"$ref": "#/$defs/i", "$defs": {"i": {**INT, "default": 3}}}, 3, id="reference"
        ),
        pytest.param({"type": "string", "title": "Debtor"}, "Debtor", id="title"),
        pytest.param({"type": "string", "format": "date"}, "2026-11-23", id="date"),
        pytest.param(
            {"type": "string", "format": "date-time"}, "2026-11-23T09:30:00Z", id="instant"
        ),
        pytest.param(obj({"debtorName": TEXT}), {"debtorName": "Debtor name"}, id="member name"),
        pytest.param({"type": ["null", "string"]}, "text", id="null comes last"),
        pytest.param({"oneOf": [{"type": "null"}, TEXT]}, "text", id="no null if possible"),
    ],
)
def test_a_readable_value_is_preferred(schema: Schema, value: Any) -> None:
    assert example_of(schema) == value


def test_what_a_schema_shows_is_left_out_when_values_are_invented() -> None:
    shown = obj({"a": {**INT, "example": 7_000}, "b": {**TEXT, "default": "shown"}}, "a", "b")
    invented = example_of(shown, dynamic=True)
    assert example_of(shown) == {"a": 7_000, "b": "shown"}
    assert invented.keys() == {"a", "b"}
    assert not {7_000, "shown"} & {*invented.values()}


def test_a_value_is_generated_for_nearly_every_schema_of_the_official_suite() -> None:
    """docs/any-document.md has these numbers."""
    possible = [one for one in groups() if any(case["valid"] for case in one.cases)]
    contract = compile_contract(response_contract(possible))
    by_path = {one.path: one for one in contract.operations.values()}
    missing = []
    for group in possible:
        operation = by_path[group.path]
        try:
            body = contract_response(contract, operation, 1).body
        except NoResponseError:
            missing.append(group.id)
            continue
        checker = operation.responses["200"].content["application/json"]
        assert checker is not None
        assert checker.is_valid(json.loads(json.dumps(body)))
    references = ["dynamicRef_15", "dynamicRef_16", "dynamicRef_17"]
    assert (missing, len(possible)) == ([*references, "not_9", "unevaluatedItems_13"], 346)


@pytest.fixture(scope="module")
def served() -> list[Contract]:
    """The contract of the project and the one of the control API."""
    project = load_project(default_project())
    return [project.contract, project.control]


def test_every_response_of_the_served_contracts_can_be_generated(served: list[Contract]) -> None:
    generated = 0
    for contract in served:
        for operation in contract.operations.values():
            for status in filter(str.isdigit, operation.responses):
                choice = Choice(int(status), dynamic=True)
                response = contract_response(contract, operation, 1, choice)
                declared = operation.responses[status].content.get(response.media_type)
                assert declared is None or declared.is_valid(response.body), operation.id
                generated += declared is not None
    assert generated > 150
