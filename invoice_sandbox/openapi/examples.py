"""Every example of a document that its schema does not allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from invoice_sandbox.openapi.load.operations import named_examples, operation_id, raw_operations
from invoice_sandbox.openapi.load.pointers import dereference
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
        checker = schemas.compile(holder.get("schema", True), subject)
        only = {"example": holder["example"]} if "example" in holder else {}
        for name, value in (*named_examples(document, holder), *only.items()):
            problems = checker.problems(value)
            if problems:
                where = f"{subject}, example '{name}'"
                yield BadExample(where, pointer, problems[0].sentence("the value"))


def _holders(
    document: Mapping[str, Any],
) -> Iterator[tuple[str, Pointer, Mapping[str, Any]]]:
    """Media type and parameter objects: whatever may hold a schema and examples of it."""
    for path, method, raw in raw_operations(document):
        name = operation_id(path, method, raw)
        start: Pointer = ("paths", path, method)
        for index, declared in enumerate(raw.get("parameters", [])):
            parameter = dereference(document, declared)
            yield f"{name}, parameter {parameter['name']}", (*start, "parameters", index), parameter
        body = dereference(document, raw.get("requestBody", {}))
        for media_type, media in body.get("content", {}).items():
            yield f"{name}, request body", (*start, "requestBody", "content", media_type), media
        for status, declared in raw.get("responses", {}).items():
            response = dereference(document, declared)
            for media_type, media in response.get("content", {}).items():
                place = (*start, "responses", status, "content", media_type)
                yield f"{name}, response {status}", place, media
