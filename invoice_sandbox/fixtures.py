"""Starting data: one YAML file per kind of record, checked when it is read.

``<kind>.yaml`` holds ``records``, each with an ``id``. The JSON Schema ``<kind>.schema.json``
beside it says what a record may be; ``schema`` names a component schema of the contract that every
record must satisfy as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from invoice_sandbox import jsonio
from invoice_sandbox.contract.documents import DocumentError, load_document, place_of
from invoice_sandbox.contract.schemas import SchemaError, Schemas
from invoice_sandbox.contract.shapes import shape_problems


def fixture_problems(folder: Path, schemas: Schemas) -> Iterator[tuple[str, str]]:
    """``place, problem`` for everything in the fixtures of ``folder`` that does not fit."""
    for file in _files(folder):
        document = load_document(file)
        found = list(_problems(document, file))
        yield from found or _contract_problems(document, file, schemas)


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


def _problems(document: Any, file: Path) -> Iterator[tuple[str, str]]:
    """What is wrong with a file by itself: its form, its schema, an id that stands twice."""
    if not isinstance(document, dict) or not isinstance(document.get("records"), list):
        yield str(file), "a fixture file is an object with 'records', a list"
        return
    schema_file = file.with_name(f"{file.stem}.schema.json")
    if schema_file.exists():
        for one in shape_problems(document, schema_file):
            advice = f" ({one.advice})" if one.advice else ""
            yield place_of(file, one.pointer), one.text + advice
    seen: set[str] = set()
    for index, record in enumerate(document["records"]):
        record_id = record.get("id") if isinstance(record, dict) else None
        if not isinstance(record_id, str):
            yield place_of(file, ("records", index)), "a record needs an 'id'"
        elif record_id in seen:
            yield place_of(file, ("records", index, "id")), f"the id '{record_id}' stands twice"
        else:
            seen.add(record_id)


def _contract_problems(
    document: dict[str, Any], file: Path, schemas: Schemas
) -> Iterator[tuple[str, str]]:
    if "schema" not in document:
        return
    reference = {"$ref": f"#/components/schemas/{document['schema']}"}
    try:
        checker = schemas.compile(reference, str(file))
    except SchemaError:
        yield place_of(file, ("schema",)), f"the contract has no schema {document['schema']}"
        return
    for index, record in enumerate(document["records"]):
        for problem in checker.problems(record):
            yield place_of(file, ("records", index)), problem.sentence("the record")
