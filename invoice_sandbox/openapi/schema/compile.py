"""The schemas of a contract, compiled once: is a value allowed, and if not, what is wrong with it.

Validation is jsonschema-rs, with formats asserted, as JSON Schema 2020-12. A schema may
name a meta-schema in ``$schema`` that is a component with that ``$id``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final

import jsonschema_rs
import orjson

from invoice_sandbox.base import jsonio
from invoice_sandbox.openapi.load.documents import Note
from invoice_sandbox.openapi.load.model import SCHEMA, Node, Pointer, node
from invoice_sandbox.openapi.load.pointers import identified, identified_nodes, steps_of
from invoice_sandbox.openapi.load.validate import DRAFT_2020_12, outermost_schemas
from invoice_sandbox.openapi.schema.annotations import (
    OF_THE_CLIENT,
    OF_THE_SERVER,
    Mark,
    is_marked_anywhere,
    marked_members,
    without,
)
from invoice_sandbox.openapi.schema.problems import Problem, is_missing, problem_of, problems_of

MAX_PROBLEMS: Final = 20
"""The most problems of one value that are put into words."""

MAX_BACKTRACKING: Final = 10_000
"""Steps to match one text with a pattern that has look-around or back references."""

_PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKING)
_BASE: Final = "https://contract.invalid/schemas"
_HERE: Final = "https://contract.invalid/schema"
"""The address that the references of a schema start from: beside that of the components."""

_ERRORS: Final = (ValueError, jsonschema_rs.ReferencingError)
_OWN_ADDRESS: Final = re.compile(
    rb'"\$(?:ref":"(?!#/components/schemas/)|(?:id|anchor|schema|dynamic\w+|recursive\w+)":)'
)
"""A keyword by which a schema differs from the same schema inside of another, in its JSON."""

Schema = Mapping[str, Any] | bool
COMPONENTS: Final = "#/components/schemas/"


class SchemaError(ValueError):
    """A schema that cannot be compiled; the message says where it is, and why."""


@dataclass(frozen=True)
class Compiled:
    """A compiled schema; ``parts`` are it and the components that it leads to, by their names."""

    validator: Any
    parts: Mapping[str, _Portable]

    @cached_property
    def pattern_examples(self) -> Mapping[str, str]:
        """Texts that match, by pattern."""
        return {key: text for part in self.parts.values() for key, text in part.examples.items()}

    @cached_property
    def alternatives(self) -> int:
        """The most alternatives that one of the schemas has."""
        return max(part.alternatives for part in self.parts.values())

    @cached_property
    def is_recursive(self) -> bool:
        """True if a component leads back to itself."""
        return any(name in _below(name, self.parts) for name in self.parts)

    def errors(self, value: Any) -> list[jsonschema_rs.ValidationError]:
        """Return what is wrong with an invalid ``value``: all of it, or the first error of a large
        one, or nothing if that error has those of several alternatives."""
        growth = self.alternatives**2 if self.is_recursive else 1
        if _is_small(value, growth):
            return list(self.validator.iter_errors(value))
        if self.alternatives == 1:
            try:
                self.validator.validate(value)
            except jsonschema_rs.ValidationError as error:
                return [error]
        return []


class Checker:
    """One schema, compiled when it is first used."""

    def __init__(self, compiled: Callable[[], Compiled]) -> None:
        """``compiled`` compiles it."""
        self._compile = compiled

    @cached_property
    def _compiled(self) -> Compiled:
        return self._compile()

    @cached_property
    def is_valid(self) -> Callable[[Any], bool]:
        """True for a value that the schema allows."""
        is_valid: Callable[[Any], bool] = self._compiled.validator.is_valid
        return is_valid

    def problems(self, value: Any) -> tuple[Problem, ...]:
        """Return all that is wrong with ``value``, in the order of the schema."""
        if self.is_valid(value):
            return ()
        compiled = self._compiled
        return tuple(
            problem_of(error, compiled.pattern_examples) for error in compiled.errors(value)
        )

    def explain(self, value: Any) -> tuple[tuple[Problem, ...], int]:
        """Return what is wrong with an invalid ``value``, missing members first, and how much in
        all: a hostile value can be wrong in 100,000 places.

        At most ``MAX_PROBLEMS`` are put into words.
        """
        errors = sorted(self._compiled.errors(value), key=lambda error: not is_missing(error))
        if not errors:
            return (_UNEXPLAINED,), 1
        shown, examples = errors[:MAX_PROBLEMS], self._compiled.pattern_examples
        found = [problem for error in shown for problem in problems_of(error, examples)]
        return tuple(found[:MAX_PROBLEMS]), len(errors) - len(shown) + len(found)


_MAX_EXPLAINED: Final = 10_000
"""Members and items of a value of which every error is reported. Where a schema leads back to
itself, those of each level count more by the square of the number of alternatives."""

_UNEXPLAINED: Final = Problem("", "does not satisfy its schema", "")


def _is_small(value: Any, growth: int) -> bool:
    """True if a value has no more than _MAX_EXPLAINED members and items, however deep."""
    waiting, count = [(value, 1)], 0
    while waiting and count <= _MAX_EXPLAINED:
        inner, weight = waiting.pop()
        if isinstance(inner, (dict, list)):
            count += weight * len(inner)
            parts = inner.values() if isinstance(inner, dict) else inner
            waiting += ((part, weight * growth) for part in parts)
    return count <= _MAX_EXPLAINED


def _below(name: str, parts: Mapping[str, _Portable]) -> set[str]:
    """Return the names of the components that a component leads to."""
    found, waiting = set[str](), [name]
    while waiting:
        below = parts[waiting.pop()].components.keys() & parts.keys()
        waiting += below - found
        found |= below
    return found


def _most_alternatives(schema: Any) -> int:
    """Return the length of the longest ``anyOf`` or ``oneOf``, however deep; 1 without any."""
    if isinstance(schema, list):
        return max(map(_most_alternatives, schema), default=1)
    if not isinstance(schema, Mapping):
        return 1
    lists = (schema.get(key) for key in ("anyOf", "oneOf"))
    counts = [len(listed) for listed in lists if isinstance(listed, list)]
    return max([1, *counts, *map(_most_alternatives, schema.values())])


class Schemas:
    """Compiles the schemas of one OpenAPI document; components are shared by all of them.

    ``identified`` are those with an identifier, by their address.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        not_required: Mark | None = None,
        known: dict[str, Any] | None = None,
    ) -> None:
        """Members marked as ``not_required`` are not required of a value. ``known`` is what the
        document gives an identifier (None: it is looked for).
        """
        self.identified = identified(document) if known is None else known
        self.not_required = not_required
        self._checkers: dict[str, Checker] = {}
        self._compiled: dict[str, Compiled] = {}
        self._components: Mapping[str, Schema] = document.get("components", {}).get("schemas", {})
        if len(self.identified) > 1:
            self._components = {**_identified_elsewhere(document), **self._components}
        self._portable_components: dict[str, _Portable] = {}

    @cached_property
    def _registry(self) -> jsonschema_rs.Registry:
        """The components. Raises SchemaError."""
        defs = {name: self._portable_component(name).schema for name in self._components}
        resource = {"$schema": DRAFT_2020_12, "$defs": defs}
        try:
            return jsonschema_rs.Registry([(_BASE, resource)], draft=jsonschema_rs.Draft202012)
        except _ERRORS as error:
            raise SchemaError(f"components.schemas: {_reason(error)}") from None

    def checker(self, schema: Schema, place: str) -> Checker:
        """Return the checker for a ``schema`` of the document that ``check`` finds right.

        ``place`` says where the schema is, for messages.
        """
        return Checker(partial(self._compile, schema, place))

    def compile(self, schema: Schema, place: str) -> Checker:
        """Return the checker for any schema, compiled now. Raises SchemaError."""
        compiled = self._compile(schema, place)
        return Checker(lambda: compiled)

    def check(self, document: Mapping[str, Any]) -> Iterator[Note]:
        """Yield the schemas of a document that cannot be compiled. Raises SchemaError.

        A component counts where it is used. Schemas are compiled as one, which takes a fraction of
        the time. Each is compiled by itself if that fails, and one with addresses or references of
        its own always.
        """
        every = outermost_schemas(node(document))
        declared = [here for here in every if here.pointer[:2] != ("components", "schemas")]
        texts = [_text_of(here.value) for here in declared]
        together = dict.fromkeys(text for text in texts if text and not _OWN_ADDRESS.search(text))
        if self._can_be_compiled(together):
            pairs = zip(declared, texts, strict=True)
            declared = [here for here, text in pairs if text not in together]
        for here in declared:
            try:
                self._compile(here.value, "")
            except SchemaError as error:
                yield Note(here.pointer, str(error).removeprefix(": "))

    def _can_be_compiled(self, texts: Iterable[bytes]) -> bool:
        """True if all the schemas, which are JSON, can be compiled."""
        whole = b'{"anyOf":[%b]}' % b",".join([b"true", *texts])
        short, absolute = (
            b'"$ref":"%b' % start.encode() for start in (COMPONENTS, _absolute(COMPONENTS))
        )
        registry = self._registry  # whose error is not that of a schema
        try:
            _validator_of(orjson.loads(whole.replace(short, absolute)), registry)
        except _ERRORS:
            return False
        return True

    def _compile(self, schema: Schema, place: str) -> Compiled:
        portable = self._portable(schema)
        key = repr(portable.schema)
        if key in self._compiled:
            return self._compiled[key]
        try:
            validator = _validator_of(portable.schema, self._registry)
        except _ERRORS as error:
            raise SchemaError(f"{place}: {_reason(error)}") from None
        compiled = Compiled(validator, {"": portable, **self._reached(portable)})
        self._compiled[key] = compiled  # documents repeat themselves: one error body everywhere
        return compiled

    def component(self, name: str) -> Checker:
        """Return the checker of a component schema, compiled when first asked for."""
        if name not in self._checkers:
            self._checkers[name] = self.compile({"$ref": COMPONENTS + name}, name)
        return self._checkers[name]

    def resolve(self, reference: str) -> Schema:
        """The component schema that ``reference`` names. Raises SchemaError if there is none."""
        name = reference.removeprefix(COMPONENTS)
        if not reference.startswith(COMPONENTS) or name not in self._components:
            raise SchemaError(f"{reference} names no component schema")
        return self._components[name]

    def _portable(self, schema: Any) -> _Portable:
        """``schema`` with component references made absolute.

        It requires no member that is ``not_required``.
        """
        own = identified_nodes(schema, SCHEMA) if len(self.identified) > 1 else ()
        found = _Portable(own={name for name, _ in own})
        found.schema = self._copy(node(schema, SCHEMA), frozenset(), found)
        return found

    def _portable_component(self, name: str) -> _Portable:
        if name not in self._portable_components:
            self._portable_components[name] = self._portable(self._components[name])
        return self._portable_components[name]

    def _reached(self, start: _Portable) -> Mapping[str, _Portable]:
        """The components that a value of a schema may have to be valid under; all of them, if there
        are identifiers by which one may be named."""
        names = [*self._components] if len(self.identified) > 1 else [*start.components]
        found: dict[str, _Portable] = {}
        while names:
            name = names.pop()
            if name in self._components and name not in found:
                found[name] = self._portable_component(name)
                names += found[name].components
        return found

    def _copy(self, here: Node, not_required: frozenset[str], found: _Portable) -> Any:
        """``not_required`` are members that the schemas around ``here`` do not require."""
        if not here.is_schema:
            return here.copy(lambda child: self._copy(child, frozenset(), found))
        schema = here.value
        if self.not_required is not None:
            not_required |= marked_members(schema, self.not_required, self.resolve)
        if "pattern" in schema and isinstance(schema.get("examples"), list):
            found.examples[str(schema["pattern"])] = " or ".join(map(str, schema["examples"]))
        return {
            key: self._member(here.child(key, value), not_required, found)
            if isinstance(value, (dict, list))
            else self._word(key, value, here.base, found)
            for key, value in _in_range(schema).items()
        }

    def _member(self, here: Node, not_required: frozenset[str], found: _Portable) -> Any:
        if here.pointer[-1] == "required":
            return without(here.value, not_required)
        if here.pointer[-1] == "allOf" and isinstance(here.value, list):
            return [self._copy(part, not_required, found) for _, part in here.children()]
        return self._copy(here, frozenset(), found)

    def _word(self, key: str, value: Any, base: str, found: _Portable) -> Any:
        if key in {"$ref", "$dynamicRef"} and isinstance(value, str):
            if value.startswith(COMPONENTS):
                found.components[steps_of(value[1:])[2]] = None
            is_anchor = value.startswith("#") and not base and value in self.identified
            return _BASE + value if is_anchor and value not in found.own else _absolute(value)
        if key == "$schema" and isinstance(value, str):
            return value if value in self.identified else DRAFT_2020_12
        return value


