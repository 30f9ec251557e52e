"""``invoice-sandbox init`` writes a project that serves at once, in a real process too."""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from invoice_sandbox.cli import main
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.project.code import ProjectError
from invoice_sandbox.project.loader import load_project
from tests.support import FROZEN, PATIENCE, serving

CONTRACT = """\
openapi: 3.0.3
info: {title: 'The "Zoo"', version: "1.0"}
servers: [{url: https://zoo.example/v1}]
security: [{Key: []}]
paths:
  /animals:
    get:
      operationId: listAnimals
      responses:
        "200":
          description: ok
          content:
            application/json:
              schema: {type: array, items: {$ref: 'animal.yaml'}}
              example: [{name: Ada, age: null}, {name: Bob, age: 2.5}]
    post:
      operationId: addAnimal
      requestBody: {content: {application/json: {schema: {$ref: animal.yaml}}}}
      responses: {"201": {description: made}}
  /impossible:
    get:
      operationId: getImpossible
      responses:
        "200":
          description: never
          content: {application/json: {schema: {type: string, enum: [1]}}}
components:
  securitySchemes: {Key: {type: apiKey, in: header, name: X-API-Key}}
"""
ANIMAL = "type: object\nproperties: {name: {type: string}, age: {type: number, nullable: true}}\n"


def contract_in(folder: Path) -> Path:
    """A contract of two files."""
    (folder / "animal.yaml").write_text(ANIMAL)
    file = folder / "zoo.yaml"
    file.write_text(CONTRACT)
    return file


def init(folder: Path, *arguments: str) -> Result:
    """A project in ``zoo``, made of the contract in ``folder``."""
    file = contract_in(folder)
    words = ["init", str(folder / "zoo"), "--contract", str(file), *arguments]
    return CliRunner().invoke(main, words)


@contextmanager
def served(folder: Path) -> Iterator[httpx.Client]:
    """A client of the project in ``zoo``, which sends the key as the contract asks for it."""
    with serving(replace(FROZEN, project=folder / "zoo")) as running, running.client() as client:
        client.headers["X-API-Key"] = client.headers.pop("Authorization").removeprefix("Bearer ")
        yield client


def test_it_reports_what_it_has_written_and_what_comes_next(tmp_path: Path) -> None:
    written = init(tmp_path)
    assert written.exit_code == 0
    assert written.stdout.splitlines() == [
        f"{tmp_path / 'zoo'}: 3 operations, 5 files.",
        f"Serve it: invoice-sandbox serve --project {tmp_path / 'zoo'}",
    ]
    assert "this operation returns 501: getImpossible" in written.stderr
    assert sorted(str(one.relative_to(tmp_path / "zoo")) for one in files(tmp_path)) == [
        "README.md",
        "conventions.yaml",
        "handlers/__init__.py",
        "handlers/example.py",
        "openapi/openapi.yaml",
    ]
    assert "Begin with `handlers/example.py`." in (tmp_path / "zoo" / "README.md").read_text()


def files(folder: Path) -> Iterator[Path]:
    return (one for one in (folder / "zoo").rglob("*") if one.is_file())


def test_the_contract_is_one_file_of_openapi_31(tmp_path: Path) -> None:
    init(tmp_path)
    document = load_document(tmp_path / "zoo" / "openapi" / "openapi.yaml")
    assert document["openapi"] == "3.1.0"
    animal = document["components"]["schemas"]["animal"]
    assert animal["properties"]["age"] == {"type": ["number", "null"]}


def test_a_new_project_has_the_plain_conventions_and_no_warning_of_them(tmp_path: Path) -> None:
    init(tmp_path)
    project = load_project(tmp_path / "zoo")
    assert not any("conventions" in line for line in project.warnings)
    (tmp_path / "zoo" / "conventions.yaml").unlink()
    assert project.conventions == load_project(tmp_path / "zoo").conventions


def test_the_project_is_served(tmp_path: Path) -> None:
    init(tmp_path)
    animals = [{"name": "Ada", "age": None}, {"name": "Bob", "age": 2.5}]
    with served(tmp_path) as client:
        assert client.get("/v1/animals").json() == animals
        assert client.post("/v1/animals", json={"name": "Cleo"}).status_code == 201
        assert client.post("/v1/animals", json={"name": 1}).status_code == 400
        assert client.get("/v1/impossible").status_code == 501


def test_the_handler_is_what_responds(tmp_path: Path) -> None:
    init(tmp_path)
    handler = tmp_path / "zoo" / "handlers" / "example.py"
    handler.write_text(handler.read_text().replace("Ada", "Zoe"))
    with served(tmp_path) as client:
        assert client.get("/v1/animals").json()[0]["name"] == "Zoe"


def test_a_response_of_a_handler_is_validated_against_the_contract(tmp_path: Path) -> None:
    init(tmp_path)
    handler = tmp_path / "zoo" / "handlers" / "example.py"
    handler.write_text(handler.read_text().replace("'Ada'", "1"))
    with served(tmp_path) as client:
        assert client.get("/v1/animals").status_code == 500


