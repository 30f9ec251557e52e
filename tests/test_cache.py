"""What a process has made is kept for the next one, and never trusted more than it deserves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from invoice_sandbox.base import cache
from invoice_sandbox.base.cache import MOST, content_of, entry, kept, software
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.openapi.load.pointers import ContractError
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.operation import Contract, compile_contract
from invoice_sandbox.openapi.schema.compile import SchemaError, Schemas
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.contracts import merged_document
from invoice_sandbox.project.loader import load_contract, load_project
from invoice_sandbox.scenarios.checks import load_scenario
from tests.support import OPTIONAL

CONTRACT = """
openapi: 3.1.0
info: {title: Toy, version: "1"}
paths:
  /toys:
    get:
      operationId: listToys
      security: [{key: []}]
      responses: {"200": {$ref: "REFERENCE"}}
components:
  securitySchemes: {key: {type: apiKey, in: header, name: X-Key}}
  responses: {Toys: {description: Toys.}}
"""
OVERLAY = """
overlay: 1.0.0
info: {title: Ours, version: "1"}
actions: [{target: $.info, update: {title: Changed}}]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the entries of this test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "invoice-liquidity-sandbox" / "made"


def never() -> str:
    raise AssertionError("it was kept")


def project(folder: Path, reference: str = "#/components/responses/Toys") -> Path:
    """A project of a contract and an overlay."""
    (folder / "openapi").mkdir(parents=True)
    (folder / "openapi" / "openapi.yaml").write_text(CONTRACT.replace("REFERENCE", reference))
    (folder / "openapi" / "overlay.yaml").write_text(OVERLAY)
    return folder


# --- what is kept


@pytest.mark.parametrize(
    "value",
    [
        *[True, 0, -0.0, 1.0, 1e22, 2**63, 2**64, 10**30, "", "é\u0000"],
        *[[], {"b": [1, 1.5, None, {}], "a": 2}, {"a": [-(2**70), 0.1, "é", 2**64]}],
    ],
    ids=repr,
)
def test_a_value_is_read_as_it_was_made(value: object) -> None:
    assert repr(kept(lambda: value, "toy", 1)) == repr(value)
    assert repr(kept(never, "toy", 1)) == repr(value)


@pytest.mark.parametrize("other", [("toy", 2), ("car", 1), ("toy", 1, 1), ("toy", 1.0)], ids=repr)
def test_other_inputs_make_another_value(other: tuple[str, object]) -> None:
    kept(lambda: "one", "toy", 1)
    assert kept(lambda: "other", *other) == "other"
    assert kept(never, "toy", 1) == "one"


def test_other_software_makes_another_value(monkeypatch: pytest.MonkeyPatch) -> None:
    kept(lambda: "old", "toy")
    monkeypatch.setattr(cache, "software", lambda: "another version")
    assert kept(lambda: "new", "toy") == "new"


def test_the_software_is_this_package_and_every_distribution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = cache.software.__wrapped__
    before = now()
    assert now() == before
    (tmp_path / "pyyaml-7.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with_another = now()
    assert with_another != before
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "package" / "base" / "cache.py"))
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text("A = 1")
    changed = now()
    (tmp_path / "package" / "module.py").write_text("A = 12")
    assert len({before, with_another, changed, now()}) == 4


@pytest.mark.parametrize(
    "value", [{1: 2}, [2**64, object()], object()], ids=["a key", "beside a number", "an object"]
)
def test_what_json_cannot_hold_is_made_each_time(value: object) -> None:
    assert kept(lambda: value, "toy") is value
    assert kept(lambda: "again", "toy") == "again"
    assert kept(lambda: "first", "car", value) == "first"
    assert kept(lambda: "second", "car", value) == "second"
    assert content_of(value) == ""


# --- what is not trusted


CORRUPTED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda content: content[:-1],
    "one letter is another": lambda content: content.replace(b"fine", b"find"),
    "no digest": lambda content: content.partition(b"\n")[2],
    "something else": lambda _: b"\x00\xff",
}


