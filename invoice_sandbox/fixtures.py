"""Starting data: one YAML file per kind of record, checked when it is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from invoice_sandbox import jsonio
from invoice_sandbox.contract.documents import DocumentError, load_document, place_of
from invoice_sandbox.contract.schemas import SchemaError, Schemas


def fixture_problems(folder: Path, schemas: Schemas) -> Iterator[tuple[str, str]]:
    """``place, problem`` for every fixture record that its schema in the contract refuses."""
    for file in _fixture_files(folder):
        fixture = _fixture(file)
        if "schema" not in fixture:
            continue
        reference = {"$ref": f"#/components/schemas/{fixture['schema']}"}
        try:
            checker = schemas.compile(reference, str(file))
        except SchemaError:
            yield place_of(file, ("schema",)), f"the contract has no schema {fixture['schema']}"
            continue
        for index, record in enumerate(fixture["records"]):
            for problem in checker.problems(record):
                yield place_of(file, ("records", index)), problem.sentence("the record")


def load_fixtures(folder: Path, schemas: Schemas) -> dict[str, list[dict[str, Any]]]:
    """Records by kind (the file's name). Raises DocumentError for the first that does not fit."""
    for place, problem in fixture_problems(folder, schemas):
        raise DocumentError(place, problem)
    # Through JSON, so that an amount is a Decimal here as it is in a request.
    return {
        file.stem.replace("-", "_"): jsonio.loads(jsonio.dumps(_fixture(file)["records"]))
        for file in _fixture_files(folder)
    }


def _fixture_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.yaml")) if folder.is_dir() else []


def _fixture(file: Path) -> dict[str, Any]:
    fixture = load_document(file)
    if not isinstance(fixture, dict) or not isinstance(fixture.get("records"), list):
        raise DocumentError(str(file), "a fixture file is an object with 'records', a list")
    unknown = fixture.keys() - {"schema", "records"}
    if unknown:
        key = min(unknown)
        raise DocumentError(place_of(file, (key,)), f"unknown key '{key}'", "schema, records")
    for index, record in enumerate(fixture["records"]):
        if not isinstance(record, dict) or not isinstance(record.get("id"), str):
            raise DocumentError(place_of(file, ("records", index)), "a record needs an 'id'")
    return fixture
