"""The canonical form of a schema: what jsonschema-rs works out, and what is asked of it.

Every schema that another refers to has an address of its own, and is read when it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, unquote

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical
from jsonschema_rs.canonical import CanonicalKind

from invoice_sandbox.openapi.load.model import SCHEMA, Node, node

Schema = Mapping[str, Any] | bool
Resolve = Callable[[str], Schema]

_ADDRESS: Final = "schema:/"


class CannotGenerate(ValueError):  # noqa: N818 - the name is part of the interface
    """No valid value was found; the message says where in the schema, why, and what to do."""


def cannot(failure: str) -> CannotGenerate:
    return CannotGenerate(f"{failure}; add an example to the operation or the schema")


class Sources:
    """Gives the canonical form every schema under an address of its own, when it is needed.

    A form contains whatever its references lead to: in a large document, nearly everything. So
    ``by_level`` a member or an item with references is an address, too, whose form is worked out
    when a value for it is built. What such parts exclude together is not seen then.
    """

    def __init__(self, resolve: Resolve, by_level: bool) -> None:
        self.resolve = resolve
        self._by_level = by_level
        self._known: dict[str, Any] = {}
        self._forms: dict[str, CanonicalSchema] = {}
        self._parts: dict[str, Any] = {}
        self._opened: dict[str, CanonicalSchema | None] = {}

    def canonical(self, schema: Schema) -> CanonicalSchema:
        """The canonical form of ``schema``. Raises CannotGenerate if no value satisfies it."""
        addressed = self.addressed(schema)
        form = self._form(addressed)
        if form.satisfiability() == canonical.Satisfiability.NO:
            raise cannot(self._conflict(addressed))
        return form

    def opened(self, form: CanonicalSchema) -> CanonicalSchema:
        """``form``, or the one of the member or item that it is the address of."""
        if form.kind != CanonicalKind.REFERENCE:
            return form
        view: Any = form.view()
        if view.uri not in self._opened:
            part = self._parts.get(unquote(view.uri.removeprefix(_CANONICAL)))
            self._opened[view.uri] = None if part is None else self._form(part)
        return self._opened[view.uri] or form

    def _form(self, addressed: Any) -> CanonicalSchema:
        key = json.dumps(addressed, default=str)
        if key not in self._forms:
            if len(self._forms) >= _MAX_FORMS[self._by_level]:
                self._forms.clear()
            self._forms[key] = self._worked_out(addressed)
        return self._forms[key]

    def _worked_out(self, addressed: Any) -> CanonicalSchema:
        try:
            return canonical_form(addressed, self.retrieve)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            problem = str(error).splitlines()[0]
            raise cannot("#: " + (problem.rpartition(_MISSING)[2] or problem)) from None

    def retrieve(self, uri: str) -> Any:
        """The schema at an address given here. Raises LookupError."""
        if uri in self._parts:
            return True
        if uri not in self._known:
            reference = unquote(uri.removeprefix(_ADDRESS))
            try:
                self._known[uri] = self.addressed(self.resolve(reference))
            except RecursionError:
                problem = f"the schema {reference} is nested too deeply"
                raise LookupError(_MISSING + problem) from None
            except (LookupError, ValueError) as error:
                official = reference[reference.find(_OFFICIAL) :]
                if not official.startswith(_OFFICIAL):
                    problem = f"the reference {reference} is not resolved: {error}"
                    raise LookupError(_MISSING + problem) from None
                self._known[uri] = {"$ref": official}
        return self._known[uri]

    def addressed(self, schema: Schema) -> Any:
        """A copy of ``schema`` whose references are full addresses."""
        return self._addressed(node(schema, SCHEMA))

    def _addressed(self, here: Node) -> Any:
        if not here.is_schema:
            return here.copy(self._addressed)
        written = here.copy(self._keyword)
        if here.reference is not None:
            written["$ref"] = _ADDRESS + quote(here.reference, safe="")
        return {key: value for key, value in written.items() if key not in IDENTITY}

    def _keyword(self, here: Node) -> Any:
        if not self._by_level or here.pointer[-1] not in _BELOW:
            return self._addressed(here)
        return self._part(here) if here.type == SCHEMA else here.copy(self._part)

    def _part(self, here: Node) -> Any:
        """A member or an item: its address, if it has references."""
        part = self._addressed(here)
        text = json.dumps(part, default=str)
        if '"$ref": ' not in text:
            return part
        address = f"part:/{sha256(text.encode()).hexdigest()}"
        self._parts[address] = part
        return {"$ref": address}

    def _conflict(self, addressed: Any) -> str:
        """The deepest place where no value satisfies a schema, and the keywords that conflict."""
        for _ in range(_MAX_REFERENCES):
            if not isinstance(addressed, Mapping) or list(addressed) != ["$ref"]:
                break
            addressed = self.retrieve(addressed["$ref"])
        reasons = canonical.find_unsatisfiable(
            addressed,
            draft=jsonschema_rs.Draft202012,
            validate_formats=True,
            retriever=self.retrieve,
        )
        if not reasons:  # no keywords conflict
            return "#: a value would have no end: what the schema requires leads back to itself"
        literal = canonical.UnsatisfiableReason.Literal
        conflicts = [one for one, why in reasons.items() if not isinstance(why, literal)]
        pointer = max(conflicts, key=len, default="")
        reason: Any = reasons.get(pointer)
        causes = getattr(reason, "causes", [getattr(reason, "cause", None)])
        words = ", ".join(word for cause in causes if cause for word in cause.keywords)
        return f"#{pointer}: its keywords exclude each other{words and f' ({words})'}"


sources_of = lru_cache(maxsize=16)(Sources)
_MAX_FORMS: Final = {False: 256, True: 16_384}
_BELOW: Final = frozenset(
    {"properties", "patternProperties", "additionalProperties", "items", "prefixItems"}
)
_CANONICAL: Final = "urn:jsonschema:canonical:"
_MAX_REFERENCES: Final = 10
_MISSING: Final = "reference: "
_OFFICIAL: Final = "https://json-schema.org/draft/"
IDENTITY: Final = frozenset({"$id", "$anchor", "$dynamicAnchor", "$schema", "$defs", "definitions"})


def canonical_form(schema: Any, retriever: Callable[[str], Any] | None = None) -> CanonicalSchema:
    return jsonschema_rs.canonicalize(
        schema, draft=jsonschema_rs.Draft202012, validate_formats=True, retriever=retriever
    )


@cache
def any_value() -> CanonicalSchema:
    return canonical_form({})


@cache
def type_alone(name: str) -> CanonicalSchema:
    return canonical_form({"type": name})


@cache
def plain_form(name: str) -> CanonicalSchema:
    """The form of common values of a type: a type alone has no view of its own."""
    return canonical_form({"type": name, **_COMMON[name]})


_COMMON: Final[Mapping[str, Mapping[str, Any]]] = {
    "string": {"minLength": 1},
    "integer": {"minimum": 1, "maximum": 100},
    "number": {"minimum": 1, "maximum": 100},
    "array": {"maxItems": 1_000},
    "object": {"maxProperties": 1_000},
}


@lru_cache(maxsize=1024)
def checker(form: CanonicalSchema) -> Callable[[Any], bool]:
    schema: Any = form.to_json_schema()
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True, offline=True).is_valid


def accepts(form: CanonicalSchema, value: Any) -> bool:
    """Whether ``form`` allows the value, as far as that is seen without what it contains."""
    return form.kind not in _LEAVES or checker(form)(value)


_LEAVES: Final = (
    *(CanonicalKind.STRING, CanonicalKind.INTEGER, CanonicalKind.NUMBER, CanonicalKind.MULTI_TYPE),
    *(CanonicalKind.CONST, CanonicalKind.ENUM, CanonicalKind.TRUE, CanonicalKind.FALSE),
)


@lru_cache(maxsize=1024)
def without(form: CanonicalSchema, excluded: CanonicalSchema) -> CanonicalSchema:
    """``form`` less what ``excluded`` allows; ``form`` itself where that is not to be worked out.

    The result of a subtraction grows with both, and the next one starts from it. From a large form
    whatever lacks one member that is required, or has one of another type, is therefore kept.
    """
    is_small = _size(form) + _size(excluded) <= _MAX_SUBTRACTED
    for one in [excluded] if is_small else _wider(excluded):
        with suppress(canonical.CanonicalizationError):  # left to the validator
            rest = form.subtract(one)
            if is_small or rest.kind != CanonicalKind.FALSE:
                return rest
    return form


def _wider(form: CanonicalSchema) -> Iterator[CanonicalSchema]:
    """Forms that allow more than ``form``: each by a single member."""
    match form.view():
        case canonical.ReferenceView(uri=uri):
            target = form.definition(uri)
            if target is not None and target.kind != CanonicalKind.REFERENCE:
                yield from _wider(target)
        case canonical.TypedGroupView(body=body):
            yield from _wider(body)
        case canonical.ObjectView() as view:
            for name in view.required:
                yield canonical_form({"type": "object", "required": [name]})
            for name, member in view.properties.items():
                written: Any = member.to_json_schema()
                plain = {key: written[key] for key in ("type", "const", "enum") if key in written}
                yield canonical_form({"type": "object", "properties": {name: plain}})


@lru_cache(maxsize=4096)
def _size(form: CanonicalSchema) -> int:
    return len(json.dumps(form.to_json_schema(), default=str))


_MAX_SUBTRACTED: Final = 4_000
"""Characters of two forms as JSON."""


def supported(schema: Any) -> Any:
    if isinstance(schema, list):
        return [supported(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    rest = {key: value for key, value in schema.items() if key not in _UNSUPPORTED}
    return {key: supported(value) for key, value in rest.items()}


_UNSUPPORTED: Final = frozenset({"unevaluatedProperties", "unevaluatedItems", "not"})


def item_form(view: Any, index: int) -> CanonicalSchema:
    if index < len(view.prefix_items):
        prefix: Sequence[CanonicalSchema] = view.prefix_items
        return prefix[index]
    items: CanonicalSchema | None = view.items
    return any_value() if items is None else items


def matches(pattern: str, name: str) -> bool:
    return checker(canonical_form({"type": "string", "pattern": pattern}))(name)
