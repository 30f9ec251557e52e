"""A contract in many files is served as one document; every reference that fails has a place."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from invoice_sandbox.http.routing import Routing
from invoice_sandbox.openapi.load.model import Pointer
from invoice_sandbox.openapi.load.pointers import ContractError
from invoice_sandbox.openapi.load.reading import read_contract
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.operation import compile_contract
from tests.cases import in_turn
from tests.receivers import receiving
from tests.support import FROZEN, serving
from tests.toy import serving_contract

pytestmark = pytest.mark.slow

HEAD = 'openapi: 3.1.0\ninfo: {title: Toy, version: "1"}\n'
POST = """\
paths:
  /check:
    post:
      operationId: check
      requestBody: {content: {application/json: {schema: SCHEMA}}}
      responses: {"204": {description: allowed}}
"""


def written(folder: Path, files: Mapping[str, str]) -> Path:
    """The files in ``folder``; the first is the contract, which is named as seen from there."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / next(iter(files))


def read(folder: Path, files: Mapping[str, str]) -> dict[str, Any]:
    """The one document that is made of them, which is valid OpenAPI by itself."""
    document = read_contract(written(folder, files), folder).document
    if "$id" in repr(document):
        return document  # of which openapi-spec-validator knows nothing
    assert list(OpenAPIV31SpecValidator(document).iter_errors()) == []
    return document


def of(schema: str, **files: str) -> dict[str, str]:
    """A contract whose body has ``schema``, and other files: ``a_yaml`` stands for ``a.yaml``."""
    return {"api.yaml": HEAD + POST.replace("SCHEMA", schema)} | {
        name.replace("_", "."): text for name, text in files.items()
    }


ACCEPTS: dict[str, tuple[dict[str, str], Any, Any]] = {
    "a whole file": (of("{$ref: a.yaml}", a_yaml="type: string"), "x", 1),
    "a place in a file": (of("{$ref: 'a.yaml#/x/0'}", a_yaml="x: [{type: string}]"), "x", 1),
    "a file above": (
        {"api/api.yaml": of("{$ref: ../common.yaml}")["api.yaml"], "common.yaml": "type: string"},
        "x",
        1,
    ),
    "a file within itself": (
        of("{$ref: a.yaml}", a_yaml="{properties: {a: {$ref: '#'}}, additionalProperties: false}"),
        {"a": {"a": {}}},
        {"a": {"b": 1}},
    ),
    "back into the contract": (
        of("{$ref: a.yaml}", a_yaml="{$ref: 'api.yaml#/components/schemas/Text'}")
        | {
            "api.yaml": HEAD
            + POST.replace("SCHEMA", "{$ref: a.yaml}")
            + "components: {schemas: {Text: {type: string}}}"
        },
        "x",
        1,
    ),
    "equal names in two files": (
        of(
            "{properties: {a: {$ref: 'a.yaml#/T'}, b: {$ref: 'b.yaml#/T'}}}",
            a_yaml="T: {type: string}",
            b_yaml="T: {type: integer}",
        ),
        {"a": "x", "b": 1},
        {"a": "x", "b": "x"},
    ),
    "an anchor in a file": (
        of("{$ref: 'a.yaml#text'}", a_yaml="$defs: {T: {$anchor: text, type: string}}"),
        "x",
        1,
    ),
    "an $id in a file": (
        of(
            "{$ref: a.yaml}",
            a_yaml="$id: 'https://toy.example/a'\n$ref: '#/$defs/T'\n$defs: {T: {type: string}}",
        ),
        "x",
        1,
    ),
    "a schema that is no component": (
        of("{properties: {n: {$ref: '#/x-own/n'}}}")
        | {
            "api.yaml": HEAD
            + POST.replace("SCHEMA", "{properties: {n: {$ref: '#/x-own/n'}}}")
            + "x-own: {n: {type: integer}}"
        },
        {"n": 1},
        {"n": "x"},
    ),
}


@pytest.mark.parametrize(("files", "right", "wrong"), ACCEPTS.values(), ids=ACCEPTS)
def test_a_schema_may_be(tmp_path: Path, files: dict[str, str], right: Any, wrong: Any) -> None:
    read(tmp_path, files)
    contract = compile_contract(read_contract(tmp_path / next(iter(files)), tmp_path).document)
    body = contract.operations["check"].body
    assert body is not None
    (checker,) = body.checkers.values()
    assert checker.is_valid(right)
    assert not checker.is_valid(wrong)


