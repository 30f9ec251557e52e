"""The schemas of a contract, compiled once: is a value allowed, and if not, what is wrong with it.

Validation is jsonschema-rs, with formats asserted, as JSON Schema 2020-12. A schema may
name a meta-schema in ``$schema`` that is a component with that ``$id``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final

import jsonschema_rs
import orjson

from invoice_sandbox.base import jsonio
from invoice_sandbox.openapi.load.model import SCHEMA, Node, Pointer, node
from invoice_sandbox.openapi.load.pointers import identified, identified_nodes, steps_of
from invoice_sandbox.openapi.load.validate import DRAFT_2020_12
from invoice_sandbox.openapi.schema.annotations import (
    OF_THE_CLIENT,
    OF_THE_SERVER,
    Mark,
    is_marked_anywhere,
    marked_members,
    without,
)
from invoice_sandbox.openapi.schema.problems import Problem, is_missing, problem_of, problems_of

__all__ = [
    "COMPONENTS",
    "Checker",
    "Compiled",
    "Problem",
    "RequestResponseSchemas",
    "Schema",
    "SchemaError",
    "Schemas",
    "request_response_schemas",
]

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

Declared = dict[int, tuple["Schema", str]]
"""Schemas and their places, by their identity."""


class SchemaError(ValueError):
    """Schemas that cannot be compiled; the message says where the first is, and why.

    ``found`` are all that were looked at, each with the reason.
    """

    def __init__(self, message: str, found: Sequence[tuple[Any, str]] = ()) -> None:
        super().__init__(message)
        self.found = found


@dataclass(frozen=True)
class Compiled:
    """A compiled schema. ``parts`` are the schemas that a value must satisfy, as JSON;
    ``pattern_examples`` are texts that match, by pattern. ``growth`` is how many times as much work
    it may be to explain a value that is nested one level deeper."""

    is_valid: Callable[[Any], bool]
    iterate: Callable[[Any], Iterable[jsonschema_rs.ValidationError]]
    validate: Callable[[Any], None]
    parts: Sequence[Schema]
    pattern_examples: Mapping[str, str]
    growth: int

    def first_errors(self, value: Any) -> list[jsonschema_rs.ValidationError]:
        """Return the first error of a value; none if alternatives may have made it, which has the
        errors of each."""
        if not any(_has_alternatives(part) for part in self.parts):
            try:
                self.validate(value)
            except jsonschema_rs.ValidationError as error:
                return [error]
        return []


def _has_alternatives(schema: Schema) -> bool:
    return not _ALTERNATIVES.isdisjoint(_keywords(schema))


def _keywords(value: Any) -> Iterator[str]:
    """Yield every name of a member, however deep."""
    if isinstance(value, Mapping):
        yield from value
        for part in value.values():
            yield from _keywords(part)
    elif isinstance(value, list):
        for part in value:
            yield from _keywords(part)


_ALTERNATIVES: Final = frozenset({"anyOf", "oneOf"})


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
        """Whether the schema allows a value."""
        return self._compiled.is_valid

    def problems(self, value: Any) -> tuple[Problem, ...]:
        """Everything wrong with ``value``, in the order of the schema; empty when it is valid."""
        if self.is_valid(value):
            return ()
        examples = self._compiled.pattern_examples
        return tuple(problem_of(one, examples) for one in self._errors(value))

    def explain(self, value: Any) -> tuple[tuple[Problem, ...], int]:
        """What is wrong with an invalid ``value``, missing members first, and how much in all.

        At most ``MAX_PROBLEMS`` are put into words.
        """
        errors = sorted(self._errors(value), key=lambda one: not is_missing(one))
        if not errors:
            return (_UNEXPLAINED,), 1
        shown, examples = errors[:MAX_PROBLEMS], self._compiled.pattern_examples
        found = [one for error in shown for one in problems_of(error, examples)]
        return tuple(found[:MAX_PROBLEMS]), len(errors) - len(shown) + len(found)

    def first_problem(self, value: Any) -> tuple[Problem, int]:
        """The first thing wrong with an invalid ``value``, and how many there are in all.

        Only the first is put into words: a hostile value can be wrong in 100,000 places.
        """
        errors = self._errors(value)
        if not errors:
            return _UNEXPLAINED, 1
        return problem_of(errors[0], self._compiled.pattern_examples), len(errors)

    def _errors(self, value: Any) -> list[jsonschema_rs.ValidationError]:
        """Return what is wrong with an invalid ``value``: all of it, of a large one the first
        error, or nothing if that one consists of the errors of several alternatives."""
        if _is_small(value, self._compiled.growth):
            return list(self._compiled.iterate(value))
        return self._compiled.first_errors(value)


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


def _growth(parts: Mapping[str, _Portable]) -> int:
    """Return the square of the most alternatives of a schema, if one leads back to itself, else 1:
    an error has those of each alternative, which have those of their alternatives."""
    if not any(name in _below(name, parts) for name in parts):
        return 1
    return max(_most_alternatives(part.schema) for part in parts.values()) ** 2


def _below(name: str, parts: Mapping[str, _Portable]) -> set[str]:
    """Return the components that one leads to."""
    found, waiting = set[str](), [name]
    while waiting:
        below = parts[waiting.pop()].components.keys() & parts.keys()
        waiting += below - found
        found |= below
    return found


def _most_alternatives(schema: Any) -> int:
    inner = schema.values() if isinstance(schema, Mapping) else schema
    if not isinstance(schema, (Mapping, list)):
        return 1
    own = [schema.get(key, ()) for key in _ALTERNATIVES] if isinstance(schema, Mapping) else []
    counts = (len(each) for each in own if isinstance(each, list))
    return max(1, *counts, *map(_most_alternatives, inner))


class Schemas:
    """Compiles the schemas of one OpenAPI document; components are shared by all of them.

    ``identified`` are those with an identifier, by their address.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        not_required: Mark | None = None,
        known: dict[str, Any] | None = None,
        unchecked: Declared | None = None,
    ) -> None:
        """Members marked as ``not_required`` are not required of a value. ``known`` is what the
        document gives an identifier (None: it is looked for). ``unchecked`` gets the schemas that
        have a checker, unless they are known to be right.
        """
        self.identified = identified(document) if known is None else known
        self._unchecked = unchecked
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
        try:
            return _registry_of(defs)
        except _ERRORS as error:
            found = [*self._with_error(defs, str(error))]
            raise SchemaError(f"components.schemas: {error}", found) from None

    def _with_error(self, defs: Mapping[str, Any], text: str) -> Iterator[tuple[Schema, str]]:
        """The components with which a registry has an error of this text, or one of their own, and
        the reason: what one refers to may be found in another one."""
        others = dict.fromkeys(defs, True)
        for name, one in defs.items():
            try:
                _registry_of({**others, name: one})
            except _ERRORS as error:
                if str(error) == text or not _LOST.match(str(error)):
                    yield self._components[name], _reason(error)

    def checker(self, schema: Schema, place: str) -> Checker:
        """The checker for a ``schema`` of the document, which ``check`` has to find right.

        ``place`` says where the schema is, for messages.
        """
        if self._unchecked is not None:
            self._unchecked.setdefault(id(schema), (schema, place))
        return Checker(partial(self._compile, schema, place))

    def compile(self, schema: Schema, place: str) -> Checker:
        """The same for any schema, compiled now. Raises SchemaError."""
        compiled = self._compile(schema, place)
        return Checker(lambda: compiled)

    def check(self, declared: Iterable[tuple[Schema, str]]) -> None:
        """Raise SchemaError if one of the schemas cannot be compiled.

        They are compiled as one, which takes a fraction of the time. Each is compiled by itself if
        that fails, to find which, and one with addresses or references of its own always.
        """
        together, alone = dict[bytes, tuple[Schema, str]](), list[tuple[Schema, str]]()
        for schema, place in declared:
            text = _text_of(schema)
            if text is None or _OWN_ADDRESS.search(text):
                alone.append((schema, place))
            else:
                together.setdefault(text, (schema, place))
        whole = b'{"anyOf":[%b]}' % b",".join([b"true", *together])
        own, absolute = (
            b'"$ref":"%b' % one.encode() for one in (COMPONENTS, _absolute(COMPONENTS))
        )
        registry = self._registry  # whose error is not that of a schema
        try:
            portable = orjson.loads(whole.replace(own, absolute))
            _validator_of(portable, registry)
        except _ERRORS:
            alone = [*together.values(), *alone]
        errors = list[SchemaError]()
        for schema, place in alone:
            try:
                self._compile(schema, place)
            except SchemaError as error:
                errors.append(error)
        if errors:
            raise SchemaError(str(errors[0]), [found for one in errors for found in one.found])

    def _compile(self, schema: Schema, place: str) -> Compiled:
        portable = self._portable(schema)
        key = repr(portable.schema)
        if key in self._compiled:
            return self._compiled[key]
        try:
            compiled = _validator_of(portable.schema, self._registry)
        except _ERRORS as error:
            reason = _reason(error)
            raise SchemaError(f"{place}: {reason}", [(schema, reason)]) from None
        reached = self._reached(portable)
        every = (portable, *reached.values())
        examples = {text: shown for part in every for text, shown in part.examples.items()}
        parts = [part.schema for part in every]
        found = Compiled(
            compiled.is_valid,
            compiled.iter_errors,
            compiled.validate,
            parts,
            examples,
            _growth(reached),
        )
        self._compiled[key] = found  # documents repeat themselves: one error body everywhere
        return found

    def component(self, name: str) -> Checker:
        """The checker of a component schema, compiled when first asked for."""
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
            return here.copy_containers(lambda child: self._copy(child, frozenset(), found))
        schema = here.value
        if self.not_required is not None:
            not_required |= marked_members(schema, self.not_required, self.resolve)
        if "pattern" in schema and isinstance(schema.get("examples"), list):
            found.examples[str(schema["pattern"])] = " or ".join(map(str, schema["examples"]))
        return {
            key: self._member(here.child(key, value), not_required, found)
            if isinstance(value, (dict, list))
            else self._word(key, value, here.base, found)
            for key, value in schema.items()
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


def _reason(error: Exception) -> str:
    """Why a schema cannot be compiled, for people."""
    text = str(error).splitlines()[0]
    lost = _LOST.match(text)
    return f"cannot resolve reference '{lost['reference']}'" if lost else text


_LOST: Final = re.compile(r"Resource '(?P<reference>.*?)' is not present in a registry")


def _text_of(schema: Schema) -> bytes | None:
    """The schema as JSON; None if it is not."""
    try:
        return jsonio.dumps(schema)
    except (TypeError, RecursionError):
        return None


@dataclass(frozen=True)
class RequestResponseSchemas:
    """The schemas of what clients send, and those of what the server sends."""

    request: Schemas
    response: Schemas
    unchecked: Declared | None = None

    def check(self) -> None:
        """Raise SchemaError if a schema that has a checker cannot be compiled."""
        if self.unchecked is not None:
            self.response.check(self.unchecked.values())
            self.unchecked.clear()


def request_response_schemas(document: Mapping[str, Any]) -> RequestResponseSchemas:
    """One for both, unless a member is ``readOnly`` or ``writeOnly``. Raises SchemaError."""
    known = identified(document)
    unchecked: Declared = {}
    marks = [
        mark if is_marked_anywhere(document, mark) else None
        for mark in (OF_THE_SERVER, OF_THE_CLIENT)
    ]
    request = Schemas(document, marks[0], known, unchecked)
    if not any(marks):
        return RequestResponseSchemas(request, request, unchecked)
    response = Schemas(document, marks[1], known, unchecked)
    return RequestResponseSchemas(request, response, unchecked)


def _identified_elsewhere(document: Mapping[str, Any]) -> dict[str, Any]:
    """The schemas with an identifier in the document that are no part of a component, nor of each
    other, by their identifiers."""
    found, places = dict[str, Any](), set[Pointer]({("components", "schemas")})
    for name, one in identified_nodes(document):
        above = {one.pointer[:length] for length in range(len(one.pointer) + 1)}
        if places.isdisjoint(above):
            found[name] = one.value
            places.add(one.pointer)
    return found


def _registry_of(defs: Mapping[str, Any]) -> jsonschema_rs.Registry:
    resource = {"$schema": DRAFT_2020_12, "$defs": defs}
    return jsonschema_rs.Registry([(_BASE, resource)], draft=jsonschema_rs.Draft202012)


def _validator_of(portable: Any, registry: jsonschema_rs.Registry) -> Any:
    return jsonschema_rs.Draft202012Validator(
        portable,
        registry=registry,
        base_uri=_HERE,
        validate_formats=True,
        offline=True,
        pattern_options=_PATTERNS,
    )


def _absolute(reference: str) -> str:
    if reference.startswith(COMPONENTS):
        return f"{_BASE}#/$defs/{reference.removeprefix(COMPONENTS)}"
    return reference