@pytest.mark.parametrize("corrupt", CORRUPTED.values(), ids=CORRUPTED)
def test_a_corrupted_entry_is_made_again(corrupt: Callable[[bytes], bytes]) -> None:
    kept(lambda: "fine", "toy")
    file = entry("toy", cache.software()).file
    assert file is not None
    file.write_bytes(corrupt(file.read_bytes()))
    assert kept(lambda: "new", "toy") == "new"
    assert kept(never, "toy") == "new"


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702], ids=oct)
def test_a_folder_that_others_can_write_is_not_used(folder: Path, mode: int) -> None:
    folder.mkdir(parents=True)
    folder.chmod(mode)
    assert entry("toy").file is None


@pytest.mark.skipif(os.getuid() != 0, reason=f"{OPTIONAL} needs another user's folder")
def test_the_folder_of_somebody_else_is_not_used(folder: Path) -> None:
    folder.mkdir(parents=True)
    os.chown(folder, 65534, 65534)
    assert entry("toy").file is None


def test_the_folder_is_made_for_this_user_alone(folder: Path) -> None:
    kept(lambda: "value", "toy")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600]


@pytest.mark.parametrize(
    "home",
    [
        pytest.param("/dev/null/cache", id="no folder"),
        pytest.param("/" + "x" * 5_000, id="a name that is too long"),
        pytest.param("relative", id="a relative path"),
        pytest.param("/proc/cache", id="a folder that cannot be written"),
    ],
)
def test_without_a_usable_folder_everything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", home)
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.chdir(tmp_path)
    assert kept(lambda: "first", "toy", home) == "first"
    assert kept(lambda: "second", "toy", home) == "second"
    assert not (tmp_path / "relative").exists()


def test_an_entry_that_cannot_be_written_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "replace", full)
    assert kept(lambda: "value", "toy") == "value"
    assert list(folder.iterdir()) == []


@pytest.mark.slow
def test_an_entry_that_is_there_can_be_read_while_others_write_it() -> None:
    place, value = entry("toy"), ["long"] * 5_000
    place.write(value)

    def write() -> None:
        for _ in range(50):
            place.write(value)

    writers = [Thread(target=write) for _ in range(3)]
    for one in writers:
        one.start()
    read = 0
    while read < 20 or any(one.is_alive() for one in writers):
        assert place.read() == value
        read += 1


def test_the_older_half_of_too_many_entries_is_deleted(folder: Path) -> None:
    folder.mkdir(parents=True, mode=0o700)
    for number in range(MOST):
        (folder / f"old-{number}").touch()
        os.utime(folder / f"old-{number}", (number, number))
    kept(lambda: "value", "toy")
    left = {file.name for file in folder.iterdir()}
    assert len(left) == MOST // 2 + 1
    assert f"old-{MOST - 1}" in left
    assert "old-0" not in left
    assert kept(never, "toy") == "value"


# --- what is kept of a project


def test_a_document_that_changed_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "toy.yaml"
    for text, value in (("a: 1", {"a": 1}), ("a: 2", {"a": 2}), ("a: 1", {"a": 1})):
        file.write_text(text)
        assert load_document(file) == value


def test_yaml_that_was_read_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text("a: 1")
    (tmp_path / "toy.json").write_text("a: 1")
    load_document(tmp_path / "toy.yaml")
    with pytest.raises(DocumentError, match="not JSON"):
        load_document(tmp_path / "toy.json")


@pytest.mark.parametrize("part", ["openapi.yaml", "overlay.yaml"])
def test_a_contract_that_changed_is_merged_again(tmp_path: Path, part: str) -> None:
    folder = project(tmp_path / "toy")
    before = merged_document(folder)
    assert merged_document(folder) == before
    file = folder / "openapi" / part
    file.write_text(file.read_text().replace('version: "1"', 'version: "2"').replace("ged", "GED"))
    assert merged_document(folder) != before


def test_a_contract_of_several_files_follows_each_of_them(tmp_path: Path) -> None:
    folder = project(tmp_path / "toy", "shared.yaml#/Toys")
    (folder / "openapi" / "shared.yaml").write_text("Toys: {description: Before.}")
    before = merged_document(folder)
    (folder / "openapi" / "shared.yaml").write_text("Toys: {description: After.}")
    after = merged_document(folder)
    assert "Before." in str(before)
    assert "After." in str(after)