@dataclass
class _Portable:
    """A schema that can be compiled apart from its document, the identifiers in it, the examples of
    its patterns, and the components that it names."""

    schema: Any = None
    own: Collection[str] = ()
    examples: dict[str, str] = field(default_factory=dict)
    components: dict[str, None] = field(default_factory=dict)

    @cached_property
    def alternatives(self) -> int:
        """The length of its longest ``anyOf`` or ``oneOf``; 1 without any."""
        return _most_alternatives(self.schema)


def _reason(error: Exception) -> str:
    """Return why a schema cannot be compiled, for people."""
    text = str(error).splitlines()[0]
    lost = _LOST.match(text)
    return f"cannot resolve reference '{lost['reference']}'" if lost else text


_LOST: Final = re.compile(r"Resource '(?P<reference>.*?)' is not present in a registry")


def _text_of(schema: Schema) -> bytes | None:
    """Return the schema as JSON; None if it is not."""
    try:
        return jsonio.dumps(schema)
    except (TypeError, RecursionError):
        return None


def request_response_schemas(document: Mapping[str, Any]) -> tuple[Schemas, Schemas]:
    """Return the schemas of what clients send, and those of what the server sends: the same ones,
    unless a member is ``readOnly`` or ``writeOnly``. Raises SchemaError."""
    known = identified(document)
    marks = [
        mark if is_marked_anywhere(document, mark) else None
        for mark in (OF_THE_SERVER, OF_THE_CLIENT)
    ]
    request = Schemas(document, marks[0], known)
    return request, Schemas(document, marks[1], known) if any(marks) else request