EVERY_KIND = {
    "api.yaml": HEAD
    + """\
paths:
  /users/{id}: {$ref: paths/user.yaml}
components:
  schemas:
    User: {$ref: schemas/User.yaml}
""",
    "paths/user.yaml": """\
parameters: [{$ref: '../parts.yaml#/Id'}]
get:
  operationId: getUser
  responses:
    "200": {$ref: '../parts.yaml#/Ok'}
""",
    "parts.yaml": """\
Id: {name: id, in: path, required: true, schema: {$ref: '#/Text'}}
Text: {type: string}
Ok:
  description: ok
  headers: {X-Next: {$ref: '#/Next'}}
  content:
    application/json:
      schema: {$ref: schemas/User.yaml}
      examples: {ann: {$ref: examples/ann.json}}
Next: {schema: {type: integer}}
""",
    "schemas/User.yaml": "type: object\nproperties: {name: {type: string}}\n",
    "examples/ann.json": '{"value": {"name": "Ann"}}',
}


def test_references_may_stand_for_everything_that_openapi_has_components_of(tmp_path: Path) -> None:
    document = read(tmp_path, EVERY_KIND)
    components = document["components"]
    assert list(document["paths"]["/users/{id}"]) == ["parameters", "get"]
    assert components["parameters"]["Id"]["schema"] == {"$ref": "#/components/schemas/Text"}
    assert components["responses"]["Ok"]["headers"] == {
        "X-Next": {"$ref": "#/components/headers/Next"}
    }
    assert components["examples"]["ann"] == {"value": {"name": "Ann"}}


@pytest.mark.parametrize(("version", "status"), [("3.0.3", 204), ("3.1.0", 400)])
def test_a_component_that_is_a_file_keeps_what_stands_beside_its_reference(
    tmp_path: Path, version: str, status: int
) -> None:
    component = "components: {schemas: {Long: {$ref: text.yaml, minLength: 5}}}\n"
    post = POST.replace("SCHEMA", "{$ref: '#/components/schemas/Long'}")
    text = HEAD.replace("3.1.0", version) + post + component
    file = written(tmp_path, {"api.yaml": text, "text.yaml": "type: string\n"})
    with serving(replace(FROZEN, contract=file)) as running, running.client() as client:
        assert client.post("/check", json="abc").status_code == status


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    files = ACCEPTS["equal names in two files"][0]
    assert list(read(tmp_path, files)["components"]["schemas"]) == ["T", "T_2"]


def test_a_mapping_of_a_discriminator_names_components(tmp_path: Path) -> None:
    files = of(
        "{$ref: pets.yaml}",
        pets_yaml="""\
oneOf: [{$ref: cat.yaml}, {$ref: 'dog.yaml#/Dog'}]
discriminator: {propertyName: kind, mapping: {cat: cat.yaml, dog: 'dog.yaml#/Dog'}}
""",
        cat_yaml="{type: object, properties: {kind: {const: cat}}}",
        dog_yaml="Dog: {type: object, properties: {kind: {const: dog}}}",
    )
    pets = read(tmp_path, files)["components"]["schemas"]["pets"]
    named = {"cat": "#/components/schemas/cat", "dog": "#/components/schemas/Dog"}
    assert pets["discriminator"]["mapping"] == named


# What cannot be followed


