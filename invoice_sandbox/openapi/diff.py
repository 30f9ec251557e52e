"""The changes of another version of a published contract, and which would break a client.

A request may allow more than before, a response may allow less. Whether a schema does is decided by
the canonical form of jsonschema-rs. The side that sends a value sends declared members only: a new
optional member of a request breaks nobody. Whether overlay, handlers, fixtures and examples still
fit is checked by the command that has them.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import jsonschema_rs
from jsonschema_rs.canonical import Containment

from invoice_sandbox.openapi.load.documents import Note
from invoice_sandbox.openapi.load.model import SCHEMA, Node, Pointer, node, walk
from invoice_sandbox.openapi.load.operations import (
    base_path,
    named_examples,
    named_operations,
    parameter_key,
)
from invoice_sandbox.openapi.load.pointers import ContractError, at_pointer, dereference, located
from invoice_sandbox.openapi.schema.compile import Schemas

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Difference:
    """One change. ``pointer`` is a place in the other version, or in ours if ``in_ours``."""

    breaking: bool
    text: str
    pointer: Pointer
    in_ours: bool = False


def differences(ours: Document, theirs: Document) -> Iterator[Difference]:
    """Yield every operation, parameter, member, response and security that ``theirs`` changes."""
    old, new = _operations(ours), _operations(theirs)
    yield from _everywhere(ours, theirs)
    for name in _missing(old, new):
        yield Difference(True, f"operation {name} is gone", old[name].pointer, in_ours=True)
    for name in _missing(new, old):
        where = _where(new[name])
        yield Difference(False, f"operation {name} is new: {where}", new[name].pointer)
    for name in [name for name in old if name in new]:
        yield from _operation(name, old[name], new[name])


def _missing(names: Iterable[Any], others: Container[Any]) -> list[Any]:
    """Return the names that are not among the others."""
    return [name for name in names if name not in others]


def _everywhere(ours: Document, theirs: Document) -> Iterator[Difference]:
    """Yield changes of where operations are served, and of how a caller authenticates."""
    if base_path(ours) != base_path(theirs):
        text = f"the base path is now '{base_path(theirs)}'"
        yield Difference(True, text, ("servers",))
    old, new = _schemes(ours), _schemes(theirs)
    pointer = ("components", "securitySchemes")
    for name in _missing(old, new):
        yield Difference(True, f"security scheme {name} is gone", (*pointer, name), in_ours=True)
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


def _operations(document: Document) -> dict[str, Part]:
    return {
        name: Part(document, raw, ("paths", path, method))
        for name, (path, method, raw) in named_operations(document).items()
    }


def _where(operation: Part) -> str:
    _, path, method = operation.pointer
    return f"{str(method).upper()} {path}"


def _operation(name: str, old: Part, new: Part) -> Iterator[Difference]:
    if old.pointer != new.pointer:
        text = f"{name} moved from {_where(old)} to {_where(new)}"
        yield Difference(True, text, new.pointer)
    before, after = _security(old), _security(new)
    if before != after:
        breaking = not before <= after
        yield Difference(breaking, f"{name}: who may call it changed (security)", new.pointer)
    old_rows, new_rows = ({row.key: row for row in _rows(name, each)} for each in (old, new))
    for key in _missing(old_rows, new_rows):
        yield from _gone(old_rows[key], new_rows)
    for key, row in new_rows.items():
        yield from _changed(old_rows[key], row) if key in old_rows else _added(row, old_rows)


def _security(operation: Part) -> frozenset[str]:
    """Return the alternatives, of which a caller needs one."""
    wanted = operation.value.get("security", operation.document.get("security", []))
    return frozenset(json.dumps(requirement, sort_keys=True) for requirement in wanted)


@dataclass(frozen=True)
class Row:
    """A parameter, body, media type or member of an operation, which two versions may both have.

    ``key`` has the labels from the outermost part on, such as ``("request body", "media type
    text/plain", "the value")``. Of a member, and of the value it is in, ``schemas`` are all that
    apply to it.
    """

    subject: str
    key: tuple[str, ...]
    pointer: Pointer
    is_request: bool
    required: bool = False
    schemas: tuple[Part, ...] = ()

    @property
    def label(self) -> str:
        """Its own label."""
        return self.key[-1]

    @property
    def is_member(self) -> bool:
        """True for a member of a value."""
        return self.label.startswith("member ")

    @property
    def is_closed(self) -> bool:
        """True if it takes no members but those declared."""
        keys = ("additionalProperties", "unevaluatedProperties")
        return any(part.value.get(key) is False for part in self.schemas for key in keys)

    @property
    def facets(self) -> dict[str, Any]:
        """Its keywords but for those about members, which are compared one by one."""
        return {
            key: value
            for part in self.schemas
            for key, value in part.value.items()
            if key not in _NO_FACETS and not key.startswith("x-")
        }

    def canonical(self, *, closed: bool) -> jsonschema_rs.CanonicalSchema:
        """Return the canonical form of the facets; ``closed``: with declared members only."""
        schemas = [_Expansion(part.document, closed).of_facets(part.value) for part in self.schemas]
        return jsonschema_rs.canonicalize(
            {"allOf": schemas}, draft=jsonschema_rs.Draft202012, validate_formats=True
        )


Rows = Mapping[tuple[str, ...], Row]


def _gone(row: Row, new: Rows) -> Iterator[Difference]:
    """Yield that a row is gone, unless that around it is gone, too."""
    around = new.get(row.key[:-1])
    if around is not None or len(row.key) == 1:
        may_be_sent = row.is_request and row.is_member
        breaking = not may_be_sent or (around is not None and around.is_closed)
        text = f"{row.subject}: {row.label} is gone"
        yield Difference(breaking, text, row.pointer, in_ours=True)


def _added(row: Row, old: Rows) -> Iterator[Difference]:
    """Yield that a row is new, unless that around it is new, too."""
    around = old.get(row.key[:-1])
    if around is not None or len(row.key) == 1:
        was_closed = row.is_member and around is not None and around.is_closed
        breaking = row.required if row.is_request else was_closed
        text = f"{row.subject}: {'required ' * row.required}{row.label} is new"
        yield Difference(breaking, text, row.pointer)


def _rows(name: str, operation: Part) -> Iterator[Row]:
    """Yield all that an operation declares of its requests and responses."""
    for (location, lower_name), parameter in _declared(operation).items():
        key = (f"{location} parameter '{lower_name}'",)
        required = bool(parameter.value.get("required", False))
        yield Row(name, key, parameter.pointer, True, required)
        subject = f"{name}, parameter {parameter.value['name']}"
        if "schema" in parameter.value:
            yield from _value(subject, key, parameter, is_request=True)
        yield from _contents(subject, key, parameter, is_request=True)
    body = operation.get("requestBody")
    if body.value:
        required = bool(body.value.get("required", False))
        yield Row(name, ("request body",), body.pointer, True, required)
        yield from _contents(f"{name}, request body", ("request body",), body, is_request=True)
    responses = operation.get("responses")
    for status in responses.value:
        key = (f"response {status}",)
        yield Row(name, key, (*responses.pointer, status), False)
        subject = f"{name}, response {status}"
        yield from _contents(subject, key, responses.get(status), is_request=False)


def _contents(
    subject: str, above: tuple[str, ...], holder: Part, *, is_request: bool
) -> Iterator[Row]:
    content = holder.get("content")
    for media_type in content.value:
        media, key = content.get(media_type), (*above, f"media type {media_type}")
        yield Row(subject, key, media.pointer, is_request)
        yield from _value(subject, key, media, is_request=is_request)


def _value(
    subject: str, above: tuple[str, ...], holder: Part, *, is_request: bool
) -> Iterator[Row]:
    schema = holder.value.get("schema", {})
    pointer = (*holder.pointer, "schema") if "schema" in holder.value else holder.pointer
    row = Row(subject, (*above, "the value"), pointer, is_request, True)
    yield from _members(row, Part(holder.document, schema, pointer), "", frozenset())


def _declared(operation: Part) -> dict[tuple[str, str], Part]:
    _, path, _ = operation.pointer
    item = Part(operation.document, operation.document, ()).get("paths").get(path)
    found = [
        owner.get("parameters").get(index)
        for owner in (item, operation)
        for index in range(len(owner.value.get("parameters", [])))
    ]
    return {parameter_key(parameter.value): parameter for parameter in found}


def _changed(old: Row, new: Row) -> Iterator[Difference]:
    start = f"{new.subject}: {new.label}"
    if new.required and not old.required:
        yield Difference(new.is_request, f"{start} is now required", new.pointer)
    if old.required and not new.required:
        yield Difference(not new.is_request, f"{start} is no longer required", new.pointer)
    if old.facets == new.facets and not _refers(old) and not _refers(new):
        return
    taker, giver = (new, old) if new.is_request else (old, new)
    try:
        if old.canonical(closed=False) == new.canonical(closed=False):
            return
        covered = taker.canonical(closed=False).covers(giver.canonical(closed=True))
    except ValueError:  # the canonical form does not support it
        covered = Containment.UNKNOWN
    text = f"{start} changed: {', '.join(_changes(old.facets, new.facets))}"
    yield Difference(covered != Containment.YES, text, new.pointer)


def _refers(row: Row) -> bool:
    return '"$ref"' in json.dumps(row.facets)


def _changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """``type number → string``: each keyword that differs, with its values if they are short."""
    keys = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    for key in keys or sorted(key for key in new if isinstance(new[key], Mapping | list)):
        if key == "enum" and key in old and key in new:
            gone = [f"without {_shown(word)}" for word in old[key] if word not in new[key]]
            added = [f"with {_shown(word)}" for word in new[key] if word not in old[key]]
            yield f"enum {' and '.join([*gone, *added])}"
        elif _holds_schemas(old.get(key, new.get(key))):
            yield key
        else:
            yield f"{key} {_shown(old.get(key))} → {_shown(new.get(key))}"


def _holds_schemas(value: Any) -> bool:
    is_list = isinstance(value, list) and any(isinstance(item, Mapping) for item in value)
    return is_list or isinstance(value, Mapping)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return " or ".join(map(_shown, value))
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


# --- the members that a schema describes


@dataclass(frozen=True)
class Part:
    """A value in a document and the pointer to it, behind any reference."""

    document: Document
    value: Any
    pointer: Pointer

    def get(self, key: str | int) -> Part:
        """The member of that name, or the item of that index; an empty object if there is none."""
        missing = isinstance(self.value, Mapping) and key not in self.value
        value = {} if missing else self.value[key]
        return Part(self.document, value, (*self.pointer, key)).resolved()

    def resolved(self) -> Part:
        """Return the part that the references here lead to."""
        try:
            pointer, value = located(self.document, self.pointer, self.value)
        except ContractError:
            pointer, value = self.pointer, {}
        return Part(self.document, value, pointer)


_NO_FACETS: Final = frozenset(
    {"properties", "items", "required", "$ref", "allOf", "title", "description", "$comment"}
    | {"default", "example", "examples", "deprecated", "readOnly", "writeOnly", "externalDocs"}
    | {"$defs", "definitions", "discriminator", "xml"}
)
"""Keywords that are compared elsewhere, or that allow and forbid nothing."""

_MAX_NODES: Final = 2_000


@dataclass
class _Expansion:
    """Writes a schema out without references; one that contains itself ends in its own name."""

    document: Document
    closed: bool
    left: int = _MAX_NODES

    def of_facets(self, schema: Document) -> Any:
        """Return the facets of ``schema`` with everything that they refer to."""
        own = {key: value for key, value in schema.items() if key not in _NO_FACETS}
        return self._written(node(own, SCHEMA, ("allOf", 0)), frozenset())

    def _written(self, here: Node, above: frozenset[str]) -> Any:
        self.left -= 1
        if here.reference is not None:
            return self._behind(here, here.reference, above)
        copy = here.copy(lambda child: self._written(child, above))
        is_part = here.pointer[-2:-1] == ("allOf",) and isinstance(here.pointer[-1], int)
        if self.closed and here.is_schema and not is_part and "properties" in copy:
            copy.setdefault("additionalProperties", False)
        return copy

    def _behind(self, here: Node, reference: str, above: frozenset[str]) -> Any:
        found = at_pointer(self.document, reference[1:]) if reference[:2] == "#/" else None
        if reference in above or self.left < 0 or found is None:
            return {"const": reference}
        return self._written(node(found, SCHEMA, here.pointer), above | {reference})


def _members(row: Row, schema: Part, name: str, above: frozenset[Pointer]) -> Iterator[Row]:
    """Yield ``row``, which has the ``schema``, and every member below it: ``items[].amount``.

    ``above`` are the schemas that led here: a schema that contains itself is entered once.
    """
    target = schema.resolved()
    if not isinstance(target.value, Mapping) or target.pointer in above:
        return
    parts = _parts(schema, 0)
    inside = above | {part.pointer for part in parts}
    yield replace(row, schemas=tuple(parts))
    demanded = {key: part for part in parts for key in part.value.get("required", [])}
    start, declared = f"{name}." if name else "", set[str]()

    def member(path: str, pointer: Pointer, *, required: bool) -> Row:
        return Row(row.subject, (*row.key, f"member {path}"), pointer, row.is_request, required)

    for part in parts:
        properties = part.value.get("properties", {})
        declared |= properties.keys()
        for key, child in properties.items():
            below = Part(part.document, child, (*part.pointer, "properties", key))
            own = member(start + key, below.pointer, required=key in demanded)
            yield from _members(own, below, start + key, inside)
        items = Part(part.document, part.value.get("items"), (*part.pointer, "items"))
        own = member(f"{name}[]", items.pointer, required=True)
        yield from _members(own, items, f"{name}[]", inside)
    for key in sorted(demanded.keys() - declared):
        yield member(start + key, (*demanded[key].pointer, "required"), required=True)


def _parts(schema: Part, depth: int) -> Sequence[Part]:
    """Return the schema itself, what it refers to, and what it is composed of by ``allOf``."""
    if depth > 8 or not isinstance(schema.value, Mapping):
        return []
    parts = [schema]
    target = schema.resolved()
    if target.pointer != schema.pointer:
        parts += _parts(target, depth + 1)
    for index, part in enumerate(schema.value.get("allOf", [])):
        parts += _parts(Part(schema.document, part, (*schema.pointer, "allOf", index)), depth + 1)
    return parts


# --- examples


def bad_examples(document: Document, schemas: Schemas) -> Iterator[Note]:
    """Yield the examples of media types, parameters and headers that their schemas do not allow."""
    for here in walk(node(document)):
        if here.type not in {"mediaType", "parameter", "header"} or here.reference is not None:
            continue
        examples = dict(named_examples(document, here.value))
        examples |= {"example": here.value["example"]} if "example" in here.value else {}
        checker = schemas.checker(here.value.get("schema", True), "")
        for name, value in examples.items():
            for problem in checker.problems(value)[:1]:
                text = f"example '{name}': {problem.sentence('the value')}"
                yield Note(here.pointer, text)
