"""A document is valid OpenAPI, or every wrong place is reported; a few errors are warnings."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV30SpecValidator, OpenAPIV31SpecValidator

from invoice_sandbox.openapi.load.reading import read_contract
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.loader import load_contract
from tests.cases import in_turn
from tests.toy import serving_contract

OK: dict[str, Any] = {"responses": {"200": {"description": "ok"}}}
ID: dict[str, Any] = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
Document = dict[str, Any]


def document(version: str) -> Document:
    """A valid document with something of everything that is changed below."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}
    get = {
        "operationId": "getA",
        "tags": ["a"],
        "security": [{"key": []}],
        "parameters": [{"name": "q", "in": "query", "schema": {"type": "string"}}],
        "responses": {"200": {"description": "ok", "content": content}},
    }
    key = {"type": "apiKey", "in": "header", "name": "X-Key"}
    return {
        "openapi": version,
        "info": {"title": "Toy", "version": "1"},
        "servers": [{"url": "https://example.com/v1"}],
        "tags": [{"name": "a"}],
        "paths": {"/a": {"get": get}, "/a/{id}": {"parameters": [ID], "get": OK}},
        "components": {"schemas": {"A": schema}, "securitySchemes": {"key": key}},
    }


def errors(folder: Path, content: Any) -> list[str]:
    """What is wrong with a document: a line each, without the file."""
    file = folder / "api.json"
    file.write_text(json.dumps(content, indent=1))
    with pytest.raises(DocumentError) as caught:
        read_contract(file)
    lines = str(caught.value).splitlines()
    found = lines[1:] if len(lines) > 1 else lines
    assert len(lines) == 1 or lines[0] == f"{file}: {len(found)} errors"
    assert all(line.startswith(f"{file}:") for line in found)
    return [line.removeprefix(f"{file}:") for line in found]


def get_of(content: Document) -> Any:
    """An operation of the document."""
    return content["paths"]["/a"]["get"]


