"""``serve --contract`` serves what others have written, and says what it does nothing about."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from bisect import bisect
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pytest
from click.testing import CliRunner

from invoice_sandbox.app import create_app
from invoice_sandbox.cli import main
from invoice_sandbox.openapi.load.limitations import summarized
from invoice_sandbox.openapi.load.model import METHODS, OBJECTS, SCHEMA, SECTIONS, members_of, node
from invoice_sandbox.openapi.load.operations import Note, base_path
from invoice_sandbox.openapi.load.reading import read_contract
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.operation import compile_contract
from invoice_sandbox.project import contracts
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.contracts import contract_warnings
from invoice_sandbox.project.loader import load_contract, load_project
from invoice_sandbox.settings import SettingError, read_settings
from tests.support import FROZEN, serving
from tests.toy import contract, serving_contract

pytestmark = pytest.mark.slow

OK: dict[str, Any] = {"responses": {"200": {"description": "ok"}}}


def document(paths: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A document with these paths."""
    info = {"title": "Toy", "version": "1.0.0"}
    return {"openapi": "3.1.0", "info": info, "paths": paths, **members}


def written(folder: Path, content: Any) -> Path:
    """The document as a file of many lines."""
    file = folder / "api.json"
    file.write_text(json.dumps(content, indent=1))
    return file


def warnings(folder: Path, content: dict[str, Any]) -> list[str]:
    """What is reported at the start, each line from the number of the line in the file."""
    project = load_contract(written(folder, content))
    return [one.removeprefix(f"{folder / 'api.json'}:") for one in project.warnings]


# What is no OpenAPI


NO_OPENAPI: dict[str, tuple[str, str]] = {
    "Swagger": (
        "info: {}\nswagger: '2.0'",
        "api.yaml:1:1: Swagger 2.0 is not served (convert it to OpenAPI 3, as",
    ),
    "OpenAPI 3.2": ("openapi: 3.2.0", "api.yaml:1:1: OpenAPI 3.2.0 is not served (3.0 and 3.1 are"),
    "OpenAPI 4": ("x: 1\nopenapi: 4.0.0", "api.yaml:2:1: OpenAPI 4.0.0 is not served"),
    "a number for a version": (
        "openapi: 3.1",
        "api.yaml:1:1: the version in 'openapi' must be text of three numbers (write openapi: '3.1",
    ),
    "AsyncAPI": ("asyncapi: 3.0.0", "api.yaml:1:1: AsyncAPI describes messages, not HTTP"),
    "something else": ("a: 1", "api.yaml:1:1: not an OpenAPI document (it must have 'openapi"),
    "a list": ("[1]", "api.yaml: not an OpenAPI document"),
    "nothing": ("", "api.yaml: not an OpenAPI document"),
}