def test_a_contract_without_json_responses_has_no_example_of_a_handler(tmp_path: Path) -> None:
    file = tmp_path / "zoo.yaml"
    file.write_text("openapi: 3.1.0\ninfo: {title: a, version: '1'}\npaths: {}\n")
    folder = tmp_path / "zoo"
    made = CliRunner().invoke(main, ["init", str(folder), "--contract", str(file)])
    assert made.stdout.startswith(f"{folder}: 0 operations, 4 files.\n")
    with serving(replace(FROZEN, project=folder)) as running, running.client() as client:
        assert client.get("/openapi.json").status_code == 200


@pytest.mark.parametrize("there", ["file", "folder"])
def test_nothing_is_overwritten(tmp_path: Path, there: str) -> None:
    (tmp_path / "zoo").mkdir()
    (tmp_path / "zoo" / "mine.txt").write_text("mine")
    if there == "file":
        (tmp_path / "zoo" / "mine.txt").unlink()
        (tmp_path / "zoo").rmdir()
        (tmp_path / "zoo").write_text("mine")
    rejected = init(tmp_path)
    assert rejected.exit_code == 2
    reason = "Not a directory" if there == "file" else "the folder is not empty; "
    assert rejected.stderr.startswith(f"Error: {tmp_path / 'zoo'}: {reason}")
    assert "mine" in {one.read_text() for one in tmp_path.rglob("*") if one.is_file()}


def test_an_empty_folder_may_be_there(tmp_path: Path) -> None:
    (tmp_path / "zoo").mkdir()
    assert init(tmp_path).exit_code == 0


def test_a_contract_that_cannot_be_served_is_reported_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    file = tmp_path / "zoo.yaml"
    file.write_text("openapi: 4.0.0\n")
    rejected = CliRunner().invoke(main, ["init", str(tmp_path / "zoo"), "--contract", str(file)])
    assert rejected.exit_code == 2
    assert rejected.stderr.startswith(f"Error: {file}:1:1: ")
    assert not (tmp_path / "zoo").exists()


@contextmanager
def running(*arguments: str) -> Iterator[str]:
    """The line that a server in a process of its own prints when it is ready."""
    command = [sys.executable, "-m", "invoice_sandbox", "serve", "--port", "0", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.send_signal(signal.SIGTERM)


@pytest.mark.process
def test_the_command_that_is_printed_serves_it(tmp_path: Path) -> None:
    init(tmp_path)
    with running("--project", str(tmp_path / "zoo")) as line:
        reported = re.search(r"ready on (\S+) with key (\S+)", line)
        assert reported is not None
        reply = httpx.get(
            f"{reported[1]}/v1/animals", headers={"X-API-Key": reported[2]}, timeout=PATIENCE
        )
        assert reply.json()[0]["name"] == "Ada"
        assert httpx.get(f"{reported[1]}/v1/animals", timeout=PATIENCE).status_code == 401


QUOTES = '"' * 3
HOSTILE = f"""\
openapi: 3.1.0
info: {{title: 'a{QUOTES} + b', version: "1"}}
paths:
  '/a{QUOTES}; raise SystemExit; {QUOTES}':
    get:
      operationId: NAME
      responses:
        "200": {{description: ok, content: {{application/json: {{example: [1]}}}}}}
"""


@pytest.mark.parametrize("name", ["readIt", "async", "größe"])
def test_no_contract_writes_code_of_its_own(tmp_path: Path, name: str) -> None:
    file = tmp_path / "hostile.yaml"
    file.write_text(HOSTILE.replace("NAME", name))
    folder = tmp_path / "made"
    made = CliRunner().invoke(main, ["init", str(folder), "--contract", str(file)])
    assert made.exit_code == 0, made.output
    for written in folder.glob("handlers/*.py"):
        (first, *_) = ast.parse(written.read_text()).body
        assert isinstance(first, ast.Expr)
        for one in ast.walk(ast.parse(written.read_text())):
            assert not isinstance(one, ast.Raise)


def test_a_handler_of_an_operation_called_like_a_keyword_has_an_underscore(tmp_path: Path) -> None:
    file = tmp_path / "keyword.yaml"
    file.write_text(HOSTILE.replace("NAME", "import"))
    folder = tmp_path / "made"
    CliRunner().invoke(main, ["init", str(folder), "--contract", str(file)])
    assert [*load_project(folder).handlers] == ["import"]
    other = folder.rename(tmp_path / "other")
    example = other / "handlers" / "example.py"
    example.write_text(example.read_text().replace("def import_(", "def imports_("))
    with pytest.raises(ProjectError, match=r"imports_ is not an.* did you mean import_\?"):
        load_project(other)


def test_a_folder_that_cannot_be_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone" / "further")
    for name in ("file/sub", "nowhere", "n" * 300):
        words = ["init", str(tmp_path / name), "--contract", str(contract_in(tmp_path))]
        made = CliRunner().invoke(main, words)
        assert (made.exit_code, made.stderr.count("\n")) == (2, 1), made.output
