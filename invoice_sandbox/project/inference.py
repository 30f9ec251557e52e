"""The collections of a document: by a plain rule, or as ``conventions.yaml`` names them.

POST on a path, and GET on the path with one more parameter, are a collection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from invoice_sandbox.base.ids import snake_case
from invoice_sandbox.openapi.load.operations import path_names, without_names
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.project.representation import (
    Found,
    Part,
    is_success,
    list_in,
    record_in,
    response_part,
)
from invoice_sandbox.project.stateful import (
    CHANGE,
    CREATE,
    DELETE,
    GET,
    LIST,
    REPLACE,
    ROLES,
    SHOW,
    Collection,
)

NOTHING: Final = (
    "Not stateful: no path with POST has a GET on the path with one more parameter; "
    "conventions.yaml of a project can name collections"
)
_ON_ITEM: Final = {"GET": GET, "PUT": REPLACE, "PATCH": CHANGE, "DELETE": DELETE}
_VERB: Final = re.compile(r"/[^/{}]+")
_Methods = Mapping[str, Operation]


def inferred(contract: Contract) -> tuple[Collection, ...]:
    """Return the collections of a document."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in contract.operations.values():
        plain = without_names(operation.path).rstrip("/")
        paths.setdefault(plain, {}).setdefault(operation.method, operation)
    found = (_collection(contract, paths, path) for path in paths if path.endswith("/{}"))
    return tuple(collection for collection in found if collection is not None)


def _collection(contract: Contract, paths: Mapping[str, _Methods], path: str) -> Collection | None:
    """Return the collection whose items have this path, if it is one."""
    above, on_item = paths.get(path.removesuffix("/{}"), {}), paths[path]
    if "POST" not in above or "GET" not in on_item or not _is_usable(above["POST"]):
        return None
    get = on_item["GET"]
    record = record_of(contract, get)
    if record is None:
        return None
    place, identity, _ = record
    operations = {above["POST"].id: CREATE}
    operations |= {operation.id: LIST for operation in _lists(contract, above, identity)}
    operations |= {
        on_item[method].id: role
        for method, role in _ON_ITEM.items()
        if method in on_item and _is_usable(on_item[method])
    }
    operations |= {operation.id: SHOW for operation in _verbs(contract, paths, path, record)}
    return Collection(_above(get), identity, place, operations)


def record_of(contract: Contract, operation: Operation) -> Found | None:
    """Return the record that an operation on the path of an item responds with."""
    body = response_part(contract, operation)
    return None if body is None else record_in(body, _names_of_id(body, operation))


def _names_of_id(body: Part, operation: Operation) -> Sequence[str]:
    """Return the names that the member with the id may have, the best first: ``petId``, ``pet_id``
    or ``id`` for ``{petId}``, ``number`` or ``id`` for ``{issue_number}``."""
    words = snake_case(path_names(operation.path)[-1])
    declared = [
        *body.members,
        *(name for member in body.members.values() for name in member.members),
    ]
    alike = (name for name in declared if snake_case(name) == words)
    return (*dict.fromkeys((*alike, words.rpartition("_")[2], "id")),)


def named(contract: Contract, row: Mapping[str, Any]) -> Collection:
    """Return a collection as ``conventions.yaml`` names it: ``{create: saveDraft, get: readDraft,
    id: number}``. Raises ValueError for one whose records have no id, or whose paths differ."""
    operations = {row[role]: role for role in ROLES if role in row and role != SHOW}
    operations |= dict.fromkeys(row.get(SHOW, ()), SHOW)
    get = contract.operations[row[GET]]
    base = _above(get)
    for path in (contract.operations[name].path for name in operations):
        if "/{" not in get.path or path.count("{") < base.count("{"):
            raise ValueError(
                f"{path} and {get.path} are not of one collection: ids are in the path"
            )
    place, identity, _ = record_of(contract, get) or ("", "id", None)
    return Collection(base, row.get("id", identity), row.get("record", place), operations)


def _above(get: Operation) -> str:
    """Return the path of an item without its last parameter."""
    return get.path[: get.path.rfind("/{")]


def _lists(contract: Contract, above: _Methods, identity: str) -> Iterator[Operation]:
    body = response_part(contract, above["GET"]) if "GET" in above else None
    if body is not None and list_in(body, [identity]) is not None:
        yield above["GET"]


def _verbs(
    contract: Contract, paths: Mapping[str, _Methods], path: str, record: Found
) -> Iterator[Operation]:
    """Yield the operations on ``/{id}/verb`` that respond with the record."""
    for other, methods in paths.items():
        verb = other.removeprefix(path)
        if not other.startswith(path) or not _VERB.fullmatch(verb) or f"{other}/{{}}" in paths:
            continue
        for operation in methods.values():
            body = response_part(contract, operation)
            found = None if body is None else record_in(body, [record[1]])
            if found is not None and found[2].members.keys() == record[2].members.keys():
                yield operation


def _is_usable(operation: Operation) -> bool:
    """True if a success is JSON, or has no content."""
    response = operation.responses.get(operation.success)
    if response is None or not is_success(operation.success):
        return False
    return not response.content or response.json_type is not None