REJECTED: dict[str, tuple[dict[str, str], str]] = {
    "no such file": (
        of("{$ref: none.yaml}"),
        "api.yaml:7:59: cannot resolve reference 'none.yaml': there is no file none.yaml",
    ),
    "a folder": (
        of("{$ref: a}") | {"a/b.yaml": "{}"},
        "api.yaml:7:59: cannot resolve reference 'a': there is no file a; that is a folder",
    ),
    "no such place in the file": (
        of("{$ref: 'a.yaml#/b'}", a_yaml="a: 1"),
        "api.yaml:7:59: cannot resolve reference 'a.yaml#/b'",
    ),
    "no such place in the contract": (
        of("{$ref: '#/components/schemas/A'}"),
        "api.yaml:7:59: cannot resolve reference '#/components/schemas/A'",
    ),
    "no such anchor": (
        of("{$ref: 'a.yaml#b'}", a_yaml="{$anchor: a}"),
        "api.yaml:7:59: cannot resolve reference 'a.yaml#b'",
    ),
    "a file of a file": (
        of("{$ref: a.yaml}", a_yaml="type: object\nproperties:\n  n:\n    $ref: no.yaml"),
        "a.yaml:4:5: cannot resolve reference 'no.yaml': there is no file no.yaml",
    ),
    "a file that is no YAML": (of("{$ref: a.yaml}", a_yaml="a: [1\n"), "a.yaml:2:1: "),
    "a file over the network": (
        of("{$ref: 'https://toy.example/a.yaml'}"),
        "api.yaml:7:59: cannot resolve reference 'https://toy.example/a.yaml': references",
    ),
    "another kind of address": (
        of("{$ref: 'ftp://toy.example/a.yaml'}"),
        "api.yaml:7:59: cannot resolve reference 'ftp://toy.example/a.yaml'",
    ),
    "a component that is itself": (
        {
            "api.yaml": HEAD
            + "paths: {}\ncomponents:\n  schemas:\n    A: {$ref: '#/components/schemas/B'}\n"
            + "    B: {$ref: '#/components/schemas/A'}\n"
        },
        "api.yaml:6:5: the reference '#/components/schemas/B' leads back to itself",
    ),
    "two files that are each other": (
        of("{$ref: a.yaml}", a_yaml="{$ref: b.yaml}", b_yaml="{$ref: a.yaml}"),
        "a.yaml:1:1: the reference '#/components/schemas/b' leads back to itself",
    ),
    "a path item that is itself": (
        {
            "api.yaml": HEAD + "paths: {/a: {$ref: a.yaml}}",
            "a.yaml": "get:\n  responses: {}\n  callbacks: {c: {x: {$ref: a.yaml}}}\n",
        },
        "a.yaml:1:1: self-referencing value (make it a component)",
    ),
    "a schema that is none, in another file": (
        of("{$ref: a.yaml}", a_yaml="type: object\nproperties:\n  n: {type: 5}\n"),
        "a.yaml:3:7: /components/schemas/a/properties/n/type: ",
    ),
}