def _identified_elsewhere(document: Mapping[str, Any]) -> dict[str, Any]:
    """The schemas with an identifier in the document that are not part of a component, nor of each
    other, by their identifiers."""
    found, places = dict[str, Any](), set[Pointer]({("components", "schemas")})
    for name, here in identified_nodes(document):
        above = {here.pointer[:length] for length in range(len(here.pointer) + 1)}
        if places.isdisjoint(above):
            found[name] = here.value
            places.add(here.pointer)
    return found


def _validator_of(portable: Any, registry: jsonschema_rs.Registry) -> Any:
    return jsonschema_rs.Draft202012Validator(
        portable,
        registry=registry,
        base_uri=_HERE,
        validate_formats=True,
        offline=True,
        pattern_options=_PATTERNS,
    )


def _in_range(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema with the range of its format ``int32`` or ``int64``, which jsonschema-rs
    does not assert: it asks for the formats of texts only."""
    bits = _BITS.get(schema.get("format", ""))
    if bits is None:
        return schema
    end = 2 ** (bits - 1)
    least, most = schema.get("minimum", -end), schema.get("maximum", end - 1)
    return {**schema, "minimum": max(least, -end), "maximum": min(most, end - 1)}


_BITS: Final = {"int32": 32, "int64": 64}


def _absolute(reference: str) -> str:
    if reference.startswith(COMPONENTS):
        return f"{_BASE}#/$defs/{reference.removeprefix(COMPONENTS)}"
    return reference
