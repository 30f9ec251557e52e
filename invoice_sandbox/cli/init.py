"""``invoice-sandbox init``: create a project for a contract."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from pprint import pformat
from typing import Any, Final

import click

from invoice_sandbox.base import jsonio
from invoice_sandbox.cli.options import Document
from invoice_sandbox.openapi.load.reading import read_contract
from invoice_sandbox.openapi.load.yaml_12 import yaml_text
from invoice_sandbox.openapi.message.media_types import is_json
from invoice_sandbox.openapi.operation import Contract
from invoice_sandbox.openapi.responses import NoResponseError, contract_response
from invoice_sandbox.project.code import ProjectError, operation_names
from invoice_sandbox.project.contracts import compile_apart, contract_warnings
from invoice_sandbox.project.conventions import FILE as CONVENTIONS_FILE
from invoice_sandbox.project.inference import NOTHING, inferred
from invoice_sandbox.project.stateful import ROLES, SHOW, Collection


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--contract",
    "file",
    metavar="FILE|URL",
    required=True,
    type=Document(),
    help="OpenAPI 3.0, 3.1 or 3.2 document, YAML or JSON.",
)
@click.option("--stateful", is_flag=True, help="Name the collections that keep what is posted.")
def init(folder: Path, file: Path, stateful: bool) -> None:
    """Create a project for a contract in DIR.

    The project has the contract in one file, an example handler, conventions, and a README.

    \b
    invoice-sandbox init petstore --contract petstore.yaml
    invoice-sandbox serve --project petstore
    """
    write_project(folder, file, stateful=stateful)


@dataclass(frozen=True)
class _Example:
    """An operation with an example handler: the name of the function, and its response."""

    function: str
    title: str
    body: Any


def write_project(folder: Path, file: Path, *, stateful: bool = False) -> None:
    """Write a project that serves the contract of ``file`` into ``folder``; print what to do next.

    Raises ProjectError when the folder is not empty, and UserError for a contract
    that cannot be served.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ProjectError(f"{folder}: the folder is not empty; choose an empty or a new one")
    read = read_contract(file)
    contract = compile_apart(read)
    example = min(_examples(contract), key=lambda example: len(repr(example.body)), default=None)
    files = {
        "openapi/openapi.yaml": yaml_text(read.document),
        "handlers/__init__.py": f'"""Handlers of {_title(contract)}."""\n',
    }
    collections = inferred(contract) if stateful else ()
    if example is not None and not collections:
        files["handlers/example.py"] = _handler(example)
    files["README.md"] = _readme(contract, folder, next(reversed(files)))
    files[CONVENTIONS_FILE] = _CONVENTIONS + _collections(collections)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    for line in contract_warnings(read, contract):
        click.echo(f"WARNING {line}", err=True)
    for line in [f"Stateful {collection}" for collection in collections] or [NOTHING] * stateful:
        click.echo(line)
    click.echo(f"{folder}: {len(contract.operations)} operations, {len(files)} files.")
    click.echo(f"Serve it: invoice-sandbox serve --project {shlex.quote(str(folder))}")


def _examples(contract: Contract) -> Iterator[_Example]:
    """Operations with a JSON response."""
    for function, name in operation_names(contract.document).items():
        operation = contract.operations[name]
        try:
            given = contract_response(contract, operation, "handler")
        except NoResponseError:
            continue
        if is_json(given.media_type) and operation.method == "GET":
            title = _quotable(f"{operation.method} {operation.path}")
            yield _Example(function, title, given.body)


def _title(contract: Contract) -> str:
    """The title of the contract."""
    return _quotable(str(contract.document["info"]["title"]))


def _quotable(text: str) -> str:
    """``text`` as it may stand between quotes, in code: no contract writes code of its own."""
    return " ".join(text.split()).replace("\\", "").replace('"', "'")


def _handler(example: _Example) -> str:
    # Through JSON, so that every number is one that Python can write.
    body = pformat(json.loads(jsonio.dumps(example.body)), sort_dicts=False, width=90)
    lines = [f"        {line}" for line in body.splitlines()]
    return _HANDLER.format(name=example.function, title=example.title, body="\n".join(lines))


def _collections(collections: Sequence[Collection]) -> str:
    """Return the section of ``conventions.yaml`` that names the collections."""
    rows = [_row(collection) for collection in collections]
    return yaml_text({"collections": rows}) if rows else ""


def _row(collection: Collection) -> dict[str, Any]:
    names = {
        role: [name for name, own in collection.operations.items() if own == role] for role in ROLES
    }
    row: dict[str, Any] = {
        role: every if role == SHOW else every[0] for role, every in names.items() if every
    }
    place = {"record": collection.record} if collection.record else {}
    return {**row, "id": collection.identity, **place}


def _readme(contract: Contract, folder: Path, begin: str) -> str:
    return _README.format(
        title=_title(contract),
        folder=shlex.quote(str(folder)),
        url="http://127.0.0.1:8080",
        base=contract.base_path,
        begin=begin,
    )


_HANDLER: Final = '''"""Responses of your own; other operations respond from the contract."""

from __future__ import annotations

from invoice_sandbox.project.api import Call


# The name is the operationId in snake_case, with an underscore after a Python keyword (import_).
# The returned value must match the contract.
# A call has the request (path, query, body), the workspace's state (call.state.get(collection, id))
# and its clock (call.timestamp). Delete this function to fall back to the contract's example.
def {name}(call: Call) -> object:
    """{title}"""
    return (
{body}
    )
'''

_CONVENTIONS: Final = """# What all operations have in common. These are the defaults.
access: any  # keys: only keys that the sandbox has issued
envelope: "{data}"  # or an object, such as {data: "{data}", mode: "{mode}"}
event: "{data}"  # the body of a webhook: also {id}, {type}, {timestamp}, {mode}
"""

_README: Final = """# {title}, as a sandbox

Served by the Invoice Liquidity Sandbox, from its contract:

    invoice-sandbox serve --project {folder}

Operations are below {url}{base}, the contract is at /openapi.json, and a
page to try it out at /docs. The key that the server prints when it is ready is the credential, in
whichever way the contract asks for one.

- `openapi/openapi.yaml` is the contract, in one file and as OpenAPI 3.1.
- `handlers/` contains your own handlers: a function for each operation that needs more than the
  contract's example. Begin with `{begin}`.
- `conventions.yaml` has what all operations have in common: who has access, the envelope of bodies.
- `fixtures/` and `scenarios/` may be added: starting data, and what happens over time.
"""