@pytest.mark.parametrize(("files", "message"), REJECTED.values(), ids=REJECTED)
def test_what_names_nothing_is_reported_with_its_place(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    written(tmp_path, files)
    with contextmanager(_inside)(tmp_path), pytest.raises(DocumentError) as caught:
        read_contract(Path("api.yaml"))
    assert message in str(caught.value)


def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


UNREADABLE: dict[str, dict[str, str]] = {
    "a reference into itself": of(
        "{$ref: '#/components/schemas/A'}\n"
        "components: {schemas: {A: {$ref: '#/components/schemas/A/properties/x'}}}"
    ),
    "a name that no file has": of("{$ref: " + "a" * 5000 + ".yaml}"),
    "an address that is none": of("{$ref: 'http://[::1'}"),
    "a server that is none": {
        "api.yaml": HEAD + "servers: [{url: 'http://[bad/'}]\n" + POST.replace("SCHEMA", "{}")
    },
    "a number without end": of("{$ref: '#/x-list/" + "9" * 5000 + "'}\nx-list: [1]"),
}


@pytest.mark.parametrize("files", UNREADABLE.values(), ids=UNREADABLE)
def test_what_nobody_can_read_is_one_clear_line(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises((DocumentError, ContractError)) as rejected:
        compile_contract(read_contract(written(tmp_path, files)).document)
    assert len(str(rejected.value).splitlines()) <= 3
    assert len(str(rejected.value)) < 6000


def outside(tmp_path: Path) -> Path:
    """A contract that refers to a file beside its folder."""
    files = {"api/api.yaml": of("{$ref: ../secret.yaml}")["api.yaml"], "secret.yaml": "const: hush"}
    return written(tmp_path, files)


def test_a_reference_stays_in_the_folder_of_the_contract(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="outside of the folder"):
        read_contract(outside(tmp_path))


def test_a_link_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    file = outside(tmp_path)
    file.write_text(file.read_text().replace("../secret.yaml", "link.yaml"))
    (file.parent / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(DocumentError, match="outside of the folder"):
        read_contract(file)


# What is no reference is not followed, by no library either


def full(version: str, paths: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A document with an object of every type; ``paths`` are added."""
    text = {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}
    form = {"schema": {"type": "object"}, "encoding": {"n": {"contentType": "text/plain"}}}
    operation = {
        "operationId": "create",
        "tags": ["t"],
        "externalDocs": {"url": "https://example.com"},
        "parameters": [{"name": "q", "in": "query", "schema": {"type": "string"}}],
        "requestBody": {"content": {"application/x-www-form-urlencoded": form}},
        "responses": {
            "200": {
                "description": "ok",
                "headers": {"H": {"schema": {"type": "string"}}},
                "content": text,
                "links": {"L": {"operationId": "create"}},
            }
        },
        "callbacks": {"c": {"{$request.query.q}": {}}},
    }
    flow = {"authorizationUrl": "https://example.com", "scopes": {}}
    scheme = {"type": "oauth2", "flows": {"implicit": flow}}
    kind = {"discriminator": {"propertyName": "kind"}, "xml": {"name": "a"}, "required": ["kind"]}
    members = {"kind": {"type": "string", "enum": ["A"]}}
    example = {"a": {"value": {"kind": "A"}}}
    return {
        "openapi": version,
        "info": {
            "title": "Toy",
            "version": "1",
            "contact": {"name": "c"},
            "license": {"name": "l"},
        },
        "servers": [{"url": "/{v}", "variables": {"v": {"default": "v1"}}}],
        "tags": [{"name": "t", "externalDocs": {"url": "https://example.com"}}],
        "externalDocs": {"url": "https://example.com"},
        "paths": {"/a": {"post": operation}, **(paths or {})},
        "components": {
            "schemas": {"A": {"type": "object", "properties": members, **kind}},
            "securitySchemes": {"s": scheme},
            "examples": example,
        },
    }


_POST = ("paths", "/a", "post")
_MEDIA = (*_POST, "responses", "200", "content", "application/json")
_FORM = (*_POST, "requestBody", "content", "application/x-www-form-urlencoded")
_SCHEMA = ("components", "schemas", "A")
EXTENSIBLE: dict[str, Pointer] = {
    "document": (),
    "info": ("info",),
    "contact": ("info", "contact"),
    "license": ("info", "license"),
    "server": ("servers", 0),
    "server variable": ("servers", 0, "variables", "v"),
    "tag": ("tags", 0),
    "documentation of a tag": ("tags", 0, "externalDocs"),
    "documentation": ("externalDocs",),
    "paths": ("paths",),
    "path item": ("paths", "/a"),
    "operation": _POST,
    "documentation of an operation": (*_POST, "externalDocs"),
    "parameter": (*_POST, "parameters", 0),
    "request body": (*_POST, "requestBody"),
    "media type": _MEDIA,
    "encoding": (*_FORM, "encoding", "n"),
    "responses": (*_POST, "responses"),
    "response": (*_POST, "responses", "200"),
    "header": (*_POST, "responses", "200", "headers", "H"),
    "link": (*_POST, "responses", "200", "links", "L"),
    "callback": (*_POST, "callbacks", "c"),
    "components": ("components",),
    "schema": _SCHEMA,
    "property": (*_SCHEMA, "properties", "kind"),
    "discriminator": (*_SCHEMA, "discriminator"),
    "XML": (*_SCHEMA, "xml"),
    "example": ("components", "examples", "a"),
    "security scheme": ("components", "securitySchemes", "s"),
    "flows": ("components", "securitySchemes", "s", "flows"),
    "flow": ("components", "securitySchemes", "s", "flows", "implicit"),
}
"""Every object of ``full`` that may have extensions."""

NO_REFERENCES: dict[str, Pointer] = {
    "member of an extension": ("info", "x-a", "properties", "a"),
    "item of an extension": ("paths", "x-a", 0),
    "default": (*_SCHEMA, "default"),
    "value in enum": (*_SCHEMA, "enum", 1),
    "example of a schema": (*_SCHEMA, "example"),
    "member of an example of a schema": (*_SCHEMA, "example", "a"),
    "example of a media type": (*_MEDIA, "example"),
    "named example": (*_MEDIA, "examples", "a", "value", "a"),
    "example of a component": ("components", "examples", "a", "value"),
    "example of a parameter": (*_POST, "parameters", 0, "example"),
    "body of a link": (*_POST, "responses", "200", "links", "L", "requestBody"),
}
NO_REFERENCES_IN_30: dict[str, Pointer] = {
    "parameter of a link": (*_POST, "responses", "200", "links", "L", "parameters", "q"),
}
NO_REFERENCES_IN_31: dict[str, Pointer] = {
    "const": (*_SCHEMA, "properties", "a", "const"),
    "examples of a schema": (*_SCHEMA, "examples", 0),
}


def with_value(document: dict[str, Any], pointer: Pointer, value: Any) -> dict[str, Any]:
    """The document with a value at a place; the objects and lists on the way are made."""
    here: Any = document
    for step, following in pairwise(pointer):
        default: Any = [{"kind": "A"}][: int(following)] if isinstance(following, int) else {}
        here = here.setdefault(step, default) if isinstance(here, dict) else here[step]
    if isinstance(here, list):
        here.insert(int(pointer[-1]), value)
    else:
        here[pointer[-1]] = value
    return document


PLACES = {
    "3.0.3": NO_REFERENCES | NO_REFERENCES_IN_30,
    "3.1.0": NO_REFERENCES | NO_REFERENCES_IN_31,
}
CASES = {
    f"{version} {name}": (version, pointer)
    for version, places in PLACES.items()
    for name, pointer in places.items()
}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[list[str]]:
    """References to what a document may not refer to, or that is not there; none is followed."""
    (tmp_path / "other.json").write_text('{"a": 7}')
    with receiving() as server:
        places = (server.url.removesuffix("/"), tmp_path.as_uri(), "..", "nowhere")
        yield [f"{place}/other.json#/a" for place in places]
    assert server.messages == []


@in_turn(("version", "pointer"), CASES.values(), ids=CASES)
def test_a_ref_in_an_extension_or_a_value_has_no_effect(
    tmp_path: Path, elsewhere: list[str], version: str, pointer: Pointer
) -> None:
    for reference in elsewhere:
        document = with_value(full(version), pointer, {"$ref": reference})
        file = written(tmp_path, {"contract/api.json": json.dumps(document)})
        read = read_contract(file)
        assert read.warnings == ()
        unused: Any = lambda *_: None  # noqa: E731  nobody sends a request
        contract = compile_contract(read.document)
        before = json.dumps(contract.document)
        Routing(unused).add_contract(contract, str, unused)
        assert json.dumps(contract.document) == before


@pytest.mark.parametrize("version", PLACES)
def test_a_document_with_such_values_everywhere_is_served(
    tmp_path: Path, elsewhere: list[str], version: str
) -> None:
    for reference in elsewhere:
        document = full(version, {"x-list": []})
        for at in EXTENSIBLE.values():
            with_value(document, (*at, "x-a"), {"$ref": reference})
        with serving_contract(tmp_path, document) as client:
            response = client.post("/v1/a", data={"n": "1"})
        assert (response.status_code, response.json()) == (200, {"kind": "A"})


UNSUPPORTED: dict[str, Pointer] = {
    "info": ("info",),
    "title": ("info", "title"),
    "contact": ("info", "contact"),
    "server": ("servers", 0),
    "tag": ("tags", 0),
    "documentation": ("externalDocs",),
    "security scheme": ("components", "securitySchemes", "s"),
    "response": (*_POST, "responses", "200"),
    "schema": (*_MEDIA, "schema"),
}


@in_turn("pointer", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_a_reference_that_is_not_allowed_is_reported_and_not_followed(
    tmp_path: Path, elsewhere: list[str], pointer: Pointer
) -> None:
    for reference in elsewhere:
        document = with_value(full("3.1.0"), pointer, {"$ref": reference})
        file = written(tmp_path, {"contract/api.json": json.dumps(document)})
        with pytest.raises(DocumentError, match="cannot resolve reference"):
            read_contract(file)


def test_what_an_extension_has_is_used_where_a_reference_names_it(tmp_path: Path) -> None:
    paths = "paths: {/a: {get: {responses: {'200': {$ref: '#/components/x-r/Ok'}}}}}\n"
    ok = "{description: ok, content: {application/json: {schema: {$ref: a.yaml}}}}"
    files = {"api.yaml": f"{HEAD}{paths}components: {{x-r: {{Ok: {ok}}}}}", "a.yaml": "const: 1"}
    components = read(tmp_path, files)["components"]
    assert components["responses"]["Ok"]["content"] == {
        "application/json": {"schema": {"$ref": "#/components/schemas/a"}}
    }
    assert components["schemas"] == {"a": {"const": 1}}
