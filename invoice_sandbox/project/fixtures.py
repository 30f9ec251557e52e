"""Starting data: one YAML file per kind of record, checked when it is read.

``<kind>.yaml`` holds ``records``, each with an ``id``. The JSON Schema ``<kind>.schema.json``
beside it says what a record may be; ``schema`` names a component schema of the contract that every
record must satisfy as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.openapi.load.documents import load_document, place_of
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.schema.compile import SchemaError, Schemas
from invoice_sandbox.openapi.schema.file_schema import FileProblem, schema_problems

_SCHEMA: Final = Path(__file__).with_name("fixtures.schema.json")


def fixture_problems(folder: Path, schemas: Schemas) -> Iterator[tuple[str, str]]:
    """``place, problem`` for everything in the fixtures of ``folder`` that does not fit."""
    for file in _files(folder):
        try:
            document = load_document(file)
        except DocumentError as error:
            yield error.place, _line(error.problem, error.advice)
        else:
            yield from _problems(document, file, schemas)


def load_fixtures(folder: Path, schemas: Schemas) -> dict[str, list[dict[str, Any]]]:
    """Records by kind (the file's name). Raises DocumentError for the first that does not fit."""
    for place, problem in fixture_problems(folder, schemas):
        raise DocumentError(place, problem)
    # Through JSON, so that an amount is a Decimal here as it is in a request.
    return {
        file.stem: jsonio.loads(jsonio.dumps(load_document(file)["records"]))
        for file in _files(folder)
    }


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yaml")) if folder.is_dir() else []


def _problems(document: Any, file: Path, schemas: Schemas) -> Iterator[tuple[str, str]]:
    """What is wrong with one file: by its schema, by itself, and by the contract, in this order."""
    found: list[FileProblem] = []
    for schema_file in (file.with_name(f"{file.stem}.schema.json"), _SCHEMA):
        known = {one.pointer for one in found}
        try:
            problems = list(schema_problems(document, schema_file)) if schema_file.exists() else []
        except DocumentError as error:
            yield error.place, _line(error.problem, error.advice)
        else:
            found += [one for one in problems if one.pointer not in known]
    found.extend(_repeated(document))
    # One problem for each record: not the same again from the contract's schema.
    wrong = {one.pointer[:2] for one in found}
    found.extend(one for one in _contract_problems(document, schemas) if one.pointer not in wrong)
    for one in found:
        yield place_of(file, one.pointer), _line(one.text, one.advice)


def _repeated(document: Any) -> Iterator[FileProblem]:
    """Ids that an earlier record has."""
    seen: list[Any] = []
    for index, record in enumerate(_records(document)):
        known = record.get("id") if isinstance(record, dict) else None
        if known is not None and known in seen:
            yield FileProblem(("records", index, "id"), f"duplicate id '{known}'")
        seen.append(known)


def _contract_problems(document: Any, schemas: Schemas) -> Iterator[FileProblem]:
    """Violations of the component schema named in the file."""
    if not isinstance(document, dict) or "schema" not in document:
        return
    name = document["schema"]
    try:
        checker = schemas.compile({"$ref": f"#/components/schemas/{name}"}, str(name))
    except SchemaError:
        yield FileProblem(("schema",), f"the contract has no schema {name}")
        return
    for index, record in enumerate(_records(document)):
        for problem in checker.problems(record):
            yield FileProblem(("records", index), problem.sentence("the record"))


def _records(document: Any) -> list[Any]:
    records = document.get("records") if isinstance(document, dict) else None
    return records if isinstance(records, list) else []


def _line(problem: str, advice: str) -> str:
    """One line, whatever line breaks a quoted value has."""
    return " ".join((problem + (f" ({advice})" if advice else "")).split())
