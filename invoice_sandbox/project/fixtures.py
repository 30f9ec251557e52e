"""Starting data: one YAML file per kind of record, checked when it is read.

``<kind>.yaml`` holds ``records``, each with an ``id``. The JSON Schema ``<kind>.schema.json``
beside it says what a record may be; ``schema`` names a component schema of the contract that every
record must satisfy as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.openapi.load.text import DocumentError, reject_all
from invoice_sandbox.openapi.schema.compile import SchemaError, Schemas
from invoice_sandbox.openapi.schema.file_schema import FileProblem, FileSchema, located

_SCHEMA: Final = Path(__file__).with_name("fixtures.schema.json")


def fixture_errors(folder: Path, schemas: Schemas) -> list[DocumentError]:
    """Return everything in the fixtures of ``folder`` that their schemas reject."""
    return [error for file in _files(folder) for error in _errors(file, schemas)]


def load_fixtures(folder: Path, schemas: Schemas) -> dict[str, list[dict[str, Any]]]:
    """Return records by kind (the file's name). Raises DocumentError with all problems."""
    reject_all(folder, fixture_errors(folder, schemas))
    # Through JSON, so that an amount is a Decimal here as it is in a request.
    return {
        file.stem: jsonio.loads(jsonio.dumps(load_document(file)["records"]))
        for file in _files(folder)
    }


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yaml")) if folder.is_dir() else []


def _errors(file: Path, schemas: Schemas) -> list[DocumentError]:
    try:
        return located(file, _problems(load_document(file), file, schemas))
    except DocumentError as error:
        return [error]


def _problems(document: Any, file: Path, schemas: Schemas) -> list[FileProblem]:
    """Return what is wrong by the schema of the file and that of all, else by the contract."""
    own = file.with_name(f"{file.stem}.schema.json")
    for schema_file in (own, _SCHEMA) if own.exists() else (_SCHEMA,):
        problems = FileSchema.read(schema_file).problems(document)
        if problems:
            return problems
    return [*_repeated(document["records"]), *_contract_problems(document, schemas)]


def _repeated(records: Sequence[Mapping[str, Any]]) -> Iterator[FileProblem]:
    """Yield ids that an earlier record has."""
    seen = set[str]()
    for index, record in enumerate(records):
        if record["id"] in seen:
            yield FileProblem(("records", index, "id"), f"duplicate id '{record['id']}'")
        seen.add(record["id"])


def _contract_problems(document: Mapping[str, Any], schemas: Schemas) -> Iterator[FileProblem]:
    """Yield violations of the component schema named in the file."""
    if "schema" not in document:
        return
    name = document["schema"]
    try:
        checker = schemas.compile({"$ref": f"#/components/schemas/{name}"}, name)
    except SchemaError:
        yield FileProblem(("schema",), f"the contract has no schema {name}")
        return
    for index, record in enumerate(document["records"]):
        for problem in checker.problems(record):
            yield FileProblem(("records", index), problem.sentence("the record"))