LIMITED = (
    CONTRACT
    + """
  schemas: {Size: {enum: [1, 1, 2]}}
"""
)
"""A document with something to repair."""
KEPT = {"title": "Kept", "version": "1"}


def test_a_document_is_prepared_once_until_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "toy.yaml"
    file.write_text(LIMITED.replace("REFERENCE", "#/components/responses/Toys"))
    first, second = (load_contract(file) for _ in range(2))
    assert second.contract.document == first.contract.document
    assert len(first.warnings) == 1
    assert second.warnings == first.warnings
    kept = entry("readable", software(), ".yaml", file.read_text())
    kept.write([None, {**first.contract.document, "info": KEPT}, [], [], [], []])
    assert load_contract(file).contract.document["info"]["title"] == "Kept"
    file.write_text(file.read_text().replace("Toys.", "Games."))
    assert "Games." in str(load_contract(file).contract.document)


SHARED = "Toys: {description: Before., content: {a/b: {schema: {enum: [1, 1]}}}}"


@pytest.fixture
def of_two_files(tmp_path: Path) -> Path:
    """A document that refers to another file, with something to repair there."""
    file = project(tmp_path / "toy", "shared.yaml#/Toys") / "openapi" / "openapi.yaml"
    (file.parent / "shared.yaml").write_text(SHARED)
    return file


def title_when_kept(file: Path, **folders: Any) -> str:
    """The title of the document, if what is kept of it has another one."""
    place = entry("readable", software(), file.suffix, file.read_text())
    kept = place.read()
    place.write([kept[0], {**kept[1], "info": KEPT}, *kept[2:]])
    title: str = load_contract(file, **folders).contract.document["info"]["title"]
    return title


def test_a_document_of_several_files_is_prepared_once(of_two_files: Path) -> None:
    first, second = (load_contract(of_two_files) for _ in range(2))
    assert second.contract.document == first.contract.document
    assert "shared.yaml:1:55: " in first.warnings[0]
    assert second.warnings == first.warnings
    assert title_when_kept(of_two_files) == "Kept"


def lead_out(file: Path, elsewhere: Path) -> None:
    """Put a link in the place of the file."""
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


