"""``serve --contract`` serves what others have written, and says what it does nothing about."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from invoice_sandbox.app import create_app
from invoice_sandbox.openapi.load.operations import base_path
from invoice_sandbox.openapi.load.reading import read_contract
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.operation import compile_contract
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.contracts import contract_warnings
from invoice_sandbox.project.loader import load_contract
from invoice_sandbox.settings import read_settings
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
    "OpenAPI 3.3": ("openapi: 3.3.0", "api.yaml:1:1: OpenAPI 3.3.0 is not served (3.0 to 3.2 are"),
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
        ":5:7: /paths/~1a/get/wrong: ",
    ),
    "a path parameter that is not declared": (
        "/b: {}\n  /a/{id}:\n    get: {responses: {'200': {description: a}}}",
        ":6:5: /paths/~1a~1{id}/get: no parameter is declared for {id} of the path",
    ),
    "an operationId twice": (
        (
            "/a: {get: {operationId: x, responses: {'200': {description: a}}},\n"
            "      put: {operationId: x, responses: {'200': {description: a}}}}"
        ),
        ":5:13: /paths/~1a/put/operationId: 'x' is the operationId of another operation",
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
    with pytest.raises(ProjectError) as caught:
        load_contract(pipe)
    number = next(at for at, line in enumerate(text.splitlines(), 1) if '"b"' in line)
    assert str(caught.value) == f"{pipe}:{number}:3: /paths/b: a path begins with '/'"


# Small faults


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_an_enum_with_a_value_twice_is_checked(tmp_path: Path, version: str) -> None:
    schema = {"type": "string", "enum": ["DAY", "WEEK", "WEEK"]}
    content = contract({"required": ["period"], "properties": {"period": schema}}, openapi=version)
    with serving_contract(tmp_path, content) as client:
        assert client.post("/check", json={"period": "WEEK"}).status_code == 204
        assert client.post("/check", json={"period": "YEAR"}).status_code == 400


# What cannot be served is named, and the rest is served


FINE = {"get": {**OK, "operationId": "fine"}}
UNDECLARED = {"get": {**OK, "operationId": "fine", "security": [{"other": []}]}}


def with_schema(schema: Any) -> dict[str, Any]:
    """An operation whose response has this schema."""
    media = {"application/json": {"schema": schema}}
    return {"responses": {"200": {"description": "ok", "content": media}}}


QUERY: dict[str, Any] = {"name": "q", "in": "query", "schema": {"type": "integer"}}


X_T = {"name": "X-T", "in": "header", "required": True, "schema": {"type": "integer"}}
OF_HEADER = {**X_T, "name": "x-t", "required": False, "schema": {"type": "boolean"}}


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


def test_what_is_no_json_at_all_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "api.json"
    file.write_text(json.dumps(document({"/a": FINE}))[:-1])
    with pytest.raises(ProjectError, match="not JSON"):
        load_contract(file)


INFO = {"title": "Toy", "version": "1"}


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


def test_a_webhook_only_document_has_its_pages(tmp_path: Path) -> None:
    content = {"openapi": "3.1.0", "info": INFO, "webhooks": {"sent": {"post": OK}}}
    with serving_contract(tmp_path, content) as client:
        assert client.get("/openapi.json").json()["webhooks"].keys() == {"sent"}
        assert client.get("/docs").status_code == 200
        assert client.get("/a").status_code == 404


def test_strict_makes_warnings_errors(tmp_path: Path) -> None:
    content = document({"/a": UNDECLARED})
    settings = replace(FROZEN, contract=written(tmp_path, content), strict=True)
    with pytest.raises(ProjectError, match=r"--strict: 1 warning\n.*scheme 'other' is not decla"):
        asyncio.run(create_app(settings, url="http://127.0.0.1"))


def test_strict_is_content_without_warnings(tmp_path: Path) -> None:
    settings = replace(FROZEN, contract=written(tmp_path, document({"/a": FINE})), strict=True)
    assert asyncio.run(create_app(settings, url="http://127.0.0.1")).engine.project.warnings == ()


# What has no effect is reported


def test_what_stands_beside_a_reference_of_30_is_not_served(tmp_path: Path) -> None:
    siblings = {"required": True}
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
    with serving_contract(tmp_path, content) as client:
        assert client.post("/a", json="abc").status_code == status


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
    lines = contract_warnings(read, compile_contract(read.document))
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


def test_the_lines_are_warnings_of_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = document({"/a": UNDECLARED})
    with serving_contract(tmp_path, content):
        (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "invoice_sandbox")
    assert record.message.endswith(
        "security scheme 'other' is not declared: it is read as HTTP bearer"
    )


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


def test_other_operations_may_be_below_the_place_of_the_control_endpoints(tmp_path: Path) -> None:
    content = document({"/sandbox/transfer": {"get": OK, "post": OK}})
    with serving_contract(tmp_path, content) as client:
        assert client.get("/sandbox/transfer").status_code == 200
        assert client.get("/sandbox/clock").status_code == 200
        assert client.delete("/sandbox/transfer").headers["allow"] == "GET, POST, HEAD, OPTIONS"


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
    with serving_contract(tmp_path, content) as client:
        assert client.get("/x%23y").json() == "found"


def test_a_path_without_parameters_has_its_own_methods_only(tmp_path: Path) -> None:
    deleting = {**responding("any", "id")}
    deleting["delete"] = {**deleting["get"], "operationId": "deleteAny"}
    content = document({"/a/{id}": deleting, "/a/me": responding("me")})
    with serving_contract(tmp_path, content) as client:
        assert client.delete("/a/1").json() == "any"
        rejected = client.delete("/a/me")
        assert (rejected.status_code, rejected.headers["allow"]) == (405, "GET, HEAD, OPTIONS")


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


# What is named where it is


def test_a_reference_to_a_file_may_be_to_a_list_of_parameters(tmp_path: Path) -> None:
    given = {"name": "q", "in": "query", "required": True, "schema": {"type": "integer"}}
    (tmp_path / "given.json").write_text(json.dumps([given]))
    content = document({"/a": {"get": {**OK, "parameters": {"$ref": "given.json"}}}})
    assert warnings(tmp_path, content) == []
    with serving_contract(tmp_path, content) as client:
        assert [client.get(one).status_code for one in ("/a?q=1", "/a")] == [200, 400]


@pytest.mark.parametrize("path", ["/sandbox", "/console", "/docs/v1"])
def test_operations_are_apart_from_the_pages_of_the_sandbox(tmp_path: Path, path: str) -> None:
    servers = [{"url": f"https://api.example.com{path}"}]
    content = document({"/clock": {"get": OK}}, servers=servers)
    with serving_contract(tmp_path, content) as client:
        assert client.get(f"/api{path}/clock").status_code == 200
        assert client.get("/sandbox/clock").status_code == 200
        assert client.get("/openapi.json").json()["servers"][0]["url"].endswith(f"/api{path}")
