"""What another version of a published contract changes, and whether that would break anybody.

Only published documents are compared here; whether overlay, handlers, fixtures and examples still
fit is asked by the command that knows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from invoice_sandbox.openapi.load.operations import base_path, operation_id, raw_operations
from invoice_sandbox.openapi.load.references import dereference

Pointer = tuple[str | int, ...]
Document = Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """One change. ``pointer`` is a place in the other version, or in ours if ``in_ours``."""

    breaking: bool
    text: str
    pointer: Pointer
    in_ours: bool = False


@dataclass(frozen=True)
class _Place:
    """An operation as it stands in one document."""

    path: str
    method: str
    raw: Document

    @property
    def pointer(self) -> Pointer:
        return ("paths", self.path, self.method)


def differences(ours: Document, theirs: Document) -> Iterator[Difference]:
    """Every operation, parameter, member, answer and security that ``theirs`` changes."""
    old, new = _operations(ours), _operations(theirs)
    yield from _everywhere(ours, theirs)
    for name in [one for one in old if one not in new]:
        yield Difference(True, f"operation {name} is gone", old[name].pointer, in_ours=True)
    for name in [one for one in new if one not in old]:
        where = f"{new[name].method.upper()} {new[name].path}"
        yield Difference(False, f"operation {name} is new: {where}", new[name].pointer)
    for name in [one for one in old if one in new]:
        yield from _operation(name, ours, old[name], theirs, new[name])


def _everywhere(ours: Document, theirs: Document) -> Iterator[Difference]:
    """What concerns every operation: where they are served, and how a caller authenticates."""
    if base_path(ours) != base_path(theirs):
        text = f"the base path is now '{base_path(theirs)}'"
        yield Difference(True, text, ("servers",))
    old, new = _schemes(ours), _schemes(theirs)
    pointer = ("components", "securitySchemes")
    for name in [one for one in old if one not in new]:
        yield Difference(True, f"security scheme {name} is gone", pointer)
    for name in new:
        if name not in old:
            yield Difference(False, f"security scheme {name} is new", (*pointer, name))
        elif _without_prose(old[name]) != _without_prose(new[name]):
            yield Difference(True, f"security scheme {name} changed", (*pointer, name))


def _schemes(document: Document) -> Document:
    schemes: Document = document.get("components", {}).get("securitySchemes", {})
    return {name: dereference(document, raw) for name, raw in schemes.items()}


def _without_prose(scheme: Document) -> Document:
    return {key: value for key, value in scheme.items() if key != "description"}


def _operations(document: Document) -> dict[str, _Place]:
    return {
        operation_id(path, method, raw): _Place(path, method, raw)
        for path, method, raw in raw_operations(document)
    }


def _operation(
    name: str, ours: Document, old: _Place, theirs: Document, new: _Place
) -> Iterator[Difference]:
    if (old.path, old.method) != (new.path, new.method):
        text = (
            f"{name} moved from {old.method.upper()} {old.path} to {new.method.upper()} {new.path}"
        )
        yield Difference(True, text, new.pointer)
    if _security(ours, old.raw) != _security(theirs, new.raw):
        yield Difference(True, f"{name}: who may call it changed (security)", new.pointer)
    yield from _parameters(name, ours, old, theirs, new)
    yield from _bodies(name, ours, old, theirs, new)
    yield from _responses(name, ours, old, theirs, new)


def _security(document: Document, raw: Document) -> Any:
    return raw.get("security", document.get("security", []))


def _parameters(
    name: str, ours: Document, old: _Place, theirs: Document, new: _Place
) -> Iterator[Difference]:
    before, after = _declared(ours, old), _declared(theirs, new)
    pointer = (*new.pointer, "parameters")
    for key in [one for one in before if one not in after]:
        yield Difference(True, f"{name}: {key[0]} parameter '{key[1]}' is gone", new.pointer)
    for key, parameter in after.items():
        required = bool(parameter.get("required", False))
        if key not in before:
            text = f"{name}: {'required ' * required}{key[0]} parameter '{key[1]}' is new"
            yield Difference(required, text, pointer)
            continue
        if required and not before[key].get("required", False):
            text = f"{name}: {key[0]} parameter '{key[1]}' is now required"
            yield Difference(True, text, pointer)
        yield from _schemas(
            f"{name}, parameter {key[1]}",
            _members(ours, before[key].get("schema", {})),
            _members(theirs, parameter.get("schema", {})),
            pointer,
            sent_by_client=True,
        )


def _declared(document: Document, place: _Place) -> dict[tuple[str, str], Document]:
    item = dereference(document, document["paths"][place.path])
    raw = [*item.get("parameters", []), *place.raw.get("parameters", [])]
    parameters = [dereference(document, one) for one in raw]
    return {(one["in"], one["name"]): one for one in parameters}


def _bodies(
    name: str, ours: Document, old: _Place, theirs: Document, new: _Place
) -> Iterator[Difference]:
    before = dereference(ours, old.raw.get("requestBody", {}))
    after = dereference(theirs, new.raw.get("requestBody", {}))
    pointer = (*new.pointer, "requestBody") if after else new.pointer
    if after.get("required", False) and not before.get("required", False):
        yield Difference(True, f"{name}: a request body is now required", pointer)
    if before and not after:
        yield Difference(True, f"{name}: the request body is gone", pointer)
    yield from _contents(f"{name}, request body", ours, before, theirs, after, pointer, True)


def _responses(
    name: str, ours: Document, old: _Place, theirs: Document, new: _Place
) -> Iterator[Difference]:
    before, after = old.raw.get("responses", {}), new.raw.get("responses", {})
    pointer = (*new.pointer, "responses")
    for status in [one for one in before if one not in after]:
        yield Difference(True, f"{name}: response {status} is gone", pointer)
    for status in after:
        if status not in before:
            yield Difference(False, f"{name}: response {status} is new", (*pointer, status))
            continue
        yield from _contents(
            f"{name}, response {status}",
            ours,
            dereference(ours, before[status]),
            theirs,
            dereference(theirs, after[status]),
            (*pointer, status),
            False,
        )


def _contents(
    subject: str,
    ours: Document,
    before: Document,
    theirs: Document,
    after: Document,
    pointer: Pointer,
    sent_by_client: bool,
) -> Iterator[Difference]:
    old, new = before.get("content", {}), after.get("content", {})
    for media_type in [one for one in old if one not in new]:
        yield Difference(True, f"{subject}: media type {media_type} is gone", pointer)
    for media_type in new:
        if media_type not in old:
            yield Difference(False, f"{subject}: media type {media_type} is new", pointer)
            continue
        yield from _schemas(
            subject,
            _members(ours, old[media_type].get("schema", {})),
            _members(theirs, new[media_type].get("schema", {})),
            pointer,
            sent_by_client=sent_by_client,
        )


@dataclass(frozen=True)
class _Member:
    required: bool
    facets: tuple[tuple[str, str], ...]


_NO_FACETS: Final = frozenset(
    {"properties", "items", "required", "$ref", "allOf", "title", "description", "$comment"}
    | {"default", "example", "examples", "deprecated", "readOnly", "writeOnly", "externalDocs"}
)
"""Keywords that are compared elsewhere, or that allow and forbid nothing."""


def _schemas(
    subject: str,
    old: Mapping[str, _Member],
    new: Mapping[str, _Member],
    pointer: Pointer,
    *,
    sent_by_client: bool,
) -> Iterator[Difference]:
    for name in [one for one in old if one not in new]:
        yield Difference(not sent_by_client, f"{subject}: member {name} is gone", pointer)
    for name, member in new.items():
        previous = old.get(name)
        label = f"member {name}" if name else "the value"
        if previous is None:
            text = f"{subject}: {'required ' * member.required}{label} is new"
            yield Difference(member.required, text, pointer)
            continue
        if member.required and not previous.required:
            yield Difference(True, f"{subject}: {label} is now required", pointer)
        if previous.required and not member.required:
            text = f"{subject}: {label} is no longer required"
            yield Difference(not sent_by_client, text, pointer)
        if previous.facets != member.facets:
            changed = {key for key, _ in set(previous.facets) ^ set(member.facets)}
            text = f"{subject}: {label} changed ({', '.join(sorted(changed))})"
            yield Difference(True, text, pointer)


def _members(
    document: Document,
    schema: Any,
    name: str = "",
    required: bool = True,
    above: frozenset[str] = frozenset(),
) -> dict[str, _Member]:
    """Every member that ``schema`` speaks of, by the way to it: ``invoices[].amount``.

    ``above`` are the references that led here: a schema that contains itself is entered once.
    """
    if not isinstance(schema, Mapping) or schema.get("$ref") in above:
        return {}
    inside = above | ({schema["$ref"]} if "$ref" in schema else set())
    parts = _parts(document, schema, 0)
    facets = {
        key: str(value)
        for part in parts
        for key, value in part.items()
        if key not in _NO_FACETS and not key.startswith("x-")
    }
    members = {name: _Member(required, tuple(sorted(facets.items())))}
    demanded = {key for part in parts for key in part.get("required", [])}
    for part in parts:
        for key, child in part.get("properties", {}).items():
            path = f"{name}.{key}" if name else key
            members.update(_members(document, child, path, key in demanded, inside))
        members.update(_members(document, part.get("items"), f"{name}[]", True, inside))
    for key in sorted(demanded):
        path = f"{name}.{key}" if name else key
        members.setdefault(path, _Member(True, ()))
    return members


def _parts(document: Document, schema: Document, depth: int) -> list[Document]:
    """The schema itself, what it refers to, and what it is composed of by ``allOf``."""
    if depth > 8:
        return []
    parts = [schema]
    if "$ref" in schema:
        parts += _parts(document, dereference(document, {"$ref": schema["$ref"]}), depth + 1)
    for part in schema.get("allOf", []):
        parts += _parts(document, part, depth + 1)
    return parts
