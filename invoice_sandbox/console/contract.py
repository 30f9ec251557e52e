"""The page of the contract: operations, their responses, assumptions, and the coverage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from flask import abort, render_template, request

from invoice_sandbox.console.common import client, contents, pages
from invoice_sandbox.console.topics import REQUESTS
from invoice_sandbox.openapi.load.operations import named_operations
from invoice_sandbox.openapi.load.overlay import ASSUMPTION
from invoice_sandbox.openapi.load.pointers import at_pointer


@pages.get("/contract")
def contract() -> str:
    """The operations by tag, with their responses, assumptions and coverage."""
    received = client().get("/sandbox/coverage")
    coverage = received.data if received.is_success else None
    engine = contents().engine
    served = engine.project.contract
    groups: dict[str, list[Any]] = {}
    raw_operations = named_operations(served.document)
    for operation in served.operations.values():
        *_, declared = raw_operations[operation.id]
        tag = next(iter(declared.get("tags", [])), "default")
        link = f"{engine.public_path}/docs#/{quote(tag)}/{quote(operation.id)}"
        assumed = list(dict.fromkeys(_assumptions(declared)))
        groups.setdefault(tag, []).append((operation, declared, link, assumed))
    return render_template(
        "contract.html",
        page="contract",
        topics=(REQUESTS,),
        contract=served,
        groups=groups,
        coverage=coverage,
        covered=_covered(coverage),
    )


@pages.get("/contract/schema")
def schema() -> str:
    """The schema at a JSON pointer into the contract, and the one around it."""
    pointer = request.args.get("pointer", "")
    document = contents().engine.project.contract.document
    places = (pointer, pointer.rpartition("/")[0])
    steps = [(place, at_pointer(document, place)) for place in places if place]
    if not steps or steps[0][1] is None:
        abort(404)
    return render_template("schema.html", page="contract", pointer=pointer, steps=steps)


def _covered(coverage: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """Return the operation and status of the responses that the workspace covered."""
    rows = coverage["operations"] if coverage else []
    return {
        (row["operation"], status)
        for row in rows
        for status, count in row["statuses"].items()
        if count
    }


def _assumptions(declared: Any) -> Iterator[str]:
    """Yield the assumptions anywhere in the declaration of an operation."""
    if isinstance(declared, Mapping):
        yield from (assumption["assumption"] for assumption in declared.get(ASSUMPTION, ()))
        for name, value in declared.items():
            if name != ASSUMPTION:
                yield from _assumptions(value)
    elif isinstance(declared, list):
        for value in declared:
            yield from _assumptions(value)
