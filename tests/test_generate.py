"""Values generated from schemas: always valid, and the same for the same seed."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest

from invoice_sandbox.openapi.operation import Contract, compile_contract
from invoice_sandbox.openapi.responses import contract_response
from invoice_sandbox.openapi.schema.compile import Schemas
from invoice_sandbox.openapi.schema.evident import Evident
from invoice_sandbox.openapi.schema.sample import CannotGenerate, generate
from tests.keywords.contracts import path, response_contract
from tests.keywords.suite import Group, groups
from tests.support import little_work

Schema = dict[str, Any] | bool


def obj(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **more}


def resolver(document: Schema) -> Callable[[str], Any]:
    def resolve(reference: str) -> Any:
        found: Any = document
        for step in reference.removeprefix("#").split("/")[1:]:
            found = found[step]
        return found

    return resolve


def example_of(schema: Schema, seed: int | str = 1) -> Any:
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    return generate(schema, resolve=resolver(schema), is_valid=validator.is_valid, seed=seed)


INT, TEXT = {"type": "integer"}, {"type": "string"}
PASSWORD = r"^(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[@$!%*?&])[A-Za-z\d@$!%*?&]{8,}$"
NODE = obj(
    {"name": TEXT, "parent": {"$ref": "#/$defs/n"}, "kids": {"items": {"$ref": "#/$defs/n"}}},
    *("name", "kids"),
)
CAT = obj({"kind": {"const": "cat"}, "lives": INT}, "kind", "lives")
DOG = obj({"kind": {"const": "dog"}, "bark": {"type": "boolean"}}, "kind", "bark")
OVERLAPPING = [
    {"properties": {f"b{i}": obj({f"m{i}{k}": {"type": "boolean"} for k in range(4)})}}
    for i in range(4)
]
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
    "no member but integers, excluded": obj({}, **{"not": {"additionalProperties": INT}}),
    "short names, excluded": obj({}, **{"not": {"propertyNames": {"maxLength": 3}}}),
    "members by pattern, excluded": obj({}, **{"not": {"patternProperties": {"^a": INT}}}),
    "an item that two lists need": {
        "type": "array",
        "maxItems": 1,
        "allOf": [{"contains": {"minimum": 3}}, {"contains": {**INT, "maximum": 5}}],
    },
    "true": True,
    "empty": {},
    "null": {"type": "null"},
    "boolean": {"type": "boolean"},
    "several types": {"type": ["integer", "null"]},
    "const": {"const": {"a": [1, None]}},
    "enum within bounds": {"enum": ["a", 1, 5, None], "minimum": 3, "type": "integer"},
    "an invalid default": {"type": "integer", "default": "many", "minimum": 4},
    "invalid examples": {**obj({"a": INT}, "a"), "examples": [{}, {"a": "x"}]},
    "inherited example": {"allOf": [{**obj({}), "examples": [{}]}, {"required": ["x"]}]},
    "minimum": {"type": "integer", "minimum": 10_000_000_000},
    "exclusive bounds of a number": {"exclusiveMinimum": 0, "exclusiveMaximum": 1},
    "exclusive bounds of an integer": {**INT, "exclusiveMinimum": 4, "exclusiveMaximum": 6},
    "negative maximum": {"type": "number", "maximum": -3.5},
    "cents": {"type": "number", "multipleOf": 0.01, "minimum": 0.07, "maximum": 0.09},
    "integer multiple of a fraction": {**INT, "multipleOf": 1.5, "minimum": 4},
    "two multiples": {"allOf": [{"multipleOf": 4}, {"multipleOf": 6}, INT]},
    "not an integer": {"type": "number", "not": INT, "minimum": 1, "maximum": 2},
    "narrow range": {"type": "number", "minimum": 0.12345, "maximum": 0.12346},
    "minLength": {"type": "string", "minLength": 60},
    "maxLength": {"type": "string", "title": "Invoice number", "maxLength": 3},
    "empty string": {"type": "string", "maxLength": 0},
    "pattern with lengths": {"pattern": "^[A-Z]+$", "minLength": 15, "maxLength": 16, **TEXT},
    "pattern without anchors": {"type": "string", "pattern": "INV", "minLength": 12},
    "two patterns": {**TEXT, "allOf": [{"pattern": "^[a-z0-9]+$"}, {"pattern": "[0-9]$"}]},
    "two loose patterns": {**TEXT, "allOf": [{"pattern": "x"}, {"pattern": "[0-9]"}]},
    "password": {"type": "string", "pattern": PASSWORD},
    "back reference": {"type": "string", "pattern": r"^(?<q>[`'])\w+\1(-)\2(?:x){2}$"},
    "unicode property": {"type": "string", "pattern": r"^\p{Lu}\p{Ll}+ \p{Script=Greek}{2}$"},
    "negated classes": {"type": "string", "pattern": r"^[^\s/]+/[^a-zA-Z]\D\S\W$"},
    "escapes": {"type": "string", "pattern": r"^\x41\u0042\u{43}\/\.\t[\]\-\\]\$\cA$"},
    "negative look-ahead": {"type": "string", "pattern": "^(?!0)[0-9]{3}(?<!9)$"},
    "nested repeats": {"type": "string", "pattern": "^((a|b{2,3})+?:){2}(?:x?|y*)$"},
    "iban": {"type": "string", "pattern": "^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$", "maxLength": 20},
    "format with pattern": {**TEXT, "format": "date", "pattern": "^20[0-9]{2}-"},
    "format with lengths": {**TEXT, "format": "email", "maxLength": 10},
    "required without properties": {"type": "object", "required": ["a", "b"]},
    "additionalProperties": {"required": ["z"], "additionalProperties": INT},
    "no additional members": obj({"a": INT, "b": TEXT}, "a", additionalProperties=False),
    "patternProperties": {
        "patternProperties": {"^x-[a-z]+$": INT},
        "additionalProperties": False,
        "minProperties": 3,
    },
    "propertyNames": {**obj({"Bad": INT}), "propertyNames": {"pattern": "^k[0-9]$"}}
    | {"minProperties": 2},
    "minProperties": obj({"a": INT, "b": INT, "c": False}, minProperties=5),
    "maxProperties": obj({"a": INT, "b": INT, "c": INT}, "c", maxProperties=2),
    "dependentRequired": obj(
        {"a": INT, "b": INT, "c": INT}, "a", dependentRequired={"a": ["b"], "b": ["c"]}
    ),
    "dependentSchemas": obj(
        {"card": TEXT},
        "card",
        dependentSchemas={"card": {"required": ["cvc"], "properties": {"cvc": INT}}},
        unevaluatedProperties=False,
    ),
    "forbidden member": obj({"a": False, "b": INT}, "b"),
    "items": {"type": "array", "items": INT, "minItems": 3, "maxItems": 4},
    "prefixItems": {"prefixItems": [INT, TEXT, {"type": "null"}], "items": False, "minItems": 3},
    "contains": {"type": "array", "items": INT, "contains": {"minimum": 900}},
    "minContains": {"contains": {"const": 7}, "minContains": 3, "maxContains": 3, "minItems": 5},
    "contains in a tuple": {"prefixItems": [INT, {}], "maxItems": 2, "contains": TEXT},
    "two contains": {
        "type": "array",
        "allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}],
        "maxItems": 2,
    },
    "uniqueItems": {"items": {"enum": [1, 2, 3, 4]}, "uniqueItems": True, "minItems": 4},
    "unique dates": {"items": {**TEXT, "format": "date"}, "uniqueItems": True, "minItems": 9},
    "unique texts": {"items": TEXT, "uniqueItems": True, "minItems": 9},
    "unevaluatedItems": {
        "type": "array",
        "allOf": [{"prefixItems": [INT]}],
        "unevaluatedItems": False,
        "minItems": 1,
    },
    "unevaluatedItems with contains": {
        "contains": INT,
        "unevaluatedItems": TEXT,
        "minItems": 3,
        "maxContains": 1,
    },
    "allOf": {"allOf": [obj({"a": INT}, "a"), obj({"b": TEXT}, "b"), {"maxProperties": 2}]},
    "allOf of closed objects": {
        "allOf": [obj({"a": INT, "b": INT}, additionalProperties=False), obj({"c": INT})]
    },
    "unevaluatedProperties": {
        "allOf": [obj({"a": INT}, "a")],
        "properties": {"b": INT},
        "required": ["b"],
        "unevaluatedProperties": False,
    },
    "anyOf": {"anyOf": [{"type": "string", "minLength": 5}, INT]},
    "oneOf by a constant": {"oneOf": [CAT, DOG]},
    "oneOf by presence": obj({"a": INT, "b": INT}, oneOf=[{"required": [n]} for n in "ab"]),
    "oneOf that overlaps": {"oneOf": [INT, {"minimum": 2}, {"multipleOf": 3}]},
    "oneOf of objects that overlap": {"type": "object", "oneOf": OVERLAPPING},
    "oneOf of anything that overlaps": {"oneOf": OVERLAPPING},
    "oneOf in oneOf": {"oneOf": [{"oneOf": [CAT, DOG]}, {"type": "null"}], "type": "object"},
    "oneOf in a list": {"type": "array", "items": {"oneOf": [CAT, DOG]}, "minItems": 6},
    "if then else": US,
    "if then else in a list": {"type": "array", "items": US, "minItems": 6},
    "if is not met": {**US, "properties": {"country": {"const": "CA"}, "code": TEXT}},
    "not a type": {"not": {"type": ["string", "number", "object"]}},
    "not a constant": {"enum": ["a", "b"], "not": {"const": "a"}},
    "not required": obj({"a": INT, "b": INT}, "b", **{"not": {"required": ["a"]}}),
    "not in a range": {"type": "integer", "minimum": 0, "not": {"maximum": 50}},
    "not any of": {"type": "string", "not": {"anyOf": [{"const": "text"}, {"maxLength": 5}]}},
    "not one of": {**INT, "not": {"oneOf": [INT, {"minimum": 5}]}},
    "keywords of other types": {**INT, "pattern": "x", "minItems": 2, "required": ["a"]},
    "merged without a type": {"allOf": [{"const": 1}, {"anyOf": [{"type": "null"}, INT]}]},
    "not if then else": {"not": {"if": {**TEXT, "pattern": "^t"}, "else": {"type": "object"}}},
    "not a reference": {"not": {"$ref": "#/$defs/i"}, "$defs": {"i": INT}, "type": ["integer"]}
    | {"type": ["integer", "string"]},
    "reference with siblings": {"$ref": "#/$defs/i", "minimum": 7, "$defs": {"i": INT}},
    "reference to itself among others": {"anyOf": [{"$ref": "#"}, INT]},
    "tree": {"$ref": "#/$defs/n", "$defs": {"n": NODE}},
    "tree with two children": {
        "$ref": "#/$defs/n",
        "$defs": {
            "n": obj({"l": {"$ref": "#/$defs/o"}, "r": {"$ref": "#/$defs/o"}}, "l", "r"),
            "o": {"oneOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]},
        },
    },
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


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_a_value_is_valid_whatever_the_seed(schema: Schema) -> None:
    validator = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    for seed in range(20):
        value = example_of(schema, seed)
        validator.validate(json.loads(json.dumps(value, allow_nan=False)))


@pytest.mark.process
def test_the_same_seed_gives_the_same_value_in_every_process() -> None:
    code = (
        "import json; from tests.test_generate import SCHEMAS, example_of;"
        "print(json.dumps([example_of(each, 'seed') for each in SCHEMAS.values()]))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert json.loads(runs[0]) == [example_of(each, "seed") for each in SCHEMAS.values()]
    assert runs[0] == runs[1]


def test_different_seeds_give_different_identifiers() -> None:
    schema: Schema = {"type": "string", "format": "uuid"}
    assert len({example_of(schema, seed) for seed in (1, "1", 2)}) == 3


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        pytest.param(False, "#: ", id="false"),
        pytest.param(
            {"type": "integer", "minimum": 5, "maximum": 4}, "#: its keywords exclude", id="bounds"
        ),
        pytest.param(
            obj({"a": {**TEXT, "pattern": "^a$", "minLength": 2}}, "a"),
            "#/properties/a: no text was found for pattern",
            id="pattern against length",
        ),
        pytest.param({"allOf": [INT, TEXT]}, "its keywords exclude", id="types"),
        pytest.param(obj({"a": False}, "a"), "#: its keywords exclude", id="forbidden member"),
        pytest.param(obj({"a": {"$ref": "#"}}, "a"), "a value would have no end", id="endless"),
        pytest.param(
            obj({n: {"anyOf": [{"$ref": "#"}] * 4} for n in "abc"}, *"abc"), "#", id="endless tree"
        ),
        pytest.param({"$ref": "#/$defs/none"}, "#/$defs/none is not resolved", id="no such schema"),
        pytest.param({"$ref": "#"}, "#", id="reference loop"),
        pytest.param(
            {"items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3, "type": "array"},
            "#: its keywords exclude",
            id="too few different items",
        ),
        pytest.param({**TEXT, "not": {"pattern": ""}}, "exclude each other", id="no text at all"),
        pytest.param({**INT, "minLength": -1}, "#: -1 is less than", id="no proper keyword"),
        pytest.param(
            {"type": "object", "minProperties": 3, "additionalProperties": False},
            "#: its keywords exclude",
            id="no room for members",
        ),
        pytest.param({"oneOf": [TEXT, TEXT]}, "#", id="oneOf with a twin"),
    ],
)
def test_an_impossible_schema_is_rejected_with_little_work_with_place_and_advice(
    schema: Schema, problem: str
) -> None:
    with little_work(), pytest.raises(CannotGenerate) as caught:
        generate(schema, resolve=resolver(schema), is_valid=lambda _: False, seed=1)
    assert problem in str(caught.value)
    assert "add an example" in str(caught.value)


def test_a_pattern_that_explodes_is_rejected_with_little_work() -> None:
    with little_work(), pytest.raises(CannotGenerate, match="invalid regular expression"):
        generate(
            {"type": "string", "pattern": "^((a{900}){900}){900}$"},
            resolve=resolver(True),
            is_valid=lambda _: True,
            seed=1,
        )


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        pytest.param({"type": "string", "examples": ["INV-1"]}, "INV-1", id="examples"),
        pytest.param({"type": "string", "example": "INV-2"}, "INV-2", id="example"),
        pytest.param({"type": "integer", "default": 30}, 30, id="default"),
        pytest.param(
            {"$ref": "#/$defs/i", "$defs": {"i": {**INT, "default": 3}}}, 3, id="reference"
        ),
        pytest.param({"type": "string", "title": "Debtor"}, "Debtor", id="title"),
        pytest.param({"type": "string", "format": "date"}, "2026-11-21", id="date"),
        pytest.param(
            {"type": "string", "format": "date-time"}, "2026-11-21T09:30:00Z", id="instant"
        ),
        pytest.param(obj({"debtorName": TEXT}), {"debtorName": "Debtor name"}, id="member name"),
        pytest.param({"type": ["string", "null"]}, "text", id="null comes last"),
    ],
)
def test_a_readable_value_is_preferred(schema: Schema, value: Any) -> None:
    assert example_of(schema) == value


def test_optional_recursion_is_left_out() -> None:
    value = example_of(SCHEMAS["tree"])
    assert value["kids"] == []
    assert "parent" not in value


def test_a_value_shares_nothing_with_the_schema() -> None:
    schema: Schema = {"type": "array", "default": [[1]]}
    example_of(schema)[0].append(2)
    assert schema == {"type": "array", "default": [[1]]}


def test_what_a_schema_shows_is_left_out_when_values_are_invented() -> None:
    shown = obj({"a": {**INT, "example": 7_000}, "b": {**TEXT, "default": "shown"}}, "a", "b")
    invented = generate(shown, resolve=resolver(shown), is_valid=bool, seed=1, invent=True)
    assert example_of(shown) == {"a": 7_000, "b": "shown"}
    assert invented.keys() == {"a", "b"}
    assert not {7_000, "shown"} & {*invented.values()}


def test_a_text_without_end_is_rejected_with_little_work() -> None:
    with pytest.raises(CannotGenerate, match="more than 1000000 characters"):
        example_of({"type": "string", "minLength": 10**18})


SUITE = [one for one in groups() if any(case.valid for case in one.cases)]


@pytest.fixture(scope="module")
def suite() -> Contract:
    """The official suite of JSON Schema as responses, one operation per schema."""
    return compile_contract(response_contract(groups()))


@pytest.mark.parametrize("group", SUITE, ids=lambda one: one.id)
def test_a_value_is_generated_for_every_schema_of_the_official_suite(
    suite: Contract, group: Group
) -> None:
    operation = next(one for one in suite.operations.values() if one.path == path(group))
    for seed in range(3):
        body = contract_response(suite, operation, seed).body
        checker = operation.responses["200"].content["application/json"]
        assert checker is not None
        assert checker.is_valid(json.loads(json.dumps(body)))


def component(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


COMPONENTS: dict[str, Any] = {
    "Text": TEXT,
    "Endless": obj({"next": component("Endless")}, "next"),
    "Tree": obj({"kids": {"type": "array", "items": component("Tree")}}, "kids"),
    "Pet": obj({"kind": TEXT}, "kind", discriminator={"propertyName": "kind"}),
    "Cat": {"allOf": [component("Pet"), obj({"meows": {"type": "boolean"}}, "meows")]},
    "Snail": obj({"kind": TEXT}, "kind", discriminator={"propertyName": "kind"}),
    **{f"L{i}": obj({"a": component(f"L{i + 1}")}, "a") for i in range(40)},
    "L40": TEXT,
    **{f"Twice{i}": {"allOf": [component(f"Twice{i + 1}")] * 2} for i in range(30)},
    "Twice30": obj({}),
    **{f"Far{i}": obj({"a": component(f"Far{i + 1}")}, "a") for i in range(2000)},
    "Far2000": TEXT,
}
MANY: dict[str, Any] = {f"m{i}": TEXT for i in range(499)}
EVIDENT: dict[str, Any] = {
    "anything": True,
    "a text": TEXT,
    "one of several types": {"type": ["object", "null"], "properties": {"a": TEXT}},
    "a text of a format": {**TEXT, "format": "date-time"},
    "a number between bounds": {"type": "number", "minimum": 1, "exclusiveMaximum": 2},
    "a word": {**TEXT, "enum": ["a"]},
    "a number of a list": {"enum": [1, {}]},
    "a list": {"type": "array", "items": False},
    "a reference": component("Text"),
    "a tree": component("Tree"),
    "members": obj({"a": component("Text"), "b": False}, "a", description="Toy.", **{"x-a": 1}),
    "other members": {"required": ["a"], "additionalProperties": TEXT},
    "the first alternative": {"anyOf": [TEXT, component("Endless")]},
    "alternatives with members": {"anyOf": [obj({"a": TEXT}, "a"), TEXT]},
    "a part": {"allOf": [obj({"a": TEXT}, "a"), component("Tree")], "required": ["b"]},
    "a part of a part": {"allOf": [{"allOf": [obj({"a": TEXT}, "a")]}]},
    "a member of two parts": {"allOf": [obj({"a": TEXT}, "a"), obj({"a": {"enum": ["x"]}})]},
    "a member that all parts declare alike": {"allOf": [obj({"a": TEXT}, "a"), obj({"a": TEXT})]},
    "a discriminator": component("Snail"),
    "one of those that build upon another": component("Pet"),
    "one that builds upon another": component("Cat"),
    "500 values": obj(MANY, *MANY),
    "249 references": obj(dict.fromkeys([*MANY][:249], component("Text")), *[*MANY][:249]),
    "30 levels": component("L11"),
}
NOT_EVIDENT: dict[str, Any] = {
    "nothing": False,
    "a text that cannot be": {**TEXT, "minLength": 2, "maxLength": 1},
    "a format of an object": {"type": "object", "format": "date"},
    "a word that is a number": {**TEXT, "enum": [1]},
    "a word of none": {**TEXT, "enum": []},
    "a keyword that is not plain": obj({}, minProperties=1),
    "an item": {"type": "array", "items": False, "minItems": 1},
    "a reference and more": {**component("Text"), "minLength": 1},
    "an address": {"$ref": "#there"},
    "a tree without end": component("Endless"),
    "a member that cannot be": obj({"a": False}, "a"),
    "a member that is not declared": {"required": ["a"], "additionalProperties": False},
    "no alternative": {"anyOf": []},
    "an alternative that cannot be": {"anyOf": [False, TEXT]},
    "a part that is no object": {"allOf": [obj({}), TEXT]},
    "a part that cannot be": {"allOf": [obj({}), False]},
    "very many parts": component("Twice0"),
    "a part with more": {"allOf": [obj({}, minProperties=1)]},
    "a part with alternatives": {"allOf": [{"oneOf": [obj({}), obj({})]}]},
    "parts that exclude each other": {
        "allOf": [obj({"a": TEXT}, "a"), obj({}, additionalProperties=False)]
    },
    "a member of two types": {"allOf": [obj({"a": TEXT}, "a"), obj({"a": {"type": "null"}})]},
    "a member of which no part is plain": {
        "allOf": [obj({"a": component("Text")}, "a"), obj({"a": {"enum": ["x"]}})]
    },
    "a discriminator of alternatives": {
        "anyOf": [component("Cat")],
        "discriminator": {"propertyName": "kind"},
    },
    "501 values": obj({**MANY, "more": TEXT}, *MANY, "more"),
    "250 references": obj(dict.fromkeys([*MANY][:250], component("Text")), *[*MANY][:250]),
    "31 levels": component("L10"),
    "2000 levels": component("Far0"),
}


@pytest.mark.parametrize("schema", EVIDENT.values(), ids=EVIDENT)
def test_a_value_is_evident(schema: Any) -> None:
    schemas = Schemas({"components": {"schemas": COMPONENTS}})
    assert Evident(schemas).has_value(schema)
    is_valid = schemas.compile(schema, "").is_valid
    resolve = schemas.generation_view.at
    assert is_valid(generate(schema, resolve=resolve, is_valid=is_valid, seed=1))


@pytest.mark.parametrize("schema", NOT_EVIDENT.values(), ids=NOT_EVIDENT)
def test_it_is_not(schema: Any) -> None:
    assert not Evident(Schemas({"components": {"schemas": COMPONENTS}})).has_value(schema)


def test_schemas_of_the_official_suite_with_an_evident_value_have_one(suite: Contract) -> None:
    schemas, found = Schemas({}), 0
    for one in suite.document["components"]["schemas"].values():
        schema = {key: value for key, value in one.items() if key not in {"$id", "$schema"}}
        if "$ref" not in json.dumps(schema) and Evident(schemas).has_value(schema):
            is_valid = schemas.compile(schema, "").is_valid
            assert is_valid(example_of(schema))
            found += 1
    assert found > 90


def test_only_the_schemas_that_a_value_reaches_are_read() -> None:
    """The form of a whole document takes ten times as long as a value of it."""
    chain = {
        f"s{number}": obj({"next": {"$ref": f"#/$defs/s{number + 1}"}, "a": TEXT}, "a")
        for number in range(100)
    }
    schema: Schema = {"$ref": "#/$defs/s0", "$defs": {**chain, "s100": obj({})}}
    asked = []

    def resolve(reference: str) -> Any:
        asked.append(reference)
        return resolver(schema)(reference)

    validator = jsonschema_rs.Draft202012Validator(schema)
    value = generate(schema, resolve=resolve, is_valid=validator.is_valid, seed=1)
    assert value["next"]["next"]["a"]
    assert len(set(asked)) < 20


def test_what_two_references_allow_together_is_found() -> None:
    both = [obj({"a": {"$ref": "#/$defs/x"}}, "a"), obj({"a": {"$ref": "#/$defs/y"}}, "a")]
    enums: Schema = {"x": {"enum": [1, 2, 3, 4]}, "y": {"enum": [0, 4, 5]}}
    assert example_of({"allOf": both, "$defs": enums}) == {"a": 4}


@pytest.mark.slow
def test_large_alternatives_without_a_required_member_exclude_each_other() -> None:
    settings = [
        {"properties": {f"group{i}": obj({f"m{i}{k}": INT for k in range(60)})}} for i in range(3)
    ]
    assert isinstance(example_of({"type": "object", "oneOf": settings}), dict)


def test_the_message_names_the_place_behind_a_reference() -> None:
    impossible = obj({"value": {"type": "null", "minLength": 2, "enum": ["a"]}}, "value")
    schema: Schema = {"$ref": "#/$defs/item", "$defs": {"item": impossible}}
    with pytest.raises(CannotGenerate, match=r"^#/properties/value: its keywords exclude"):
        example_of(schema)