@pytest.mark.parametrize(("text", "message"), NO_OPENAPI.values(), ids=NO_OPENAPI)
def test_what_is_no_openapi_is_reported_with_what_to_do(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "api.yaml"
    file.write_text(text)
    with pytest.raises(DocumentError) as caught:
        read_contract(file)
    assert str(caught.value).startswith(f"{tmp_path}/{message}")


INVALID: dict[str, tuple[str, str]] = {
    "a schema deep in it": (
        (
            "/a: {get: {responses: {'200': {description: a, content: {application/json: {schema:\n"
            "      {properties: {n: {minLength: -1}}}}}}}}}"
        ),
        (
            ":5:25: /paths/~1a/get/responses/200/content/application~1json/schema/properties/n/"
            "minLength: -1 is less than the minimum of 0"
        ),
    ),
    "an unknown member": (
        "/a: {get: {responses: {'200': {description: a}},\n      wrong: 1}}",
        ":4:8: /paths/~1a/get: ",
    ),
    "a path parameter that is not declared": (
        "/b: {}\n  /a/{id}:\n    get: {responses: {'200': {description: a}}}",
        ":6:5: /paths/~1a~1{id}/get: Path parameter 'id'",
    ),
    "an operationId twice": (
        (
            "/a: {get: {operationId: x, responses: {'200': {description: a}}},\n"
            "      put: {operationId: x, responses: {'200': {description: a}}}}"
        ),
        ":5:7: /paths/~1a/put: Operation ID 'x'",
    ),
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(("paths", "message"), INVALID.values(), ids=INVALID)
def test_what_is_not_valid_is_reported_with_its_place(
    tmp_path: Path, version: str, paths: str, message: str
) -> None:
    file = tmp_path / "api.yaml"
    head = f"openapi: {version}\ninfo: {{title: a, version: '1'}}\npaths:\n  "
    file.write_text(head + paths)
    with pytest.raises(DocumentError) as caught:
        read_contract(file)
    assert str(caught.value).startswith(f"{file}{message}")


def test_a_document_may_require_what_it_does_not_declare(tmp_path: Path) -> None:
    schema = {"allOf": [{"type": "object"}], "required": ["a"]}
    read_contract(
        written(tmp_path, document({"/a": {"get": OK}}, components={"schemas": {"A": schema}}))
    )


def test_a_pattern_is_read_as_javascript_does(tmp_path: Path) -> None:
    schema = {"type": "string", "pattern": r"^[\p{L}]+$"}
    assert (
        warnings(tmp_path, document({"/a": {"get": OK}}, components={"schemas": {"A": schema}}))
        == []
    )


# A document that is no regular file


def test_a_document_may_come_from_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    text = json.dumps(document({"/a": FINE, "b": {}}), indent=1)
    settings = read_settings({"contract": str(pipe)})
    assert settings.contract == pipe
    Thread(target=pipe.write_text, args=(text,), daemon=True).start()
    (line,) = load_contract(pipe).warnings
    number = next(at for at, one in enumerate(text.splitlines(), 1) if '"b"' in one)
    assert line.startswith(f"{pipe}:{number}:3: b: this is ignored")


def test_an_empty_device_is_like_an_empty_file(tmp_path: Path) -> None:
    device, file = Path(os.devnull), tmp_path / "empty"
    file.touch()
    assert read_settings({"contract": os.devnull}).contract == device
    messages = []
    for one in (device, file):
        with pytest.raises(DocumentError, match="not an OpenAPI document") as caught:
            read_contract(one, whole=False)
        messages.append(caught.value.clause)
    assert messages[0] == messages[1]
    with pytest.raises(SettingError, match="there is no folder '/dev/null'; that is a file"):
        read_settings({"project": os.devnull})


# Small faults


FAULTS: dict[str, tuple[Any, str]] = {
    "a name twice in required": (
        {"required": ["a", "a"]},
        "duplicate names in 'required' are ignored",
    ),
    "a value twice in enum, as in UK Open Banking's payment initiation": (
        {"type": "string", "enum": ["DAY", "WEEK", "MONT", "WEEK"]},
        "duplicate values in 'enum' are ignored",
    ),
    "equal objects in enum": (
        {"enum": [{"a": 1, "b": 2}, {"b": 2, "a": 1}]},
        "duplicate values in 'enum' are ignored",
    ),
    "a pattern that is none": (
        {"pattern": "["},
        "this pattern cannot be compiled, and is not checked",
    ),
    "such a pattern of properties": (
        {"patternProperties": {"[": True, "a": True}},
        "this pattern cannot be compiled, and is not checked",
    ),
}


@pytest.mark.parametrize(("schema", "message"), FAULTS.values(), ids=FAULTS)
def test_a_small_fault_of_a_schema_is_repaired_and_reported(
    tmp_path: Path, schema: Any, message: str
) -> None:
    (line,) = warnings(
        tmp_path, document({"/a": {"get": OK}}, components={"schemas": {"A": schema}})
    )
    assert line.endswith(f": {message}")


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_an_enum_with_a_value_twice_is_checked(tmp_path: Path, version: str) -> None:
    schema = {"type": "string", "enum": ["DAY", "WEEK", "WEEK"]}
    content = contract({"required": ["period"], "properties": {"period": schema}}, openapi=version)
    with serving_contract(tmp_path, content) as client:
        assert client.post("/check", json={"period": "WEEK"}).status_code == 204
        assert client.post("/check", json={"period": "YEAR"}).status_code == 400


# What cannot be served is named, and the rest is served


def test_true_and_one_are_two_values(tmp_path: Path) -> None:
    content = document({"/a": {"get": OK}}, components={"schemas": {"A": {"enum": [True, 1, "1"]}}})
    assert warnings(tmp_path, content) == []


FINE = {"get": {**OK, "operationId": "fine"}}


def with_schema(schema: Any) -> dict[str, Any]:
    """An operation whose response has this schema."""
    media = {"application/json": {"schema": schema}}
    return {"responses": {"200": {"description": "ok", "content": media}}}


PART = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}

REST: dict[str, tuple[Any, str, bool]] = {
    "a schema": (with_schema({"properties": 5}), "this schema is not checked: ", True),
    "a keyword": (with_schema({"type": "strong"}), "this schema is read without 'type': ", True),
    "a schema that is nowhere": (
        with_schema({"$ref": "#/components/schemas/Gone"}),
        "this schema is not checked: cannot resolve reference '#/components/schemas/Gone'",
        True,
    ),
    "a schema of a file that is nowhere": (
        with_schema({"$ref": "gone.yaml#/A"}),
        "this schema is not checked: cannot resolve reference 'gone.yaml#/A': there is no file",
        True,
    ),
    "a member": ({**OK, "wrong": 1}, "this is ignored: ", True),
    "a part of the path that is not declared": (
        OK,
        "id: no parameter of this name; it is any string",
        True,
    ),
    "an operationId of another operation": (
        {**OK, "operationId": "fine"},
        "fine: another operation has this name",
        True,
    ),
    "responses that are a number": ({"responses": 5}, "this operation is not served: ", False),
    "a response that is nowhere": (
        {"responses": {"200": {"$ref": "#/components/responses/Gone"}}},
        "this operation is not served: cannot resolve reference '#/components/responses/Gone'",
        False,
    ),
    "a parameter": (
        {**OK, "parameters": [{"name": "q", "in": "query string"}]},
        "GET /b: this parameter is ignored: ",
        True,
    ),
    "a parameter without a location": (
        {**OK, "parameters": [{"name": "q", "schema": {"type": "string"}}]},
        'GET /b: this parameter is ignored: "in" is a required property',
        True,
    ),
    "a part of the path that is declared in the query": (
        {**OK, "parameters": [{"name": "id", "in": "query", "schema": {"type": "integer"}}]},
        "id: no parameter of this name; it is any string",
        True,
    ),
    "a parameter of another path": (
        {**OK, "parameters": [{**PART, "name": "other"}]},
        "GET /b: this is ignored: parameter 'other' is no ",
        True,
    ),
    "a parameter that is text": (
        {**OK, "parameters": ["q"]},
        "GET /b: this parameter is ignored: ",
        True,
    ),
    "a response at an anchor": (
        {"responses": {"200": {"$ref": "#foo"}}},
        "this operation is not served: cannot resolve reference '#foo'",
        False,
    ),
    "a response that is the document": (
        {"responses": {"200": {"$ref": ""}}},
        "this operation is not served: cannot resolve reference '': that is the document itself",
        False,
    ),
    "a response that is itself": (
        {"responses": {"200": {"$ref": "#/paths/~1b/get/responses/200"}}},
        "the reference '#/paths/~1b/get/responses/200' leads back to itself",
        False,
    ),
    "a response that is a parameter": (
        {**OK, "parameters": [{"$ref": "#/paths/~1a/get/responses/200"}]},
        "the reference '#/paths/~1a/get/responses/200' does not name a parameter",
        True,
    ),
    "a response whose reference is a number": (
        {"responses": {"200": {"$ref": 5}}},
        "this operation is not served: a reference is text",
        False,
    ),
    "a schema at an anchor": (
        with_schema({"$ref": "#foo"}),
        "this schema is not checked: cannot resolve reference '#foo'",
        True,
    ),
    "a schema that is the document": (
        with_schema({"$ref": "#"}),
        "this schema is not checked: cannot resolve reference '#': that is the document itself",
        True,
    ),
    "a schema that is the document, in another word": (
        with_schema({"properties": {"a": {"$ref": ""}}}),
        "this schema is not checked: cannot resolve reference '': that is the document itself",
        True,
    ),
    "a schema at no address": (
        with_schema({"$ref": "http://[::1"}),
        "this schema is not checked: cannot resolve reference 'http://[::1': Invalid IPv6 URL",
        True,
    ),
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(("operation", "message", "is_served"), REST.values(), ids=REST)
def test_what_cannot_be_served_is_named_and_the_rest_is_served(
    tmp_path: Path, version: str, operation: Any, message: str, is_served: bool
) -> None:
    path = "/b/{id}" if "part of the path" in message or "no parameter" in message else "/b"
    content = document({"/a": FINE, path: {"get": operation}}, openapi=version)
    (line,) = warnings(tmp_path, content)
    assert message in line
    assert re.match(r"\d+:\d+: ", line)
    assert is_served or re.match(r"\d+:\d+: GET /b: this operation is not served: ", line)
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200
        assert client.get(path.replace("{id}", "1")).status_code == (200 if is_served else 404)


QUERY: dict[str, Any] = {"name": "q", "in": "query", "schema": {"type": "integer"}}
WRONG_KEYWORDS: dict[str, tuple[Any, str]] = {
    "required in a property": ({"type": "string", "required": True}, "required"),
    "names that are one text": ({"type": "object", "required": "id, amount"}, "required"),
    "a limit that is text": ({"type": "integer", "minimum": "3"}, "minimum"),
    "an unknown type": ({"type": "strong", "properties": {"a": {"type": "string"}}}, "type"),
}
ONLY_IN_30 = {
    "a discriminator that is text": ({"type": "object", "discriminator": "status"}, "discriminator")
}
IN_VERSIONS = {
    f"{name}-{version}": (version, *row)
    for version, rows in {"3.0.3": WRONG_KEYWORDS | ONLY_IN_30, "3.1.0": WRONG_KEYWORDS}.items()
    for name, row in rows.items()
}


@pytest.mark.parametrize(("version", "schema", "keyword"), IN_VERSIONS.values(), ids=IN_VERSIONS)
def test_a_wrong_keyword_takes_no_other_with_it(
    tmp_path: Path, version: str, schema: Any, keyword: str
) -> None:
    """However many there are."""
    properties = {f"p{number}": schema for number in range(150)}
    body = {"type": "object", "required": ["a"], "properties": {"a": schema, **properties}}
    content = contract(body, openapi=version)
    repairs = read_contract(written(tmp_path, content), whole=False).repairs
    assert len(repairs) == 1 + len(properties)
    text = f"this schema is read without '{keyword}': "
    assert all(one.text.startswith(text) for one in repairs)
    right = {"string": "", "integer": 1}.get(schema["type"], {})
    with serving_contract(tmp_path, content) as client:
        assert client.post("/check", json={"a": right}).status_code == 204
        assert client.post("/check", json={}).status_code == 400
        expected = 204 if keyword == "type" else 400
        assert client.post("/check", json={"a": 1.5}).status_code == expected


def test_a_keyword_on_which_another_depends_takes_the_schema_with_it(tmp_path: Path) -> None:
    for schema in (
        {"properties": ["a"], "additionalProperties": False},
        {"allOf": [{"properties": {"a": {}}}], "type": "x", "unevaluatedProperties": False},
    ):
        content = contract(schema, openapi="3.1.0")
        (line,) = warnings(tmp_path, content)
        assert ": this schema is not checked: " in f": {line}"
        with serving_contract(tmp_path, content) as client:
            assert client.post("/check", json={"b": 1}).status_code == 204


def test_every_item_of_a_list_that_is_left_out_is_named_where_it_is_written(
    tmp_path: Path,
) -> None:
    """Also the ones that are found when others are gone, and in the next process."""
    lost = "GET /b: this parameter is ignored: "
    lists = {"type": "array", "items": {"type": "object"}}
    parameters = [
        ({"$ref": "#/components/parameters/Lost"}, f"{lost}cannot resolve reference"),
        ({"name": "no place", "schema": {}}, f'{lost}"in" is a required property'),
        (QUERY, None),
        ({"name": "not one", "in": "Header", "schema": {}}, f"{lost}no header can have the name"),
        ({"$ref": "#/components/parameters/Gone"}, f"{lost}cannot resolve reference"),
        ({**QUERY, "name": "r", "content": {}}, f"{lost}{{}} has less than 1 property"),
        ({**QUERY, "name": "s", "schema": {"type": "x"}}, "this schema is read without 'type': "),
        (QUERY, "GET /b: this is ignored: parameter 'q' in query is declared twice"),
        ({**QUERY, "name": "t", "schema": lists}, "t: lists and objects inside"),
        ({"name": "u", "in": "Query"}, "u: 'in: Query' is read as 'query'"),
    ]
    security = [
        ({"unknown": []}, "unknown: this security scheme is not declared and not checked"),
        ({"other": []}, "other: this security scheme is not declared and not checked"),
        ({"key": 1}, "read as []: 1 is not of type"),
    ]
    operation = {
        "parameters": [one for one, _ in parameters],
        "security": [one for one, _ in security],
        **FINE["get"],
    }
    schemes = {"key": {"type": "http", "scheme": "basic"}}
    content = document({"/b": {"get": operation}}, components={"securitySchemes": schemes})
    first, again = warnings(tmp_path, content), warnings(tmp_path, content)
    assert first == again
    rows = (tmp_path / "api.json").read_text().splitlines()
    starts = [number for number, row in enumerate(rows, 1) if row == "     {"]
    found = [""] * len(starts)
    for line in first:
        number, _, text = re.split(r":(?: |(?=\d))", line, maxsplit=2)
        found[bisect(starts, int(number)) - 1] += text
    assert len(found) == len(parameters) + len(security)
    assert len(first) == len([one for one in found if one]) + 1  # the last parameter has two
    for text, (_, expected) in zip(found, [*parameters, *security], strict=True):
        assert text.startswith(expected) if expected else not text


def test_the_order_in_which_references_are_found_to_lead_nowhere_does_not_matter(
    tmp_path: Path,
) -> None:
    """Files are read first."""
    (tmp_path / "other.json").write_text("{}")
    references = ["#/components/parameters/Lost", "other.json#/Lost"]
    parameters = [*({"$ref": one} for one in references), QUERY]
    content = document({"/b": {"get": {**OK, "parameters": parameters}}})
    first, second = warnings(tmp_path, content)[:2]
    assert "cannot resolve reference '#/components/parameters/Lost'" in first
    assert "other.json" in second
    read = read_contract(written(tmp_path, content), whole=False)
    assert read.document["paths"]["/b"]["get"]["parameters"] == [QUERY]


SPELLINGS = {"in capitals": ("ID", "id"), "in snake case": ("order_id", "orderId")}


@pytest.mark.parametrize("is_of_path", [False, True], ids=["operation", "path"])
@pytest.mark.parametrize(("written", "meant"), SPELLINGS.values(), ids=SPELLINGS)
def test_a_parameter_has_the_name_that_its_path_has_in_other_letters(
    tmp_path: Path, written: str, meant: str, *, is_of_path: bool
) -> None:
    parameters = {"parameters": [{**PART, "name": written}]}
    item = {"get": OK, **parameters} if is_of_path else {"get": {**OK, **parameters}}
    content = document({f"/b/{{{meant}}}": item})
    (line,) = warnings(tmp_path, content)
    assert line.endswith(f": parameter '{written}' is read as '{meant}'")
    lines = (tmp_path / "api.json").read_text().splitlines()
    assert f'"name": "{written}"' in lines[int(line.partition(":")[0])]
    with serving_contract(tmp_path, content) as client:
        assert client.get("/b/1").status_code == 200
        assert client.get("/b/a").status_code == 400


def test_two_parameters_whose_names_differ_in_letters_stay_two(tmp_path: Path) -> None:
    item = {"get": {**OK, "parameters": [PART]}}
    content = document({"/b/{id}/{ID}": item})
    (line,) = warnings(tmp_path, content)
    assert line.endswith(": ID: no parameter of this name; it is any string")
    with serving_contract(tmp_path, content) as client:
        assert client.get("/b/1/a").status_code == 200
        assert client.get("/b/a/1").status_code == 400


def test_a_parameter_of_no_path_that_a_path_declares_is_ignored(tmp_path: Path) -> None:
    item = {"get": OK, "put": OK, "parameters": [PART, {**PART, "name": "other"}]}
    content = document({"/b/{id}": item, "/c": {"get": OK, "parameters": [PART]}})
    assert [line.partition(": ")[2] for line in warnings(tmp_path, content)] == [
        "/b/{id}: this is ignored: parameter 'other' is no part of the path",
        "/c: this is ignored: parameter 'id' is no part of the path",
    ]
    with serving_contract(tmp_path, content) as client:
        assert [client.get(path).status_code for path in ("/b/1", "/b/a", "/c")] == [200, 400, 200]
        assert client.put("/b/1").status_code == 200


TWICE: dict[str, tuple[Any, Any]] = {
    "equal": (QUERY, QUERY),
    "different": (QUERY, {**QUERY, "schema": {"type": "boolean"}}),
    "a reference and the same": ({"$ref": "#/components/parameters/Q"}, QUERY),
    "without a schema": (QUERY, {"name": "q", "in": "query"}),
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("is_of_path", [False, True], ids=["operation", "path"])
@pytest.mark.parametrize(("first", "second"), TWICE.values(), ids=TWICE)
def test_of_a_parameter_that_is_declared_twice_the_first_counts(
    tmp_path: Path, version: str, first: Any, second: Any, *, is_of_path: bool
) -> None:
    parameters = {"parameters": [first, second]}
    item = {"get": OK, **parameters} if is_of_path else {"get": {**OK, **parameters}}
    content = document({"/a": FINE, "/b": item}, openapi=version)
    content["components"] = {"parameters": {"Q": QUERY}}
    (line,) = [one for one in warnings(tmp_path, content) if "no 'schema'" not in one]
    number, text = line.split(":", 1)
    lines = (tmp_path / "api.json").read_text().splitlines()
    assert lines[int(number) - 2].strip() == "},"  # the end of the first one
    name = "/b" if is_of_path else "GET /b"
    assert text.endswith(f" {name}: this is ignored: parameter 'q' in query is declared twice")
    with serving_contract(tmp_path, content) as client:
        assert client.get("/b?q=1").status_code == 200
        assert client.get("/b?q=true").status_code == 400
    with pytest.raises(DocumentError, match="parameter 'q' in query is declared twice"):
        read_contract(tmp_path / "api.json")


X_T = {"name": "X-T", "in": "header", "required": True, "schema": {"type": "integer"}}
OF_HEADER = {**X_T, "name": "x-t", "required": False, "schema": {"type": "boolean"}}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("is_of_path", [False, True], ids=["operation", "path"])
def test_of_two_headers_that_differ_in_capitals_only_the_first_counts(
    tmp_path: Path, version: str, *, is_of_path: bool
) -> None:
    parameters = {"parameters": [X_T, QUERY, OF_HEADER]}
    item = {"get": OK, **parameters} if is_of_path else {"get": {**OK, **parameters}}
    content = document({"/b": item}, openapi=version)
    (line,) = warnings(tmp_path, content)
    name = "/b" if is_of_path else "GET /b"
    assert line.endswith(f" {name}: this is ignored: parameter 'x-t' in header is declared twice")
    with serving_contract(tmp_path, content) as client:
        for text, status in (("1", 200), ("true", 400)):
            assert client.get("/b", headers={"x-T": text}).status_code == status
        assert client.get("/b").json()["error"]["message"].startswith("X-T is required")
    with pytest.raises(DocumentError, match="parameter 'x-t' in header is declared twice"):
        read_contract(tmp_path / "api.json")


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_header_of_an_operation_counts_before_that_of_its_path_in_other_capitals(
    tmp_path: Path, version: str
) -> None:
    item = {"parameters": [X_T], "get": {**OK, "parameters": [OF_HEADER]}, "put": OK}
    content = document({"/b": item}, openapi=version)
    assert warnings(tmp_path, content) == []
    with serving_contract(tmp_path, content) as client:
        assert client.get("/b").status_code == 200
        assert client.get("/b", headers={"X-T": "true"}).status_code == 200
        assert client.get("/b", headers={"X-T": "1"}).status_code == 400
        assert client.put("/b", headers={"X-T": "1"}).status_code == 200


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_parameter_in_xml_is_not_checked_if_its_schema_allows_no_text(
    tmp_path: Path, version: str
) -> None:
    content = {"application/xml": {"schema": {"type": "object"}}}
    parameters = [{"name": "c", "in": "query", "required": True, "content": content}]
    content = document({"/b": {"get": {**OK, "parameters": parameters}}}, openapi=version)
    (line,) = warnings(tmp_path, content)
    text = "'application/xml' is not read; the parameter is not checked, as its schema allows no"
    assert f": c: {text} text" in line
    with serving_contract(tmp_path, content) as client:
        assert client.get("/b?c=1").status_code == 200
        assert client.get("/b").status_code == 400


def test_parameters_of_a_query_may_differ_in_capitals_only(tmp_path: Path) -> None:
    parameters = [QUERY, {**QUERY, "name": "Q", "schema": {"type": "boolean"}}]
    content = document({"/b": {"get": {**OK, "parameters": parameters}}})
    assert warnings(tmp_path, content) == []
    with serving_contract(tmp_path, content) as client:
        assert client.get("/b?q=1&Q=true").status_code == 200
        assert client.get("/b?q=1&Q=1").status_code == 400


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_what_is_wrong_behind_what_is_declared_twice_has_its_place(
    tmp_path: Path, version: str
) -> None:
    tags = [{"name": "a"}, {"name": "a"}, {"name": "b", "externalDocs": {"url": 5}}]
    parameters = [QUERY, QUERY, {"name": "h", "in": "header"}]
    content = document({"/a": {"get": {**OK, "parameters": parameters}}}, tags=tags)
    content["openapi"] = version
    found = [one.split(": ", 1) for one in warnings(tmp_path, content)]
    lines = (tmp_path / "api.json").read_text().splitlines()
    at = {text: lines[int(place.split(":")[0]) - 1] for place, text in found}
    assert '"url": 5' in at['read as "5": 5 is not of type "string"']
    behind = [one.split(":")[0] for one, text in found if text.startswith("h: it has no 'schema'")]
    assert '"h"' in lines[int(*behind)]


TAGS_TWICE: dict[str, Any] = {
    "equal": {"name": "a"},
    "different": {"name": "a", "description": "again"},
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("second", TAGS_TWICE.values(), ids=TAGS_TWICE)
def test_of_a_tag_that_is_declared_twice_the_first_counts(
    tmp_path: Path, version: str, second: Any
) -> None:
    tags = [{"name": "a"}, {"name": "b"}, second]
    content = document({"/a": FINE}, openapi=version, tags=tags)
    (line,) = warnings(tmp_path, content)
    number, text = line.split(":", 1)
    lines = (tmp_path / "api.json").read_text().splitlines()
    assert '"b"' in lines[int(number) - 3]  # before the second one
    assert text.endswith(" this is ignored: tag 'a' is declared twice")
    assert read_contract(tmp_path / "api.json", whole=False).document["tags"] == tags[:2]


def test_of_equal_items_of_a_list_that_has_each_once_the_first_counts(tmp_path: Path) -> None:
    tags = [{"name": "a"}, {"description": "b"}, {"description": "b"}]
    content = document({"/a": FINE}, openapi="3.0.3", tags=tags)
    assert all("non-unique" not in one for one in warnings(tmp_path, content))
    assert read_contract(tmp_path / "api.json", whole=False).document["tags"] == tags[:1]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_two_paths_with_one_path_item_are_served_whatever_letters_they_have(
    tmp_path: Path, version: str
) -> None:
    content = document({"/a": FINE, "/it's": {"$ref": "#/paths/~1a"}}, openapi=version)
    (line,) = warnings(tmp_path, content)
    assert line.endswith("Operation ID 'fine' for 'get' in '/it's' is not unique")
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200
        assert client.get("/it's").status_code == 200


OAS_DIALECT = "https://spec.openapis.org/oas/3.1/dialect/2024-11-10"


@pytest.mark.parametrize("member", ["jsonSchemaDialect", "$schema"])
def test_every_dialect_of_openapi_31_is_known(tmp_path: Path, member: str) -> None:
    is_whole = member == "jsonSchemaDialect"
    content = document({"/a": FINE}, **({member: OAS_DIALECT} if is_whole else {}))
    schema = {"type": "string"} if is_whole else {"type": "string", member: OAS_DIALECT}
    content["components"] = {"schemas": {"A": schema}}
    assert warnings(tmp_path, content) == []


IMPOSSIBLE: dict[str, tuple[str, str]] = {
    "a header with a space": ("header", "X Foo"),
    "a header with a colon": ("header", "X:Foo"),
    "a cookie with a space": ("cookie", "c c"),
    "a cookie with brackets": ("cookie", "c[d]"),
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("is_component", [False, True], ids=["own", "component"])
@pytest.mark.parametrize(("location", "name"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_parameter_whose_name_no_request_can_have_is_ignored(
    tmp_path: Path, version: str, location: str, name: str, *, is_component: bool
) -> None:
    one = {"name": name, "in": location, "required": True, "schema": {"type": "string"}}
    own = {"$ref": "#/components/parameters/A"} if is_component else one
    operation = {**OK, "parameters": [own, QUERY]}
    content = document({"/a": {"get": operation}}, openapi=version)
    content["components"] = {"parameters": {"A": one}}
    (line,) = warnings(tmp_path, content)
    text = f"GET /a: this parameter is ignored: no {location} can have the name {name!r}"
    assert line.endswith(f": {text}")
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a?q=1").status_code == 200
        assert client.get("/a?q=x").status_code == 400


def test_a_parameter_whose_name_a_request_can_have_is_required(tmp_path: Path) -> None:
    names = (("header", "x.foo"), ("cookie", "a:b"), ("query", "c c"))
    parameters = [{**QUERY, "in": one, "name": name, "required": True} for one, name in names]
    content = document({"/a": {"get": {**OK, "parameters": parameters}}})
    assert warnings(tmp_path, content) == []
    with serving_contract(tmp_path, content) as client:
        sent = {"x.foo": "1", "cookie": "a:b=1"}
        assert client.get("/a", params={"c c": "1"}, headers=sent).status_code == 200
        assert client.get("/a", params={"c c": "1"}).status_code == 400


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("is_required", [False, True], ids=["optional", "required"])
def test_a_body_with_empty_content_is_not_checked(
    tmp_path: Path, version: str, *, is_required: bool
) -> None:
    operation = {**OK, "requestBody": {"required": is_required, "content": {}}}
    content = document({"/a": {"post": operation}}, openapi=version)
    (line,) = warnings(tmp_path, content)
    assert line.endswith(": 'content' is empty: this requestBody is not checked")
    with serving_contract(tmp_path, content) as client:
        assert client.post("/a", json={}).status_code == 200
        assert client.post("/a").status_code == 200


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_an_asterisk_is_any_media_type(tmp_path: Path, version: str) -> None:
    media = {"schema": {"type": "object", "minProperties": 1}, "wrong": 5}
    responses = {"200": {"description": "", "content": {"*": {"example": {"a": 1}}}}}
    operation = {"requestBody": {"content": {"*": media}}, "responses": responses}
    content = document({"/a": {"post": operation}}, openapi=version)
    first, wrong, last = warnings(tmp_path, content)
    assert first.endswith(": * is read as '*/*'")
    assert last.endswith(": * is read as '*/*'")
    lines = (tmp_path / "api.json").read_text().splitlines()
    assert '"wrong"' in lines[int(wrong.split(":")[0]) - 1]
    with serving_contract(tmp_path, content) as client:
        assert client.post("/a", json={"b": 1}).json() == {"a": 1}
        assert client.post("/a", json={}).status_code == 400


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("media_type", ["*/*", "*", "application/*", "text/*", "text/plain"])
@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "string"}, {}])
def test_a_required_body_of_a_range_of_media_types_is_required(
    tmp_path: Path, version: str, media_type: str, schema: Any
) -> None:
    body = {"required": True, "content": {media_type: {"schema": schema}}}
    content = document({"/a": {"post": {**OK, "requestBody": body}}}, openapi=version)
    with serving_contract(tmp_path, content) as client:
        rejected = client.post("/a")
        assert rejected.status_code == 400
        assert rejected.json()["error"]["message"].startswith("A request body is required")


def test_an_empty_file_is_a_body_and_no_content_type_is_none(tmp_path: Path) -> None:
    content = {"*/*": {"schema": {"type": "string"}}}
    operations = {
        path: {"post": {**OK, "requestBody": {"required": is_required, "content": content}}}
        for path, is_required in (("/needed", True), ("/optional", False))
    }
    with serving_contract(tmp_path, document(operations)) as client:
        assert client.post("/needed", headers={"Content-Type": "a/b"}).status_code == 200
        assert client.post("/optional").status_code == 200


@pytest.mark.parametrize(
    ("how", "expected"),
    [("document", []), ("schema", ["this schema is read without 'items': "])],
)
@pytest.mark.parametrize(
    "dialect",
    ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"],
)
def test_a_list_of_items_as_earlier_dialects_have_it_is_served(
    tmp_path: Path, dialect: str, how: str, expected: list[str]
) -> None:
    pair: Any = {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}
    content = contract({"properties": {"a": pair}}, openapi="3.1.0")
    holder, name = (pair, "$schema") if how == "schema" else (content, "jsonSchemaDialect")
    holder[name] = dialect
    found = warnings(tmp_path, content)
    assert [one.partition(": ")[2][:37] for one in found] == expected
    with serving_contract(tmp_path, content) as client:
        assert client.post("/check", json={"a": ["x", 1]}).status_code == 204
        assert client.post("/check", json={"a": "x"}).status_code == 400


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
def test_a_list_of_no_schemas_is_ignored(tmp_path: Path, keyword: str, version: str) -> None:
    content = contract({"properties": {"a": {keyword: [], "type": "string"}}}, openapi=version)
    (line,) = warnings(tmp_path, content)
    assert line.endswith(f": this '{keyword}' is empty, and is ignored")
    with serving_contract(tmp_path, content) as client:
        assert client.post("/check", json={"a": "x"}).status_code == 204
        assert client.post("/check", json={"a": 1}).status_code == 400


def test_operations_that_are_null_are_named_beside_others_with_the_same_reason(
    tmp_path: Path,
) -> None:
    """What was done differs."""
    paths: dict[str, Any] = {f"/a{one}": {"get": {**OK, "externalDocs": None}} for one in range(5)}
    paths |= {f"/b{one}": {"get": None} for one in range(5)}
    found = [one.partition(": ")[2] for one in warnings(tmp_path, document(paths))]
    reason = 'null is not of type "object"'
    every = [f"GET /b{n}: this operation is not served: {reason}" for n in range(5)]
    assert [one for one in found if "not served" in one] == every
    assert f"this is ignored: {reason} (and 2 more places like this)" in found


GONE = {"$ref": "#/components/schemas/Gone"}
NAMED = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}
LOOSE: dict[str, tuple[str, Any]] = {
    "one of which nothing is known": ("3.0.3", {"oneOf": [NAMED, GONE]}),
    "one of which nothing is known in 3.1": ("3.1.0", {"oneOf": [NAMED, GONE]}),
    "one of which null is known": ("3.0.3", {"oneOf": [NAMED, None]}),
    "one that is wrong elsewhere": (
        "3.0.3",
        {"oneOf": [NAMED, {"$ref": "#/components/schemas/Wrong"}]},
    ),
    "one beside any of others": (
        "3.0.3",
        {"oneOf": [NAMED, GONE], "anyOf": [NAMED, {"type": "integer"}]},
    ),
    "one with a pattern": ("3.1.0", {"oneOf": [NAMED, {"patternProperties": {"[[": False}}]}),
    "one that is wrong deep inside": (
        "3.0.3",
        {"oneOf": [NAMED, {"allOf": [{"properties": {"a": {"type": "strin"}}}]}]},
    ),
    "one that is wrong deep elsewhere": (
        "3.0.3",
        {"oneOf": [NAMED, {"properties": {"a": {"$ref": "#/components/schemas/Wrong"}}}]},
    ),
    "null is not allowed": ("3.0.3", {"not": None}),
    "nobody knows what is not allowed": ("3.1.0", {"not": GONE}),
    "deep in what is not allowed": ("3.0.3", {"not": {"properties": {"a": {"pattern": "[["}}}}),
    "an unknown condition": ("3.1.0", {"if": GONE, "then": False}),
}


@pytest.mark.parametrize(("version", "schema"), LOOSE.values(), ids=LOOSE)
def test_what_is_not_checked_rejects_nothing(tmp_path: Path, version: str, schema: Any) -> None:
    components = {"schemas": {"Wrong": {"type": "strin"}}}
    content = contract(schema, openapi=version, components=components)
    assert warnings(tmp_path, content)
    with serving_contract(tmp_path, content) as client:
        assert client.post("/check", json={"a": "x"}).status_code == 204
        is_any = "anyOf" not in schema
        assert client.post("/check", json={"a": 1}).status_code == (204 if is_any else 400)


def test_of_alternatives_that_are_checked_one_is_satisfied(tmp_path: Path) -> None:
    """Wrong examples change nothing, and nor does what is wrong beside the alternatives."""
    other = {"properties": {"b": {"type": "integer"}}, "required": ["b"], "examples": 1}
    beside = {"properties": {"c": {"type": "strin"}}}
    content = contract({"oneOf": [NAMED, other], **beside}, openapi="3.1.0")
    assert warnings(tmp_path, content)
    with serving_contract(tmp_path, content) as client:
        assert client.post("/check", json={"a": "x"}).status_code == 204
        assert client.post("/check", json={"a": "x", "b": 1}).status_code == 400


EARLIER: dict[str, tuple[str, Any, Callable[[Any], bool]]] = {
    "a list of items": (
        "draft-07",
        {"items": [{"const": "x"}, {"items": [{"const": "y"}], "minItems": 1}], "minItems": 2},
        lambda found: found == ["x", ["y"]],
    ),
    "items beyond the list": (
        "draft-06",
        {"items": [{"const": "x"}], "additionalItems": {"const": "y"}, "minItems": 3},
        lambda found: found == ["x", "y", "y"],
    ),
    "a limit that is exclusive": (
        "draft-04",
        {"type": "integer", "minimum": 5, "exclusiveMinimum": True, "maximum": 6},
        lambda found: found == 6,
    ),
    "a limit that is not exclusive": (
        "draft-04",
        {"type": "integer", "minimum": 5, "exclusiveMaximum": False, "maximum": 5},
        lambda found: found == 5,
    ),
    "a reference to the whole": (
        "2019-09",
        {
            "$id": "https://toys.test/tree",
            "$recursiveAnchor": True,
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"const": "x"},
                "others": {"type": "array", "minItems": 1, "items": {"$recursiveRef": "#"}},
            },
        },
        lambda found: found["others"][0]["name"] == "x",
    ),
}


@pytest.mark.parametrize(("dialect", "schema", "is_right"), EARLIER.values(), ids=EARLIER)
def test_responses_are_generated_for_what_only_earlier_dialects_have(
    tmp_path: Path, dialect: str, schema: Any, is_right: Callable[[Any], bool]
) -> None:
    kind = f"http://json-schema.org/{dialect}/schema#"
    kind = "https://json-schema.org/draft/2019-09/schema" if dialect == "2019-09" else kind
    media = {"application/json": {"schema": {"$schema": kind, **schema}}}
    get = {"get": {"responses": {"200": {"description": "ok", "content": media}}}}
    content = document({"/a": get})
    assert not warnings(tmp_path, content)
    with serving_contract(tmp_path, content) as client:
        assert is_right(client.get("/a").json())


NULL_IN_30: dict[str, tuple[Any, str]] = {
    "an alternative": ({"oneOf": [{"type": "null"}, {"type": "string"}]}, "is read as null"),
    "an alternative as a list": (
        {"anyOf": [{"type": ["null"]}, {"type": "string"}]},
        "is read as null",
    ),
    "one of two types": ({"type": ["string", "null"]}, "are read as 'nullable'"),
}


@pytest.mark.parametrize(("schema", "text"), NULL_IN_30.values(), ids=NULL_IN_30)
def test_null_is_a_type_of_openapi_30_too(tmp_path: Path, schema: Any, text: str) -> None:
    content = contract({"properties": {"a": schema}}, openapi="3.0.3")
    (line,) = warnings(tmp_path, content)
    assert line.endswith(text)
    lines = (tmp_path / "api.json").read_text().splitlines()
    assert '"type"' in lines[int(line.split(":")[0]) - 1]
    with serving_contract(tmp_path, content) as client:
        statuses = [client.post("/check", json={"a": one}).status_code for one in ("x", None, 1)]
        assert statuses == [204, 204, 400]


def test_of_two_schemas_with_one_address_the_first_has_it(tmp_path: Path) -> None:
    schemas = {"A": {"$id": "A", "type": "string"}, "B": {"$id": "A", "type": "integer"}}
    content = contract({"properties": {"a": {"$ref": "A"}}}, openapi="3.1.0")
    content["components"] = {"schemas": schemas}
    (line,) = warnings(tmp_path, content)
    assert re.match(r"\d+:\d+: A: another schema has this \$id; it is ignored here", line)
    lines = (tmp_path / "api.json").read_text().splitlines()
    assert '"B"' in lines[int(line.split(":")[0]) - 2]
    with serving_contract(tmp_path, content) as client:
        assert client.post("/check", json={"a": "x"}).status_code == 204
        assert client.post("/check", json={"a": 1}).status_code == 400


def test_a_document_of_one_line_has_the_operation_in_its_warnings(tmp_path: Path) -> None:
    paths = {"/a": {"get": {**OK, "callbacks": {"c": {}}}}, "/b": {"get": {"responses": 5}}}
    schemas = {"A": {"required": ["a", "a"]}}
    content = document({"/c": FINE, **paths}, components={"schemas": schemas})
    file = tmp_path / "api.json"
    file.write_text(json.dumps(content))
    lines = [one.removeprefix(f"{file}:1:") for one in load_contract(file).warnings]
    first, second, third = (one.split(": ", 1)[1] for one in lines)
    assert first == "GET /a: callbacks are not called"
    assert second.startswith("GET /b: this operation is not served: ")
    assert third == "/components/schemas/A: duplicate names in 'required' are ignored"


PATHS: dict[str, tuple[dict[str, Any], str]] = {
    "no slash, and no operation": (
        {"t": {"summary": "t"}},
        "t: this is ignored: a path begins with '/'",
    ),
    "a whole address": (
        {"https://x.example/t": {"get": OK}},
        "https://x.example/t: this is ignored: a path begins with '/'",
    ),
    "no slash, but there is such a path": (
        {"a": {"get": OK}},
        "a: this is ignored: a path begins with '/'",
    ),
    "a brace too many": (
        {"/t/{a": {"get": OK}},
        "/t/{a: this pathItem is not served: its braces are not in pairs",
    ),
    "a brace at the end": ({"/t/a}": {"get": OK}}, "/t/a}: this pathItem is not served: "),
    "braces in braces": ({"/t/{{a}}": {"get": OK}}, "/t/{{a}}: this pathItem is not served: "),
    "braces around nothing": ({"/t/{}": {"get": OK}}, "/t/{}: this pathItem is not served: "),
    "a path that is itself": (
        {"/p": {"$ref": "#/paths/~1p"}},
        "/p: this pathItem is not served: the reference '#/paths/~1p' leads back to itself",
    ),
    "two paths that are each other": (
        {"/p": {"$ref": "#/paths/~1q"}, "/q": {"$ref": "#/paths/~1p"}},
        "/p: this pathItem is not served: the reference '#/paths/~1q' leads back to itself",
    ),
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(("paths", "message"), PATHS.values(), ids=PATHS)
def test_a_path_that_cannot_be_served_is_named_and_the_rest_is_served(
    tmp_path: Path, version: str, paths: dict[str, Any], message: str
) -> None:
    file = written(tmp_path, document({"/a": FINE, **paths}, openapi=version))
    project = load_contract(file)
    assert [one.path for one in project.contract.operations.values()] == ["/a"]
    assert re.search(rf"json:\d+:\d+: {re.escape(message)}", "\n".join(project.warnings))


@pytest.mark.parametrize("path", ["pets", " /pets", "/pets?q=1"])
def test_what_is_wrong_below_a_path_that_is_read_otherwise_is_named_with_its_place(
    tmp_path: Path, path: str
) -> None:
    lost = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/No"}}}}
    item = {
        "get": {"responses": {"200": {"description": "ok", **lost}}},
        "post": {"responses": {"200": {"$ref": "#/components/responses/No"}}},
    }
    file = tmp_path / "api.json"
    file.write_text(json.dumps(document({path: item}), indent=1))
    lines = [one.strip() for one in file.read_text().splitlines()]
    of_schema, of_post = (lines.index(f'"{name}": {{') + 1 for name in ("schema", "post"))
    for _ in range(2):  # the second time from the cache
        read, schema, post = load_contract(file).warnings
        assert read.endswith("' is read as '/pets'")
        assert schema.startswith(f"{file}:{of_schema}:")
        assert "this schema is not checked: cannot resolve reference" in schema
        assert post.startswith(f"{file}:{of_post}:4: POST /pets: this operation is not served: ")
        moved = tmp_path / "moved.json"  # the cache knows the text, and not its file
        file = file.rename(moved) if file != moved else file


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_query_in_a_path_is_that_of_its_operations(tmp_path: Path, version: str) -> None:
    whole = {"type": "integer"}
    own, above = (
        {"name": name, "in": "path", "required": True, "schema": whole} for name in ("id", "q")
    )
    paths = {
        "/orders/{id}?q={q}&sort=up": {"parameters": [above], "get": {**OK, "parameters": [own]}},
        "/carts?q={q}": {"get": {**OK, "parameters": [above]}},
        "/carts": {"get": OK},
    }
    content = document(paths, openapi=version)
    first, second = warnings(tmp_path, content)
    assert first.endswith("'/orders/{id}?q={q}&sort=up' is read as '/orders/{id}'")
    assert second.endswith("only a percent-encoded request reaches it: '#' and '?' end a path")
    with serving_contract(tmp_path, content) as client:
        assert client.get("/orders/7?q=1&sort=up").status_code == 200
        assert client.get("/orders/7?q=x").status_code == 400
        assert client.get("/orders/x?q=1").status_code == 400
        assert client.get("/orders/7").status_code == 400
        assert client.get("/carts?q=x").status_code == 200


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("query", ["{?q,r}", "{?q*,r:3}", "{?q}{&r}", "?sort=up{&q,r}"])
def test_a_query_in_a_path_may_be_that_of_a_uri_template(
    tmp_path: Path, query: str, version: str
) -> None:
    whole = {"type": "integer"}
    given = [{"name": one, "in": "path", "required": True, "schema": whole} for one in ("q", "r")]
    operation = {"get": {**OK, "parameters": given}}
    paths = {f"/search{query}": operation, "/carts{?q,r}": operation, "/carts": {"get": OK}}
    content = document(paths, openapi=version)
    first, second = warnings(tmp_path, content)
    assert first.endswith(f"'/search{query}' is read as '/search'")
    assert second.endswith(
        "/carts{?q,r}: this pathItem is not served: it has a query,"
        " and there is another path without it"
    )
    with serving_contract(tmp_path, content) as client:
        asked = ("/search?q=1&r=2", "/search?q=1&r=x", "/search?r=2", "/carts", "/cartsx")
        assert [client.get(one).status_code for one in asked] == [200, 400, 400, 200, 404]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("name", ["a:int", "a:", "c!r", "d.e", "f[0]", "g:path"])
def test_a_parameter_of_a_path_may_have_any_name(tmp_path: Path, version: str, name: str) -> None:
    parameter = {"name": name, "in": "path", "required": True, "schema": {"type": "integer"}}
    operation = {**OK, "parameters": [parameter]}
    content = document({f"/u/{{{name}}}/x": {"get": operation}}, openapi=version)
    assert warnings(tmp_path, content) == []
    with serving_contract(tmp_path, content) as client:
        assert client.get("/u/1/x").status_code == 200
        assert client.get("/u/b/x").status_code == 400


@pytest.mark.parametrize("wrong", [{"name": "q", "in": "query string"}, None], ids=repr)
def test_what_needs_a_component_that_is_left_out_is_left_out_too(
    tmp_path: Path, wrong: Any
) -> None:
    needy = {"responses": {"200": {"$ref": "#/components/responses/A"}}}
    checked = {**OK, "parameters": [{"$ref": "#/components/parameters/A"}, QUERY]}
    components = {"responses": {"A": {"content": 5}}, "parameters": {"A": wrong}}
    paths = {"/a": FINE, "/b": {"post": needy, "get": checked}}
    lines = "\n".join(warnings(tmp_path, document(paths, components=components)))
    assert "POST /b: this operation is not served: cannot resolve reference" in lines
    assert "GET /b: this parameter is ignored: cannot resolve reference" in lines
    assert re.search("this (parameter is not served|is ignored): ", lines)
    with serving_contract(tmp_path, document(paths, components=components)) as client:
        assert client.get("/a").status_code == 200
        assert client.get("/b", params={"q": "1"}).status_code == 200
        assert client.post("/b").status_code == 404


NOT_JSON: dict[str, tuple[str, str]] = {
    "infinity": (".inf", "this is ignored: '.inf' is not a valid float"),
    "a number that is too large": ("1e400", "this is ignored: '1e400' is not a valid float"),
    "an item": ("[1, .nan, 2]", "this is ignored: '.nan' is not a valid float"),
    "a tag": ("!custom {b: 1}", "this is ignored: the tag '!custom' has no place in JSON"),
    "a key twice": ("{b: 1, c: 3, b: 2}", "duplicate key 'b': the last one counts"),
}


@pytest.mark.parametrize(("value", "message"), NOT_JSON.values(), ids=NOT_JSON)
def test_a_value_that_is_no_json_is_named_and_the_rest_is_served(
    tmp_path: Path, value: str, message: str
) -> None:
    file = tmp_path / "api.yaml"
    file.write_text(
        f"""\
openapi: 3.1.0
info: {{title: Toy, version: "1"}}
paths:
  /a:
    get:
      responses:
        "200":
          description: ok
          content:
            application/json:
              example:
                a: {value}
"""
    )
    (line,) = load_contract(file).warnings
    assert re.fullmatch(rf"{re.escape(str(file))}:12:\d+: {re.escape(message)}", line)
    with serving(replace(FROZEN, contract=file, scenario=None)) as running:
        body = httpx.get(f"{running.url}/a", timeout=10).json()
    assert body.get("a") in (None, [1, 2], {"b": 2, "c": 3})
    assert ("a" in body) == (message.startswith("duplicate") or value.startswith("["))


IN_FILES: dict[str, tuple[str, str, str]] = {
    "a key twice": (
        "a.yaml",
        "get:\n  summary: a\n  summary: b\n  RESPONSES",
        ":3:3: duplicate key 'summary': the last one counts",
    ),
    "a key twice in JSON": (
        "a.json",
        '{"get": {"summary": "a", "summary": "b",\n"RESPONSES}}',
        ":1:10: /get/summary: duplicate key 'summary': the last one counts",
    ),
    "a key that is no text": (
        "a.yaml",
        "get:\n  x-a: {{ title }}\n  RESPONSES",
        ":2:9: this is ignored: a key must be text",
    ),
    "a value that is no JSON": (
        "a.yaml",
        "get:\n  x-a: .inf\n  RESPONSES",
        ":2:3: this is ignored: '.inf' is not a valid float",
    ),
    "half of a letter": (
        "a.json",
        '{"get": {"summary": "\\ud800",\n"RESPONSES}}',
        r":1:22: in this file: \ud800 is half of a letter, and read as U+FFFD",
    ),
}


@pytest.mark.parametrize(("name", "text", "message"), IN_FILES.values(), ids=IN_FILES)
def test_what_is_read_otherwise_in_another_file_has_its_place_there(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    responses = "responses: {'200': {description: ok}}"
    if name.endswith("json"):
        responses = 'responses": {"200": {"description": "ok"}}'
    (tmp_path / name).write_text(text.replace("RESPONSES", responses))
    file = written(tmp_path, document({"/a": {"$ref": name}, "/b": {"$ref": name}}))
    for _ in range(2):  # the second time, it is kept
        (line,) = load_contract(file).warnings
        assert line == f"{tmp_path / name}{message}"
    with serving(replace(FROZEN, contract=file)) as running, running.client() as client:
        assert client.get("/a").status_code == 200
    with pytest.raises(DocumentError):
        read_contract(file)


def test_a_key_twice_in_json_may_be_beside_half_of_a_letter(tmp_path: Path) -> None:
    text = json.dumps(document({"/a": FINE})).replace('"title"', '"x-a": "\\ud800", "title"', 1)
    file = tmp_path / "api.json"
    file.write_text(text.replace('"title"', '"title": "a", "title"', 1))
    first, second = load_contract(file).warnings
    assert first.endswith(r" \ud800 is half of a letter, and read as U+FFFD")
    assert second.endswith(" duplicate key 'title': the last one counts")


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_what_cannot_be_read_of_another_file_is_named_with_its_place_there(
    tmp_path: Path, version: str
) -> None:
    (tmp_path / "a.yaml").write_text("get:\n  summary: a: b\n")
    file = written(tmp_path, document({"/a": {"$ref": "a.yaml"}, "/b": FINE}, openapi=version))
    (line,) = load_contract(file).warnings
    assert line.startswith(f"{file}:8:3: /a: this pathItem is not served: {tmp_path}/a.yaml:2:13: ")


def test_what_is_wrong_below_a_key_twice_has_the_place_of_the_last_one(tmp_path: Path) -> None:
    file = tmp_path / "api.yaml"
    file.write_text(
        "openapi: 3.1.0\ninfo: {title: Toy, version: '1'}\npaths: {}\n"
        "paths:\n  /a: {get: {responses: {'200': {description: ok}},\n    wrong: 1}}\n"
    )
    first, second = load_contract(file).warnings
    assert first == f"{file}:4:1: duplicate key 'paths': the last one counts"
    assert second.startswith(f"{file}:6:5: ")


def test_a_member_whose_key_is_no_text_is_ignored(tmp_path: Path) -> None:
    text = json.dumps(document({"/a": FINE})).replace('"Toy"', "{{ name }}")
    text = text.replace('"description": "ok"', '"description": "ok", <<: [5, {x-a: 1}]')
    file = tmp_path / "api.yaml"
    file.write_text(text)
    found = [one.removeprefix(f"{file}:1:") for one in load_contract(file).warnings]
    key, merge = text.index("{{ name }}") + 2, text.index("<<") + 1
    assert found[1:] == [
        f"{key}: /info/title: this is ignored: a key must be text",
        f"{merge}: GET /a: this is ignored: '<<' must name an object, or a list of objects",
    ]
    with serving(replace(FROZEN, contract=file, scenario=None)) as running:
        assert httpx.get(f"{running.url}/a", timeout=10).status_code == 200


def test_a_key_twice_in_json_counts_once(tmp_path: Path) -> None:
    file = tmp_path / "api.json"
    text = json.dumps(document({"/a": FINE}))
    file.write_text(text.replace('"title"', '"title": "First",\n "title"'))
    project = load_contract(file)
    assert project.contract.document["info"]["title"] == "Toy"
    (line,) = project.warnings
    assert line.endswith("duplicate key 'title': the last one counts")


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_what_is_nested_too_deeply_is_named_and_the_rest_is_served(
    tmp_path: Path, version: str
) -> None:
    schema: Any = {"type": "integer"}
    for _ in range(400):
        schema = {"type": "object", "properties": {"a": schema}}
    content = document({"/a": FINE, "/b": {"get": with_schema(schema)}}, openapi=version)
    file = tmp_path / "api.json"
    file.write_text(json.dumps(content))
    (line,) = load_contract(file).warnings
    text = "GET /b: this is ignored: nested too deeply: more than 256 levels"
    assert re.fullmatch(rf"{re.escape(str(file))}:1:\d+: {text}", line)
    with serving(replace(FROZEN, contract=file, scenario=None)) as running:
        assert httpx.get(f"{running.url}/a", timeout=10).status_code == 200
        assert httpx.get(f"{running.url}/b", timeout=10).status_code == 200


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_component_that_is_nested_too_deeply_is_named_in_words(
    tmp_path: Path, version: str
) -> None:
    schema: Any = {"type": "integer"}
    for _ in range(120):
        schema = {"type": "object", "required": ["a"], "properties": {"a": schema}}
    needy = with_schema({"$ref": "#/components/schemas/Deep"})
    content = document({"/b": {"get": needy}}, openapi=version)
    content["components"] = {"schemas": {"Deep": schema}}
    (line,) = warnings(tmp_path, content)
    assert "or too deep; add an example to the operation or the schema" in line


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_pattern_that_python_has_doubts_about_is_no_warning_of_python(
    tmp_path: Path, version: str
) -> None:
    schema = {"type": "string", "pattern": "^[[:alnum:]]+$"}
    content = document({"/a": {"get": {**OK, "wrong": 1}}}, openapi=version)
    content["components"] = {"schemas": {"A": schema}}
    assert any("('wrong' was unexpected)" in one for one in warnings(tmp_path, content))


WRONGLY_THERE: dict[str, dict[str, Any]] = {
    "paths that are a list": {"paths": ["/a"]},
    "paths that are text": {"paths": "none"},
    "a title that is a list": {"info": {"title": ["Toy"], "version": "1"}},
    "a description of a response that is a list": {
        "paths": {"/a": {"get": {"responses": {"200": {"description": ["ok"]}}}}}
    },
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("members", WRONGLY_THERE.values(), ids=WRONGLY_THERE)
def test_what_is_there_and_wrong_is_not_reported_as_missing(
    tmp_path: Path, version: str, members: dict[str, Any]
) -> None:
    content = {**document({"/a": FINE}, openapi=version), **members}
    lines = [one for one in warnings(tmp_path, content) if "no operation is served" not in one]
    (line,) = lines
    assert re.search(r": this is ignored: .* is not of type \"(object|string)\"$", line)


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_scheme_of_client_certificates_is_declared_in_every_version(
    tmp_path: Path, version: str
) -> None:
    content = document({"/a": FINE}, openapi=version, security=[{"tls": []}])
    content["components"] = {"securitySchemes": {"tls": {"type": "mutualTLS"}}}
    (line,) = warnings(tmp_path, content)
    assert line.endswith(": client certificates are not checked; the scheme always passes")
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200


def test_what_nobody_can_read_to_its_end_is_an_error_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "api.json"
    file.write_text(json.dumps({"openapi": "3.1.0", "x": []})[:-3] + "[" * 5000 + "]" * 5000 + "}")
    with pytest.raises(ProjectError, match=r"json:1:\d+: nested too deeply: more than 256 levels"):
        load_contract(file)


def test_what_is_no_json_at_all_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "api.json"
    file.write_text(json.dumps(document({"/a": FINE}))[:-1])
    with pytest.raises(ProjectError, match="not JSON"):
        load_contract(file)


SCHEMAS_31: dict[str, Any] = {
    "properties that are text": {"properties": "a"},
    "alternatives that are null": {"oneOf": None},
    "names that are a reference": {"required": {"$ref": "#/gone"}},
    "an anchor that is nowhere": {"$dynamicRef": "#gone"},
    "an anchor in a file that nobody reads": {"$dynamicRef": "gone.json#node"},
    "an anchor at an address": {"$dynamicRef": "http://127.0.0.1:9/gone.json#node"},
    "an identifier that is no address": {"$id": "http://[::1"},
}


@pytest.mark.parametrize("schema", SCHEMAS_31.values(), ids=SCHEMAS_31)
def test_a_schema_that_nothing_can_compile_takes_out_no_more_than_itself(
    tmp_path: Path, schema: Any
) -> None:
    get = with_schema({"$ref": "#/components/schemas/A"})
    content = document({"/a": {"get": get}}, components={"schemas": {"A": schema}})
    (line,) = warnings(tmp_path, content)
    assert re.match(
        r"[1-9]\d+:\d+: this (schema is (not checked|read)|is (no URI reference|ignored))", line
    )
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_wrong_component_with_an_unusual_name_is_ignored_too(
    tmp_path: Path, version: str
) -> None:
    schemes = {"My Key": {"a": None}, "Bearer": {"type": "http", "scheme": "bearer"}}
    get = {**OK, "security": [{"Bearer": []}]}
    content = document({"/a": {"get": get}}, components={"securitySchemes": schemes})
    with serving_contract(tmp_path, {**content, "openapi": version}) as client:
        assert client.get("/a").status_code == 200
        del client.headers["Authorization"]
        assert client.get("/a").status_code == 401


def test_a_response_with_an_empty_status_beside_a_wrong_one_is_no_crash(tmp_path: Path) -> None:
    responses = {**OK["responses"], "": {"description": "x"}, "500": {"$ref": "#/none"}}
    with serving_contract(tmp_path, document({"/a": {"get": {"responses": responses}}})) as client:
        assert client.get("/a").status_code == 200


def test_warnings_are_in_the_order_of_their_places(tmp_path: Path) -> None:
    paths = {
        "/a": {"get": {**OK, "wrong": 1}},
        "/b": {"get": {"responses": 5}},
        "/c": {"get": {**OK, "callbacks": {"c": {}}}},
        "/d": {"get": {**OK, "wrong": 1}},
    }
    lines = [int(one.split(":")[0]) for one in warnings(tmp_path, document(paths))]
    assert len(lines) == len(paths)
    assert lines == sorted(lines)


OVERTAKEN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "an operation of a path that is not served": (
        {"/t/{a}/{": {"get": OK}},
        {},
        "/t/{a}/{: this pathItem is not served: ",
    ),
    "a member of a server that is ignored": ({}, {"servers": {"a": 1}}, "this is ignored: "),
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(("paths", "members", "message"), OVERTAKEN.values(), ids=OVERTAKEN)
def test_of_what_is_left_out_only_that_is_reported(
    tmp_path: Path, version: str, paths: dict[str, Any], members: dict[str, Any], message: str
) -> None:
    (line,) = warnings(tmp_path, document({"/a": FINE, **paths}, openapi=version, **members))
    assert message in line


DIALECT = "https://toy.example/dialect"
DIALECTS: dict[str, tuple[Any, dict[str, Any]]] = {
    "of the document": ({"type": "integer"}, {"jsonSchemaDialect": DIALECT}),
    "of a schema": ({"$schema": DIALECT, "type": "integer"}, {}),
    "of a schema in it": ({"items": {"$schema": DIALECT}, "type": "integer"}, {}),
    "that is a number": ({"$schema": 5, "type": "integer"}, {}),
    "that is true": ({"$schema": True, "type": "integer"}, {}),
}


@pytest.mark.parametrize(("schema", "members"), DIALECTS.values(), ids=DIALECTS)
def test_a_dialect_that_is_not_known_is_reported_and_read_as_the_usual_one(
    tmp_path: Path, schema: Any, members: dict[str, Any]
) -> None:
    content = contract(schema, **members)
    (line,) = warnings(tmp_path, content)
    assert re.match(r"[1-9]\d+:\d+: the dialect '.*' is not known: read as JSON Schema 2020", line)
    assert "'True'" not in line
    with serving_contract(tmp_path, content) as client:
        assert client.post("/check", json=1).status_code == 204
        assert client.post("/check", json="a").status_code == 400


INFO = {"title": "Toy", "version": "1"}
FORGIVEN: dict[str, tuple[dict[str, Any], str]] = {
    "a number for the version of the API": (
        {"info": {"title": "Toy", "version": 1.0}},
        'read as "1.0": 1.0 is not of type "string"',
    ),
    "no version of the API": (
        {"info": {"title": "Toy"}},
        "'version' is missing, and taken as \"0\"",
    ),
    "no title": ({"info": {"version": "1"}}, "'title' is missing, and taken as \"Untitled\""),
    "info that is a list": ({"info": []}, "this is ignored: [] is not of type"),
    "info that is null": ({"info": None}, "'info' is missing, and taken as {"),
    "security as an object": ({"security": {"k": []}}, 'read as [{"k": []}]: '),
    "security as a text": ({"security": ["k"]}, 'read as {"k": []}: "k" is not of type "object"'),
    "a server without URL": (
        {"servers": [{"description": "Production"}]},
        'this is ignored: "url" is a required property',
    ),
    "a variable of a server without default": (
        {"servers": [{"url": "/{v}", "variables": {"v": {}}}]},
        'this is ignored: "default" is a required property',
    ),
    "a variable of a server without default that nothing needs": (
        {"servers": [{"url": "/", "variables": {"v": {}}}]},
        "v: this variable is no part of the URL, and ignored",
    ),
    "a server that is text": ({"servers": ["/"]}, 'read as {"url": "/"}: '),
    "a server at no address": (
        {"servers": [{"url": "http://[::1/v1"}]},
        "this is ignored: Invalid IPv6 URL",
    ),
    "one server that is no list": ({"servers": {"url": "/"}}, 'read as [{"url": "/"}]: '),
    "components that are a list": ({"components": []}, "this is ignored: [] is not of type"),
    "no security schemes": (
        {"components": {"securitySchemes": None}, "security": [{"k": []}]},
        "this is ignored: null is not of type",
    ),
    "a summary that is a number": (
        {"paths": {"/a": {"get": {**OK, "summary": 5}}}},
        'read as "5": 5 is not of type "string"',
    ),
    "deprecated as text": (
        {"paths": {"/a": {"get": {**OK, "deprecated": "true"}}}},
        'read as true: "true" is not of type "boolean"',
    ),
    "deprecated as yes": (
        {"paths": {"/a": {"get": {**OK, "deprecated": "Yes"}}}},
        'read as true: "Yes" is not of type "boolean"',
    ),
    "deprecated as another text": (
        {"paths": {"/a": {"get": {**OK, "deprecated": "soon"}}}},
        'this is ignored: "soon" is not of type "boolean"',
    ),
    "tags as text": ({"paths": {"/a": {"get": {**OK, "tags": "x"}}}}, 'read as ["x"]: '),
    "tags as objects": (
        {"paths": {"/a": {"get": {**OK, "tags": [{"name": "x"}]}}}},
        'this is ignored: {"name":"x"} is not of type "string"',
    ),
    "an operationId that is a number": (
        {"paths": {"/a": {"get": {**OK, "operationId": 7}}}},
        'read as "7": ',
    ),
    "a description that is null": (
        {"paths": {"/a": {"get": {**OK, "description": None}}}},
        "this is ignored: null is not of type",
    ),
    "a response without description": (
        {"paths": {"/a": {"get": {"responses": {"200": {}}}}}},
        "'description' is missing, and taken as \"\"",
    ),
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(("members", "message"), FORGIVEN.values(), ids=FORGIVEN)
def test_what_is_plainly_meant_or_needed_by_nobody_keeps_nothing_from_being_served(
    tmp_path: Path, version: str, members: dict[str, Any], message: str
) -> None:
    content = {**document({"/a": {"get": OK}}, openapi=version), **members}
    file = written(tmp_path, content)
    project = load_contract(file)
    assert [one.path for one in project.contract.operations.values()] == ["/a"]
    assert any(message in one for one in project.warnings)


UNUSUAL = ("Page«Pet»", "My Pet", "Page<Pet>", "a/b", "a~b", "a#b", "100%", "Pets[]", "ü", "")


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("encode", [str, quote], ids=["as it is", "percent-encoded"])
@pytest.mark.parametrize("name", UNUSUAL)
def test_a_component_may_have_any_name(
    tmp_path: Path, version: str, encode: Callable[[str], str], name: str
) -> None:
    schema = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
    named = encode(name.replace("~", "~0").replace("/", "~1"))
    paths = {
        path: {"post": posting({"$ref": f"#/components/schemas/{one}"})}
        for path, one in {"/pets": "Pet", "/pages": named}.items()
    }
    content = document(
        paths, components={"schemas": {"Pet": schema, name: schema}}, openapi=version
    )
    for line in warnings(tmp_path, content):
        assert "the name of a component can have" in line or "this is no URI" in line
    with serving_contract(tmp_path, content) as client:
        for path in paths:
            assert client.post(path, json={"id": "1"}).status_code == 400
            assert client.post(path, json={"id": 1}).status_code == 201


def posting(schema: dict[str, Any]) -> dict[str, Any]:
    """An operation that takes and returns a value of the schema."""
    content = {"content": {"application/json": {"schema": schema}}}
    return {"requestBody": content, "responses": {"201": {"description": "", **content}}}


BEARER = {"type": "http", "scheme": "bearer"}


def test_a_request_names_the_example_that_its_response_is_not(tmp_path: Path) -> None:
    whole = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
    examples = {"a": {"value": {"id": "x"}}, "b": {"value": {"id": "y"}}}
    media: dict[str, dict[str, Any]]
    media = {"application/json": {"schema": whole, "examples": examples}}
    operation = {"responses": {"200": {"description": "ok", "content": media}}}
    explained = {"X-Sandbox-Explain": "true"}
    with serving_contract(tmp_path, document({"/a": {"get": operation}})) as client:
        response = client.get("/a", headers=explained)
        hint = "this example is not used: id must be a whole number"
        assert hint in response.headers["X-Sandbox-Explain"]
        assert isinstance(response.json()["id"], int)
        dynamic = client.get("/a", headers={**explained, "Prefer": "dynamic=true"})
        assert "hint" not in dynamic.headers["X-Sandbox-Explain"]
    media["application/json"]["examples"] = {**examples, "c": {"value": {"id": 7}}}
    with serving_contract(tmp_path, document({"/a": {"get": operation}})) as client:
        response = client.get("/a", headers=explained)
        assert response.json() == {"id": 7}
        assert "hint" not in response.headers["X-Sandbox-Explain"]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_components_of_unusual_names_leave_authentication_on_and_are_warnings(
    tmp_path: Path, version: str
) -> None:
    response = {"$ref": "#/components/responses/My%20Thing"}
    secured = {"security": [{"Bearer": []}], "responses": {"200": response}}
    components = {
        "securitySchemes": {"API Key": {"type": "apiKey", "in": "query", "name": "k"}}
        | {"Bearer": BEARER},
        "responses": {"My Thing": {"description": "ok"}},
    }
    content = document({"/a": {"get": secured}}, components=components) | {"openapi": version}
    assert len(warnings(tmp_path, content)) == 2
    strictly = serving_contract(tmp_path, content, strict=True)
    with pytest.raises(ProjectError, match="--strict: 2 warnings"), strictly:
        pass
    with pytest.raises(DocumentError, match="API Key: the name of a component can have"):
        read_contract(written(tmp_path, content))
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200
        del client.headers["Authorization"]
        assert client.get("/a").status_code == 401


NAMES = {
    "content": ("text/good", "text/bad"),
    "responses": ("200", "404"),
    "paths": ("/good", "/bad"),
    "flows": ("password", "implicit"),
}
"""Good and bad names in maps that do not allow any."""

FLOW = {"tokenUrl": "https://id.example/token", "scopes": {"read": ""}}
VALID: dict[str, Any] = {
    "schema": {"type": "string"},
    "response": {"description": "ok"},
    "parameter": {"name": "q", "in": "query", "style": "form", "schema": {"type": "string"}},
    "example": {"value": 1},
    "requestBody": {"content": {"*/*": {}}},
    "header": {"style": "simple", "schema": {"type": "string"}},
    "securityScheme": BEARER,
    "link": {"operationId": "get_a"},
    "callback": {"{$url}": {"post": OK}},
    "pathItem": {"get": OK},
    "mediaType": {"schema": {"type": "string"}},
    "encoding": {"contentType": "text/plain"},
    "flow": FLOW,
    "scope": "",
}
"""An object of each type that maps have."""

OF_SCHEMES = ("components", "securitySchemes", "s")
WHERE: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "document": ((), {}),
    "components": (("components",), {}),
    "operation": (("paths", "/b", "get"), OK),
    "response": (("components", "responses", "r"), VALID["response"]),
    "parameter": (("components", "parameters", "p"), VALID["parameter"]),
    "header": (("components", "headers", "h"), VALID["header"]),
    "requestBody": (("components", "requestBodies", "b"), {}),
    "mediaType": (("components", "requestBodies", "b", "content", "a/b"), {}),
    "encoding": (
        ("components", "requestBodies", "b", "content", "a/b", "encoding", "e"),
        {"contentType": "text/plain"},
    ),
    "securityScheme": (OF_SCHEMES, {"type": "oauth2"}),
    "flow": ((*OF_SCHEMES, "flows", "password"), FLOW),
}
"""Where objects with maps are, and the members beside the map."""

NOT_ALONE = {
    ("parameter", "content"): "it has one member only",
    ("header", "content"): "it has one member only",
    ("server", "variables"): "without one, the server has another URL",
    ("document", "x-webhooks"): "an extension is not validated",
}
MAPS = [
    (type_, member)
    for type_ in sorted(OBJECTS - {SCHEMA})
    for member in members_of(type_)
    if node({}, type_).child(member, {}).type[0] in "{<" and (type_, member) not in NOT_ALONE
]


@pytest.mark.parametrize("bad", [5, None, {"$ref": 5}, {"type": "strong"}], ids=str)
@pytest.mark.parametrize(
    ("type_", "member", "version"),
    [
        (*one, version)
        for one in MAPS
        for version in ("3.0.3", "3.1.0")
        if version == "3.1.0" or one[1] not in {"webhooks", "pathItems"}
    ],
)
def test_an_error_in_one_member_of_a_map_leaves_the_others(
    tmp_path: Path, type_: str, member: str, bad: Any, version: str
) -> None:
    place, beside = WHERE[type_]
    good_name, bad_name = NAMES.get("" if type_ == "components" else member, ("good", "bad"))
    good = VALID[node({}, type_).child(member, {}).type[1:-1]]
    content = document({"/a": {"get": OK}}, openapi=version)
    around = content
    for step in place:
        around = around.setdefault(step, {})
    around |= deepcopy({**beside, member: {good_name: good, bad_name: bad}})
    if "flows" in place:
        content["components"]["securitySchemes"]["s"]["type"] = "oauth2"
    read = read_contract(written(tmp_path, content), whole=False)
    kept: Any = read.document
    for step in (*place, member):
        kept = kept[step]
    assert kept[good_name] == good
    assert kept.get(bad_name, "") != bad
    assert read.repairs


@pytest.mark.parametrize(
    ("type_", "member", "version"),
    [
        (*one, version)
        for one in MAPS
        for version in ("3.0.3", "3.1.0")
        if version == "3.1.0" or one[1] not in {"webhooks", "pathItems"}
    ],
)
def test_an_empty_list_is_an_empty_map(
    tmp_path: Path, type_: str, member: str, version: str
) -> None:
    place, beside = WHERE[type_]
    content = document({"/a": {"get": OK}}, openapi=version)
    around = content
    for step in place:
        around = around.setdefault(step, {})
    around |= deepcopy({**beside, member: []})
    if "flows" in place:
        content["components"]["securitySchemes"]["s"]["type"] = "oauth2"
    read = read_contract(written(tmp_path, content), whole=False)
    kept: Any = read.document
    for step in place:
        kept = kept[step]
    empty = {
        "content": {"*/*": {}} if type_ == "requestBody" else {},
        "responses": {} if type_ == "components" else {"default": {"description": ""}},
    }
    assert kept.get(member, {}) == empty.get(member, {})
    assert read.repairs


def test_a_list_of_examples_is_that(tmp_path: Path) -> None:
    examples = [{"id": 4}, {"value": {"id": 5}}]
    media = {"schema": {"required": ["id"]}, "examples": examples}
    get = {"responses": {"200": {"description": "", "content": {"application/json": media}}}}
    with serving_contract(tmp_path, document({"/a": {"get": get}})) as client:
        assert client.get("/a").json() == {"id": 4}
        chosen = client.get("/a", headers={"Prefer": "example=2"})
        assert chosen.json() == {"id": 5}


NO_MAPS: dict[str, dict[str, Any]] = {
    "headers": {**OK, "responses": {"200": {"description": "", "headers": "X-A"}}},
    "links": {**OK, "responses": {"200": {"description": "", "links": ["self"]}}},
    "callbacks": {**OK, "callbacks": "https://x.example/sent"},
    "examples": {"responses": {"200": {"description": "", "content": {"a/b": {"examples": "x"}}}}},
    "encoding": {**OK, "requestBody": {"content": {"*/*": {"encoding": "gzip"}}}},
    "no responses": {"responses": {}},
    "a list of responses": {"responses": []},
    "responses that are null": {"responses": None},
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("operation", NO_MAPS.values(), ids=NO_MAPS)
def test_what_an_operation_can_do_without_does_not_keep_it_from_being_served(
    tmp_path: Path, version: str, operation: dict[str, Any]
) -> None:
    content = document({"/a": {"get": operation}}, openapi=version)
    assert warnings(tmp_path, content)
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200


OLD = {"$ref": "#/definitions/Pet"}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("status", ["OK", "200 OK", "1000", "200.0", ""])
def test_an_operation_whose_only_status_is_none_is_served(
    tmp_path: Path, version: str, status: str
) -> None:
    responses = {status: {"description": "ok"}}
    content = document({"/a": {"get": {"responses": responses}}}, openapi=version)
    default, status_line = warnings(tmp_path, content)
    assert '{"description": ""}' in default
    assert "this is ignored: " in status_line
    assert f"properties are not allowed ({status!r} was unexpected)" in status_line
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_an_unknown_member_with_a_reference_to_nothing_is_ignored(
    tmp_path: Path, version: str
) -> None:
    """As conversions from Swagger 2 leave them."""
    content = {"application/json": {"schema": {"type": "integer"}, "items": [OLD]}}
    operation = {
        "schema": OLD,
        "parameters": [{**LIMIT, "items": OLD}],
        "requestBody": {"content": content, "schema": {"items": OLD}},
        "responses": {"200": {"description": "", "content": content, "schema": OLD}},
    }
    paths = {"/a": {"post": operation, "definitions": {"Pet": OLD}}}
    lines = warnings(tmp_path, document(paths, openapi=version))
    assert all("this is ignored: cannot resolve reference" in one for one in lines)
    with serving_contract(tmp_path, document(paths, openapi=version)) as client:
        assert isinstance(client.post("/a", json=1).json(), int)
        assert client.post("/a", json="x").status_code == 400
        assert client.post("/a?limit=x", json=1).status_code == 400


def test_an_operation_of_3_0_without_responses_is_served(tmp_path: Path) -> None:
    content = document({"/a": {"get": {}}}, openapi="3.0.3")
    (line,) = warnings(tmp_path, content)
    assert line.endswith("'responses' is missing, and taken as " + EMPTY)
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200


EMPTY = '{"default": {"description": ""}}'


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(
    "body", [{"$ref": "#/components/requestBodies/Gone"}, "x", {"content": "x"}], ids=str
)
def test_a_body_of_which_nothing_is_known_is_not_checked(
    tmp_path: Path, version: str, body: Any
) -> None:
    content = document({"/a": {"post": {**OK, "requestBody": body}}}, openapi=version)
    (line,) = warnings(tmp_path, content)
    assert "this requestBody is not checked: " in line
    with serving_contract(tmp_path, content) as client:
        assert client.post("/a").status_code == 200
        assert client.post("/a", json={"b": 1}).status_code == 200


@pytest.mark.parametrize(("yes", "no"), [("yes", "no"), ("TRUE", "False")])
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_booleans_of_schemas_may_be_text(tmp_path: Path, version: str, yes: str, no: str) -> None:
    known: dict[str, Any] = {"id": {"type": "integer", "readOnly": yes}}
    known["u"] = {"type": "array", "items": {}, "uniqueItems": yes}
    if version == "3.0.3":
        known["n"] = {"type": "integer", "nullable": yes}
    schema = {"type": "object", "required": ["id"], "properties": known}
    content = {"application/json": {"schema": {**schema, "additionalProperties": no}}}
    paths = {"/a": {"post": {**OK, "requestBody": {"content": content}}}}
    with serving_contract(tmp_path, document(paths, openapi=version)) as client:
        assert client.post("/a", json={"u": [1]}).status_code == 200
        assert client.post("/a", json={"z": 1}).status_code == 400
        assert client.post("/a", json={"u": [1, 1]}).status_code == 400
        assert client.post("/a", json={"n": None}).status_code == (
            200 if version == "3.0.3" else 400
        )


BAD_SCHEMES: dict[str, tuple[Any, dict[str, Any]]] = {
    "a place in capitals": (
        {"type": "apiKey", "in": "Header", "name": "X-Key"},
        {"type": "apiKey", "in": "header", "name": "X-Key"},
    ),
    "no place": (
        {"type": "apiKey", "name": "X-Key"},
        {"type": "apiKey", "in": "header", "name": "X-Key"},
    ),
    "a type in small letters": (
        {"type": "apikey", "in": "query", "name": "k"},
        {"type": "apiKey", "in": "query", "name": "k"},
    ),
    "no type": ({"scheme": "basic"}, {"type": "http", "scheme": "basic"}),
    "a type of Swagger 2": ({"type": "basic"}, {"type": "http", "scheme": "basic"}),
    "no scheme": ({"type": "http"}, BEARER),
    "no flows": ({"type": "oauth2"}, {"type": "oauth2", "flows": {}}),
    "a flow of Swagger 2": (
        {"type": "oauth2", "flow": "implicit", "authorizationUrl": "https://id.example/a"},
        {"type": "oauth2", "flows": {}},
    ),
    "no address": ({"type": "openIdConnect"}, BEARER),
    "no name": ({"type": "apiKey", "in": "header"}, BEARER),
    "a place that is none": ({"type": "apiKey", "in": "body", "name": "k"}, BEARER),
    "an unknown type": ({"type": "strong"}, BEARER),
    "a number": (5, BEARER),
    "null": (None, BEARER),
    "a scheme with a line break": ({"type": "http", "scheme": "bearer\n"}, BEARER),
    "a scheme that is a header": ({"type": "http", "scheme": "a\r\nX: y"}, BEARER),
    "a reference that finds nothing": ({"$ref": "#/nowhere"}, BEARER),
    "a reference to itself": ({"$ref": "#/components/securitySchemes/key"}, BEARER),
    "a reference that is not fetched": ({"$ref": "https://example.com/key"}, BEARER),
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(("scheme", "meant"), BAD_SCHEMES.values(), ids=BAD_SCHEMES)
def test_a_wrong_security_scheme_stays_required(
    tmp_path: Path, version: str, scheme: Any, meant: dict[str, Any]
) -> None:
    content = document(
        {"/a": {"get": OK}},
        openapi=version,
        components={"securitySchemes": {"key": scheme}},
        security=[{"key": []}],
    )
    read = read_contract(written(tmp_path, content), whole=False)
    assert read.document["components"]["securitySchemes"] == {"key": meant}
    assert "read " in read.repairs[0].text
    with serving_contract(tmp_path, content) as client:
        client.headers.pop("Authorization", None)
        assert client.get("/a").status_code == 401


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_path_may_have_operations_beside_its_reference(tmp_path: Path, version: str) -> None:
    secured = {**OK, "operationId": "mine", "security": [{"Bearer": []}]}
    paths = {
        "/public": {"get": {**OK, "operationId": "theirs"}, "put": OK},
        "/pets": {"$ref": "#/paths/~1public", "get": secured, "post": OK},
    }
    schemes = {"securitySchemes": {"Bearer": BEARER}}
    content = document(paths, openapi=version, components=schemes)
    (line,) = warnings(tmp_path, content)
    assert line.endswith("GET /pets: this counts, and not what the $ref beside it names")
    with serving_contract(tmp_path, content) as client:
        client.headers.pop("Authorization", None)
        assert [client.get("/public").status_code, client.get("/pets").status_code] == [200, 401]
        assert [client.put("/pets").status_code, client.post("/pets").status_code] == [200, 200]


@pytest.mark.parametrize("url", ["/v%201/x", "https://x.example/a/%3Fb=c"])
def test_a_base_path_may_be_percent_encoded(tmp_path: Path, url: str) -> None:
    content = document({"/a": {"get": OK}}, servers=[{"url": url}])
    with serving_contract(tmp_path, content) as client:
        assert client.get(f"{urlsplit(url).path}/a").status_code == 200


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("name", ["X Total", "X-Total ", "X-Total:", "X\r\nY", "é", ""])
def test_a_header_that_no_response_can_have_is_ignored(
    tmp_path: Path, version: str, name: str
) -> None:
    header = {"schema": {"type": "integer"}, "example": 5}
    response = {"description": "", "headers": {name: header, "X-Fine": header}}
    get = {"responses": {"200": response}}
    content = document({"/a": {"get": get}}, openapi=version)
    (line,) = warnings(tmp_path, content)
    assert line.endswith("is ignored: no response can have this name")
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").headers["x-fine"] == "5"


def test_a_header_among_the_components_may_have_any_name(tmp_path: Path) -> None:
    named = {"X-Total": {"$ref": "#/components/headers/X Total"}}
    get = {"responses": {"200": {"description": "", "headers": named}}}
    headers = {"X Total": {"required": True, "schema": {"type": "integer"}, "example": 5}}
    content = document({"/a": {"get": get}}, components={"headers": headers})
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").headers["x-total"] == "5"


@pytest.mark.parametrize("media_type", ["text/x\r\nSet-Cookie: a=b", "text/\x00"])
def test_a_media_type_that_no_response_can_have_is_ignored(tmp_path: Path, media_type: str) -> None:
    content = {media_type: {"schema": {"type": "string"}}, "text/plain": {"example": "x"}}
    get = {"responses": {"200": {"description": "", "content": content}}}
    with serving_contract(tmp_path, document({"/a": {"get": get}})) as client:
        assert client.get("/a").headers["content-type"] == "text/plain"


NAMES_OF_KEYS = {
    ("header", "api key"): BEARER,
    ("header", "X-Key\r\nX"): BEARER,
    ("cookie", "a;b"): BEARER,
    ("query", "a\x00"): BEARER,
    ("query", "a b"): {"type": "apiKey", "in": "query", "name": "a b"},
    ("header", "X-Key "): {"type": "apiKey", "in": "header", "name": "X-Key"},
}


@pytest.mark.parametrize(("given", "meant"), NAMES_OF_KEYS.items(), ids=str)
def test_a_key_with_a_name_that_no_request_can_have_stays_required(
    tmp_path: Path, given: tuple[str, str], meant: Any
) -> None:
    place, name = given
    content = document(
        {"/a": {"get": OK}},
        components={"securitySchemes": {"k": {"type": "apiKey", "in": place, "name": name}}},
        security=[{"k": []}],
    )
    read = read_contract(written(tmp_path, content), whole=False)
    assert read.document["components"]["securitySchemes"] == {"k": meant}
    assert len(read.repairs) == (name != meant.get("name"))
    with serving_contract(tmp_path, content) as client:
        client.headers.pop("Authorization", None)
        assert client.get("/a").status_code == 401


REQUIREMENTS: dict[str, Any] = {
    "a list in a list": [[{"Bearer": []}]],
    "an empty list in a list": [[]],
    "a reference that finds nothing": {"$ref": "#/nowhere"},
    "an item that refers to the document": [{"$ref": "#"}],
    "a number": -1,
    "an item that is null": [None],
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("is_at_the_top", [True, False], ids=["document", "operation"])
@pytest.mark.parametrize("wrong", REQUIREMENTS.values(), ids=REQUIREMENTS)
def test_wrong_security_requirements_let_nobody_in(
    tmp_path: Path, version: str, is_at_the_top: bool, wrong: Any
) -> None:
    security = {"security": deepcopy(wrong)}
    content = document(
        {"/a": {"get": {**OK, **({} if is_at_the_top else security)}}},
        openapi=version,
        components={"securitySchemes": {"Bearer": BEARER}},
        **(security if is_at_the_top else {}),
    )
    (line,) = warnings(tmp_path, content)
    assert "any declared security scheme is required: " in line
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200
        del client.headers["Authorization"]
        assert client.get("/a").status_code == 401


def test_a_server_may_have_a_blank_around_its_address(tmp_path: Path) -> None:
    content = document({"/a": {"get": OK}}, servers=[{"url": " https://x.example/v1\n"}])
    (line,) = warnings(tmp_path, content)
    assert line.endswith('read as "https://x.example/v1"')
    with serving_contract(tmp_path, content) as client:
        assert client.get("/v1/a").status_code == 200


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("path", ["/a/{id} ", " /a/{id}", "\t/a/{id}\n"])
def test_a_path_may_have_blanks_around_it(tmp_path: Path, path: str, version: str) -> None:
    content = document({"/b": {"get": OK}, path: {"get": OK}, "/c": {"get": OK}}, openapi=version)
    first, second = warnings(tmp_path, content)
    assert first.endswith(f"{path!r} is read as '/a/{{id}}'")
    assert "id: no parameter of this name" in second
    project = load_contract(written(tmp_path, content))
    assert [*project.contract.document["paths"]] == ["/b", "/a/{id}", "/c"]
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a/1").status_code == 200


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_references_to_a_path_with_blanks_around_it_are_followed(
    tmp_path: Path, version: str
) -> None:
    there = {"responses": {"200": {"$ref": "#/paths/~1a%20/post/responses/200"}}}
    content = document(
        {"/a ": {"post": {"responses": {"200": {"description": "that"}}}}, "/b": {"get": there}},
        openapi=version,
    )
    (line,) = warnings(tmp_path, content)
    assert line.endswith("'/a ' is read as '/a'")
    with serving_contract(tmp_path, content) as client:
        assert client.post("/a", json={}).status_code == 200
        assert client.get("/b").status_code == 200


def test_other_references_stay_beside_a_path_with_blanks(tmp_path: Path) -> None:
    tree = {"$id": "https://x.example/tree", "properties": {"left": {"$ref": "#"}}}
    content = document({"/a ": {"get": with_schema(tree)}})
    (line,) = warnings(tmp_path, content)
    assert line.endswith("'/a ' is read as '/a'")


@pytest.mark.parametrize("first", ["/a ", "/a"])
def test_of_a_path_with_and_without_blanks_both_are_served(tmp_path: Path, first: str) -> None:
    content = document({first: {}, "/a": {"post": OK}, "/a ": {"get": OK}})
    (line,) = warnings(tmp_path, content)
    assert line.endswith("the blanks around '/a ' are part of it: there is another path '/a'")
    with serving_contract(tmp_path, content) as client:
        assert client.post("/a").status_code == 200
        assert client.get("/a").status_code == 405
        assert client.get("/a%20").status_code == 200


def test_of_two_paths_with_blanks_the_first_is_read_without_them(tmp_path: Path) -> None:
    first, second = warnings(tmp_path, document({"/a ": {"get": OK}, "/a\n": {"post": OK}}))
    assert first.endswith("'/a ' is read as '/a'")
    assert second.endswith(r"the blanks around '/a\n' are part of it: there is another path '/a'")


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_path_may_lack_its_slash(tmp_path: Path, version: str) -> None:
    (tmp_path / "part.json").write_text(json.dumps({"type": "integer"}))
    paths = {
        "a/{id}": {"GET": with_schema({"$ref": "part.json"})},
        " b": {"get": {"responses": {"200": {"$ref": "#/paths/c/post/responses/200"}}}},
        "c": {"post": {"responses": {"200": {"description": "that"}}}},
        "d": {"$ref": "#/paths/c"},
        "x-e": {"get": {"responses": []}},
    }
    content = document(paths, openapi=version)
    lines = [one for one in warnings(tmp_path, content) if "is read as '/" in one]
    for line, path in zip(lines, ("a/{id}", " b", "c", "d"), strict=True):
        assert line.endswith(f": {path!r} is read as '/{path.strip()}'")
    with serving_contract(tmp_path, content) as client:
        assert isinstance(client.get("/a/1").json(), int)
        assert client.get("/b").status_code == 200
        assert client.post("/c", json={}).status_code == 200
        assert client.post("/d", json={}).status_code == 200
        assert client.get("/x-e").status_code == 404


@pytest.mark.parametrize("path", ["/a ", "a"])
@pytest.mark.parametrize("is_json", [True, False], ids=["JSON", "YAML"])
def test_a_warning_below_a_path_that_is_read_otherwise_has_its_own_line(
    tmp_path: Path, is_json: bool, path: str
) -> None:
    content = document({path: {"get": {"responses": 5}}})
    text = json.dumps(content, indent=1)
    file = tmp_path / "api.yaml"
    file.write_text(text if is_json else f"---\n{text}")
    line = next(n for n, one in enumerate(file.read_text().splitlines(), 1) if '"get"' in one)
    (found,) = [one for one in load_contract(file).warnings if "GET /a: " in one]
    assert found.startswith(f"{file}:{line}:")


def test_a_reference_to_a_name_that_no_file_can_have_finds_nothing(tmp_path: Path) -> None:
    content = document({"/a": {"get": with_schema({"$ref": f"{'a' * 5000}.json"})}})
    (line,) = warnings(tmp_path, content)
    assert line.endswith("file name too long")
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200


@pytest.mark.parametrize("name", ["OpenAPI", "OPENAPI"])
def test_the_name_of_the_version_may_be_in_other_letters(tmp_path: Path, name: str) -> None:
    content = document({"/a": {"get": OK}})
    content[name] = content.pop("openapi")
    (line,) = warnings(tmp_path, content)
    assert line.endswith(f"{name} is read as 'openapi'")


def test_of_alternatives_those_that_are_declared_stay_required(tmp_path: Path) -> None:
    content = document(
        {"/a": {"get": OK}},
        components={"securitySchemes": {"Bearer": BEARER}},
        security=[{"Beerer": []}, {"Bearer": []}, {"Bearer": [], "Other": []}],
    )
    read = read_contract(written(tmp_path, content), whole=False)
    assert read.document["security"] == [{"Bearer": []}, {"Bearer": []}]


SECURED = {
    "null": {"Bearer": None},
    "a number": {"Bearer": 5},
    "an object": {"Bearer": {}},
    "a text": "Bearer",
    "a scope that is an object": {"Bearer": [{"read": 1}]},
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("requirement", SECURED.values(), ids=SECURED)
def test_wrong_scopes_leave_authentication_on(
    tmp_path: Path, requirement: Any, version: str
) -> None:
    secured = {**OK, "security": [requirement]}
    components = {"securitySchemes": {"Bearer": BEARER}}
    content = document({"/a": {"get": secured}}, components=components, openapi=version)
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200
        del client.headers["Authorization"]
        assert client.get("/a").status_code == 401


IN_PATH: dict[str, Any] = {"name": "id", "in": "path"}
TEXT: dict[str, Any] = {"schema": {"type": "string"}}
MEANT: dict[str, tuple[str, dict[str, Any], str]] = {
    "a parameter of the path that is not required": (
        "get",
        {**OK, "parameters": [{**IN_PATH, **TEXT}]},
        "must have 'required: true'",
    ),
    "a parameter without a schema": (
        "get",
        {**OK, "parameters": [{**IN_PATH, "required": True}]},
        "id: it has no 'schema', and is not checked",
    ),
    "a parameter with a type": (
        "get",
        {**OK, "parameters": [{"name": "q", "in": "query", "type": "integer"}]},
        "q: it has no 'schema', and is not checked",
    ),
    "a body without content": (
        "get",
        {**OK, "requestBody": {"description": "x"}},
        "'content' is missing",
    ),
    "a media type that is null": (
        "get",
        {"responses": {"200": {"description": "", "content": {"application/json": None}}}},
        "read as {}: null",
    ),
    "a place in capitals": (
        "get",
        {**OK, "parameters": [{**IN_PATH, **TEXT, "in": "Path"}]},
        "id: 'in: Path' is read as 'path'",
    ),
    "a schema that is a list": (
        "get",
        with_schema([{"type": "integer"}]),
        "this schema is not checked: ",
    ),
    "a media type that is a schema that is not there": (
        "get",
        {
            "responses": {
                "200": {
                    "description": "",
                    "content": {"application/json": {"$ref": "#/components/schemas/A"}},
                }
            }
        },
        "this schema is not checked: cannot resolve reference",
    ),
    "a body that is required as text": (
        "get",
        {**OK, "requestBody": {"required": "yes", "content": {"text/plain": {}}}},
        'read as true: "yes" is not of type "boolean"',
    ),
    "a body that is not required as text": (
        "get",
        {**OK, "requestBody": {"required": "OFF", "content": {"text/plain": {}}}},
        'read as false: "OFF" is not of type "boolean"',
    ),
    "a server of the operation without URL": (
        "get",
        {**OK, "servers": [{}]},
        'this is ignored: "url" is a required property',
    ),
    "another response that is nowhere": (
        "get",
        {"responses": {**OK["responses"], "500": {"$ref": "none"}}},
        "this is ignored: cannot resolve reference 'none'",
    ),
    "another response that is wrong": (
        "get",
        {"responses": {**OK["responses"], "500": {"description": "", "content": 5}}},
        'this is ignored: 5 is not of type "object"',
    ),
    "a header of another style": (
        "get",
        {"responses": {"200": {"description": "", "headers": {"X": {**TEXT, "style": "form"}}}}},
        'this is ignored: "',
    ),
    "a header that is nowhere": (
        "get",
        {"responses": {"200": {"description": "", "headers": {"X": {"$ref": "#/nowhere"}}}}},
        "this is ignored: cannot resolve reference '#/nowhere'",
    ),
    "statuses in small letters": (
        "get",
        {"responses": {"2xx": {"description": ""}}},
        "2xx is read as '2XX'",
    ),
    "a method in capitals": ("GET", OK, "GET is read as 'get'"),
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(("method", "operation", "message"), MEANT.values(), ids=MEANT)
def test_an_operation_with_a_slip_is_served_with_a_warning(
    tmp_path: Path, version: str, method: str, operation: Any, message: str
) -> None:
    file = written(tmp_path, document({"/a/{id}": {method: operation}}, openapi=version))
    project = load_contract(file)
    assert [one.method for one in project.contract.operations.values()] == ["GET"]
    assert any(message in one for one in project.warnings)


PARTS: dict[str, Any] = {
    "schemas": {"Pet": {"type": "object"}},
    "responses": {"Pet": {"description": ""}},
    "parameters": {"Q": {"name": "q", "in": "query", **TEXT}},
    "requestBodies": {"Pet": {"content": {"application/json": {}}}},
}
REFERRING: dict[str, dict[str, Any]] = {
    "a response": {"responses": {"200": {"$ref": "#/components/responses/Pet"}}},
    "a schema": with_schema({"$ref": "#/components/schemas/Pet"}),
    "a parameter": {**OK, "parameters": [{"$ref": "#/components/parameters/Q"}]},
    "a body": {**OK, "requestBody": {"$ref": "#/components/requestBodies/Pet"}},
    "a response of a file": {"responses": {"200": {"$ref": "parts.json#/responses/Pet"}}},
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("operation", REFERRING.values(), ids=REFERRING)
def test_references_below_a_name_in_other_letters_are_followed(
    tmp_path: Path, version: str, operation: dict[str, Any]
) -> None:
    (tmp_path / "parts.json").write_text(json.dumps(PARTS))
    content = document({"/a": {"POST": operation}}, openapi=version, components=PARTS)
    (line,) = warnings(tmp_path, content)
    assert line.endswith("POST is read as 'post'")
    with serving_contract(tmp_path, content) as client:
        assert client.post("/a", json={}).status_code == 200


@pytest.mark.parametrize("is_json", [True, False], ids=["JSON", "YAML"])
def test_a_warning_below_a_name_in_other_letters_has_its_own_line(
    tmp_path: Path, is_json: bool
) -> None:
    content = document({"/a": {"GET": {"responses": {"2xx": {"$ref": "#/x"}}}}})
    text = json.dumps(content, indent=1)
    file = tmp_path / "api.yaml"
    file.write_text(text if is_json else f"---\n{text}")
    line = next(n for n, one in enumerate(file.read_text().splitlines(), 1) if "GET" in one)
    (found,) = [one for one in load_contract(file).warnings if "cannot resolve" in one]
    assert found.startswith(f"{file}:{line}:")


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_references_to_what_has_a_name_in_other_letters_are_followed(
    tmp_path: Path, version: str
) -> None:
    operation = {"responses": {"2xx": {"$ref": "#/components/responses/Pet"}}}
    components = {"Responses": {"Pet": {"description": ""}}}
    content = document({"/a": {"get": operation}}, openapi=version, components=components)
    first, second = warnings(tmp_path, content)
    assert "2xx is read as '2XX'" in first
    assert "Responses is read as 'responses'" in second


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_method_in_capitals_in_another_file_is_read_too(tmp_path: Path, version: str) -> None:
    operation = {"responses": {"200": {"$ref": "parts.json#/responses/Pet"}}}
    (tmp_path / "item.json").write_text(json.dumps({"GET": operation}))
    (tmp_path / "parts.json").write_text(json.dumps(PARTS))
    content = document({"/a": {"$ref": "item.json"}}, openapi=version)
    (line,) = load_contract(written(tmp_path, content)).warnings
    assert re.search(r"item\.json:1:2: /a: GET is read as 'get'$", line)
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("reference", ["#/components/responses/Pet", "#/nowhere"])
def test_no_warning_calls_an_unknown_part_by_a_type(
    tmp_path: Path, version: str, reference: str
) -> None:
    item = {"get": OK, "fetch": {"responses": {"200": {"$ref": reference}}}}
    content = document({"/a": item}, openapi=version, components=PARTS)
    (line,) = warnings(tmp_path, content)
    assert re.search("FETCH /a: this (is ignored|part is not served): ", line)


def test_a_list_that_refers_to_another_type_is_ignored(tmp_path: Path) -> None:
    item = {"get": OK, "servers": {"$ref": "#/components/schemas/Pet"}}
    (line,) = warnings(tmp_path, document({"/a": item}, components=PARTS))
    assert ": /a: this is ignored: the reference" in line
    assert line.endswith("does not name a part of this type")


NEEDED: dict[str, dict[str, Any]] = {
    "the only one": {"500": 5},
    "the only success": {"200": 5, "404": {"description": ""}},
    "the default beside an error": {"default": 5, "404": {"description": ""}},
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("responses", NEEDED.values(), ids=NEEDED)
def test_a_wrong_response_that_an_operation_needs_is_not_left_out(
    tmp_path: Path, version: str, responses: dict[str, Any]
) -> None:
    paths = {"/a": FINE, "/b": {"get": {"responses": responses}}}
    (line,) = warnings(tmp_path, document(paths, openapi=version))
    assert "GET /b: this operation is not served: 5 is not" in line


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("is_at_the_top", [True, False], ids=["document", "operation"])
@pytest.mark.parametrize("requirement", [{"Bearer": None}, "Bearer"], ids=repr)
def test_a_security_requirement_without_scopes_is_required(
    tmp_path: Path, version: str, is_at_the_top: bool, requirement: Any
) -> None:
    security = {"security": [requirement]}
    above, below = (security, {}) if is_at_the_top else ({}, security)
    schemes = {"securitySchemes": {"Bearer": {"type": "http", "scheme": "bearer"}}}
    paths = {"/a": {"get": {**OK, **below}}}
    content = document(paths, openapi=version, components=schemes, **above)
    (line,) = warnings(tmp_path, content)
    assert re.search(r"read as (\[\]: null|\{.Bearer.: \[\]\}: .Bearer.) is not of type", line)
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a", headers={"Authorization": ""}).status_code == 401
        assert client.get("/a", headers={"Authorization": "Bearer x"}).status_code == 200


BOTH = {"example": "x", "examples": {"one": {"value": "y"}}}
WITH_BOTH: dict[str, dict[str, Any]] = {
    "a parameter": {**OK, "parameters": [{"name": "q", "in": "query", **TEXT, **BOTH}]},
    "a media type": {"responses": {"200": {"description": "", "content": {"text/plain": BOTH}}}},
    "a header": {"responses": {"200": {"description": "", "headers": {"X": {**TEXT, **BOTH}}}}},
}


@pytest.mark.parametrize("operation", WITH_BOTH.values(), ids=WITH_BOTH)
def test_an_example_beside_examples_is_ignored(tmp_path: Path, operation: Any) -> None:
    content = document({"/a": {"get": operation}}, openapi="3.0.3")
    (line,) = warnings(tmp_path, content)
    assert line.endswith("this is ignored: 'example' cannot be beside 'examples'")


def test_the_404_names_a_method_that_is_null_or_unknown(tmp_path: Path) -> None:
    content = document({"/a": FINE, "/b": {"get": None}, "/c": {"fetch": OK}})
    with serving_contract(tmp_path, content) as client:
        assert "GET /b: this operation is not served: null is" in client.get("/b").text
        assert "FETCH /c: this is ignored: " in client.get("/c").text
        assert "begin with" not in client.get("/d").text


def test_a_server_that_is_ignored_leaves_no_base_path(tmp_path: Path) -> None:
    server = {"url": "/{v}", "variables": {"v": {}}}
    content = {**document({"/a": {"get": OK}}), "servers": [server]}
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200


VARIABLES: dict[str, tuple[dict[str, Any], str]] = {
    "no default": ({"enum": ["v1", "v2"]}, "v: 'default' is missing, and taken as \"v1\""),
    "null as default": ({"enum": ["v1"], "default": None}, "v: 'default' is missing, and taken"),
    "no list of values": ({"enum": 5, "default": "v1"}, "this is ignored: 5 is not of type"),
    "a number as default": ({"default": 1}, 'read as "1": 1 is not of type "string"'),
}


def test_a_variable_that_nothing_needs_stays_if_it_is_right(tmp_path: Path) -> None:
    variables = {"v": {}, "w": {"default": "x"}}
    content = document({"/a": {"get": OK}}, servers=[{"url": "/", "variables": variables}])
    read = read_contract(written(tmp_path, content), whole=False)
    assert read.document["servers"] == [{"url": "/", "variables": {"w": {"default": "x"}}}]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(("variable", "message"), VARIABLES.values(), ids=VARIABLES)
def test_a_wrong_variable_leaves_the_base_path_as_it_is_meant(
    tmp_path: Path, version: str, variable: dict[str, Any], message: str
) -> None:
    server = {"url": "/{v}/x", "variables": {"v": variable}}
    content = document({"/a": {"get": OK}}, openapi=version, servers=[server])
    (line,) = warnings(tmp_path, content)
    assert message in line
    path = "/1/x/a" if variable.get("default") == 1 else "/v1/x/a"
    with serving_contract(tmp_path, content) as client:
        assert client.get(path).status_code == 200


@pytest.mark.parametrize(
    ("written_as", "version"),
    [
        *((3.0, "3.0.3"), ("3.0", "3.0.3"), (3.1, "3.1.0"), ("3.1", "3.1.0")),
        *((3, "3.0.3"), ("3", "3.0.3"), ("v3.0.0", "3.0.3"), (" 3.0.3", "3.0.3")),
        *(("3.0.x", "3.0.3"), ("3.1.x", "3.1.0")),
    ],
    ids=repr,
)
def test_a_version_that_is_not_written_in_full_is_understood(
    tmp_path: Path, written_as: object, version: str
) -> None:
    schema = {"type": "string", "nullable": True}
    content = document({"/a": {"get": with_schema(schema)}}, openapi=written_as)
    lines = warnings(tmp_path, content)
    assert any(f"{written_as} is read as OpenAPI {version}" in one for one in lines)
    assert len(lines) == (1 if version == "3.0.3" else 2)  # 'nullable' has an effect in 3.0


WITHOUT_PATHS: dict[str, tuple[dict[str, Any], str]] = {
    "none": ({"openapi": "3.0.3", "info": INFO}, "'paths' is missing, and taken as {}"),
    "none in OpenAPI 3.1": ({"openapi": "3.1.0", "info": INFO}, "'paths' is missing"),
    "null": ({"openapi": "3.0.3", "info": INFO, "paths": None}, "'paths' is missing"),
    "a number": ({"openapi": "3.1.0", "info": INFO, "paths": 5}, "no operation is served"),
    "a list": ({"openapi": "3.1.0", "info": INFO, "paths": []}, "no operation is served"),
    "webhooks only": (
        {"openapi": "3.1.0", "info": INFO, "webhooks": {"sent": {"post": OK}}},
        "there are no paths: no operation is served",
    ),
}


@pytest.mark.parametrize(("content", "message"), WITHOUT_PATHS.values(), ids=WITHOUT_PATHS)
def test_a_document_without_paths_is_served_and_reported(
    tmp_path: Path, content: dict[str, Any], message: str
) -> None:
    assert message in warnings(tmp_path, content)[0]


def test_a_webhook_only_document_has_its_pages(tmp_path: Path) -> None:
    content = WITHOUT_PATHS["webhooks only"][0]
    with serving_contract(tmp_path, content) as client:
        assert client.get("/openapi.json").json()["webhooks"].keys() == {"sent"}
        assert client.get("/docs").status_code == 200
        assert client.get("/a").status_code == 404


ELSEWHERE: dict[str, tuple[str, str]] = {
    "over http": ("https://example.com/a.yaml#/p", "serve --allow-remote-refs has them fetched"),
    "outside": ("../../a.yaml#/p", "serve --allow-refs-outside DIR allows another folder"),
}


@pytest.mark.parametrize(("reference", "advice"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_reference_that_is_not_followed_names_the_operation_that_needs_it(
    tmp_path: Path, reference: str, advice: str
) -> None:
    needy = {"responses": {"200": {"$ref": reference}}}
    file = written(tmp_path, document({"/a": {"get": OK}, "/b": {"get": needy}}))
    project = load_contract(file)
    assert [one.path for one in project.contract.operations.values()] == ["/a"]
    (line,) = project.warnings
    assert "GET /b: this operation is not served: cannot resolve reference" in line
    assert line.endswith(f"({advice})")


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_the_404_of_an_operation_that_is_left_out_has_the_reason(
    tmp_path: Path, version: str
) -> None:
    needy = {"responses": {"200": {"$ref": "#/components/responses/Gone"}}}
    paths = {"/a/{id}": {"get": OK, "put": needy}, "/b": {"$ref": "gone.yaml"}}
    content = document(paths, openapi=version, servers=[{"url": "/v1"}])
    with serving_contract(tmp_path, content) as client:
        assert client.get("/v1/a/1").status_code == 200
        for method, path, what in (
            ("PUT", "/v1/a/1", "PUT /a/{id}: this operation"),
            ("GET", "/v1/b", "/b: this pathItem"),
        ):
            rejected = client.request(method, path)
            assert rejected.status_code == 404
            message = rejected.json()["error"]["message"]
            assert message.startswith(f"{what} is not served: cannot resolve reference")
        assert client.delete("/v1/a/1").status_code == 405
        assert "this operation" not in client.get("/v1/c").text


def test_the_404_of_a_path_that_is_left_out_has_the_reason(tmp_path: Path) -> None:
    paths = {"/ok": FINE, "/a/{x": {"get": OK}, "b/{y}": {"summary": "b"}, "/{{c}}/d": {"get": OK}}
    with serving_contract(tmp_path, document(paths)) as client:
        for path, reason in (
            ("/a/%7Bx", "/a/{x: this pathItem is not served: its braces are not in pairs"),
            ("/b/1", "b/{y}: this is ignored: a path begins with '/'"),
            ("/%7B%7Bc%7D%7D/d", "/{{c}}/d: this pathItem is not served: its braces are not in"),
        ):
            assert client.get(path).json()["error"]["message"].startswith(reason)


@pytest.mark.parametrize(
    ("path", "own", "others"),
    [
        ("/un{closed", "/un%7Bclosed", ("/whatever", "/un1", "/un")),
        ("/{a", "/%7Ba", ("/whatever", "/a")),
        ("/x{a", "/x%7Ba", ("/x1", "/whatever")),
        ("/a}", "/a%7D", ("/a", "/whatever")),
        ("/{{c}}/d", "/%7B%7Bc%7D%7D/d", ("/c/d", "/whatever/d")),
        ("/{t}/{a", "/1/%7Ba", ("/1/a", "/1/2")),
        ("/a%20b{c", "/a%20b%7Bc", ("/a%20b", "/whatever")),
    ],
)
def test_only_the_404_of_a_path_with_odd_braces_itself_has_the_reason(
    tmp_path: Path, path: str, own: str, others: tuple[str, ...]
) -> None:
    with serving_contract(tmp_path, document({"/ok": FINE, path: {"get": OK}})) as client:
        reason = f"{path}: this pathItem is not served: its braces are not in pairs"
        assert client.get(own).json()["error"]["message"].startswith(reason)
        for other in others:
            rejected = client.get(other)
            assert rejected.status_code == 404
            assert "not served" not in rejected.text


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("components", [None, 5, ["x"], {"schemas": None}, {"schemas": ["x"]}])
def test_components_that_are_no_object_keep_no_reference_to_a_file_from_being_served(
    tmp_path: Path, version: str, components: Any
) -> None:
    (tmp_path / "part.json").write_text(json.dumps({"type": "integer"}))
    paths = {"/b": {"get": with_schema({"$ref": "part.json"})}}
    file = written(tmp_path, document(paths, openapi=version, components=components))
    project = load_contract(file)
    assert [one.path for one in project.contract.operations.values()] == ["/b"]
    (line,) = project.warnings
    assert re.search(r'this is ignored: (null|5|\["x"\]) is not of type "object"', line)
    with pytest.raises(DocumentError, match='is not of type "object"'):
        read_contract(file)


STOPS: dict[str, dict[str, Any]] = {
    "a member and a response": {
        **OK,
        "consumes": ["application/json"],
        "responses": {"200": {"$ref": "#/components/responses/Gone"}},
    },
    "a member and a number": {"responses": 5, "foo": "bar"},
    "a member and responses that are a list": {"sumary": "x", "responses": ["ok"]},
    "a member and responses that are a list of an extension": {"x": 1, "responses": ["x-ok"]},
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("operation", STOPS.values(), ids=STOPS)
def test_an_operation_with_an_unknown_member_and_an_error_is_named_with_the_error(
    tmp_path: Path, version: str, operation: dict[str, Any]
) -> None:
    content = document({"/a": FINE, "/b": {"get": operation}}, openapi=version)
    (line,) = warnings(tmp_path, content)
    assert re.match(r"\d+:\d+: GET /b: this operation is not served: ", line)
    with serving_contract(tmp_path, content) as client:
        message = client.get("/b").json()["error"]["message"]
        assert message.removesuffix(". Correct the document; the server logs the place.") in line


def test_a_path_that_refers_to_an_operation_that_is_left_out_has_the_reason(tmp_path: Path) -> None:
    refers = {"/b": {"$ref": "#/components/pathItems/I"}, "/c": {"$ref": "#/paths/~1b"}}
    items = {"I": {"get": {"responses": 5}, "put": OK}}
    content = document(refers, components={"pathItems": items})
    with serving_contract(tmp_path, content) as client:
        for path in refers:
            message = client.get(path).json()["error"]["message"]
            assert message.startswith(f"GET {path}: this operation is not served: ")
            assert client.put(path).status_code == 200
    named = [one for one in warnings(tmp_path, content) if "this operation" in one]
    assert [one.split(": ")[1] for one in named] == ["GET /b", "GET /c", "GET I"]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("paths", [["/b", "/c"], ["/c", "/b"]], ids=["later", "before"])
def test_paths_that_share_operations_are_served_without_their_operation_id(
    tmp_path: Path, version: str, paths: list[str]
) -> None:
    items = {"/b": {"$ref": "#/paths/~1c"}, "/c": {"get": {**OK, "operationId": "c"}}}
    content = document({path: items[path] for path in paths}, openapi=version)
    file = written(tmp_path, content)
    project = load_contract(file)
    assert {one.path for one in project.contract.operations.values()} == {"/b", "/c"}
    assert any("this is ignored: Operation ID 'c'" in one for one in project.warnings)


WHOLE: dict[str, Any] = {
    "summary": "Pay",
    "tags": ["payments"],
    "parameters": [{"name": "q", "in": "query", "schema": {"type": "integer"}}],
    "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
    "responses": {
        "200": {
            "description": "Paid",
            "headers": {"X-Id": {"schema": {"type": "string"}}},
            "content": {"application/json": {"schema": {"properties": {"a": {"minimum": 1}}}}},
        },
        "400": {"$ref": "#/components/responses/Wrong"},
    },
}


def containers(value: Any) -> Iterator[Any]:
    """The objects and lists in a value, itself among them."""
    if isinstance(value, (dict, list)):
        yield value
        for one in value.values() if isinstance(value, dict) else value:
            yield from containers(one)


def with_fault(item: dict[str, Any], chance: Random) -> None:
    """Make one place of a path item wrong."""
    place = chance.choice([*containers(item)])
    names = [*place] if isinstance(place, dict) else [*range(len(place))]
    other = chance.choice([None, 5, "x", [], {}, ["x-a"], {"x": 1}, {"$ref": "#/nowhere"}])
    if names and chance.randrange(2):
        place[chance.choice(names)] = deepcopy(other)
    elif isinstance(place, list):
        place.append(deepcopy(other))
    elif names and chance.randrange(2):
        name = chance.choice(names)
        place[name[:-1]] = place.pop(name)
    else:
        place["unknown"] = deepcopy(other)


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("seed", range(5))
def test_each_operation_is_served_or_named(tmp_path: Path, version: str, seed: int) -> None:
    chance = Random(seed)  # noqa: S311  what is wanted is that it can be repeated
    items = {f"/{number}": deepcopy({"get": WHOLE, "put": OK}) for number in range(12)}
    for item in items.values():
        with_fault(item, chance)
        with_fault(item, chance)
    items["/wrong"] = {"get": {"responses": 5}}
    wanted = {(path, one.upper()) for path, item in items.items() for one in item if one in METHODS}
    refers = {f"/refers{path}": {"$ref": f"#/paths/~1{path[1:]}"} for path in items}
    wanted |= {(f"/refers{path}", method) for path, method in wanted}
    components = {"responses": {"Wrong": {"description": "Wrong"}}}
    content = document({**items, **refers}, openapi=version, components=components)
    project = load_contract(written(tmp_path, content))
    served = {(one.path, one.method) for one in project.contract.operations.values()}
    assert wanted <= served | project.left_out.keys()
    assert served
    assert project.left_out


def test_a_project_reports_the_operations_that_it_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "openapi").mkdir()
    content = document({"/a": FINE, "/b": {"get": {"responses": 5}}})
    (tmp_path / "openapi" / "openapi.yaml").write_text(json.dumps(content))
    left_out = load_project(tmp_path).left_out
    assert [*left_out] == [("/b", "GET")]
    assert left_out["/b", "GET"].startswith("GET /b: this operation is not served: ")


BASES: dict[str, tuple[str, str, str]] = {
    "of the second server": ("", "/open-banking/v3.1/payments/1", "/payments/{id}"),
    "of nothing": ("/v1", "/payments/1", "/v1/payments/{id}"),
    "of another version": ("/v1", "/v2/payments/1", "/v1/payments/{id}"),
    "of a part": ("/api/v1", "/v1/payments/1", "/api/v1/payments/{id}"),
}


@pytest.mark.parametrize(("base", "path", "place"), BASES.values(), ids=BASES)
def test_a_path_below_another_base_path_is_reported_with_its_place(
    tmp_path: Path, base: str, path: str, place: str
) -> None:
    paths = {"/payments/{id}": responding("one", "id"), "/{any}": responding("any", "any")}
    content = document(paths, servers=[{"url": f"https://example.com{base}"}])
    with serving_contract(tmp_path, content) as client:
        message = client.get(path).json()["error"]["message"]
        assert message.startswith(f"No operation has this path: it is served at {place}. ")
        assert "--base-path" in message
        assert "it is served at" not in client.get("/x/y/z").text
        assert "it is served at" not in client.get("/sandbox/payments/1").text


@pytest.mark.parametrize("reserved", ["/docs", "/docs/v1", "/console/v1"])
def test_a_path_below_a_reserved_base_path_is_reported_with_its_place(
    tmp_path: Path, reserved: str
) -> None:
    paths = {"/tickets": FINE, "/static/{file}": responding("one", "file")}
    content = document(paths, servers=[{"url": reserved}])
    with serving_contract(tmp_path, content) as client:
        for path in (f"{reserved}/tickets", "/tickets"):
            for method in ("GET", "POST", "DELETE"):
                error = client.request(method, path).json()["error"]["message"]
                assert f"it is served at /api{reserved}/tickets. What paths begin with" in error
                assert f"the first server after /api, because {reserved} is reserved for" in error
        assert "it is served at" not in client.get(f"{reserved}/others").text
        assert client.get(f"/api{reserved}/tickets").status_code == 200
        assert client.get("/docs").status_code == client.get("/console").status_code == 200
        assert client.get("/docs/static/docs.css").status_code == 200


def test_a_base_path_that_ends_like_a_path_is_no_other_one(tmp_path: Path) -> None:
    paths = {"/tickets/{id}": responding("one", "id")}
    content = document(paths, servers=[{"url": "https://example.com/mock/tickets"}])
    with serving_contract(tmp_path, content) as client:
        assert "it is served at" not in client.get("/mock/tickets/ticket").text
        twice = client.get("/mock/tickets/mock/tickets/tickets/1")
        assert "it is served at /mock/tickets/tickets/{id}" in twice.text


def test_a_path_without_the_base_path_of_the_option_is_reported_with_that(tmp_path: Path) -> None:
    file = written(tmp_path, document({"/a": FINE}))
    with serving(replace(FROZEN, contract=file, base_path="/api", scenario=None)) as running:
        message = httpx.get(f"{running.url}/a", timeout=10).json()["error"]["message"]
    assert message.endswith(
        "served at /api/a. What paths begin with is that of the option --base-path."
    )


@pytest.mark.parametrize(
    ("url", "at"), [("https://example.com/{v}", "/{v}"), ("{v}/b", "/b"), ("{v}", "/")]
)
def test_a_variable_of_a_server_that_is_not_declared_is_reported(
    tmp_path: Path, url: str, at: str
) -> None:
    content = document({"/a": {"get": OK}}, servers=[{"url": url}])
    (line,) = warnings(tmp_path, content)
    assert line.endswith(
        f"{{v}} is not declared: operations begin with {at}; --base-path changes it"
    )


@pytest.mark.parametrize("start", ["{url}", "${URL}", "{{host}}"])
def test_what_an_address_begins_with_that_is_not_declared_is_no_path(
    tmp_path: Path, start: str
) -> None:
    content = document({"/a": {"get": OK}}, servers=[{"url": f"{start}/v2"}])
    (line,) = warnings(tmp_path, content)
    wanted = f"{start} is not declared: operations begin with /v2; --base-path changes it"
    assert line.endswith(wanted)
    with serving_contract(tmp_path, content) as client:
        assert client.get("/v2/a").status_code == 200


def test_a_list_without_items_is_usual_in_openapi_31(tmp_path: Path) -> None:
    content = document({"/a": {"get": OK}}, components={"schemas": {"A": {"type": "array"}}})
    assert warnings(tmp_path, content) == []


SCHEMA_REFERENCE = {"$ref": "#/components/schemas/Pet"}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(
    "responses",
    [
        {"200": SCHEMA_REFERENCE},
        {"200": {**SCHEMA_REFERENCE, "description": "a pet"}},
        {"200": {"description": "a pet", "content": {"application/json": SCHEMA_REFERENCE}}},
    ],
    ids=["a response", "a response with a description", "a media type"],
)
def test_a_reference_to_a_schema_is_read_as_that_of_the_json(
    tmp_path: Path, version: str, responses: Any
) -> None:
    pet = {"type": "object", "required": ["n"], "properties": {"n": {"enum": [7, True, None]}}}
    post = {"requestBody": SCHEMA_REFERENCE, "responses": responses}
    components = {"schemas": {"Pet": pet}}
    content = document({"/a": {"post": post}}, components=components, openapi=version)
    lines = warnings(tmp_path, content)
    assert len(lines) == 2
    for line in lines:
        assert line.endswith("#/components/schemas/Pet is read as the schema of its JSON")
    with serving_contract(tmp_path, content) as client:
        assert client.post("/a", json={"n": 7}).json()["n"] in {7, True, None}
        rejected = client.post("/a", json={"n": "x"})
        assert rejected.status_code == 400
        assert "n must be one of 7, true, null" in rejected.text


@pytest.mark.parametrize("url", ["{scheme}://example.com/b", "https://{host}:{port}/b"])
def test_what_is_not_declared_of_an_origin_changes_nothing(tmp_path: Path, url: str) -> None:
    content = document({"/a": {"get": OK}}, servers=[{"url": url}])
    assert warnings(tmp_path, content) == []
    with serving_contract(tmp_path, content) as client:
        assert client.get("/b/a").status_code == 200


def test_a_schema_of_a_request_body_is_named_too(tmp_path: Path) -> None:
    (line,) = warnings(tmp_path, contract({"properties": {"a": {"type": "strin"}}}))
    assert "this schema is read without 'type': \"strin\" is not valid" in line


def test_members_of_other_versions_are_ignored_all_at_once(tmp_path: Path) -> None:
    content = document({"/a": FINE}, definitions={}, produces=[], tags=[{}, {"name": "a"}, {}])
    lines = warnings(tmp_path, content)
    assert len(lines) == 4
    assert load_contract(tmp_path / "api.json").contract.document["tags"] == [{"name": "a"}]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_document_of_which_no_operation_is_left_is_served_with_its_warnings(
    tmp_path: Path, version: str
) -> None:
    content = document({"/a": {"get": {"responses": 5}}}, openapi=version)
    first, second = warnings(tmp_path, content)
    assert first.endswith(": no operation is served")
    assert "GET /a: this operation is not served: " in second
    with serving_contract(tmp_path, content) as client:
        assert client.get("/openapi.json").status_code == 200
        assert "GET /a: this operation is not served: " in client.get("/a").text


def test_strict_makes_warnings_errors(tmp_path: Path) -> None:
    content = document({"/a": FINE, "/b": {"get": {**OK, "callbacks": {"c": {}}}}})
    settings = replace(FROZEN, contract=written(tmp_path, content), strict=True)
    with pytest.raises(ProjectError, match=r"--strict: 1 warning\n.*callbacks are not called"):
        asyncio.run(create_app(settings, url="http://127.0.0.1"))


def test_strict_is_content_without_warnings(tmp_path: Path) -> None:
    settings = replace(FROZEN, contract=written(tmp_path, document({"/a": FINE})), strict=True)
    assert asyncio.run(create_app(settings, url="http://127.0.0.1")).engine.project.warnings == ()


def test_a_project_reports_what_of_its_document_is_changed(tmp_path: Path) -> None:
    (tmp_path / "openapi").mkdir()
    content = document({"/a": FINE, "/b": {"get": {**OK, "wrong": 1}}})
    (tmp_path / "openapi" / "openapi.yaml").write_text(json.dumps(content))
    assert any("this is ignored: " in one for one in load_project(tmp_path).warnings)


def test_a_security_scheme_that_is_not_declared_is_not_asked_for(tmp_path: Path) -> None:
    content = document({"/a": {"get": {**OK, "security": [{"nobody": []}]}}})
    (line,) = warnings(tmp_path, content)
    assert "nobody: this security scheme is not declared" in line
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a", headers={"Authorization": ""}).status_code == 200


def test_operations_without_operation_id_are_reported_apart(tmp_path: Path) -> None:
    content = document({"/a-b": {"get": OK}, "/a/b": {"get": OK}, "/a_b": {"get": OK}})
    lines = warnings(tmp_path, content)
    assert [line.partition("called ")[2] for line in lines] == ["get_a_b_2 here", "get_a_b_3 here"]
    with serving_contract(tmp_path, content) as client:
        assert [client.get(path).status_code for path in content["paths"]] == [200, 200, 200]


# What has no effect is reported


REFERENCE = {"$ref": "#/components/schemas/A"}
REPORTED: dict[str, tuple[dict[str, Any], str, str]] = {
    "callbacks": (
        document({"/a": {"get": {**OK, "callbacks": {"c": {}}}}}),
        '"callbacks"',
        "callbacks are not called",
    ),
    "servers of a path": (
        document({"/a": {"get": OK, "servers": [{"url": "/x"}]}}),
        '"servers"',
        "every operation is served below the first server of the document, not here",
    ),
    "servers of an operation": (
        document({"/a": {"get": {**OK, "servers": [{"url": "/x"}]}}}),
        '"servers"',
        "every operation is served below the first server of the document, not here",
    ),
    "examples elsewhere": (
        document({"/a": {"get": OK}}, components={"examples": {"A": {"externalValue": "a.json"}}}),
        '"externalValue"',
        "'externalValue' is not read: this example is not used",
    ),
    "a reference in an example": (
        document(
            {"/a": {"get": OK}}, components={"examples": {"A": {"value": {"$ref": "a.json"}}}}
        ),
        '"value"',
        "a '$ref' in an example is data, and is not followed",
    ),
    "client certificates": (
        document(
            {"/a": {"get": OK}}, components={"securitySchemes": {"Tls": {"type": "mutualTLS"}}}
        ),
        '"Tls"',
        "client certificates are not checked; the scheme always passes",
    ),
    "nullable in OpenAPI 3.1": (
        document(
            {"/a": {"get": OK}}, components={"schemas": {"A": {"type": "string", "nullable": True}}}
        ),
        '"nullable"',
        "'nullable' has no effect in OpenAPI 3.1, which has the type 'null'",
    ),
    "nullable without type in OpenAPI 3.0": (
        document({"/a": {"get": OK}}, components={"schemas": {"A": {"nullable": True}}})
        | {"openapi": "3.0.3"},
        '"nullable"',
        "'nullable' has an effect beside 'type' only",
    ),
    "nullable with an enum in OpenAPI 3.0": (
        document(
            {"/a": {"get": OK}},
            components={"schemas": {"A": {"type": "string", "nullable": True, "enum": ["a"]}}},
        )
        | {"openapi": "3.0.3"},
        '"nullable"',
        "'nullable' has no effect: 'enum' does not list null",
    ),
    "a list without items in OpenAPI 3.0": (
        document({"/a": {"get": OK}}, components={"schemas": {"A": {"type": "array"}}})
        | {"openapi": "3.0.3"},
        '"A"',
        "'items' is missing: items of every type are allowed",
    ),
    "a path of the sandbox's own": (
        document({"/docs": {"get": OK}}),
        '"/docs"',
        "the sandbox has pages of its own at this path",
    ),
    "a path of a lever": (
        document({"/sandbox/clock": {"get": OK}}),
        '"get"',
        "this path is shadowed by the control API",
    ),
    "a path that no request has": (
        document({"/a#b": {"get": OK}}),
        '"/a#b"',
        "only a percent-encoded request reaches it: '#' and '?' end a path",
    ),
    "a path that is another": (
        document(
            {
                f"/a/{{{name}}}": {
                    "get": OK,
                    "parameters": [{"name": name, "in": "path", "required": True, "schema": True}],
                }
                for name in "bc"
            }
        ),
        '"/a/{c}"',
        "duplicates another path except for parameter names",
    ),
}


@pytest.mark.parametrize(("content", "key", "message"), REPORTED.values(), ids=REPORTED)
def test_what_has_no_effect_is_reported_with_its_place(
    tmp_path: Path, content: dict[str, Any], key: str, message: str
) -> None:
    (line,) = warnings(tmp_path, content)
    number, column, text = line.split(":", 2)
    lines = (tmp_path / "api.json").read_text().splitlines()
    assert lines[int(number) - 1][int(column) - 1 :].startswith(key)
    assert text == f" {message}"


def beside(section: str, **siblings: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Components of one section, of which one refers to the other and has these siblings; and what
    they are without these."""
    one = VALID[{sections: type_ for type_, sections in SECTIONS.items()}[section]]
    reference = {"$ref": f"#/components/{section}/One"}
    with_them, without = (
        {section: {"One": one, "Two": {**reference, **some}}} for some in (siblings, {})
    )
    return with_them, without


BESIDE: dict[str, tuple[tuple[dict[str, Any], dict[str, Any]], list[str]]] = {
    "a schema": (beside("schemas", minLength=5, readOnly=True), ["minLength", "readOnly"]),
    "a parameter": (beside("parameters", required=True, example="a"), ["example", "required"]),
    "a header": (beside("headers", required=True), ["required"]),
    "a requestBody": (beside("requestBodies", required=True), ["required"]),
    "a response": (beside("responses", headers={}, content={}), ["content", "headers"]),
    "a securityScheme": (beside("securitySchemes", scheme="basic"), ["scheme"]),
    "an example": (beside("examples", value=2), ["value"]),
    "a link": (beside("links", operationId="other"), ["operationId"]),
    "a callback": (beside("callbacks", other={}), ["other"]),
    "what is for people": (
        beside("schemas", description="a", title="b", summary="c", deprecated=True, **{"x-a": 1}),
        [],
    ),
    "what is there, too": (beside("schemas", type="string"), []),
}


@pytest.mark.parametrize(("components", "names"), BESIDE.values(), ids=BESIDE)
def test_what_stands_beside_a_reference_is_named_where_it_is_ignored(
    tmp_path: Path, components: tuple[dict[str, Any], dict[str, Any]], names: list[str]
) -> None:
    content, without = (
        document({"/a": {"get": OK}}, openapi="3.0.3", components=one) for one in components
    )
    found = [line.split(": ") for line in warnings(tmp_path, content)]
    texts = [f"'{name}' is ignored beside '$ref' in OpenAPI 3.0" for name in names]
    assert sorted(text for _, text in found) == texts
    lines = (tmp_path / "api.json").read_text().splitlines()
    for place, text in found:
        number, column = map(int, place.split(":"))
        name = text.split("'")[1]
        assert lines[number - 1][column - 1 :].startswith(f'"{name}"')
    read, other = (
        read_contract(written(tmp_path, one), whole=False).document for one in (content, without)
    )
    assert read == other


@pytest.mark.parametrize("siblings", [{}, {"required": True}])
def test_what_stands_beside_a_reference_of_30_is_not_served(
    tmp_path: Path, siblings: dict[str, Any]
) -> None:
    components = {
        "parameters": {"P": QUERY},
        "requestBodies": {"B": {"content": {"application/json": {"schema": {"type": "object"}}}}},
    }
    operation = {
        **OK,
        "parameters": [{"$ref": "#/components/parameters/P", **siblings}],
        "requestBody": {"$ref": "#/components/requestBodies/B", **siblings},
    }
    content = document({"/a": {"post": operation}}, openapi="3.0.3", components=components)
    lines = warnings(tmp_path, content)
    text = " 'required' is ignored beside '$ref' in OpenAPI 3.0"
    assert [line.partition(":")[2].partition(":")[2] for line in lines] == [text] * 2 * len(
        siblings
    )
    with serving_contract(tmp_path, content) as client:
        assert client.post("/a").status_code == 200


@pytest.mark.parametrize(("version", "status"), [("3.0.3", 200), ("3.1.0", 400)])
def test_keywords_beside_the_reference_of_a_schema_count_in_31(
    tmp_path: Path, version: str, status: int
) -> None:
    schema = {"$ref": "#/components/schemas/S", "minLength": 5}
    body = {"content": {"application/json": {"schema": schema}}}
    paths = {"/a": {"post": {**OK, "requestBody": body}}}
    components = {"schemas": {"S": {"type": "string"}}}
    content = document(paths, openapi=version, components=components)
    assert bool(warnings(tmp_path, content)) == (status == 200)
    with serving_contract(tmp_path, content) as client:
        assert client.post("/a", json="abc").status_code == status


def test_a_keyword_beside_a_reference_that_leads_nowhere_is_no_trouble(tmp_path: Path) -> None:
    schema = {"$ref": "#/components/schemas/No", "minLength": 5}
    content = document({"/a": {"get": OK}}, openapi="3.0.3", components={"schemas": {"S": schema}})
    (line,) = warnings(tmp_path, content)
    assert "cannot resolve reference" in line


def test_operations_without_a_response_are_reported(tmp_path: Path) -> None:
    def responding(schema: Any, media_type: str = "application/json", **more: Any) -> Any:
        response = {"description": "ok", "content": {media_type: {"schema": schema}}, **more}
        return {"get": {"responses": {"200": response}}}

    header = {"$ref": "#/components/headers/Odd"}
    paths = {
        "/nothing": responding({"type": "object", "required": ["a"], "properties": {"a": False}}),
        "/text": responding({"type": "string", "minLength": 2, "maxLength": 1}, "text/plain"),
        "/header": responding(True, headers={"X-Odd": header}),
        "/header-again": responding(True, headers={"X-Odd": header}),
        "/continue": {"get": {"responses": {"100": {"description": "continue"}}}},
        "/ok": responding({"required": ["a"]}),
    }
    odd = {"required": True, "schema": {"enum": ["\N{SNOWMAN}"]}}
    read = read_contract(written(tmp_path, document(paths, components={"headers": {"Odd": odd}})))
    lines = contract_warnings(read, compile_contract(read.document), every=True)
    names = re.findall("this operation returns 501: get_(\\w+)", "\n".join(lines))
    assert names == ["nothing", "text", "header", "header_again", "continue"]


ENDLESS: dict[str, Any] = {
    "a member": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#A"}}},
    "an item": {"type": "array", "minItems": 1, "items": {"$ref": "#A"}},
    "two schemas": {"type": "object", "required": ["b"], "properties": {"b": {"$ref": "#B"}}},
}


@pytest.mark.parametrize("schema", ENDLESS.values(), ids=ENDLESS)
def test_a_schema_that_requires_itself_is_reported_as_endless(tmp_path: Path, schema: Any) -> None:
    second = {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#A"}}}
    text = json.dumps({"schemas": {"A": schema, "B": second}})
    components = json.loads(text.replace('"#', '"#/components/schemas/'))
    get = with_schema({"$ref": "#/components/schemas/A"})
    (line,) = warnings(tmp_path, document({"/a": {"get": get}}, components=components))
    assert "this operation returns 501: get_a, response 200: /" in line
    assert "what is required leads back to itself" in line
    assert "exclude each other" not in line


def test_a_document_that_is_served_as_it_says_has_no_warnings(tmp_path: Path) -> None:
    assert warnings(tmp_path, document({"/a": {"get": OK}})) == []


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("value", [["a"], "a", 7, None, {"get": {"operationId": 3}}], ids=repr)
def test_extensions_may_be_anything(tmp_path: Path, version: str, value: Any) -> None:
    extension = {"x-a": value}
    done = {"200": {"description": "ok", **extension}, **extension}
    paths = {"/a": {"get": {"responses": done, **extension}, **extension}, **extension}
    components = {"schemas": {"A": extension}, **extension}
    served = document(paths, components=components, **extension) | {"openapi": version}
    assert warnings(tmp_path, served) == []


def test_after_three_places_of_a_type_their_number_is_reported() -> None:
    notes = [Note((number,), f"n{number}: wrong") for number in range(5)]
    assert list(summarized([*notes, Note((9,), "other")])) == [
        ((9,), "other"),
        ((0,), "n0: wrong"),
        ((1,), "n1: wrong"),
        ((2,), "n2: wrong (and 2 more places like this)"),
    ]
    *_, (_, last) = summarized(notes[:4])
    assert last == "n2: wrong (and 1 more place like this)"
    lost = [Note((number,), f"GET /{number}: this operation is not served: x") for number in "abcd"]
    assert list(summarized(lost)) == [(one.pointer, one.text) for one in lost]


def test_the_lines_are_warnings_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = document({"/a": {"get": {**OK, "callbacks": {"c": {}}}}})
    with serving_contract(tmp_path, content):
        (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "invoice_sandbox")
    assert record.message.endswith("callbacks are not called")


def test_a_command_lists_every_place(tmp_path: Path) -> None:
    callbacks = {**OK, "callbacks": {"c": {}}}
    file = written(tmp_path, document({f"/{name}": {"get": callbacks} for name in "abcde"}))
    shown = CliRunner().invoke(main, ["contract", "--limitations", str(file)])
    assert shown.exit_code == 0
    assert shown.stdout.count("callbacks are not called\n") == 5
    assert shown.stdout.endswith("5 places are not fully supported.\n")


def test_the_command_lists_examples_that_are_not_used(tmp_path: Path) -> None:
    members = {"a": {"type": "string", "example": 5}, "b": {"example": 5}}
    schema = {"type": "object", "properties": members}
    media = {"schema": schema, "example": {"a": 5}}
    body = {"requestBody": {"content": {"application/json": media}}}
    xml = {"application/xml": {"schema": schema, "example": "<a/>"}}
    fine = {"application/json": {"schema": schema, "example": {"a": "x"}}}
    responses = {
        "200": {"description": "ok", "content": {"application/json": media} | xml},
        "201": {"description": "ok", "content": fine},
    }
    component = {"type": "integer", "example": "5", "examples": ["6", 7]}
    content = document({"/a": {"post": {**body, "responses": responses}}})
    content["components"] = {"schemas": {"A": component}}
    file = written(tmp_path, content)
    shown = CliRunner().invoke(main, ["contract", "--limitations", str(file)])
    texts = [re.split(r":\d+:\d+: ", one)[1] for one in shown.stdout.splitlines()[:-1]]
    in_schema = "this example is not used: the value must be a string"
    assert texts == [
        in_schema,  # of the request body
        f"post_a, response 200, example 'example': {in_schema.replace('the value', 'a')}",
        *[in_schema] * 3,
        *["this example is not used: the value must be a whole number"] * 2,
    ]
    assert load_contract(file).warnings == ()


def test_the_command_lists_an_example_that_operations_share_once(tmp_path: Path) -> None:
    media = {"application/json": {"schema": {"type": "integer"}, "example": "wrong"}}
    shared = {"$ref": "#/components/responses/Shared"}
    operation = {"get": {"responses": {"200": shared, "404": shared}}}
    content = document({"/a": operation, "/b": operation})
    content["components"] = {
        "responses": {
            "Shared": {"$ref": "#/components/responses/R"},
            "R": {"description": "", "content": media},
        }
    }
    file = written(tmp_path, content)
    shown = CliRunner().invoke(main, ["contract", "--limitations", str(file)])
    line, count = shown.stdout.splitlines()
    text = "get_a, response 200, example 'example': this example is not used: the value must be a"
    row = file.read_text().splitlines().index('     "application/json": {') + 1
    assert line.startswith(f"{file}:{row}:6: {text} whole number")
    assert count == "1 place is not fully supported."


def test_the_command_says_that_there_is_nothing(tmp_path: Path) -> None:
    file = written(tmp_path, document({"/a": {"get": OK}}))
    shown = CliRunner().invoke(main, ["contract", "--limitations", str(file)])
    assert (shown.exit_code, shown.stdout) == (0, "fine\n")


# Where operations are


SERVERS: dict[str, tuple[Any, str]] = {
    "none": (None, ""),
    "an empty list": ([], ""),
    "the root": ([{"url": "/"}], ""),
    "a path": ([{"url": "/v1"}], "/v1"),
    "a path with a final slash": ([{"url": "/v1/"}], "/v1"),
    "a word": ([{"url": "v1"}], "/v1"),
    "a relative path": ([{"url": "./v1"}], "/v1"),
    "a path above": ([{"url": "../v1"}], "/v1"),
    "a host": ([{"url": "https://api.example.com"}], ""),
    "a host and a path": ([{"url": "https://api.example.com/a/b/"}], "/a/b"),
    "the first of two": ([{"url": "/a"}, {"url": "/b"}], "/a"),
    "variables": (
        [
            {
                "url": "{scheme}://api.example.com/{version}",
                "variables": {"scheme": {"default": "https"}, "version": {"default": "v2"}},
            }
        ],
        "/v2",
    ),
}


@pytest.mark.parametrize(("servers", "path"), SERVERS.values(), ids=SERVERS)
def test_operations_are_below_the_path_of_the_first_server(
    tmp_path: Path, servers: Any, path: str
) -> None:
    content = document({"/thing": {"get": OK}})
    content |= {} if servers is None else {"servers": servers}
    assert base_path(content) == path
    with serving_contract(tmp_path, content) as client:
        assert client.get(f"{path}/thing").status_code == 200


@pytest.mark.parametrize(
    ("path", "owner"),
    [
        ("/sandbox", "the control API"),
        ("/console", "the console"),
        ("/console/v2", "the console"),
        ("/docs", "the API documentation"),
    ],
)
def test_operations_are_apart_from_the_pages_of_the_sandbox(
    tmp_path: Path, path: str, owner: str
) -> None:
    servers = [{"url": f"https://api.example.com{path}"}]
    content = document({"/thing": {"get": OK}}, servers=servers)
    (line,) = warnings(tmp_path, content)
    text = f"{path} is reserved for {owner}: operations begin with /api{path}; --base-path changes"
    assert re.match(rf"\d+:\d+: {text} it", line)
    with serving_contract(tmp_path, content) as client:
        assert client.get(f"/api{path}/thing").status_code == 200
        assert client.get("/sandbox/clock").status_code == 200
        served = client.get("/openapi.json").json()
        assert served["servers"][0]["url"].endswith(f"/api{path}")
    folder = tmp_path / "project"
    (folder / "openapi").mkdir(parents=True)
    (folder / "openapi" / "openapi.yaml").write_text(json.dumps(content))
    assert load_project(folder).contract.base_path == f"/api{path}"
    assert any("is reserved" in one for one in load_project(folder).warnings)
    project = load_contract(written(tmp_path, content), base_path="/v1")
    assert (project.contract.base_path, project.warnings) == ("/v1", ())


def test_a_base_path_of_the_sandbox_is_an_error_of_the_option(tmp_path: Path) -> None:
    given = {"contract": str(written(tmp_path, document({}))), "base-path": "/console/"}
    with pytest.raises(SettingError, match="--base-path: /console/ is reserved for the console"):
        read_settings(given)


def test_a_path_below_the_console_is_reported(tmp_path: Path) -> None:
    (line,) = warnings(tmp_path, document({"/a": FINE, "/console/b": {"get": OK}}))
    assert line.endswith("the sandbox has pages of its own at this path")


def test_other_operations_may_be_below_the_place_of_the_control_endpoints(tmp_path: Path) -> None:
    content = document({"/sandbox/transfer": {"get": OK, "post": OK}})
    with serving_contract(tmp_path, content) as client:
        assert client.get("/sandbox/transfer").status_code == 200
        assert client.get("/sandbox/clock").status_code == 200
        assert client.delete("/sandbox/transfer").headers["allow"] == "GET, POST"


# Which operation is meant


def path_parameters(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "in": "path", "required": True, "schema": True} for name in names]


LIMIT: dict[str, Any] = {"name": "limit", "in": "query", "schema": {"type": "integer"}}


def responding(word: str, *names: str) -> dict[str, Any]:
    content = {"application/json": {"example": word}}
    responses = {"200": {"description": "ok", "content": content}}
    return {"get": {"responses": responses, "parameters": path_parameters(*names)}}


ROUTES: dict[str, str] = {
    "/a/1": "any",
    "/a/me": "me",
    "/a/me/x": "me and any",
    "/a/1/x": "any and x",
    "/a/1.json": "any in JSON",
}


@pytest.mark.parametrize(("path", "word"), ROUTES.items(), ids=ROUTES)
def test_a_path_without_parameters_comes_before_one_with(
    tmp_path: Path, path: str, word: str
) -> None:
    content = document(
        {
            "/a/{id}": responding("any", "id"),
            "/a/{id}/x": responding("any and x", "id"),
            "/a/{id}.json": responding("any in JSON", "id"),
            "/a/me/{x}": responding("me and any", "x"),
            "/a/me": responding("me"),
        }
    )
    with serving_contract(tmp_path, content) as client:
        assert client.get(path).json() == word


ENCODED: dict[str, tuple[str, ...]] = {
    "/a%20b": ("/a%20b", "/%61%20b"),
    "/caf%C3%A9": ("/caf%C3%A9", "/caf%c3%a9"),
    "/café": ("/caf%C3%A9",),
    "/c%2Fd/{x}": ("/c%2Fd/1", "/c%2fd/1"),
    "/e%20{x}.json": ("/e%201.json",),
    "/100%": ("/100%25",),
    "/100%25": ("/100%25",),
}


@pytest.mark.parametrize(("path", "sent"), ENCODED.items(), ids=ENCODED)
def test_a_path_may_be_written_percent_encoded(
    tmp_path: Path, path: str, sent: tuple[str, ...]
) -> None:
    names = ["x"] if "{x}" in path else []
    content = document({path: responding("found", *names)})
    assert warnings(tmp_path, content) == []
    with serving_contract(tmp_path, content) as client:
        for one in sent:
            assert client.get(one).json() == "found"
        assert client.get("/a%2520b").status_code == 404
        assert client.get("/c/d/1").status_code == 404


def test_a_parameter_beside_an_encoded_slash_is_split_before_it_is_decoded(tmp_path: Path) -> None:
    schema = {"type": "array", "items": {"type": "string"}, "maxItems": 2, "minItems": 2}
    ids = {"name": "x", "in": "path", "required": True, "schema": schema}
    content = document({"/c%2Fd/{x}": {"get": {**OK, "parameters": [ids]}}})
    with serving_contract(tmp_path, content) as client:
        assert client.get("/c%2Fd/1%2C2,3").status_code == 200
        assert client.get("/c%2Fd/1,2,3").status_code == 400


def test_a_percent_encoded_request_reaches_a_path_with_a_hash(tmp_path: Path) -> None:
    content = document({"/x#y": responding("found")})
    (line,) = warnings(tmp_path, content)
    assert line.endswith(": only a percent-encoded request reaches it: '#' and '?' end a path")
    with serving_contract(tmp_path, content) as client:
        assert client.get("/x%23y").json() == "found"


def test_of_two_paths_that_are_encoded_differently_the_first_is_served(tmp_path: Path) -> None:
    paths = {"/a b": responding("first"), "/a%20b": responding("second"), "/a/b": FINE}
    (line,) = warnings(tmp_path, document(paths))
    assert line.endswith(": duplicates another path except for percent-encoding")
    with serving_contract(tmp_path, document(paths)) as client:
        assert client.get("/a%20b").json() == "first"


def test_a_path_without_parameters_has_its_own_methods_only(tmp_path: Path) -> None:
    deleting = {**responding("any", "id")}
    deleting["delete"] = {**deleting["get"], "operationId": "deleteAny"}
    content = document({"/a/{id}": deleting, "/a/me": responding("me")})
    with serving_contract(tmp_path, content) as client:
        assert client.delete("/a/1").json() == "any"
        rejected = client.delete("/a/me")
        assert (rejected.status_code, rejected.headers["allow"]) == (405, "GET")


PROBLEM: dict[str, Any] = {
    "description": "what is wrong",
    "content": {
        "application/problem+json": {
            "schema": {
                "type": "object",
                "required": ["title"],
                "properties": {"title": {"type": "string"}, "detail": {"const": "see title"}},
            }
        }
    },
}
REJECTED: dict[str, tuple[dict[str, Any], int]] = {
    "400": ({"400": PROBLEM}, 400),
    "a range": ({"4XX": PROBLEM}, 400),
    "default": ({"default": PROBLEM}, 400),
    "422 in the place of 400": ({"422": PROBLEM, "default": PROBLEM}, 422),
    "400 beside 422": ({"400": PROBLEM, "422": {"description": "another"}}, 400),
}


@pytest.mark.parametrize(("responses", "status"), REJECTED.values(), ids=REJECTED)
def test_an_error_is_what_the_document_declares(
    tmp_path: Path, responses: dict[str, Any], status: int
) -> None:
    get = {"responses": {**OK["responses"], **responses}, "parameters": [LIMIT]}
    with serving_contract(tmp_path, document({"/a": {"get": get}})) as client:
        assert client.get("/a", params={"limit": 1}).status_code == 200
        rejected = client.get("/a", params={"limit": "many"})
        assert rejected.status_code == status
        assert rejected.headers["content-type"] == "application/problem+json"
        assert isinstance(rejected.json()["title"], str)
        assert rejected.headers["x-sandbox-error"].startswith("limit must be a whole number")


TITLED = {"required": ["title"], "properties": {"title": {"type": "string"}}}
CODED = {"required": ["error"], "properties": {"error": {"required": ["code"]}}}
OF_THE_DOCUMENT: dict[str, tuple[str, Any, Any]] = {
    "problem details": ("application/problem+json", TITLED, {"title": "No", "type": "/wrong"}),
    "the sandbox's envelope": ("application/json", CODED, {"error": {"code": "WRONG"}}),
}


@pytest.mark.parametrize(
    ("media_type", "schema", "example"), OF_THE_DOCUMENT.values(), ids=OF_THE_DOCUMENT
)
def test_an_error_is_the_example_of_the_document(
    tmp_path: Path, media_type: str, schema: Any, example: Any
) -> None:
    """If the schema allows it."""
    for one in ({"examples": {"a": {"value": example}}}, {"example": example}, {"example": 5}):
        content = {media_type: {"schema": {"type": "object", **schema}, **one}}
        responses = {**OK["responses"], "400": {"description": "", "content": content}}
        get = {"responses": responses, "parameters": [LIMIT]}
        with serving_contract(tmp_path, document({"/a": {"get": get}})) as client:
            rejected = client.get("/a", params={"limit": "many"})
            reason = rejected.headers.get("x-sandbox-error", "")
            if one == {"example": 5}:
                assert "limit must be a whole number" in rejected.text
            else:
                assert rejected.json() == example
                assert reason.startswith("limit must be a whole number")


@pytest.mark.parametrize("schema", [{}, {"properties": {"error": {"type": "object"}}}])
def test_an_error_is_in_the_usual_envelope_if_the_document_allows_that(
    tmp_path: Path, schema: Any
) -> None:
    error = {"description": "no", "content": {"application/json": {"schema": schema}}}
    get = {"responses": {**OK["responses"], "400": error}, "parameters": [LIMIT]}
    with serving_contract(tmp_path, document({"/a": {"get": get}})) as client:
        rejected = client.get("/a", params={"limit": "many"})
        assert rejected.json()["error"]["code"] == "invalid_request"


def test_a_given_response_has_the_headers_that_are_required(tmp_path: Path) -> None:
    declared = {"required": True, "schema": {"type": "integer", "minimum": 5}}
    shown = {"schema": {"type": "array", "items": {"type": "integer"}}, "example": [1, 2]}
    content = {"application/json": {"schema": {"type": "array"}}}
    ok = {"description": "ok", "content": content, "headers": {"X-N": declared, "X-Shown": shown}}
    get = {"operationId": "a", "responses": {"200": ok}}
    with serving_contract(tmp_path, document({"/a": {"get": get}})) as client:
        fault = {"kind": "response", "operation": "a"}
        for headers, found in (({}, None), ({"x-n": "7"}, "7")):
            given = {**fault, "body": [], "headers": headers}
            assert client.post("/sandbox/faults", json=given).status_code == 201
            response = client.get("/a")
            (number,) = response.headers.get_list("x-n")
            assert int(number) >= 5
            assert found in {None, number}
            assert (response.json(), response.headers["x-shown"]) == ([], "1,2")
        assert client.post("/sandbox/faults", json={**fault, "headers": {"x-n": "8"}}).is_success
        assert client.get("/a").headers.get_list("x-n") == ["8"]
        for headers in ({"X-N": "abc"}, {"x-n": "4"}, {"x-shown": "1,b"}):
            rejected = client.post("/sandbox/faults", json={**fault, "headers": headers})
            assert rejected.status_code == 400
            assert "not a 200 of a: the header X-" in rejected.json()["error"]["message"]


def test_a_given_response_needs_a_header_that_cannot_be_generated(tmp_path: Path) -> None:
    header = {"required": True, "schema": {"type": "string", "pattern": "^(?=a)b"}}
    content = {"application/json": {"schema": {"type": "array"}}}
    ok = {"description": "ok", "content": content, "headers": {"X-N": header}}
    get = {"operationId": "a", "responses": {"200": ok}}
    with serving_contract(tmp_path, document({"/a": {"get": get}})) as client:
        fault = {"kind": "response", "operation": "a", "body": []}
        rejected = client.post("/sandbox/faults", json=fault)
        assert rejected.status_code == 400
        assert "add it to 'headers'" in rejected.json()["error"]["message"]


def test_an_operation_without_security_can_have_a_fault(tmp_path: Path) -> None:
    with serving_contract(
        tmp_path, document({"/a": {"get": {**OK, "operationId": "a"}}})
    ) as client:
        fault = {"kind": "status", "operation": "a", "status": 503}
        assert client.post("/sandbox/faults", json=fault).status_code == 201
        assert [client.get("/a").status_code for _ in range(2)] == [503, 200]


def test_a_problem_has_the_status_of_its_response(tmp_path: Path) -> None:
    rejected = {"description": "no", "content": {"application/problem+json": {"schema": {}}}}
    get = {"responses": {**OK["responses"], "422": rejected}, "parameters": [LIMIT]}
    with serving_contract(tmp_path, document({"/a": {"get": get}})) as client:
        response = client.get("/a", params={"limit": "many"})
        assert (response.status_code, response.json()["status"]) == (422, 422)
        assert response.json()["title"] == "Unprocessable Entity"


def test_an_error_that_is_not_declared_is_in_the_usual_envelope(tmp_path: Path) -> None:
    get = {"responses": OK["responses"], "parameters": [LIMIT]}
    with serving_contract(tmp_path, document({"/a": {"get": get}})) as client:
        rejected = client.get("/a", params={"limit": "many"})
        assert (rejected.status_code, rejected.json()["error"]["code"]) == (400, "invalid_request")
        assert "x-sandbox-error" not in rejected.headers


def test_head_is_its_own_operation_beside_get(tmp_path: Path) -> None:
    head = {"responses": {"204": {"description": "no body"}}}
    with serving_contract(tmp_path, document({"/a": {"get": OK, "head": head}})) as client:
        assert client.get("/a").status_code == 200
        assert client.head("/a").status_code == 204


def test_yaml_is_served_like_json(tmp_path: Path) -> None:
    file = tmp_path / "api.yml"
    file.write_text(
        """\
openapi: 3.0.1
info: {title: Norway, version: 1.0.0}
paths:
  /numbers:
    get:
      responses:
        200:
          description: numbers
          content:
            application/json:
              example: [0o17, 0x1F, 012, 1_000, 1e3, no, 2026-11-21]
"""
    )
    with serving(replace(FROZEN, contract=file)) as running, running.client() as client:
        reply: httpx.Response = client.get("/numbers")
    assert reply.json() == [15, 31, 12, "1_000", 1000.0, "no", "2026-11-21"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_a_file_may_be_written_as_windows_writes_it(
    tmp_path: Path, encoding: str, suffix: str
) -> None:
    """PowerShell writes UTF-16."""
    file = tmp_path / f"api.{suffix}"
    text = json.dumps(
        document({"/caf\u00e9": {"get": {**OK, "tags": [1]}}}), indent=1, ensure_ascii=False
    )
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    file.write_bytes((mark + text.replace("\n", "\r\n")).encode(encoding))
    project = load_contract(file)
    (line,) = project.warnings
    assert line.startswith(f"{file}:16:6: ")
    assert project.contract.operations["get_caf"].path == "/caf\u00e9"


WRITTEN = json.dumps(document({"/a": {"get": {**OK, "tags": [1]}}}))
AS_WRITTEN: dict[str, tuple[str, str, str]] = {
    "a name without quotes": ("json", WRITTEN.replace('"Toy"', "Toy"), "1:40: not JSON: "),
    "a comma at the end": ("json", WRITTEN[:-1] + ",}", f"1:{len(WRITTEN) + 1}: not JSON: "),
    "apostrophes": ("json", WRITTEN.replace('"', "'"), "1:2: not JSON: "),
    "a comment of YAML": ("json", f"# toys\n{WRITTEN}", "1:1: not JSON: "),
    "a second document": ("yaml", f"{WRITTEN}\n---\n{WRITTEN}", "3:1: this is ignored: "),
}


@pytest.mark.parametrize(("suffix", "text", "said"), AS_WRITTEN.values(), ids=AS_WRITTEN)
def test_what_other_tools_read_is_read_with_a_warning(
    tmp_path: Path, suffix: str, text: str, said: str
) -> None:
    file = tmp_path / f"api.{suffix}"
    file.write_text(text)
    project = load_contract(file)
    assert [one.path for one in project.contract.operations.values()] == ["/a"]
    lines = project.warnings
    (second,) = [one for one in lines if "this is ignored" not in one and "not JSON" not in one]
    assert any(one.startswith(f"{file}:{said}") for one in lines)
    before = text[: text.index("1]")]
    line, column = before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1
    assert second.startswith(f"{file}:{line}:{column}: ")
    assert "read as" in second


SHORT_SERVERS = {
    "localhost:8080/api": "/api",
    "localhost:3000": "",
    "127.0.0.1:8000/v1": "/v1",
    "api.example.com/v1": "/v1",
    "backend:8080/v2": "/v2",
    "v1.0": "/v1.0",
    "api/v1": "/api/v1",
    "localhost": "",
}


@pytest.mark.parametrize(("url", "base"), SHORT_SERVERS.items())
def test_the_address_of_a_server_may_lack_its_scheme(tmp_path: Path, url: str, base: str) -> None:
    project = load_contract(
        written(tmp_path, document({"/a": {"get": OK}}, servers=[{"url": url}]))
    )
    assert project.contract.base_path == base
    is_path = url in {"v1.0", "api/v1"}
    assert [f'read as "http://{url}"' in one for one in project.warnings] == [True] * (not is_path)


@pytest.mark.parametrize(
    ("name", "path"),
    [("/a/{id?}", "/a/{id}"), ("/a/{id?}/b", "/a/{id}/b"), ("/{kind?}/{id}", "/{kind}/{id}")],
)
def test_a_parameter_of_a_path_that_may_be_missing_is_one_of_it(
    tmp_path: Path, name: str, path: str
) -> None:
    given = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
    kind = {"name": "kind", "in": "path", "required": True, "schema": {"type": "string"}}
    every = [given, kind] if "kind" in name else [given]
    content = document({name: {"get": {**OK, "parameters": every}}})
    (line,) = warnings(tmp_path, content)
    assert line.endswith(f"'{name}' is read as '{path}'")
    with serving_contract(tmp_path, content) as client:
        paths = [path.replace("{id}", one).replace("{kind}", "k") for one in ("1", "x")]
        assert [client.get(one).status_code for one in paths] == [200, 400]


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_the_halves_of_a_letter_are_one_in_yaml_too(tmp_path: Path, suffix: str) -> None:
    content = document({"/a": {"get": {**OK, "tags": [1]}}})
    content["info"]["title"] = "\U0001f600"
    file = tmp_path / f"api.{suffix}"
    file.write_text(json.dumps(content)[:-1] + ",}")
    project = load_contract(file)
    assert project.contract.document["info"]["title"] == "\U0001f600"
    assert all(one.startswith(f"{file}:1:") for one in project.warnings)
    assert not any(one.startswith(f"{file}:1:1:") for one in project.warnings)
    assert len(project.warnings) == (2 if suffix == "json" else 1)


def test_a_line_has_its_place_beside_halves_of_a_letter(tmp_path: Path) -> None:
    file = tmp_path / "api.yaml"
    info = 'info: {title: "\\ud83d\\ude00", version: "1"}'
    file.write_text(f"openapi: 3.1.0\n{info}\npaths:\n  /a: {FINE_ROW}\ntags: [1]\n")
    (line,) = load_contract(file).warnings
    assert line.startswith(f"{file}:5:8: ")


def test_each_line_about_a_member_has_the_name_of_that_one(tmp_path: Path) -> None:
    response = {"description": "ok", "in": 1, "scheme": 2}
    found = warnings(tmp_path, document({"/a": {"get": {"responses": {"200": response}}}}))
    assert ["('in' was unexpected)" in one for one in found] == [True, False]
    assert ["('scheme' was unexpected)" in one for one in found] == [False, True]


def test_a_member_of_any_name_has_a_line(tmp_path: Path) -> None:
    names = ["\\d", "\\g<9>", "a (b"]
    response = {"description": "ok", **dict.fromkeys(names, 1)}
    found = warnings(tmp_path, document({"/a": {"get": {"responses": {"200": response}}}}))
    assert [one.partition("allowed ")[2] for one in found] == [
        f"('{one}' was unexpected)" for one in names
    ]


def test_a_way_below_an_empty_name_that_leads_nowhere_is_left(tmp_path: Path) -> None:
    properties = {"items": 5, "": {"items": {"type": "int"}}}
    found = warnings(tmp_path, contract({"type": "object", "properties": properties}))
    assert any("this schema is not checked: 5 is not" in one for one in found)
    assert any("this schema is read without 'type': \"int\"" in one for one in found)


@pytest.mark.parametrize("wrong", [{"properties": -1}, {"properties": [{}]}, {"enum": 5}], ids=str)
def test_a_wrong_keyword_of_a_schema_that_leads_back_to_itself_has_a_line(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    schema = {"$anchor": "a", "not": {"$ref": "#a"}, **wrong}
    assert warnings(tmp_path, contract(schema))


def test_all_addresses_that_are_none_are_found_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schemas = {f"S{n}": {"$schema": DRAFT_04, "id": f"//[{n}"} for n in range(3)}
    content = document({"/a": {"get": OK}}, components={"schemas": schemas})
    rounds, once = list[Any](), contracts.compile_apart

    def counted(one: dict[str, Any]) -> Any:
        rounds.append(one)
        return once(one)

    monkeypatch.setattr(contracts, "compile_apart", counted)
    assert sum("not checked" in one for one in warnings(tmp_path, content)) == 3
    assert len(rounds) == 2


def test_items_that_are_wrong_are_not_missing(tmp_path: Path) -> None:
    content = contract({"type": "array", "items": [{"type": "string"}]}, openapi="3.0.3")
    (line,) = warnings(tmp_path, content)
    assert "this schema is read without 'items': " in line


def test_empty_documents_of_a_file_are_nothing(tmp_path: Path) -> None:
    file = tmp_path / "api.yaml"
    file.write_text(f"---\n---\n{json.dumps(document({'/a': {'get': OK}}))}\n---\n")
    project = load_contract(file)
    assert [*project.contract.operations] == ["get_a"]
    assert not project.warnings


# What is named where it is


def rows(folder: Path, text: str) -> list[str]:
    """What is reported of a YAML file, each from the number of the line."""
    file = folder / "api.yaml"
    file.write_text(f"openapi: 3.0.3\ninfo: {{title: Toy, version: '1'}}\n{text}")
    return [one.removeprefix(f"{file}:") for one in load_contract(file).warnings]


FINE_ROW = "{get: {responses: {200: {description: ok}}}}"


def test_templates_that_are_left_in_yaml_are_named_where_they_are(tmp_path: Path) -> None:
    text = f"paths:\n  /a: {FINE_ROW}\n  {{{{ b }}}}: 1\n  {{{{ c }}}}: 1\n  /d:\n    <<: 5\n"
    found = rows(tmp_path, text)
    assert found == [
        "5:3: this is ignored: a key must be text",
        "6:3: this is ignored: a key must be text",
        "8:5: this is ignored: '<<' must name an object, or a list of objects",
    ]


def test_operations_have_the_names_that_are_reported_when_a_path_is_left_out(
    tmp_path: Path,
) -> None:
    found = rows(tmp_path, f"paths:\n  '': {FINE_ROW}\n  /: {FINE_ROW}\n  /\u00e9: {FINE_ROW}\n")
    assert found == [
        "4:3: '': this is ignored: a path begins with '/'",
        "6:8: without operationId: it is called get_2 here",
    ]
    operations = load_contract(tmp_path / "api.yaml").contract.operations
    assert {name: one.path for name, one in operations.items()} == {"get": "/", "get_2": "/\u00e9"}


def test_a_reference_to_another_type_has_a_line_beside_one_to_nothing(tmp_path: Path) -> None:
    media = "content: {application/json: {schema: {properties: {p: {$ref: P}, q: {$ref: Q}}}}}"
    media = media.replace("$ref: P", "$ref: '#/components/schemas/P'")
    media = media.replace("$ref: Q", "$ref: '#/components/parameters/Q'")
    post = f"{{post: {{requestBody: {{{media}}}, responses: {{200: {{description: ok}}}}}}}}"
    other = "components: {parameters: {Q: {name: q, in: query, schema: {type: string}}}}"
    first, second = rows(tmp_path, f"paths:\n  /a: {post}\n{other}\n")
    assert "this schema is not checked: cannot resolve reference '#/components/schemas/P'" in first
    problem = "the reference '#/components/parameters/Q' does not name a schema"
    assert second.endswith(f"this schema is not checked: {problem}")


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("keyword", ["additionalProperties", "items"])
def test_a_wrong_keyword_of_other_members_takes_no_other_with_it(
    tmp_path: Path, keyword: str, version: str
) -> None:
    inside = {"type": "string", "minLength": "x"}
    content = contract({"type": ["object", "array"], keyword: inside}, openapi=version)
    if version == "3.0.3":
        kind = {"additionalProperties": "object", "items": "array"}[keyword]
        content = contract({"type": kind, keyword: inside}, openapi=version)
    (line,) = warnings(tmp_path, content)
    assert "this schema is read without 'minLength': " in line
    wrong = {"a": 1} if keyword == "additionalProperties" else [1]
    with serving_contract(tmp_path, content) as client:
        assert client.post("/check", json=wrong).status_code == 400


@pytest.mark.parametrize("beside", ["", "named.json"], ids=["one file", "two files"])
def test_names_of_a_discriminator_without_a_schema_have_a_line(tmp_path: Path, beside: str) -> None:
    lost = [
        *("#/components/schemas/Lost", "Lost", "#lost", "lost.yaml", "./lost.json#/Lost"),
        *("https://toys.test/lost.json", "https://toys.test/Lost"),
    ]
    right = ["#/components/schemas/Named", "Named", "https://toys.test/found", "#found"]
    found = {"$id": "https://toys.test/found", "type": "object"}
    schemas = {"Named": NAMED, "Found": found, "Anchored": {"$anchor": "found"}}
    (tmp_path / "named.json").write_text(json.dumps({"N": NAMED}))
    right += [f"{beside}#/N"] if beside else []
    schema = {
        "oneOf": [{"$ref": right[-1]}, {"$ref": "#/components/schemas/Named"}],
        "discriminator": {
            "propertyName": "a",
            "mapping": {str(number): one for number, one in enumerate([*lost, *right])},
        },
    }
    lines = warnings(tmp_path, contract(schema, components={"schemas": schemas}))
    text = "is no schema: this name has no effect"
    assert [one.partition(": ")[2] for one in lines] == [f"'{one}' {text}" for one in lost]


def test_a_parameter_that_is_twice_in_a_path_has_a_line(tmp_path: Path) -> None:
    given = {"name": "a", "in": "path", "required": True, "schema": {"type": "integer"}}
    content = document({"/x/{a}/{a}": {"get": {**OK, "parameters": [given]}}})
    (line,) = warnings(tmp_path, content)
    assert line.endswith(": a: this parameter is in the path 2 times; the last one counts")
    with serving_contract(tmp_path, content) as client:
        assert client.get("/x/b/1").status_code == 200
        assert client.get("/x/1/b").status_code == 400


ORDER = "{parameters: [{name: id, in: path, required: true, schema: {type: integer}}], GET}"


def test_a_path_item_among_the_components_is_that_of_each_path(tmp_path: Path) -> None:
    get = "get: {responses: {'200': {description: ok}}}"
    reference = "{$ref: '#/components/pathItems/Order'}"
    file = tmp_path / "api.yaml"
    file.write_text(
        "openapi: 3.1.0\ninfo: {title: Toy, version: '1'}\npaths:\n"
        f"  /orders/{{id}}: {reference}\n  /x/{{key}}: {reference}\n  /y/{{ID}}: {reference}\n"
        f"components: {{pathItems: {{Order: {ORDER.replace('GET', get)}}}}}\n"
    )
    found = [one.removeprefix(f"{file}:") for one in load_contract(file).warnings]
    assert found == [
        "5:3: /x/{key}: this is ignored: parameter 'id' is no part of the path",
        "5:3: key: no parameter of this name; it is any string",
        "6:3: parameter 'id' is read as 'ID'",
    ]
    with serving(replace(FROZEN, contract=file)) as running, running.client() as client:
        statuses = [client.get(one).status_code for one in ("/orders/1", "/orders/a", "/x/a")]
        assert statuses == [200, 400, 200]
        assert [client.get(one).status_code for one in ("/y/1", "/y/a")] == [200, 400]


@pytest.mark.parametrize("place", ["path", "operation"])
def test_one_parameter_instead_of_a_list_is_read_as_a_list(tmp_path: Path, place: str) -> None:
    given = {
        "name": "id",
        "in": "path",
        "required": True,
        "schema": {"$ref": "#/components/schemas/I"},
    }
    operation: dict[str, Any] = dict(OK)
    item = {"get": operation}
    (item if place == "path" else operation)["parameters"] = given
    content = document({"/a/{id}": item}, components={"schemas": {"I": {"type": "integer"}}})
    (line,) = warnings(tmp_path, content)
    assert line.endswith(": read as a list of this one parameter")
    with serving_contract(tmp_path, content) as client:
        assert [client.get(one).status_code for one in ("/a/1", "/a/x")] == [200, 400]


@pytest.mark.parametrize("is_list", [True, False])
def test_a_reference_to_a_file_may_be_to_a_list_of_parameters(
    tmp_path: Path, is_list: bool
) -> None:
    given = {"name": "q", "in": "query", "required": True, "schema": {"type": "integer"}}
    (tmp_path / "given.json").write_text(json.dumps([given] if is_list else given))
    content = document({"/a": {"get": {**OK, "parameters": {"$ref": "given.json"}}}})
    assert len(warnings(tmp_path, content)) == (0 if is_list else 1)
    with serving_contract(tmp_path, content) as client:
        assert [client.get(one).status_code for one in ("/a?q=1", "/a")] == [200, 400]


def test_what_is_ignored_is_named_where_it_is_though_it_is_a_reference(tmp_path: Path) -> None:
    """Beside a reference to nothing, as Swagger 2 has it."""
    text = (
        "paths:\n  /a:\n    get:\n      responses:\n        '200':\n          description: ok\n"
        "          schema: {$ref: '#/components/schemas/A'}\n"
        "        '404': {$ref: '#/components/responses/Gone'}\n"
        "components: {schemas: {A: {type: object}}}\n"
    )
    first, second = rows(tmp_path, text)
    assert first.startswith("9:11: this is ignored: Additional properties are not allowed")
    assert second.startswith("10:9: this is ignored: cannot resolve reference")


def test_every_value_that_json_cannot_have_is_named(tmp_path: Path) -> None:
    texts = {"summary": "HALF", "description": "HALF", "x-a": float("nan")}
    text = json.dumps(document({"/a": {"get": {**OK, **texts}}}), indent=1)
    file = tmp_path / "api.json"
    file.write_text(text.replace("HALF", "\\ud83d"))
    assert [one.removeprefix(f"{file}:") for one in load_contract(file).warnings] == [
        r"15:17: \ud83d is half of a letter, and read as U+FFFD",
        r"16:21: \ud83d is half of a letter, and read as U+FFFD",
        "17:12: NaN is no value of JSON, and read as null",
    ]


@pytest.mark.parametrize("reference", ["pet.json", "pet.json#/E"])
def test_an_identifier_of_a_file_has_no_effect_in_openapi_30(
    tmp_path: Path, reference: str
) -> None:
    pet: dict[str, Any] = {
        "$id": "https://toys.test/schemas/pet.json",
        "properties": {"owner": {"$ref": "owner.json"}, "tag": {"$ref": "#/x-defs/tag"}},
    }
    defs = {"x-defs": {"tag": {"type": "integer"}}}
    content: dict[str, Any] = pet | defs if reference == "pet.json" else {"E": pet} | defs
    (tmp_path / "pet.json").write_text(json.dumps(content, indent=1))
    (tmp_path / "owner.json").write_text(json.dumps({"type": "string"}))
    file = written(tmp_path, contract({"$ref": reference}, openapi="3.0.3"))
    (line,) = load_contract(file).warnings
    place = "2:2" if reference == "pet.json" else "3:3"
    assert line == f"{tmp_path / 'pet.json'}:{place}: '$id' is ignored in OpenAPI 3.0"
    with serving(replace(FROZEN, contract=file)) as running, running.client() as client:
        bodies = ({"owner": "a", "tag": 1}, {"owner": 1}, {"tag": "a"})
        assert [client.post("/check", json=one).status_code for one in bodies] == [204, 400, 400]


def test_an_identifier_has_no_effect_in_openapi_30(tmp_path: Path) -> None:
    part = {"$id": "https://toys.test/a", "items": {"$ref": "#/components/schemas/B"}}
    content = contract(part, openapi="3.0.3", components={"schemas": {"B": {"type": "integer"}}})
    (line,) = warnings(tmp_path, content)
    assert line.endswith(": '$id' is ignored in OpenAPI 3.0")
    with serving_contract(tmp_path, content) as client:
        assert [client.post("/check", json=one).status_code for one in ([1], ["a"])] == [204, 400]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_members_in_other_letters_are_read_or_named(tmp_path: Path, version: str) -> None:
    given = {"Name": "q", "In": "query", "Required": True, "schema": {"type": "integer"}}
    body = {"Required": True, "content": {"application/json": {"schema": {"Type": "object"}}}}
    operation = {"parameters": [given], "requestBody": body, **OK}
    content = document({"/a": {"post": operation}}, openapi=version)
    found = [one.partition(": ")[2] for one in warnings(tmp_path, content)]
    last = {
        "3.0.3": "Type is read as 'type'",
        "3.1.0": "'Type' is no keyword, and ignored: 'type' is one",
    }
    expected = [
        "Name is read as 'name'",
        "In is read as 'in'",
        *["Required is read as 'required'"] * 2,
    ]
    assert found == [*expected, last[version]]
    with serving_contract(tmp_path, content) as client:
        assert client.post("/a?q=1", json={}).status_code == 200
        assert client.post("/a", json={}).status_code == 400
        assert client.post("/a?q=1").status_code == 400
        assert client.post("/a?q=1", json=1).status_code == (400 if version == "3.0.3" else 200)


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_the_members_of_a_discriminator_may_be_in_other_letters(
    tmp_path: Path, version: str
) -> None:
    mapping = {"b": "#/components/schemas/B", "$ref": "#/components/schemas/B"}
    schema: dict[str, Any] = {"oneOf": [{"$ref": mapping["b"]}]}
    schema["discriminator"] = {"PropertyName": "k", "Mapping": mapping}
    part = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
    media = {"content": {"application/json": {"schema": schema}}, "description": ""}
    content = document({"/a": {"get": {"responses": {"200": media}}}}, openapi=version)
    content["components"] = {"schemas": {"B": part}}
    found = [one.partition(": ")[2] for one in warnings(tmp_path, content)]
    assert found == ["PropertyName is read as 'propertyName'", "Mapping is read as 'mapping'"]
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").json() == {"k": "b"}


def test_an_example_beside_examples_and_nullable_of_31_have_a_line(tmp_path: Path) -> None:
    media = {"schema": {"nullable": "true"}, "example": 1, "examples": {"a": {"value": 2}}}
    get = {"responses": {"200": {"description": "ok", "content": {"application/json": media}}}}
    content = document({"/a": {"get": get}})
    found = [one.partition(": ")[2] for one in warnings(tmp_path, content)]
    assert found[1:] == ["'example' is ignored beside 'examples'"]
    assert found[0].startswith("'nullable' has no effect in OpenAPI 3.1")
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").json() == 2


@pytest.mark.parametrize("draft", ["draft-06", "draft-07"])
def test_a_schema_is_found_by_its_identifier_in_an_earlier_dialect(
    tmp_path: Path, draft: str
) -> None:
    schemas = {"B": {"$id": "https://toys.test/b", "type": "integer"}}
    content = contract({"$ref": "https://toys.test/b"}, components={"schemas": schemas})
    content["jsonSchemaDialect"] = f"http://json-schema.org/{draft}/schema#"
    assert not warnings(tmp_path, content)
    with serving_contract(tmp_path, content) as client:
        assert [client.post("/check", json=one).status_code for one in (1, "a")] == [204, 400]


DRAFT_04 = "http://json-schema.org/draft-04/schema#"
NOT_TO_BE_COMPILED: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "an address that is another keyword's": (
        {"B": {"$schema": DRAFT_04, "$id": "https://toys.test/b"}},
        "#/components/schemas/B",
        ["cannot resolve reference 'https://toys.test/b'"],
    ),
    "a part of a meta-schema that there is not": (
        {},
        "https://json-schema.org/draft/2020-12/schema#/nothing",
        ["Pointer '/nothing' does not exist"],
    ),
    "addresses that are none": (
        {
            "A": {"$ref": "#/components/schemas/B"},
            "B": {"$schema": DRAFT_04, "id": "//["},
            "C": {"$schema": DRAFT_04, "id": "//]"},
        },
        "#/components/schemas/A",
        ["Invalid URI reference '//[':", "Invalid URI reference '//]':"],
    ),
}


@pytest.mark.parametrize(
    ("schemas", "reference", "lines"), NOT_TO_BE_COMPILED.values(), ids=NOT_TO_BE_COMPILED
)
def test_a_schema_that_cannot_be_compiled_is_not_checked_and_the_rest_is_served(
    tmp_path: Path, schemas: dict[str, Any], reference: str, lines: list[str]
) -> None:
    content = contract({"$ref": reference}, components={"schemas": schemas})
    content["paths"]["/other"] = {"get": OK}
    (tmp_path / "openapi").mkdir()
    (tmp_path / "openapi" / "openapi.yaml").write_text(json.dumps(content))
    for found in (warnings(tmp_path, content), load_project(tmp_path).warnings):
        every = [one for one in found if "this schema is not checked: " in one]
        assert len(every) == len(lines)
        assert all(part in one for part, one in zip(lines, every, strict=True))
    with serving_contract(tmp_path, content) as client:
        assert client.post("/check", json=1).status_code == 204
        assert client.get("/other").status_code == 200


def test_a_schema_is_not_found_by_the_identifier_of_another_dialect(tmp_path: Path) -> None:
    schemas = {"B": {"$id": "https://toys.test/b", "type": "integer"}}
    content = contract({"$ref": "https://toys.test/b"}, components={"schemas": schemas})
    (line,) = warnings(tmp_path, content | {"jsonSchemaDialect": DRAFT_04})
    assert line.endswith("not checked: cannot resolve reference 'https://toys.test/b'")


@pytest.mark.parametrize("place", ["in the operation", "a component"])
def test_what_openapi_adds_to_schemas_is_left_out_alone_if_it_is_wrong(
    tmp_path: Path, place: str
) -> None:
    part = {"type": "string", "xml": {"name": "n", "attribute": "yes", "other": 1}}
    schema = {
        "type": "object",
        "discriminator": "x",
        "externalDocs": "y",
        "properties": {"a": part},
    }
    given = {"$ref": "#/components/schemas/A"} if place == "a component" else schema
    content = contract(given, components={"schemas": {"A": schema}})
    found = [one.partition(": ")[2] for one in warnings(tmp_path, content)]
    assert set(found) == {
        'this schema is read without \'discriminator\': "x" is not of type "object"',
        'this is ignored: "y" is not of type "object"',
        'read as true: "yes" is not of type "boolean"',
        "this is ignored: Unevaluated properties are not allowed ('other' was unexpected)",
    }
    assert len(found) == (4 if place == "a component" else 8)


@pytest.mark.parametrize("place", ["in the operation", "a component"])
@pytest.mark.parametrize("name", ["exclusiveMinimum", "exclusiveMaximum"])
def test_an_exclusive_limit_without_the_limit_is_ignored(
    tmp_path: Path, name: str, place: str
) -> None:
    schema = {"type": "integer", name: True}
    given = {"$ref": "#/components/schemas/A"} if place == "a component" else schema
    used = {"schemas": {"A": schema}} if place == "a component" else {}
    content = contract(given, components=used, openapi="3.0.3")
    (line,) = warnings(tmp_path, content)
    assert f": '{name}' has no effect without '{name[9:].lower()}', and is ignored" in line
    with serving_contract(tmp_path, content) as client:
        assert [client.post("/check", json=one).status_code for one in (1, "a")] == [204, 400]


DRAFT_07 = "http://json-schema.org/draft-07/schema#"
KNOWN_DIALECTS = [
    OAS_DIALECT,
    *(f"https://json-schema.org/draft/{one}/schema" for one in ("2020-12", "2019-09")),
    DRAFT_04,
    DRAFT_07,
]
WRONG_IN_ANY_DIALECT: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown type": ({"type": "int"}, "type", "read without 'type': \"int\" is not"),
    "required as true": (
        {"required": True},
        "required",
        "read without 'required': true is not of type",
    ),
    "a limit that is text": (
        {"minLength": "x"},
        "minLength",
        "read without 'minLength': \"x\" is not of type",
    ),
    "a property that is a number": (
        {"properties": {"a": 3}},
        "a",
        "not checked: 3 is not of type",
    ),
}


@pytest.mark.parametrize("place", ["in the operation", "a component"])
@pytest.mark.parametrize("member", ["jsonSchemaDialect", "$schema"])
@pytest.mark.parametrize("dialect", KNOWN_DIALECTS)
@pytest.mark.parametrize(
    ("wrong", "at", "message"), WRONG_IN_ANY_DIALECT.values(), ids=WRONG_IN_ANY_DIALECT
)
def test_of_a_schema_of_a_known_dialect_only_the_wrong_keyword_is_not_read(
    tmp_path: Path,
    wrong: dict[str, Any],
    at: str,
    message: str,
    dialect: str,
    member: str,
    place: str,
) -> None:
    is_of_schema, is_component = member == "$schema", place == "a component"
    schema = {"maxProperties": 1, **({member: dialect} if is_of_schema else {}), **wrong}
    given = {"$ref": "#/components/schemas/A"} if is_component else schema
    content = contract(given, components={"schemas": {"A": schema} if is_component else {}})
    content |= {} if is_of_schema else {member: dialect}
    (line,) = warnings(tmp_path, content)
    lines = (tmp_path / "api.json").read_text().splitlines()
    assert f": this schema is {message}" in line
    assert f'"{at}": ' in lines[int(line.partition(":")[0]) - 1]
    with serving_contract(tmp_path, content) as client:
        bodies: tuple[Any, ...] = ({"a": 1}, {"a": 1, "b": 1})
        assert [client.post("/check", json=one).status_code for one in bodies] == [204, 400]


def test_a_wrong_keyword_of_a_header_with_a_dialect_of_its_own_keeps_the_response(
    tmp_path: Path,
) -> None:
    header = {"schema": {"$schema": DRAFT_07, "type": "int"}}
    responses = {"200": {"description": "", "headers": {"X-Total": header}}}
    content = document({"/a": {"get": {"responses": responses}}})
    (line,) = warnings(tmp_path, content)
    assert ": this schema is read without 'type': " in line
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200


def test_each_schema_is_compared_with_its_own_dialect(tmp_path: Path) -> None:
    exclusive = {"type": "integer", "minimum": 10, "exclusiveMinimum": True}
    address = "https://toys.test/q"
    schemas: dict[str, Any] = {
        "q": {"$schema": DRAFT_04, **exclusive},
        "r": {"$schema": DRAFT_07, **exclusive},
        "s": {"allOf": [{"$schema": DRAFT_04, "id": address, **exclusive}], "maximum": "x"},
    }
    given = [{"name": name, "in": "query", "schema": one} for name, one in schemas.items()]
    content = document({"/a": {"get": {**OK, "parameters": given}}})
    second, first = warnings(tmp_path, content)
    assert first.endswith(': this schema is read without \'maximum\': "x" is not of type "number"')
    assert second.endswith(
        ": this schema is read without 'exclusiveMinimum': true is not of type \"number\""
    )
    with serving_contract(tmp_path, content) as client:
        asked = [client.get(f"/a?{one}=10").status_code for one in schemas]
        assert asked == [400, 200, 400]
        assert [client.get(f"/a?{one}=11").status_code for one in schemas] == [200] * 3


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_member_with_an_empty_name_can_be_wrong(tmp_path: Path, version: str) -> None:
    inner = {"properties": {"": {"minLength": "x"}, "b": {"minLength": 2}}}
    schema = {"properties": {"": {"type": "int", **inner}, "type": {"type": "string"}}}
    content = contract(schema, openapi=version)
    first, second = warnings(tmp_path, content)
    lines = (tmp_path / "api.json").read_text().splitlines()
    for name, line in (("type", first), ("minLength", second)):
        assert f": this schema is read without '{name}': " in line
        assert f'"{name}": ' in lines[int(line.partition(":")[0]) - 1]
    with serving_contract(tmp_path, content) as client:
        bodies: tuple[Any, ...] = ({"": {"": 1, "b": "ab"}}, {"": {"b": "a"}}, {"type": 1})
        assert [client.post("/check", json=one).status_code for one in bodies] == [204, 400, 400]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
@pytest.mark.parametrize("wrong", [{"$ref": "#/nope"}, 3], ids=["a lost reference", "a number"])
def test_a_discriminator_may_have_a_wrong_alternative(
    tmp_path: Path, wrong: Any, keyword: str, version: str
) -> None:
    name = {"$ref": "#/components/schemas/N"}
    schema = {"discriminator": {"propertyName": "k"}, keyword: [name, wrong]}
    media = {"application/json": {"schema": schema, "example": {"k": "N"}}}
    get = {"responses": {"200": {"description": "", "content": media}}}
    named = {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}
    content = document({"/a": {"get": get}}, openapi=version)
    content["components"] = {"schemas": {"N": named}}
    (line,) = warnings(tmp_path, content)
    assert ": this schema is not checked: " in line
    with serving_contract(tmp_path, content) as client:
        for preferred in ({}, {"Prefer": "dynamic=true"}):
            assert client.get("/a", headers=preferred).json() == {"k": "N"}


def deep(levels: int) -> list[Any]:
    """Lists in lists."""
    found: list[Any] = []
    for _ in range(levels - 1):
        found = [found]
    return found


TOO_DEEP_FOR_NOTHING: dict[str, Callable[[Any], dict[str, Any]]] = {
    "of the document": lambda value: {"foo": value},
    "of the information": lambda value: {"info": {"title": "Toy", "version": "1", "foo": value}},
    "a title": lambda value: {"info": {"title": value, "version": "1"}},
    "tags": lambda value: {"tags": value},
    "of a path": lambda value: {"paths": {"/a": {**FINE, "foo": value}}},
    "of an operation": lambda value: {"paths": {"/a": {"get": {**FINE["get"], "foo": value}}}},
    "of a parameter": lambda value: {
        "paths": {"/a": {"get": {**FINE["get"], "parameters": [{**QUERY, "foo": value}]}}}
    },
    "in another file": lambda _: {
        "paths": {"/a": {"get": {**FINE["get"], "parameters": [{"$ref": "q.json"}]}}}
    },
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize("levels", [245, 300])
@pytest.mark.parametrize("place", TOO_DEEP_FOR_NOTHING)
def test_a_deep_value_that_has_no_place_is_ignored(
    tmp_path: Path, place: str, levels: int, version: str
) -> None:
    (tmp_path / "q.json").write_text(json.dumps({**QUERY, "foo": deep(levels)}))
    members = TOO_DEEP_FOR_NOTHING[place](deep(levels))
    content = document({"/a": FINE}, openapi=version) | members
    found = warnings(tmp_path, content)
    assert found
    assert all(": this is ignored: " in one for one in found)
    settings = replace(FROZEN, contract=tmp_path / "api.json", scenario=None)
    with serving(settings) as running:
        assert httpx.get(f"{running.url}/a", timeout=10).status_code == 200


@pytest.mark.parametrize("raw", ["\t", "\n", "\x01"])
def test_a_text_of_json_may_have_control_characters(tmp_path: Path, raw: str) -> None:
    file = tmp_path / "api.json"
    text = json.dumps(document({"/a": {"get": {**OK, "tags": [1]}}}), indent=1)
    file.write_text(text.replace('"Toy"', f'"T{raw}{raw}oy"'))
    project = load_contract(file)
    first, second = project.warnings
    shown = f"U+{ord(raw):04X} in a text is not escaped, and read as {json.dumps(raw)[1:-1]}"
    assert first == f"{file}:4:14: {shown}"
    row = file.read_text().split("\n").index("     1") + 1
    assert second.startswith(f"{file}:{row}:6: ")
    assert project.contract.document["info"]["title"] == f"T{raw}{raw}oy"


def test_a_text_of_yaml_may_have_control_characters(tmp_path: Path) -> None:
    file = tmp_path / "api.yaml"
    file.write_text(json.dumps(document({"/a": FINE})).replace('"Toy"', '"T\to\n y"'))
    project = load_contract(file)
    assert project.contract.document["info"]["title"] == "T\to y"
    assert not project.warnings


def test_a_text_of_json_without_an_end_has_a_place(tmp_path: Path) -> None:
    file = tmp_path / "api.json"
    file.write_text(json.dumps(document({"/a": FINE}), indent=1).replace('"Toy"', '"Toy'))
    with pytest.raises(ProjectError, match=r"json:4:17: U\+000A in a text is not escaped$"):
        load_contract(file)


OF_A_PATH: dict[str, tuple[str, Any]] = {
    "a description that is a list": ("description", ["x"]),
    "a summary that is an object": ("summary", {}),
    "servers that are a number": ("servers", 3),
    "parameters that are a number": ("parameters", 3),
    "a reference that is an object": ("$ref", {}),
    "an unknown member": ("foo", 3),
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(("member", "value"), OF_A_PATH.values(), ids=OF_A_PATH)
def test_a_wrong_member_of_a_path_is_ignored_alone(
    tmp_path: Path, member: str, value: Any, version: str
) -> None:
    content = document({"/a": {**FINE, member: value}}, openapi=version)
    (line,) = warnings(tmp_path, content)
    assert ": /a: this is ignored: " in line
    with serving_contract(tmp_path, content) as client:
        assert client.get("/a").status_code == 200