WRONG: dict[str, tuple[Callable[[Document], Any], str]] = {
    "a title that is missing": (
        lambda one: one["info"].pop("title"),
        '/info: "title" is a required property',
    ),
    "a schema of a parameter": (
        lambda one: get_of(one)["parameters"][0]["schema"].update(minLength=-1),
        "/paths/~1a/get/parameters/0/schema/minLength: -1 is less than the minimum of 0",
    ),
    "a path without a slash": (
        lambda one: one["paths"].update({"b": {}}),
        "/paths/b: a path begins with '/'",
    ),
    "a part of the path that is not declared": (
        lambda one: one["paths"]["/a/{id}"].pop("parameters"),
        "/paths/~1a~1{id}/get: no parameter is declared for {id} of the path",
    ),
    "a parameter twice": (
        lambda one: get_of(one)["parameters"].append(
            {"name": "q", "in": "query", "schema": {"type": "integer"}}
        ),
        "/paths/~1a/get/parameters/1: parameter 'q' in query is declared twice",
    ),
    "an operationId twice": (
        lambda one: one["paths"].update({"/b": {"get": {**OK, "operationId": "getA"}}}),
        "/paths/~1b/get/operationId: 'getA' is the operationId of another operation",
    ),
    "a reference to nothing": (
        lambda one: one["components"]["schemas"].pop("A"),
        "cannot resolve reference '#/components/schemas/A'",
    ),
    "components that are a list": (
        lambda one: one.update(components=[]),
        '/components: [] is not of type "object"',
    ),
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(("change", "line"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_reported_with_its_place(
    tmp_path: Path, version: str, change: Callable[[Document], Any], line: str
) -> None:
    content = document(version)
    change(content)
    assert any(one.split(": ", 1)[1].startswith(line) for one in errors(tmp_path, content))


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_all_errors_are_reported_at_once_in_the_order_of_their_places(
    tmp_path: Path, version: str
) -> None:
    content = document(version)
    for change, _ in [row for name, row in WRONG.items() if not name.startswith("components")]:
        change(content)
    found = errors(tmp_path, content)
    assert len(found) >= len(WRONG) - 1
    numbers = [tuple(map(int, line.split(":")[:2])) for line in found]
    assert numbers == sorted(numbers)


@in_turn("version", ["3.0.3", "3.1.0"])
@in_turn("change", [change for name, (change, _) in WRONG.items() if "braces" not in name])
def test_openapi_spec_validator_rejects_the_same(
    version: str, change: Callable[[Document], Any]
) -> None:
    content = document(version)
    validator = OpenAPIV30SpecValidator if version == "3.0.3" else OpenAPIV31SpecValidator
    assert validator(deepcopy(content)).is_valid()
    change(content)
    try:
        is_valid = validator(content).is_valid()
    except Exception:
        is_valid = False
    assert not is_valid


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_a_default_that_its_schema_does_not_allow_is_not_an_error(
    tmp_path: Path, version: str
) -> None:
    content = document(version)
    content["components"]["schemas"]["A"]["properties"]["n"]["default"] = "1"
    read_contract(_written(tmp_path, content))


def test_an_error_in_another_file_has_its_place_there(tmp_path: Path) -> None:
    content = document("3.1.0")
    content["components"]["schemas"]["A"] = {"$ref": "a.yaml"}
    (tmp_path / "a.yaml").write_text("type: object\nminProperties: -1\n")
    with pytest.raises(DocumentError) as caught:
        read_contract(_written(tmp_path, content))
    assert str(caught.value).startswith(f"{tmp_path / 'a.yaml'}:2:1: /components/schemas/A/minPro")


def test_a_file_that_cannot_be_read_is_one_error(tmp_path: Path) -> None:
    content = document("3.1.0")
    for name in ("B", "C"):
        content["components"]["schemas"][name] = {"$ref": f"a.yaml#/{name}"}
    (tmp_path / "a.yaml").write_text("a: 1\na: 2\n")
    with pytest.raises(DocumentError) as caught:
        read_contract(_written(tmp_path, content))
    assert str(caught.value) == f"{tmp_path / 'a.yaml'}:2:1: duplicate key 'a'"


def test_a_schema_that_cannot_be_compiled_has_its_place(tmp_path: Path) -> None:
    content = document("3.1.0")
    content["components"]["schemas"]["A"] = {"$ref": "https://toys.test/lost"}
    with pytest.raises(ProjectError) as caught:
        load_contract(_written(tmp_path, content))
    assert "cannot resolve reference 'https://toys.test/lost'" in str(caught.value)


def test_a_document_that_is_nested_too_deeply_is_one_line(tmp_path: Path) -> None:
    for file, text in (
        ("a.json", '{"a":' * 500 + "1" + "}" * 500),
        ("a.yaml", "[" * 100_000 + "]" * 100_000),  # which ends a process inside libyaml
    ):
        (tmp_path / file).write_text(text)
        with pytest.raises(ProjectError, match=r"^[^\n]*nested too deeply[^\n]*$"):
            load_contract(tmp_path / file)


def test_aliases_that_multiply_are_one_line(tmp_path: Path) -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (tmp_path / "a.yaml").write_text("\n".join(["a0: &a0 [1]", *levels]))
    with pytest.raises(ProjectError, match=r"^[^\n]*more than 1,000,000 values[^\n]*$"):
        load_contract(tmp_path / "a.yaml")


def _written(folder: Path, content: Any) -> Path:
    file = folder / "api.json"
    file.write_text(json.dumps(content, indent=1))
    return file


REPAIRED: dict[str, tuple[Callable[[Document], Any], str]] = {
    "a pattern that cannot be used": (
        lambda one: one["components"]["schemas"]["A"]["properties"].update(
            p={"type": "string", "pattern": "[[:alnum:"}
        ),
        "this pattern cannot be compiled, and is not checked",
    ),
    "a pattern of names": (
        lambda one: one["components"]["schemas"]["A"].update(patternProperties={"(": {}}),
        "this pattern cannot be compiled, and is not checked",
    ),
    "a header name": (
        lambda one: get_of(one)["responses"]["200"].update(headers={"X Y": {"schema": {}}}),
        "'X Y' is ignored: no header can have this name",
    ),
    "a security scheme that is not declared": (
        lambda one: get_of(one).update(security=[{"other": []}]),
        "security scheme 'other' is not declared: it is read as HTTP bearer",
    ),
}


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
@pytest.mark.parametrize(("change", "line"), REPAIRED.values(), ids=REPAIRED)
def test_a_few_errors_are_warnings(
    tmp_path: Path, version: str, change: Callable[[Document], Any], line: str
) -> None:
    content = document(version)
    change(content)
    (warning,) = load_contract(_written(tmp_path, content)).warnings
    place, text = warning.split(": ", 1)
    assert text == line
    assert place.startswith(f"{tmp_path / 'api.json'}:")


def test_an_operation_with_an_undeclared_scheme_stays_closed(tmp_path: Path) -> None:
    content = document("3.1.0")
    get_of(content)["security"] = [{"other": []}]
    with serving_contract(tmp_path, content) as client:
        del client.headers["authorization"]
        assert client.get("/v1/a").status_code == 401
        assert client.get("/v1/a", headers={"Authorization": "Bearer x"}).status_code == 200


def test_extensions_among_paths_and_responses_mean_nothing(tmp_path: Path) -> None:
    content = document("3.1.0")
    content["paths"]["x-a"] = 7
    get_of(content)["responses"]["x-b"] = None
    assert load_contract(_written(tmp_path, content)).warnings == ()
