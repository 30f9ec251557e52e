"""What another version of a contract changes, and whether that breaks a client."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from invoice_sandbox.cli import main
from invoice_sandbox.openapi.diff import BREAKS, CHANGES, MAY, Difference, differences
from tests.cases import in_turn

INT, TEXT, NUMBER = {"type": "integer"}, {"type": "string"}, {"type": "number"}
CARD = {"type": "object", "properties": {"card": TEXT}, "required": ["card"]}
IBAN = {"type": "object", "properties": {"iban": TEXT}, "required": ["iban"]}
CLOSED: Final = {"additionalProperties": False}
NULL: Final = {"type": ["string", "null"]}


def obj(required: str = "", **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split()}


def listed(items: Any, **keywords: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **keywords}


def api(operation: Any = None, **document: Any) -> dict[str, Any]:
    """A contract of one operation, which is called by anyone and responds with 200."""
    pay = {"operationId": "pay", "responses": {"200": {"description": "ok"}}, **(operation or {})}
    info = {"title": "Pay", "version": "1"}
    return {"openapi": "3.1.0", "info": info, "paths": {"/pay": {"post": pay}}, **document}


def responds(*others: str, **ok: Any) -> dict[str, Any]:
    """The members of an operation that responds with 200, and with ``others``."""
    statuses = {status: {"description": "another"} for status in others}
    return {"responses": {"200": {"description": "ok", **ok}, **statuses}}


def content(schema: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def event(**operation: Any) -> dict[str, Any]:
    """A contract with a webhook."""
    return api(webhooks={"paid": {"post": {"responses": {"200": {}}, **operation}}})


def called(**operation: Any) -> dict[str, Any]:
    """A contract with a callback."""
    own = {"responses": {"200": {}}, **operation}
    return api({"callbacks": {"done": {"{$request.body#/url}": {"post": own}}}})


def document(schema: Any, *, request: bool, **components: Any) -> dict[str, Any]:
    """A contract whose only schema is that of a request body, or of a response."""
    key = {"requestBody": content(schema)} if request else responds(**content(schema))
    return api(key, components={"schemas": components})


def changes(old: Any, new: Any, *, request: bool, **components: Any) -> list[Difference]:
    both = (document(one, request=request, **components) for one in (old, new))
    return list(differences(*both))


# old, new, the verdict of oasdiff in a request, that in a response, what is reported
TABLE: Mapping[str, tuple[Any, Any, str, str, str]] = {
    "maxLength raised": (
        {**TEXT, "maxLength": 5},
        {**TEXT, "maxLength": 8},
        *(CHANGES, BREAKS, "the value changed: maxLength 5 → 8"),
    ),
    "maxLength lowered": (
        obj(a={**TEXT, "maxLength": 8}),
        obj(a={**TEXT, "maxLength": 5}),
        *(BREAKS, CHANGES, "member a changed: maxLength 8 → 5"),
    ),
    "maxLength unset": ({**TEXT, "maxLength": 8}, TEXT, CHANGES, BREAKS, "maxLength 8 → none"),
    "maxLength set": (TEXT, {**TEXT, "maxLength": 8}, BREAKS, CHANGES, "maxLength none → 8"),
    "minLength raised": (
        {**TEXT, "minLength": 1},
        {**TEXT, "minLength": 2},
        *(BREAKS, CHANGES, "minLength 1 → 2"),
    ),
    "minLength lowered": (
        {**TEXT, "minLength": 2},
        {**TEXT, "minLength": 1},
        *(CHANGES, BREAKS, "minLength 2 → 1"),
    ),
    "maximum lowered": (
        {**INT, "maximum": 9},
        {**INT, "maximum": 8},
        *(BREAKS, CHANGES, "maximum 9 → 8"),
    ),
    "maximum unset": ({**INT, "maximum": 9}, INT, CHANGES, BREAKS, "maximum 9 → none"),
    "minimum set": (INT, {**INT, "minimum": 1}, BREAKS, CHANGES, "minimum none → 1"),
    "exclusiveMinimum set": (
        INT,
        {**INT, "exclusiveMinimum": 1},
        *(BREAKS, CHANGES, "exclusiveMinimum none → 1"),
    ),
    "multipleOf set": (INT, {**INT, "multipleOf": 5}, BREAKS, CHANGES, "multipleOf none → 5"),
    "maxItems lowered": (
        listed(INT, maxItems=9),
        listed(INT, maxItems=8),
        *(BREAKS, CHANGES, "maxItems 9 → 8"),
    ),
    "minItems lowered": (
        listed(INT, minItems=2),
        listed(INT, minItems=1),
        *(CHANGES, BREAKS, "minItems 2 → 1"),
    ),
    "uniqueItems set": (
        listed(INT),
        listed(INT, uniqueItems=True),
        *(BREAKS, CHANGES, "uniqueItems none → true"),
    ),
    "enum value gone": (
        {"enum": ["A", "B"]},
        {"enum": ["A"]},
        *(BREAKS, CHANGES, "the value changed: enum without B"),
    ),
    "enum value new": (
        {"enum": ["A"]},
        {"enum": ["B", "A"]},
        *(CHANGES, BREAKS, "the value changed: enum with B"),
    ),
    "became an enum": (TEXT, {**TEXT, "enum": ["A"]}, BREAKS, CHANGES, "enum none → A"),
    "no enum any more": ({**TEXT, "enum": ["A"]}, TEXT, CHANGES, BREAKS, "enum A → none"),
    "const set": (TEXT, {"const": "A"}, BREAKS, CHANGES, "const none → A, type string → none"),
    "another const": ({"const": "A"}, {"const": "B"}, BREAKS, BREAKS, "const A → B"),
    "another type": (
        obj(a=INT),
        obj(a=TEXT),
        *(BREAKS, BREAKS, "member a changed: type integer → string"),
    ),
    "null allowed": (
        obj(a=TEXT),
        obj(a=NULL),
        *(CHANGES, BREAKS, "member a changed: type string → string or null"),
    ),
    "null no longer allowed": (
        NULL,
        TEXT,
        *(BREAKS, CHANGES, "type string or null → string"),
    ),
    "integer to number": (INT, NUMBER, CHANGES, BREAKS, "type integer → number"),
    "number to integer": (NUMBER, INT, BREAKS, CHANGES, "type number → integer"),
    "any type to one": ({}, TEXT, BREAKS, CHANGES, "type none → string"),
    "one type to any": (TEXT, True, CHANGES, BREAKS, "type string → none"),
    "alternative new": (
        {"anyOf": [CARD]},
        {"anyOf": [CARD, IBAN]},
        *(CHANGES, BREAKS, "the value changed: anyOf"),
    ),
    "alternative gone": (
        {"anyOf": [INT, TEXT]},
        {"anyOf": [INT]},
        *(BREAKS, CHANGES, "the value changed: anyOf"),
    ),
    "member of an alternative new": (
        {"oneOf": [CARD, IBAN]},
        {"oneOf": [{**CARD, "properties": {"card": TEXT, "cvc": INT}}, IBAN]},
        *(CHANGES, CHANGES, "the value changed: oneOf"),
    ),
    "allOf part new": (
        {"allOf": [TEXT]},
        {"allOf": [TEXT, {"maxLength": 5}]},
        *(BREAKS, CHANGES, "maxLength none → 5"),
    ),
    "another pattern": (
        {**TEXT, "pattern": "^a"},
        {**TEXT, "pattern": "^[ab]"},
        *(MAY, MAY, "the value changed: pattern ^a → ^[ab]"),
    ),
    "pattern set": (TEXT, {**TEXT, "pattern": "^a"}, BREAKS, CHANGES, "pattern none → ^a"),
    "pattern unset": ({**TEXT, "pattern": "^a"}, TEXT, CHANGES, BREAKS, "pattern ^a → none"),
    "optional member new": (obj(), obj(a=INT), CHANGES, CHANGES, "member a is new"),
    "required member new": (obj(), obj("a", a=INT), BREAKS, CHANGES, "required member a is new"),
    "required member new, with a default": (
        obj(),
        obj("a", a={**INT, "default": 1}),
        *(BREAKS, CHANGES, "required member a is new"),
    ),
    "optional member new in a closed object": (
        {**obj(), **CLOSED},
        {**obj(a=INT), **CLOSED},
        *(CHANGES, CHANGES, "member a is new"),
    ),
    "optional member gone": (obj(a=INT), obj(), MAY, CHANGES, "member a is gone"),
    "required member gone": (obj("a", a=INT), obj(), MAY, BREAKS, "member a is gone"),
    "member gone from a closed object": (
        {**obj(a=INT), **CLOSED},
        {**obj(), **CLOSED},
        *(BREAKS, CHANGES, "member a is gone"),
    ),
    "member now required": (obj(a=INT), obj("a", a=INT), BREAKS, CHANGES, "a is now required"),
    "member no longer required": (
        obj("a", a=INT),
        obj(a=INT),
        *(CHANGES, BREAKS, "a is no longer required"),
    ),
    "required member below another": (
        obj(a=obj()),
        obj(a=obj("b", b=INT)),
        *(BREAKS, CHANGES, "required member a.b is new"),
    ),
    "readOnly member now required": (
        obj(a={**INT, "readOnly": True}),
        obj("a", a={**INT, "readOnly": True}),
        *(CHANGES, CHANGES, "member a is now required"),
    ),
    "writeOnly member gone": (
        obj("a", a={**INT, "writeOnly": True}),
        obj(),
        *(MAY, CHANGES, "member a is gone"),
    ),
    "member deprecated": (
        obj(a=INT),
        obj(a={**INT, "deprecated": True}),
        *(CHANGES, CHANGES, "member a is deprecated"),
    ),
    "items of a list": (
        listed(INT),
        listed(TEXT),
        *(BREAKS, BREAKS, "member [] changed: type integer → string"),
    ),
    "items of a list narrowed": (
        listed(NUMBER),
        listed(INT),
        *(BREAKS, CHANGES, "member [] changed: type number → integer"),
    ),
}


PLACES: Final[
    Mapping[str, tuple[Callable[[Any], dict[str, Any]], bool]]
] = {  # of a body, and whether the client sends what is there
    "request": (lambda schema: document(schema, request=True), True),
    "response": (lambda schema: document(schema, request=False), False),
    "webhook": (lambda schema: event(requestBody=content(schema)), False),
    "response to a webhook": (lambda schema: event(responses={"200": content(schema)}), True),
    "callback": (lambda schema: called(requestBody=content(schema)), False),
    "response to a callback": (lambda schema: called(responses={"200": content(schema)}), True),
}


@in_turn("name", TABLE)
@in_turn("place", PLACES)
def test_what_is_sent_may_be_more_and_what_is_received_less(name: str, place: str) -> None:
    old, new, sent, received, text = TABLE[name]
    contract, is_sent = PLACES[place]
    (found,) = differences(contract(old), contract(new))
    assert found.text.endswith(text)
    assert found.verdict == (sent if is_sent else received)


def parameter(where: str = "query", name: str = "q", **members: Any) -> dict[str, Any]:
    return {"parameters": [{"name": name, "in": where, "schema": TEXT, **members}]}


def secured(*ways: Any) -> dict[str, Any]:
    return api({"security": list(ways)})


def scheme(**members: Any) -> dict[str, Any]:
    own = {"type": "apiKey", "in": "header", "name": "X-Key", **members}
    return api(components={"securitySchemes": {"key": own}})


TOKEN: Final = {"headers": {"X-Token": {"schema": TEXT, "required": True}}}
NOTE: Final = {"headers": {"X-Token": {"schema": TEXT}}}
BODY: Final = content(TEXT)
MUST: Final = {**BODY, "required": True}
XML: Final = {"content": {**BODY["content"], "application/xml": {}}}
KEY: Final[dict[str, list[str]]] = {"key": []}
READ: Final = {"auth": ["read"]}
ALL: Final = {"auth": ["read", "write"]}
MOVED: Final = {"paths": {"/charge": api()["paths"]["/pay"]}}
NONE: Final[dict[str, Any]] = {"paths": {}}

# old, new, the verdict of oasdiff, what is reported
OPERATIONS: Mapping[str, tuple[Any, Any, str, str]] = {
    "operation gone": (api(), api(**NONE), BREAKS, "operation pay is gone"),
    "operation new": (api(**NONE), api(), CHANGES, "operation pay is new: POST /pay"),
    "operation moved": (api(), api(**MOVED), BREAKS, "moved from POST /pay to POST /charge"),
    "operation renamed": (
        api(),
        api({"operationId": "charge"}),
        *(CHANGES, "operation pay is now operation charge"),
    ),
    "operation deprecated": (api(), api({"deprecated": True}), CHANGES, "pay is deprecated"),
    "operation reactivated": (
        api({"deprecated": True}),
        api(),
        *(CHANGES, "operation pay is no longer deprecated"),
    ),
    "base path": (api(), api(servers=[{"url": "/v2"}]), BREAKS, "the base path is now '/v2'"),
    "public to secured": (api(), secured(KEY), BREAKS, "who may call it changed (security)"),
    "public by an empty list to secured": (secured(), secured(KEY), BREAKS, "(security)"),
    "optional to secured": (secured({}, KEY), secured(KEY), BREAKS, "(security)"),
    "secured to public": (secured(KEY), secured(), CHANGES, "(security)"),
    "secured to optional": (secured(KEY), secured(KEY, {}), CHANGES, "(security)"),
    "secured by the document": (api(), api(security=[KEY]), BREAKS, "(security)"),
    "no longer secured by the document": (api(security=[KEY]), api(), CHANGES, "(security)"),
    "public in a secured document": (
        api({"security": []}, security=[KEY]),
        api(security=[KEY]),
        *(BREAKS, "(security)"),
    ),
    "another way": (secured(KEY), secured(KEY, READ), CHANGES, "(security)"),
    "one way less": (secured(KEY, READ), secured(READ), BREAKS, "(security)"),
    "two at once": (secured(KEY), secured({**KEY, **READ}), BREAKS, "(security)"),
    "one of two at once": (secured({**KEY, **READ}), secured(KEY), CHANGES, "(security)"),
    "scope new": (secured(READ), secured(ALL), BREAKS, "(security)"),
    "scope gone": (secured(ALL), secured(READ), CHANGES, "(security)"),
    "scheme sent otherwise": (scheme(), scheme(name="X-Other"), BREAKS, "sent otherwise"),
    "scheme in another place": (scheme(), scheme(**{"in": "query"}), BREAKS, "sent otherwise"),
    "scheme with a hint": (scheme(), scheme(bearerFormat="JWT"), CHANGES, "key changed"),
    "scheme new": (api(), scheme(), CHANGES, "security scheme key is new"),
    "scheme gone": (scheme(), api(), CHANGES, "security scheme key is gone"),
    "optional parameter new": (api(), api(parameter()), CHANGES, "query parameter 'q' is new"),
    "required parameter new": (
        api(),
        api(parameter(required=True)),
        *(BREAKS, "pay: required query parameter 'q' is new"),
    ),
    "required header parameter new": (
        api(),
        api(parameter("header", required=True)),
        *(BREAKS, "required header parameter 'q' is new"),
    ),
    "parameter gone": (api(parameter()), api(), MAY, "query parameter 'q' is gone"),
    "required parameter gone": (
        api(parameter(required=True)),
        api(),
        *(MAY, "query parameter 'q' is gone"),
    ),
    "parameter now required": (
        api(parameter()),
        api(parameter(required=True)),
        *(BREAKS, "query parameter 'q' is now required"),
    ),
    "parameter no longer required": (
        api(parameter(required=True)),
        api(parameter()),
        *(CHANGES, "query parameter 'q' is no longer required"),
    ),
    "parameter deprecated": (
        api(parameter()),
        api(parameter(deprecated=True)),
        *(CHANGES, "query parameter 'q' is deprecated"),
    ),
    "parameter became an enum": (
        api(parameter()),
        api(parameter(schema={"enum": ["a"]})),
        *(BREAKS, "parameter q: the value changed: enum none → a, type string → none"),
    ),
    "optional body new": (api(), api({"requestBody": BODY}), CHANGES, "request body is new"),
    "required body new": (api(), api({"requestBody": MUST}), BREAKS, "required request body is"),
    "body gone": (api({"requestBody": BODY}), api(), BREAKS, "pay: request body is gone"),
    "body now required": (
        api({"requestBody": BODY}),
        api({"requestBody": MUST}),
        *(BREAKS, "request body is now required"),
    ),
    "body no longer required": (
        api({"requestBody": MUST}),
        api({"requestBody": BODY}),
        *(CHANGES, "request body is no longer required"),
    ),
    "media type of a request gone": (
        api({"requestBody": XML}),
        api({"requestBody": BODY}),
        *(BREAKS, "media type application/xml is gone"),
    ),
    "media type of a request new": (
        api({"requestBody": BODY}),
        api({"requestBody": XML}),
        *(CHANGES, "media type application/xml is new"),
    ),
    "media type of a response gone": (
        api(responds(**XML)),
        api(responds(**BODY)),
        *(BREAKS, "media type application/xml is gone"),
    ),
    "media type of a response new": (
        api(responds(**BODY)),
        api(responds(**XML)),
        *(CHANGES, "media type application/xml is new"),
    ),
    "success gone": (api(responds("201")), api(), BREAKS, "pay: response 201 is gone"),
    "success new": (api(), api(responds("201")), CHANGES, "pay: response 201 is new"),
    "error gone": (api(responds("404")), api(), CHANGES, "pay: response 404 is gone"),
    "error new": (api(), api(responds("404")), CHANGES, "pay: response 404 is new"),
    "required header of a response gone": (
        api(responds(**TOKEN)),
        api(),
        *(BREAKS, "pay, response 200: header 'x-token' is gone"),
    ),
    "optional header of a response gone": (
        api(responds(**NOTE)),
        api(),
        *(MAY, "pay, response 200: header 'x-token' is gone"),
    ),
    "header of a response new": (
        api(),
        api(responds(**TOKEN)),
        *(CHANGES, "pay, response 200: required header 'x-token' is new"),
    ),
    "header of a response no longer required": (
        api(responds(**TOKEN)),
        api(responds(**NOTE)),
        *(BREAKS, "header 'x-token' is no longer required"),
    ),
    "header of a response now required": (
        api(responds(**NOTE)),
        api(responds(**TOKEN)),
        *(CHANGES, "header 'x-token' is now required"),
    ),
    "header of a response of another type": (
        api(responds(**NOTE)),
        api(responds(headers={"x-token": {"schema": INT}})),
        *(BREAKS, "header x-token: the value changed: type string → integer"),
    ),
    "webhook gone": (event(), api(), BREAKS, "webhook paid is gone"),
    "webhook new": (api(), event(), CHANGES, "webhook paid is new"),
    "webhook deprecated": (event(), event(deprecated=True), CHANGES, "paid is deprecated"),
    "webhook without a body": (
        event(requestBody=MUST),
        event(),
        *(BREAKS, "webhook paid: request body is gone"),
    ),
    "body of a webhook new": (event(), event(requestBody=MUST), CHANGES, "request body is new"),
    "body of a webhook no longer required": (
        event(requestBody=MUST),
        event(requestBody=BODY),
        *(BREAKS, "webhook paid: request body is no longer required"),
    ),
    "required header of a webhook gone": (
        event(**parameter("header", required=True)),
        event(),
        *(BREAKS, "webhook paid: header parameter 'q' is gone"),
    ),
    "required header of a webhook new": (
        event(),
        event(**parameter("header", required=True)),
        *(CHANGES, "webhook paid: required header parameter 'q' is new"),
    ),
    "response to a webhook gone": (
        event(**responds("204")),
        event(),
        *(BREAKS, "webhook paid: response 204 is gone"),
    ),
    "error response to a webhook gone": (
        event(**responds("410")),
        event(**responds()),
        *(CHANGES, "webhook paid: response 410 is gone"),
    ),
    "required header of a response to a webhook": (
        event(),
        event(responses={"200": TOKEN}),
        *(BREAKS, "webhook paid, response 200: required header 'x-token' is new"),
    ),
    "callback gone": (called(), api(), BREAKS, "pay: callback done {$request.body#/url} is gone"),
    "callback new": (api(), called(), CHANGES, "callback done {$request.body#/url} is new"),
}


@in_turn("name", OPERATIONS)
def test_every_root_of_the_document_is_compared(name: str) -> None:
    old, new, verdict, text = OPERATIONS[name]
    (found,) = differences(old, new)
    assert text in found.text
    assert found.verdict == verdict


def test_the_truth_table_has_eighty_rows() -> None:
    assert len(TABLE) + len(OPERATIONS) >= 80


def test_parameters_of_a_path_are_compared_by_place() -> None:
    one = {"operationId": "pay", "responses": {"200": {}}}
    old, new = (
        api(paths={f"/{{{name}}}": {"post": one | parameter("path", name, required=True)}})
        for name in ("id", "key")
    )
    assert list(differences(old, new)) == []


@pytest.mark.parametrize("is_sent", [True, False], ids=["sent", "received"])
def test_a_parameter_that_becomes_json_breaks(*, is_sent: bool) -> None:
    old = {"name": "q", "in": "header", "schema": TEXT}
    new = {"name": "q", "in": "header", **content(TEXT)}
    both = ({"parameters": [each]} for each in (old, new))
    first, second = (api(one) if is_sent else event(**one) for one in both)
    texts = {found.verdict: found.text for found in differences(first, second)}
    assert texts[BREAKS].endswith("parameter q: the value is gone")
    assert texts[CHANGES].endswith("media type application/json is new")


def test_ways_to_authenticate_in_another_order_are_the_same() -> None:
    assert list(differences(secured(KEY, READ), secured(READ, KEY))) == []


def test_a_callback_that_contains_itself_is_compared() -> None:
    item = {"$ref": "#/components/pathItems/Loop"}
    loop = {"post": {"responses": {"200": {}}, "callbacks": {"again": {"{$url}": item}}}}
    contract = api(webhooks={"paid": item}, components={"pathItems": {"Loop": loop}})
    assert list(differences(contract, contract)) == []


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
    assert (found.verdict, found.text) == (
        CHANGES,
        "pay, request body: member v changed: type integer → number",
    )


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


ROOT: Final = Path(__file__).parents[1]


def check(file: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["contract", "--check", str(file), *arguments])


def suite_of(junit: Path) -> ElementTree.Element:
    return ElementTree.fromstring(junit.read_text())  # noqa: S314 - our own file


def next_version(folder: Path, *replaced: tuple[str, str]) -> Path:
    """The published contract with other words."""
    text = (ROOT / "openapi" / "openapi.yaml").read_text(encoding="utf-8")
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new)
    file = folder / "next.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_command_prints_the_differences_as_json_and_as_junit(tmp_path: Path) -> None:
    file, junit = tmp_path / "next.json", tmp_path / "junit.xml"
    file.write_text(json.dumps(document(TEXT, request=False)))
    ran = check(file, "--json", "--junit", str(junit))
    report = json.loads(ran.stdout)
    breaking = [one for one in report["differences"] if one["breaking"]]
    assert (ran.exit_code, report["breaking"]) == (1, len(breaking))
    assert breaking[0].keys() == {"breaking", "verdict", "place", "text"}
    suite = suite_of(junit)
    assert suite.get("failures") == str(len(breaking)) == str(len(suite.findall("*/failure")))
    assert suite.get("tests") == str(len(report["differences"]))


def test_the_same_version_changes_nothing(tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    ran = check(next_version(tmp_path), "--junit", str(junit))
    assert (ran.exit_code, ran.stdout) == (0, "0 differences, 0 of them breaking.\n")
    assert suite_of(junit).get("failures") == "0"


def test_all_that_no_longer_fits_is_listed_at_once(tmp_path: Path) -> None:
    """The published contract without its operations and schemas fits nothing of the project."""
    file = tmp_path / "next.json"
    file.write_text(json.dumps(api()))
    ran = check(file, "--json")
    texts = [one["text"] for one in json.loads(ran.stdout)["differences"] if one["breaking"]]
    assert sum("the target matches nothing" in text for text in texts) > 5
    assert sum("has no operation any more" in text for text in texts) > 20
    assert any("the contract has no schema" in text for text in texts)


def test_a_renamed_operation_names_its_handler_and_its_scenarios(tmp_path: Path) -> None:
    file = next_version(tmp_path, ("operationId: createInvoice", "operationId: addInvoice"))
    ran = check(file)
    assert ran.exit_code == 1
    for text in (
        "changes  ",
        "operation createInvoice is now operation addInvoice",
        "handler create_invoice has no operation any more",
        "operation addInvoice has no handler add_invoice: it responds from the contract",
    ):
        assert text in ran.stdout
    assert "is gone" not in ran.stdout


@pytest.mark.parametrize("option", [["--json"], ["--junit", "x.xml"]])
def test_a_report_needs_a_version_to_check(option: list[str]) -> None:
    assert CliRunner().invoke(main, ["contract", *option]).exit_code == 2


def test_a_file_that_is_no_contract_is_misuse(tmp_path: Path) -> None:
    file = tmp_path / "next.yaml"
    file.write_text("openapi: 3.1.0\n")
    ran = CliRunner().invoke(main, ["contract", "--check", str(file)])
    assert ran.exit_code == 2