CHANGES: dict[str, Callable[[Path], Any]] = {
    "has changed": lambda one: one.write_text(SHARED.replace("Before.", "After.")),
    "is gone": lambda one: one.unlink(),
    "cannot be read": lambda one: one.write_bytes(b"Toys: \xff"),
    "leads to another folder": lambda one: lead_out(one, one.parents[2] / "shared.yaml"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_it_is_prepared_again_if_one_of_them(
    of_two_files: Path, change: Callable[[Path], Any]
) -> None:
    load_contract(of_two_files)
    change(of_two_files.parent / "shared.yaml")
    assert title_when_kept(of_two_files) == "Toy"


def test_it_is_prepared_again_if_a_folder_is_not_allowed_any_more(tmp_path: Path) -> None:
    file = project(tmp_path / "toy", "../../shared.yaml#/Toys") / "openapi" / "openapi.yaml"
    (tmp_path / "shared.yaml").write_text(SHARED)
    load_contract(file, folders=[tmp_path])
    assert title_when_kept(file, folders=[tmp_path]) == "Kept"
    assert title_when_kept(file) == "Toy"


def test_the_same_document_elsewhere_has_its_own_files(of_two_files: Path, tmp_path: Path) -> None:
    load_contract(of_two_files)
    other = project(tmp_path / "other", "shared.yaml#/Toys") / "openapi" / "openapi.yaml"
    (other.parent / "shared.yaml").write_text(SHARED)
    assert title_when_kept(other, folders=[tmp_path]) == "Toy"


def test_a_document_is_not_kept_while_a_file_of_it_is_missing(
    of_two_files: Path, folder: Path
) -> None:
    shared = of_two_files.parent / "shared.yaml"
    shared.unlink()
    assert "Before." not in str(load_contract(of_two_files).contract.document)
    assert not list(folder.glob("readable-*"))
    shared.write_text(SHARED)
    assert "Before." in str(load_contract(of_two_files).contract.document)


def test_a_document_is_not_kept_that_has_something_over_the_network(
    tmp_path: Path, folder: Path
) -> None:
    file = project(tmp_path / "toy", "http://x.test/a.yaml#/Toys") / "openapi" / "openapi.yaml"
    for text in (SHARED, SHARED.replace("Before.", "After.")):
        read = load_contract(file, fetch=lambda _, text=text: text)  # type: ignore[misc]
        assert text[20:25] in str(read.contract.document)
    assert not list(folder.glob("readable-*"))


def another_process(document: dict[str, Any]) -> Contract:
    """The contract as a process compiles it that has compiled others since."""
    for number in range(8):
        compile_contract({**document, "info": {"title": "Other", "version": str(number)}})
    return compile_contract(document)


MARKED = {
    "type": "object",
    "required": ["id", "pin"],
    "properties": {
        "id": {"$anchor": "id", "type": "string", "format": "password", "readOnly": True},
        "pin": {"type": "string", "pattern": "^[0-9]+$", "examples": ["1234"], "writeOnly": True},
        "parent": {"$ref": "#id"},
    },
}


def test_schemas_that_were_compiled_before_allow_the_same() -> None:
    """They are compiled when they are first used: requests without what is read-only, responses
    without what is write-only, and errors with the examples of a pattern."""
    content = {"application/json": {"schema": MARKED}}
    post = {"operationId": "post", "requestBody": {"content": content}}
    post["responses"] = {"200": {"description": "Toy.", "content": content}}
    info = {"title": "Toy", "version": "1"}
    document = {"openapi": "3.1.0", "info": info, "paths": {"/toys": {"post": post}}}
    for contract in (compile_contract(document), another_process(document)):
        operation = contract.operations["post"]
        assert operation.body is not None
        request = operation.body.checkers["application/json"]
        response = operation.responses["200"].content["application/json"]
        assert response is not None
        assert request.is_valid({"pin": "1", "parent": "1"})
        assert not request.is_valid({"pin": "1", "parent": 1})
        assert not request.is_valid({"id": "1"})
        assert response.is_valid({"id": "1"})
        assert not response.is_valid({"pin": "1"})
        assert operation.secrets == {"id", "parent"}
        assert "1234" in request.problems({"pin": "x"})[0].sentence("the body")


def test_only_the_components_that_a_schema_names_are_compiled_with_it() -> None:
    components: dict[str, Any] = {
        "Unknown": {"$schema": "https://toy.example/dialect"},
        "A": {"properties": {"b": {"$ref": "#/components/schemas/B"}}},
        "B": {"items": {"$ref": "#/components/schemas/C~1d"}},
        "C/d": {"type": "string", "pattern": "^c", "examples": ["cat"]},
        "D": {"$ref": "#/components/schemas/E"},
        "E": {"type": "integer"},
    }
    schemas = Schemas({"components": {"schemas": components}})
    first = schemas.component("A")
    assert first.is_valid({"b": ["c"]})
    assert "cat" in first.problems({"b": ["x"]})[0].sentence("the body")
    with pytest.raises(SchemaError, match="is not known"):
        schemas.component("Unknown")
    whole = Schemas({"components": {"schemas": dict([*components.items()][1:])}})
    assert [whole.component("D").is_valid(one) for one in (1, "a")] == [True, False]
    assert [whole.component("A").is_valid({"b": [one]}) for one in ("c", "x")] == [True, False]


@pytest.mark.parametrize("place", ["query", "body"])
def test_a_secret_that_was_found_before_is_one(place: str) -> None:
    secret = {"type": "string", "format": "password"}
    query = {"name": "a", "in": "query", "schema": secret}
    post: dict[str, Any] = {"responses": {"200": {"description": "Toy."}}}
    if place == "query":
        post["parameters"] = [query]
    else:
        post["requestBody"] = {"content": {"text/plain": {"schema": secret}}}
    info = {"title": "Toy", "version": "1"}
    document = {"openapi": "3.1.0", "info": info, "paths": {"/toys": {"post": post}}}
    for contract in (compile_contract(document), another_process(document)):
        (operation,) = contract.operations.values()
        assert operation.is_secret == (place == "body")
        assert contract.secret_parameters == ({"a"} if place == "query" else set())


def test_a_schema_that_cannot_be_compiled_is_an_error_each_time() -> None:
    content = {"application/json": {"schema": {"pattern": "("}}}
    get = {"responses": {"200": {"description": "Toy.", "content": content}}}
    info = {"title": "Toy", "version": "1"}
    document = {"openapi": "3.1.0", "info": info, "paths": {"/toys": {"get": get}}}
    for _ in range(2):
        with pytest.raises(ContractError, match="get_toys 200"):
            compile_contract(document)


def with_responses(*schemas: Any) -> dict[str, Any]:
    """A document with an operation for each schema, ``get_toys_0`` and so on."""
    contents = [{"application/json": {"schema": one}} for one in schemas]
    responses = [{"200": {"description": "Toy.", "content": one}} for one in contents]
    paths = {f"/toys/{i}": {"get": {"responses": one}} for i, one in enumerate(responses)}
    return {"openapi": "3.1.0", "info": {"title": "Toy", "version": "1"}, "paths": paths}


def test_it_is_named_among_others() -> None:
    document = with_responses({"type": "string"}, {"minLength": "1"}, {"type": "string"})
    with pytest.raises(ContractError, match="get_toys_1 200"):
        compile_contract(document)


def test_schemas_that_are_compiled_together_have_no_anchors_in_common() -> None:
    anchored = {"$anchor": "it", "type": "object", "properties": {"next": {"$ref": "#it"}}}
    contract = compile_contract(with_responses(anchored, {**anchored, "required": ["next"]}))
    first, second = (one.responses["200"] for one in contract.operations.values())
    for response, is_required in ((first, False), (second, True)):
        checker = response.content["application/json"]
        assert checker is not None
        assert checker.is_valid({"next": {}}) != is_required
    with pytest.raises(ContractError, match="get_toys_1 200"):
        compile_contract(with_responses(anchored, {"$ref": "#other"}))


def test_an_error_is_reported_each_time(tmp_path: Path) -> None:
    folder = project(tmp_path / "toy")
    (folder / "scenarios").mkdir()
    (folder / "scenarios" / "wrong.yaml").write_text("name: wrong\nsteps: [{on: start, do: fly}]")
    for _ in range(2):
        with pytest.raises(ProjectError, match=r"wrong\.yaml"):
            load_project(folder)


def test_a_scenario_is_checked_again_when_what_it_names_has_changed(tmp_path: Path) -> None:
    folder = project(tmp_path / "toy")
    (folder / "scenarios").mkdir()
    file = folder / "scenarios" / "broken.yaml"
    file.write_text("name: broken\npurpose: A fault.\nfaults: [{operation: listToys, kind: reset}]")
    vocabulary = load_project(folder).vocabulary
    assert load_scenario(file, vocabulary).name == "broken"
    contract = folder / "openapi" / "openapi.yaml"
    contract.write_text(contract.read_text().replace("listToys", "getToys"))
    with pytest.raises(ProjectError, match="there is no operation 'listToys'"):
        load_project(folder)


NOT_NEEDED = (
    *("connexion", "yaml", "httpx", "httpcore", "werkzeug", "flask", "jsonschema", "rich"),
    *("psycopg", "procrastinate", "alembic"),
)
START = """
import asyncio, sys
import invoice_sandbox.cli.serve
from invoice_sandbox.app import create_app
from invoice_sandbox.settings import read_settings
asyncio.run(create_app(read_settings({}), url="http://127.0.0.1:1"))
print(*({module.partition(".")[0] for module in sys.modules} & {*sys.argv[1:]}))
"""


@pytest.mark.process
def test_the_second_start_imports_nothing_that_serving_does_not_use() -> None:
    command = [sys.executable, "-c", START, *NOT_NEEDED]
    first, second = (
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        for _ in range(2)
    )
    assert {"connexion", "yaml"} <= {*first}
    assert second == []
