"""Every example of a document that its schema does not allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from invoice_sandbox.openapi.load.model import node, walk
from invoice_sandbox.openapi.load.operations import (
    Note,
    named_examples,
    operation_id,
    raw_operations,
)
from invoice_sandbox.openapi.load.pointers import followed
from invoice_sandbox.openapi.responses import NOT_USED, is_json
from invoice_sandbox.openapi.schema.compile import Schemas

Pointer = tuple[str | int, ...]


@dataclass(frozen=True)
class BadExample:
    """An example that its schema does not allow: where it stands, and the first problem."""

    subject: str
    pointer: Pointer
    problem: str


def bad_examples(document: Mapping[str, Any], schemas: Schemas) -> Iterator[BadExample]:
    """Every request, parameter and response example that its own schema does not allow."""
    for subject, pointer, holder in _holders(document):
        shown = [*named_examples(document, holder)]
        shown += [("example", holder["example"])] if "example" in holder else []
        if not shown:
            continue
        checker = schemas.compile(holder.get("schema", True), subject)
        for name, value in shown:
            problems = checker.problems(value)
            if problems:
                where = f"{subject}, example '{name}'"
                yield BadExample(where, pointer, problems[0].sentence("the value"))


def unused_examples(document: Mapping[str, Any], schemas: Schemas) -> Iterator[Note]:
    """Every example of a JSON response or of a schema that is not used, as the schema does not
    allow it."""
    for bad in bad_examples(document, schemas):
        if "responses" in bad.pointer and is_json(str(bad.pointer[-1])):
            yield Note(bad.pointer, f"{bad.subject}: {NOT_USED}: {bad.problem}")
    for here in walk(node(document)):
        if not here.is_schema or here.base:
            continue
        examples = here.value.get("examples", [])
        shown = list(examples) if isinstance(examples, list) else []
        shown += [here.value["example"]] if "example" in here.value else []
        checker = schemas.compile(here.value, "example") if shown else None
        for problems in (checker.problems(value) for value in shown if checker):
            if problems:
                text = problems[0].sentence("the value")
                yield Note((*here.pointer, "example"), f"{NOT_USED}: {text}")


def _holders(
    document: Mapping[str, Any],
) -> Iterator[tuple[str, Pointer, Mapping[str, Any]]]:
    """Media type and parameter objects: whatever may hold a schema and examples of it. What several
    operations share is that of the first one."""
    seen = set[Pointer]()
    for subject, pointer, holder in _every_holder(document):
        if pointer not in seen:
            seen.add(pointer)
            yield subject, pointer, holder


def _every_holder(
    document: Mapping[str, Any],
) -> Iterator[tuple[str, Pointer, Mapping[str, Any]]]:
    for path, method, raw in raw_operations(document):
        name = operation_id(path, method, raw)
        start: Pointer = ("paths", path, method)
        for index, declared in enumerate(raw.get("parameters", [])):
            place, parameter = _found(document, (*start, "parameters", index), declared)
            yield f"{name}, parameter {parameter['name']}", place, parameter
        place, body = _found(document, (*start, "requestBody"), raw.get("requestBody", {}))
        for media_type, media in body.get("content", {}).items():
            yield f"{name}, request body", (*place, "content", media_type), media
        for status, declared in raw.get("responses", {}).items():
            place, response = _found(document, (*start, "responses", status), declared)
            for media_type, media in response.get("content", {}).items():
                yield f"{name}, response {status}", (*place, "content", media_type), media


def _found(document: Mapping[str, Any], place: Pointer, declared: Any) -> tuple[Pointer, Any]:
    """What is declared at a place, and where it is: a reference may lead to it."""
    *_, found = (place, declared), *followed(document, declared)
    return found
