"""The changes of another version of a published contract, and which would break a client.

Both documents are read into rows: the operations, webhooks and callbacks, and what each declares.
``RULES`` has the verdict for each kind of change, in what a client sends and in what it receives.
It follows the levels of oasdiff: error, warning and information. Whether a schema allows more is
decided by the canonical form of jsonschema-rs. The side that sends a value sends declared members
only: a new optional member of a request breaks nobody.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    operations_of,
    parameter_key,
    path_names,
    without_names,
)
from invoice_sandbox.openapi.load.pointers import ContractError, at_pointer, dereference, located
from invoice_sandbox.openapi.schema.compile import Schemas

Document = Mapping[str, Any]

BREAKS: Final = "breaks"
MAY: Final = "may break"
CHANGES: Final = "changes"

RULES: Final[Mapping[str, tuple[str, str]]] = {
    "operation gone": (BREAKS, BREAKS),
    "parameter gone": (MAY, MAY),
    "required parameter gone": (MAY, BREAKS),
    "body gone": (BREAKS, BREAKS),
    "media type gone": (BREAKS, BREAKS),
    "success gone": (BREAKS, BREAKS),
    "error gone": (CHANGES, CHANGES),
    "member gone": (MAY, CHANGES),
    "required member gone": (MAY, BREAKS),
    "closed member gone": (BREAKS, BREAKS),
    "value gone": (BREAKS, BREAKS),
    "required new": (BREAKS, CHANGES),
    "new": (CHANGES, CHANGES),
    "now required": (BREAKS, CHANGES),
    "no longer required": (CHANGES, BREAKS),
    "deprecated": (CHANGES, CHANGES),
    "fits": (CHANGES, CHANGES),
    "pattern changed": (MAY, MAY),
    "does not fit": (BREAKS, BREAKS),
}
"""Verdicts: in what a client sends, and in what it receives. A webhook or callback is received, and
its responses are sent; a header is a parameter. ``fits``: the side that takes a value takes all
that the other side gives. A closed member is one of an object that allows no others."""


@dataclass(frozen=True)
class Difference:
    """One change. ``pointer`` is a place in the other version, or in ours if ``in_ours``."""

    verdict: str
    text: str
    pointer: Pointer
    in_ours: bool = False


def differences(ours: Document, theirs: Document) -> Iterator[Difference]:
    """Yield every change, of the whole document, then of each operation, webhook and callback."""
    yield from _everywhere(ours, theirs)
    old, new = ({row.key: row for row in _rows(document)} for document in (ours, theirs))
    moved = _moved(old, new)
    old = {(moved.get(key[0], key[0]), *key[1:]): row for key, row in old.items()}
    for key, row in old.items():
        if key not in new and (len(key) == 1 or key[:-1] in new):
            closed = row.is_sent and len(key) > 1 and new[key[:-1]].is_closed
            yield row.change("gone", f"{row.title} is gone", closed=closed, in_ours=True)
    for key, row in new.items():
        if key in old:
            yield from _changed(old[key], row)
        elif len(key) == 1 or key[:-1] in old:
            where = f": {_where(row)}" if row.label.startswith("operation ") else ""
            required = "required " * row.required
            yield row.change("new", f"{row.start}{required}{row.label} is new{where}")


def _moved(old: Rows, new: Rows) -> dict[str, str]:
    """Return the new key of each operation that is elsewhere under the same operationId."""
    found = {row.label: key[0] for key, row in new.items() if len(key) == 1 and key not in old}
    gone = [(key[0], row.label) for key, row in old.items() if len(key) == 1 and key not in new]
    return {key: found[label] for key, label in gone if label in found}


def _everywhere(ours: Document, theirs: Document) -> Iterator[Difference]:
    """Yield changes of where operations are served, and of how a caller authenticates."""
    if base_path(ours) != base_path(theirs):
        text = f"the base path is now '{base_path(theirs)}'"
        yield Difference(BREAKS, text, ("servers",))
    old, new = _schemes(ours), _schemes(theirs)
    for name in dict.fromkeys([*old, *new]):
        pointer, start = ("components", "securitySchemes", name), f"security scheme {name}"
        if name not in new:  # operations that need it change, too
            yield Difference(CHANGES, f"{start} is gone", pointer, in_ours=True)
        elif name not in old:
            yield Difference(CHANGES, f"{start} is new", pointer)
        elif _sent_as(old[name]) != _sent_as(new[name]):
            yield Difference(BREAKS, f"{start} changed: credentials are sent otherwise", pointer)
        elif {**old[name], "description": ""} != {**new[name], "description": ""}:
            yield Difference(CHANGES, f"{start} changed", pointer)


def _schemes(document: Document) -> Document:
    schemes: Document = document.get("components", {}).get("securitySchemes", {})
    return {name: dereference(document, raw) for name, raw in schemes.items()}


def _sent_as(scheme: Document) -> list[Any]:
    name = scheme.get("name", "")
    shown = name.lower() if scheme.get("in") == "header" else name
    keys = [scheme.get(key) for key in ("type", "in", "openIdConnectUrl")]
    return [*keys, shown, str(scheme.get("scheme")).lower()]


@dataclass(frozen=True)
class Row:
    """An operation, or a parameter, body, media type or member of one, which both versions may
    have.

    ``key`` has steps from the operation on, such as ``("POST /pay", "request body", "media type
    text/plain", "the value")``. Of a member, and of the value it is in, ``schemas`` are all that
    apply to it.
    """

    kind: str
    subject: str
    label: str
    key: tuple[str, ...]
    pointer: Pointer
    is_sent: bool
    required: bool = False
    deprecated: bool = False
    operation: Part | None = None
    schemas: tuple[Part, ...] = ()

    @property
    def start(self) -> str:
        """The word before its label."""
        return f"{self.subject}: " if self.subject else ""

    @property
    def title(self) -> str:
        """Its label, and in which part of the contract it is."""
        return self.start + self.label

    @property
    def is_closed(self) -> bool:
        """True if it takes no members but those declared."""
        keys = ("additionalProperties", "unevaluatedProperties")
        return any(part.value.get(key) is False for part in self.schemas for key in keys)

    @property
    def is_absent(self) -> bool:
        """True for a member that is never there in this direction."""
        keyword = "readOnly" if self.is_sent else "writeOnly"
        return any(part.value.get(keyword) is True for part in self.schemas)

    @property
    def facets(self) -> dict[str, Any]:
        """Its keywords but for those about members, which are compared one by one."""
        return {
            key: value
            for part in self.schemas
            for key, value in part.value.items()
            if key not in _NO_FACETS and not key.startswith("x-")
        }

    def change(
        self, event: str, text: str, *, closed: bool = False, in_ours: bool = False
    ) -> Difference:
        """Return what happened to it, with the verdict of the most specific rule."""
        starts = [f"closed {self.kind} "] * closed + [f"required {self.kind} "] * self.required
        starts += [f"{self.kind} ", *["required "] * self.required, ""]
        rule = next(RULES[start + event] for start in starts if start + event in RULES)
        verdict = CHANGES if self.is_absent else rule[0 if self.is_sent else 1]
        return Difference(verdict, text, self.pointer, in_ours)

    def canonical(self, *, closed: bool) -> jsonschema_rs.CanonicalSchema:
        """Return the canonical form of the facets; ``closed``: with declared members only."""
        schemas = [_Expansion(part.document, closed).of_facets(part.value) for part in self.schemas]
        return jsonschema_rs.canonicalize(
            {"allOf": schemas}, draft=jsonschema_rs.Draft202012, validate_formats=True
        )


Rows = Mapping[tuple[str, ...], Row]


# --- the rows of a document


def _rows(document: Document) -> Iterator[Row]:
    """Yield all that a document declares, what is around a row before it."""
    root = Part(document, document, ())
    paths, webhooks = root.get("paths"), root.get("webhooks")
    for name, (path, method, _) in named_operations(document).items():
        item, key = paths.get(path), f"{method.upper()} {without_names(path)}"
        own = Row("operation", "", f"operation {name}", (key,), ("paths", path, method), True)
        yield from _operation(name, own, item, method, path)
    for event in webhooks.value:
        yield from _events(f"webhook {event}", "", (), webhooks.get(event), is_sent=False)


def _events(
    label: str, subject: str, above: tuple[str, ...], item: Part, *, is_sent: bool
) -> Iterator[Row]:
    """Yield the operations of the path item of a webhook or callback, and what they declare."""
    for steps, _ in operations_of(item.value):
        method, pointer = steps[-1], (*item.pointer, *steps)
        shown = label if method == "post" else f"{label} {method}"
        own = Row("operation", subject, shown, (*above, f"{label} {method}"), pointer, is_sent)
        yield from _operation(own.title.replace(": ", ", "), own, item, method, "")


def _operation(name: str, own: Row, item: Part, method: str, path: str) -> Iterator[Row]:
    """Yield an operation and all that it declares of its requests, responses and callbacks."""
    operation = item.at({steps[-1]: steps for steps, _ in operations_of(item.value)}[method])
    yield replace(own, operation=operation, deprecated=operation.value.get("deprecated") is True)
    for parameter in _declared(item, operation):
        location, lower_name = parameter_key(parameter.value)
        names = path_names(path)  # a path has its parameters by place, whatever their names
        step = str(names.index(lower_name)) if lower_name in names else lower_name
        key = (*own.key, f"{location} parameter {step if location == 'path' else lower_name}")
        subject = f"{name}, parameter {parameter.value['name']}"
        label = f"{location} parameter '{lower_name}'"
        yield from _parameter(
            Row("parameter", name, label, key, (), own.is_sent), subject, parameter
        )
    body = operation.get("requestBody")
    if body.value:
        row = _below(own, "body", name, "request body", body)
        yield replace(row, required=body.value.get("required") is True)
        yield from _contents(f"{name}, request body", row, body)
    responses = operation.get("responses")
    for status in [status for status in responses.value if not str(status).startswith("x-")]:
        kind = "success" if str(status).startswith("2") else "error"
        response, taken = responses.get(status), replace(own, is_sent=not own.is_sent)
        row = _below(taken, kind, name, f"response {status}", response)
        yield replace(row, pointer=(*responses.pointer, status))
        yield from _contents(f"{name}, response {status}", row, response)
        headers = response.get("headers")
        for header in headers.value:
            subject = f"{name}, response {status}"
            declared = _below(row, "parameter", subject, f"header '{header.lower()}'", response)
            yield from _parameter(declared, f"{subject}, header {header}", headers.get(header))
    callbacks = operation.get("callbacks")
    if len(own.key) < _MAX_CALLBACKS:
        for label, item in _called(callbacks):
            yield from _events(label, name, own.key, item, is_sent=not own.is_sent)


_MAX_CALLBACKS: Final = 4
"""Callbacks of callbacks that are compared; a path item may contain itself."""


def _called(callbacks: Part) -> Iterator[tuple[str, Part]]:
    """Yield the path items of the callbacks of an operation, by what they are called."""
    for name in callbacks.value:
        callback = callbacks.get(name)
        for expression in callback.value:
            if not expression.startswith("x-"):
                yield f"callback {name} {expression}", callback.get(expression)


def _below(row: Row, kind: str, subject: str, label: str, part: Part) -> Row:
    """Return the row of a ``part`` of what another row is."""
    return Row(kind, subject, label, (*row.key, label), part.pointer, row.is_sent)


def _parameter(row: Row, subject: str, parameter: Part) -> Iterator[Row]:
    """Yield a parameter or header, and the value that it has."""
    yield replace(
        row,
        pointer=parameter.pointer,
        required=parameter.value.get("required") is True,
        deprecated=parameter.value.get("deprecated") is True,
    )
    if "schema" in parameter.value:
        yield from _value(subject, row, parameter)
    yield from _contents(subject, row, parameter)


def _contents(subject: str, around: Row, holder: Part) -> Iterator[Row]:
    content = holder.get("content")
    for media_type in content.value:
        media = content.get(media_type)
        row = _below(around, "media type", subject, f"media type {media_type}", media)
        yield row
        yield from _value(subject, row, media)


def _value(subject: str, around: Row, holder: Part) -> Iterator[Row]:
    schema = holder.value.get("schema", {})
    pointer = (*holder.pointer, "schema") if "schema" in holder.value else holder.pointer
    part = Part(holder.document, schema, pointer)
    row = replace(_below(around, "value", subject, "the value", part), required=True)
    yield from _members(row, part, "", frozenset())


def _declared(item: Part, operation: Part) -> Iterable[Part]:
    found = [
        owner.get("parameters").get(index)
        for owner in (item, operation)
        for index in range(len(owner.value.get("parameters", [])))
    ]
    return {parameter_key(parameter.value): parameter for parameter in found}.values()


# --- a row of both versions


def _changed(old: Row, new: Row) -> Iterator[Difference]:
    if old.operation is not None and new.operation is not None:
        yield from _operation_changed(old, old.operation, new, new.operation)
    if new.required != old.required:
        event = "now required" if new.required else "no longer required"
        yield new.change(event, f"{new.title} is {event}")
    if new.deprecated != old.deprecated:
        now = "deprecated" if new.deprecated else "no longer deprecated"
        yield new.change("deprecated", f"{new.title} is {now}")
    if old.facets == new.facets and not _refers(old) and not _refers(new):
        return
    taker, giver = (new, old) if new.is_sent else (old, new)
    try:
        if old.canonical(closed=False) == new.canonical(closed=False):
            return
        covered = taker.canonical(closed=False).covers(giver.canonical(closed=True))
    except ValueError:  # the canonical form does not support it
        covered = Containment.UNKNOWN
    event = "fits" if covered == Containment.YES else _misfit(old.facets, new.facets)
    text = f"{new.title} changed: {', '.join(_changes(old.facets, new.facets))}"
    yield new.change(event, text)


def _misfit(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Name the event: of two patterns, nobody knows which allows more."""
    only_pattern = {**old, "pattern": ""} == {**new, "pattern": ""}
    both = "pattern" in old and "pattern" in new
    return "pattern changed" if only_pattern and both else "does not fit"


def _operation_changed(old: Row, before: Part, new: Row, after: Part) -> Iterator[Difference]:
    """Yield changes of where an operation is, its name, and who may call it."""
    if len(old.key) == 1 and old.key != new.key:
        text = f"{new.title} moved from {_where(old)} to {_where(new)}"
        yield Difference(BREAKS, text, new.pointer)
    elif old.title != new.title:
        yield Difference(CHANGES, f"{old.title} is now {new.title}", new.pointer)
    required, accepted = _security(before), _security(after)
    if required != accepted:
        admits = all(any(_admits(way, had) for way in accepted) for had in required)
        text = f"{new.title}: who may call it changed (security)"
        yield Difference(CHANGES if admits or not new.is_sent else BREAKS, text, new.pointer)


def _where(operation: Row) -> str:
    _, path, method = operation.pointer
    return f"{str(method).upper()} {path}"


def _security(operation: Part) -> list[Mapping[str, list[str]]]:
    """Return the alternatives, of which a caller needs one; an empty one admits anyone."""
    wanted = operation.value.get("security", operation.document.get("security"))
    ways = {json.dumps(way, sort_keys=True): way for way in wanted or [{}]}
    return [ways[text] for text in sorted(ways)]


def _admits(way: Mapping[str, list[str]], had: Mapping[str, list[str]]) -> bool:
    """True if a caller who ``had`` credentials has all that a ``way`` requires."""
    return all(name in had and set(scopes) <= set(had[name]) for name, scopes in way.items())


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

    def at(self, steps: Iterable[str]) -> Part:
        """The part at the end of ``steps``."""
        part = self
        for step in steps:
            part = part.get(step)
        return part

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
    if isinstance(target.value, bool):
        schema = target = replace(target, value={} if target.value else {"not": {}})
    if not isinstance(target.value, Mapping) or target.pointer in above:
        return
    parts = _parts(schema, 0)
    inside = above | {part.pointer for part in parts}
    deprecated = any(part.value.get("deprecated") is True for part in parts)
    yield replace(row, schemas=tuple(parts), deprecated=deprecated)
    demanded = {key: part for part in parts for key in part.value.get("required", [])}
    start, declared = f"{name}." if name else "", set[str]()

    def member(path: str, pointer: Pointer, *, required: bool) -> Row:
        label = f"member {path}"
        key = (*row.key, label)
        return Row("member", row.subject, label, key, pointer, row.is_sent, required)

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
