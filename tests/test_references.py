"""A contract in many files is served as one document; every reference that fails has a place."""

from __future__ import annotations

import json
import os
import threading
import tracemalloc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from invoice_sandbox.http.route import resolved_operations
from invoice_sandbox.openapi.load import documents, yaml_12
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.openapi.load.fetching import MAX_FILES, Fetcher, FetchError
from invoice_sandbox.openapi.load.model import Pointer
from invoice_sandbox.openapi.load.pointers import ContractError
from invoice_sandbox.openapi.load.reading import read_contract
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.load.validate import check_openapi
from invoice_sandbox.openapi.operation import compile_contract
from invoice_sandbox.project.loader import load_contract
from invoice_sandbox.settings import read_settings
from tests.support import FROZEN, PATIENCE, ManualSystemClock, serving
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
    document = read_contract(written(folder, files), folders=[folder]).document
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
    "a file of JSON": (of("{$ref: ./a.json}", a_json='{"type": "string"}'), "x", 1),
    "a place in a file": (of("{$ref: 'a.yaml#/x/0'}", a_yaml="x: [{type: string}]"), "x", 1),
    "a place with an escaped name": (
        of("{$ref: 'a.yaml#/a~1b/c%20d%25'}", a_yaml='a/b: {"c d%": {type: string}}'),
        "x",
        1,
    ),
    "a file with a space": (of("{$ref: 'a%20b.yaml'}") | {"a b.yaml": "type: string"}, "x", 1),
    "a file beside another": (
        of("{$ref: sub/a.yaml}") | {"sub/a.yaml": "{$ref: b.yaml}", "sub/b.yaml": "type: string"},
        "x",
        1,
    ),
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
    "two files in a circle": (
        of(
            "{$ref: a.yaml}",
            a_yaml="{type: object, properties: {b: {$ref: b.yaml}}}",
            b_yaml="{type: object, properties: {a: {$ref: a.yaml}}}",
        ),
        {"b": {"a": {"b": {}}}},
        {"b": {"a": {"b": 1}}},
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
    "a list within a schema": (
        of("{allOf: [{$ref: a.yaml}]}", a_yaml="type: string"),
        "x",
        1,
    ),
    "the properties of a schema": (
        of("{properties: {$ref: a.yaml}}", a_yaml="n: {type: integer}"),
        {"n": 1},
        {"n": "x"},
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
    contract = load_contract(tmp_path / next(iter(files)), folders=[tmp_path]).contract
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


def test_a_component_that_is_a_file_keeps_its_name(tmp_path: Path) -> None:
    document = read(tmp_path, EVERY_KIND)
    assert list(document["components"]["schemas"]) == ["User", "Text"]
    assert document["components"]["schemas"]["User"]["type"] == "object"


@pytest.mark.parametrize(("version", "status"), [("3.0.3", 204), ("3.1.0", 400)])
def test_a_component_that_is_a_file_keeps_what_stands_beside_its_reference(
    tmp_path: Path, version: str, status: int
) -> None:
    component = "components: {schemas: {Long: {$ref: text.yaml, minLength: 5}}}\n"
    post = POST.replace("SCHEMA", "{$ref: '#/components/schemas/Long'}")
    text = HEAD.replace("3.1.0", version) + post + component
    file = written(tmp_path, {"api.yaml": text, "text.yaml": "type: string\n"})
    lines = [line.removeprefix(f"{file}:") for line in load_contract(file).warnings]
    ignored = "9:48: 'minLength' is ignored beside '$ref' in OpenAPI 3.0"
    assert lines == ([ignored] if status == 204 else [])
    with serving(replace(FROZEN, contract=file)) as running, running.client() as client:
        assert client.post("/check", json="abc").status_code == status


def test_a_component_that_is_a_file_keeps_its_name_beside_a_description(tmp_path: Path) -> None:
    component = "components: {schemas: {T: {$ref: other.yaml, description: d, x-a: 1}}}\n"
    files = {"api.yaml": f"{HEAD}paths: {{}}\n{component}", "other.yaml": "type: string\n"}
    assert read(tmp_path, files)["components"]["schemas"] == {"T": {"type": "string"}}


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


def test_a_document_that_refers_to_nothing_else_is_served_as_it_is(tmp_path: Path) -> None:
    text = HEAD + POST.replace("SCHEMA", "{$ref: '#/components/schemas/A'}")
    text += "components: {schemas: {A: {$ref: '#/components/schemas/B'}, B: {type: string}}}"
    document = read(tmp_path, {"api.yaml": text})
    assert document["components"]["schemas"]["A"] == {"$ref": "#/components/schemas/B"}


def test_a_path_item_of_30_may_be_a_file(tmp_path: Path) -> None:
    files = dict(EVERY_KIND)
    files["api.yaml"] = files["api.yaml"].replace("3.1.0", "3.0.3")
    files["schemas/User.yaml"] = "type: object\nproperties: {name: {type: string, nullable: true}}"
    document = read(tmp_path, files)
    user = document["components"]["schemas"]["User"]
    assert user["properties"]["name"] == {"type": ["string", "null"]}


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
    assert str(caught.value).startswith(message)


def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


# Over the network, where that is asked for


class _Files(BaseHTTPRequestHandler):
    """Responds with the files of the server, by their paths."""

    def do_GET(self) -> None:
        """A text; a redirect for what starts with an arrow; 404 for what is not there."""
        files: dict[str, bytes] = self.server.files  # type: ignore[attr-defined]
        content = files.get(self.path, b"")
        moved = content.removeprefix(b"-> ") if content.startswith(b"-> ") else None
        self.send_response(302 if moved else 200 if content else 404)
        if moved:
            self.send_header("Location", moved.decode())
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing on the terminal."""


@contextmanager
def offering(files: Mapping[str, bytes]) -> Iterator[str]:
    """The address of a server that has these files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Files) as server:
        server.files = files  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(PATIENCE)


def fetched(folder: Path, files: Mapping[str, bytes], fetch: Fetcher | None = None) -> Any:
    """The contract that refers to ``/a.yaml`` of a server with these files."""
    with offering(files) as url:
        file = written(folder, of(f"{{$ref: '{url}/a.yaml'}}"))
        return read_contract(file, fetch or Fetcher()).document


def test_a_reference_over_the_network_is_fetched_when_that_is_allowed(tmp_path: Path) -> None:
    files = {"/a.yaml": b"{$ref: sub/b.json}", "/sub/b.json": b'{"type": "string"}'}
    schemas = fetched(tmp_path, files)["components"]["schemas"]
    assert schemas == {"a": {"$ref": "#/components/schemas/b"}, "b": {"type": "string"}}


def test_a_file_that_has_moved_is_followed(tmp_path: Path) -> None:
    files = {"/a.yaml": b"-> /b.yaml", "/b.yaml": b"type: string"}
    assert fetched(tmp_path, files)["components"]["schemas"] == {"a": {"type": "string"}}


UNAVAILABLE: dict[str, tuple[dict[str, bytes], str]] = {
    "is not there": ({}, "the server returned 404"),
    "is not UTF-8": ({"/a.yaml": b"a: \xff"}, "it is not UTF-8"),
    "is too large": ({"/a.yaml": b"#" * (17 * 1024 * 1024)}, "it is larger than 16777216 bytes"),
    "moves in circles": ({"/a.yaml": b"-> /a.yaml"}, "it cannot be fetched: Exceeded maximum"),
    "is a file of this machine": (
        {"/a.yaml": b"{$ref: 'file:///etc/hostname'}"},
        "cannot resolve reference 'file:///etc/hostname'",
    ),
    "is no YAML": ({"/a.yaml": b"a: [1\n"}, "/a.yaml:2:1: "),
}


@pytest.mark.parametrize(("files", "problem"), UNAVAILABLE.values(), ids=UNAVAILABLE)
def test_a_contract_is_not_served_when_a_file_over_the_network(
    tmp_path: Path, files: dict[str, bytes], problem: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        fetched(tmp_path, files)
    assert problem in str(caught.value)


def test_a_file_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    class Passing(ManualSystemClock):
        def monotonic(self) -> float:
            self.pass_seconds(15)
            return super().monotonic()

    with pytest.raises(DocumentError, match="it took more than 20 seconds"):
        fetched(tmp_path, {"/a.yaml": b"a" * 200_000}, Fetcher(Passing()))


def test_no_more_than_so_many_files_are_fetched() -> None:
    fetch = Fetcher(fetched=MAX_FILES)
    with pytest.raises(FetchError, match=f"no more than {MAX_FILES} files"):
        fetch("http://127.0.0.1:9/")


def test_a_server_that_is_not_there_is_reported() -> None:
    with pytest.raises(FetchError, match="it cannot be fetched"):
        Fetcher()("http://127.0.0.1:9/a.yaml")


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
    assert "\n" not in str(rejected.value)
    assert len(str(rejected.value)) < 6000


def outside(tmp_path: Path) -> Path:
    """A contract that refers to a file beside its folder."""
    files = {"api/api.yaml": of("{$ref: ../secret.yaml}")["api.yaml"], "secret.yaml": "const: hush"}
    return written(tmp_path, files)


def test_a_reference_stays_in_the_folder_of_the_contract(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"outside of the folder.*--allow-refs-outside DIR"):
        read_contract(outside(tmp_path))


def test_a_link_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    file = outside(tmp_path)
    file.write_text(file.read_text().replace("../secret.yaml", "link.yaml"))
    (file.parent / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    with pytest.raises(DocumentError, match="outside of the folder"):
        read_contract(file)


def test_another_folder_is_allowed_by_a_setting(tmp_path: Path) -> None:
    file = outside(tmp_path)
    settings = read_settings({"contract": str(file), "allow-refs-outside": str(tmp_path)})
    assert settings.allow_refs_outside == (tmp_path,)
    assert "hush" in repr(read_contract(file, folders=settings.allow_refs_outside).document)


LIMIT = 50_000


@pytest.fixture
def fewer_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that is reached in less time; the page of limits has the real one."""
    for reader in (documents, yaml_12):
        monkeypatch.setattr(reader, "MAX_VALUES", LIMIT)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.json", "[" + "1," * (LIMIT + 1) + "1]"), ("a.yaml", "- 1\n" * (LIMIT + 1))],
    ids=["JSON", "YAML"],
)
@pytest.mark.usefixtures("fewer_values")
def test_a_file_of_too_many_values_is_given_up_while_it_is_read(
    tmp_path: Path, name: str, text: str
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError, match="more than 50,000 values"):
            load_document(written(tmp_path, {name: text}))
        assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("fewer_values")
def test_commas_in_texts_are_no_values(tmp_path: Path) -> None:
    text = json.dumps({"description": "," * (LIMIT + 1)})
    assert load_document(written(tmp_path, {"a.json": text})) == json.loads(text)


def test_of_a_file_that_is_too_large_only_the_limit_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    with file.open("wb") as large:
        large.truncate(65 * 1024 * 1024)
    with pytest.raises(DocumentError, match="larger than 67,108,864 bytes"):
        load_document(file)


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
    **{f"extension of: {name}": (*at, "x-a") for name, at in EXTENSIBLE.items()},
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
PATHS: dict[str, dict[str, Any]] = {"quick check": {}, "library": {"x-list": []}}
"""Paths for which the quick check is enough, and for which the library has its say."""


class _Asked(dict[str, bytes]):
    """Files of a server that know which of them were asked for."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__(files)
        self.paths: list[str] = []

    def get(self, path: str, default: Any = None) -> Any:
        """The file, as long as it is there."""
        self.paths.append(path)
        return super().get(path, default)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[list[str]]:
    """References to what a document may not refer to, or that is not there; none is followed."""
    (tmp_path / "other.json").write_text('{"a": 7}')
    asked = _Asked({"/other.json": b'{"a": 7}'})
    with offering(asked) as url:
        yield [f"{one}/other.json#/a" for one in (url, tmp_path.as_uri(), "..", "nowhere")]
    assert asked.paths == []


@pytest.mark.parametrize("paths", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize(("version", "pointer"), CASES.values(), ids=CASES)
def test_a_ref_in_an_extension_or_a_value_has_no_effect(
    tmp_path: Path, elsewhere: list[str], version: str, pointer: Pointer, paths: dict[str, Any]
) -> None:
    for reference in elsewhere:
        document = with_value(full(version, paths), pointer, {"$ref": reference})
        file = written(tmp_path, {"contract/api.json": json.dumps(document)})
        assert read_contract(file).repairs == read_contract(file, whole=False).repairs == ()
        assert resolved_operations(load_contract(file).contract, lambda name: name)


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


@pytest.mark.parametrize("paths", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("pointer", UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_a_reference_that_is_not_allowed_is_reported_and_not_followed(
    tmp_path: Path, elsewhere: list[str], pointer: Pointer, paths: dict[str, Any]
) -> None:
    for reference in elsewhere:
        document = with_value(full("3.1.0", paths), pointer, {"$ref": reference})
        file = written(tmp_path, {"contract/api.json": json.dumps(document)})
        with pytest.raises(DocumentError, match="cannot resolve reference"):
            read_contract(file)
        project = load_contract(file)
        assert any("cannot resolve reference" in one for one in project.warnings)
        resolved_operations(project.contract, lambda name: name)


INTO_EXTENSIONS: dict[str, tuple[Pointer, Pointer]] = {
    "a path item": (("paths", "/b"), ()),
    "a parameter of a path item": (("paths", "/b"), ("parameters", 0)),
    "a parameter": ((*_POST, "parameters", 1), ()),
    "a schema of a parameter": ((*_POST, "parameters", 1), ("schema",)),
    "a response": ((*_POST, "responses", "201"), ()),
    "a header of a response": ((*_POST, "responses", "201"), ("headers", "H")),
    "a schema": ((*_SCHEMA, "properties", "a"), ()),
    "a property of a schema": ((*_SCHEMA, "properties", "a"), ("properties", "a")),
}
"""What refers to an extension, and where in it a reference is, which has an effect then."""

BESIDE: dict[str, Any] = {
    "parameters": {"name": "p", "in": "query"},
    "responses": {"description": "created"},
}


@pytest.mark.parametrize("extension", ["x-a", "components/x-a"])
@pytest.mark.parametrize("version", PLACES)
@pytest.mark.parametrize(("pointer", "inner"), INTO_EXTENSIONS.values(), ids=INTO_EXTENSIONS)
def test_a_reference_in_what_a_reference_names_is_reported_and_not_followed(
    tmp_path: Path,
    elsewhere: list[str],
    pointer: Pointer,
    inner: Pointer,
    version: str,
    extension: str,
) -> None:
    beside = BESIDE.get(str(pointer[-2]), {}) if inner else {}
    for reference in elsewhere:
        document = full(version, {"x-list": []})
        with_value(document, pointer, {"$ref": f"#/{extension}/it"})
        at = (*extension.split("/"), "it")
        with_value(document, at, dict(beside))
        with_value(document, (*at, *inner), {"$ref": reference})
        file = written(tmp_path, {"contract/api.json": json.dumps(document)})
        with pytest.raises(DocumentError, match=r"api\.json:1:\d+: cannot resolve reference"):
            read_contract(file)
        warnings = load_contract(file).warnings
        assert any("cannot resolve reference" in one for one in warnings)


def test_what_an_extension_has_is_used_where_a_reference_names_it(tmp_path: Path) -> None:
    paths = "paths: {/a: {get: {responses: {'200': {$ref: '#/components/x-r/Ok'}}}}}\n"
    ok = "{description: ok, content: {application/json: {schema: {$ref: a.yaml}}}}"
    files = {"api.yaml": f"{HEAD}{paths}components: {{x-r: {{Ok: {ok}}}}}", "a.yaml": "const: 1"}
    components = read(tmp_path, files)["components"]
    assert components["responses"]["Ok"]["content"] == {
        "application/json": {"schema": {"$ref": "#/components/schemas/a"}}
    }
    assert components["schemas"] == {"a": {"const": 1}}


def test_the_library_that_validates_gets_no_file_of_any_scheme(
    tmp_path: Path, elsewhere: list[str]
) -> None:
    for reference in elsewhere:
        document = with_value(full("3.0.3"), ("paths", "/b"), {"$ref": reference})
        with pytest.raises(DocumentError, match="cannot resolve reference"):
            check_openapi(document, tmp_path / "api.json")
