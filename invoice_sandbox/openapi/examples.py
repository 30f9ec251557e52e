"""Every example of a document that its schema does not allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from invoice_sandbox.openapi.load.operations import (
    named_examples,
    operation_id,
    raw_operations,
)
from invoice_sandbox.openapi.load.pointers import followed
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
