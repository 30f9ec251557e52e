"""The schemas of a contract, compiled once: is a value allowed, and if not, what is wrong with it.

Validation is jsonschema-rs, with formats asserted, under the dialect that the document names in
``jsonSchemaDialect`` (JSON Schema 2020-12 by default). A schema may name another in
``$schema``, or a meta-schema that is a component with that ``$id``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import jsonschema_rs

from invoice_sandbox.openapi.load.effort import MAX_EFFORT, Efforts
from invoice_sandbox.openapi.load.model import SCHEMA, Node, node
from invoice_sandbox.openapi.load.pointers import identified
from invoice_sandbox.openapi.schema.annotations import (
    OF_THE_CLIENT,
    OF_THE_SERVER,
    Mark,
    is_marked_anywhere,
    marked_members,
    without,
)
from invoice_sandbox.openapi.schema.generation_view import COMPONENTS, GenerationView, Schema
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

_DRAFT_2020_12: Final = "https://json-schema.org/draft/2020-12/schema"
_OAS_DIALECT: Final = "https://spec.openapis.org/oas/3.1/dialect/"
_DIALECTS: Final[Mapping[str, tuple[type[Any], int]]] = {
    _DRAFT_2020_12: (jsonschema_rs.Draft202012Validator, jsonschema_rs.Draft202012),
    "https://json-schema.org/draft/2019-09/schema": (
        jsonschema_rs.Draft201909Validator,
        jsonschema_rs.Draft201909,
    ),
    "http://json-schema.org/draft-07/schema": (
        jsonschema_rs.Draft7Validator,
        jsonschema_rs.Draft7,
    ),
    "http://json-schema.org/draft-06/schema": (
        jsonschema_rs.Draft6Validator,
        jsonschema_rs.Draft6,
    ),
    "http://json-schema.org/draft-04/schema": (
        jsonschema_rs.Draft4Validator,
        jsonschema_rs.Draft4,
    ),
}
MAX_PROBLEMS: Final = 20
"""The most problems of one value that are put into words."""

MAX_BACKTRACKING: Final = 10_000
"""Steps to match one text with a pattern that has look-around or back references."""

_PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=MAX_BACKTRACKING)
_BASE: Final = "https://contract.invalid/schemas"


class SchemaError(ValueError):
    """A schema that cannot be compiled; the message says where and why."""


def _no_error(_: Any) -> None:
    return None


def _first_error(
    validate: Callable[[Any], None], value: Any
) -> jsonschema_rs.ValidationError | None:
    try:
        validate(value)
    except jsonschema_rs.ValidationError as error:
        return error
    return None


@dataclass(frozen=True)
class Compiled:
    """What a compiled schema can do: ``steps`` counts those of a validation."""

    is_valid: Callable[[Any], bool]
    iterate: Callable[[Any], Iterable[jsonschema_rs.ValidationError]]
    first: Callable[[Any], jsonschema_rs.ValidationError | None]
    steps: Callable[[Any, int], int]


class Checker:
    """One schema, compiled when it is first used. Examples beside a pattern show what it allows."""

    def __init__(self, compiled: Callable[[], Compiled], examples: Mapping[str, str]) -> None:
        """``examples`` are those of patterns."""
        self._compile = compiled
        self._pattern_examples = examples

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
        return tuple(problem_of(one, self._pattern_examples) for one in self._errors(value))

    def explain(self, value: Any) -> tuple[tuple[Problem, ...], int]:
        """What is wrong with an invalid ``value``, missing members first, and how much in all.

        At most ``MAX_PROBLEMS`` are put into words.
        """
        errors = sorted(self._errors(value), key=lambda one: not is_missing(one))
        if not errors:
            return (self._unexplained(value),), 1
        shown = errors[:MAX_PROBLEMS]
        found = [one for error in shown for one in problems_of(error, self._pattern_examples)]
        return tuple(found[:MAX_PROBLEMS]), len(errors) - len(shown) + len(found)

    def first_problem(self, value: Any) -> tuple[Problem, int]:
        """The first thing wrong with an invalid ``value``, and how many there are in all.

        Only the first is put into words: a hostile value can be wrong in 100,000 places.
        """
        errors = self._errors(value)
        if not errors:
            return self._unexplained(value), 1
        return problem_of(errors[0], self._pattern_examples), len(errors)

    def _errors(self, value: Any) -> list[jsonschema_rs.ValidationError]:
        """What is wrong with an invalid ``value``: all of it if that takes little effort, else the
        first error, or nothing if that one consists of the errors of several alternatives."""
        if self._compiled.steps(value, _MAX_EXPLAINED) <= _MAX_EXPLAINED:
            return list(self._compiled.iterate(value))
        first = self._compiled.first(value)
        return [] if first is None else [first]

    def _unexplained(self, value: Any) -> Problem:
        is_soon = self._compiled.steps(value, MAX_EFFORT) <= MAX_EFFORT
        return Problem("", _UNEXPLAINED if is_soon else _TOO_MUCH, "")


_MAX_EXPLAINED: Final = 20_000
"""Steps of a validation of which every error is reported."""

_UNEXPLAINED: Final = "does not satisfy its schema"
_TOO_MUCH: Final = f"takes more than {MAX_EFFORT:,} steps to validate"


class Schemas:
    """Compiles the schemas of one OpenAPI document; components are shared by all of them.

    ``identified`` are those with an identifier; the sampler reads all in ``generation_view``.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        not_required: Mark | None = None,
        known: dict[str, Any] | None = None,
        pattern_examples: dict[str, str] | None = None,
    ) -> None:
        """Members marked as ``not_required`` are not required of a value. ``known`` is what the
        document gives an identifier (None: it is looked for).

        ``pattern_examples`` are those of a document whose schemas are known to be right: each is
        compiled when it is first used (None: all are compiled now).

        Raises SchemaError when the dialect is unknown or a component is not a schema.
        """
        self.identified = identified(document) if known is None else known
        self.generation_view = GenerationView(document, self.identified)
        self.pattern_examples = {} if pattern_examples is None else pattern_examples
        self._is_lazy = pattern_examples is not None
        self.not_required = not_required
        self._dialect = _dialect(document.get("jsonSchemaDialect", _DRAFT_2020_12))
        self._validator, self._draft = _DIALECTS[self._dialect]
        self._checkers: dict[str, Checker] = {}
        self._compiled: dict[str, Compiled] = {}
        self._components: Mapping[str, Schema] = document.get("components", {}).get("schemas", {})
        self._efforts = Efforts(document)
        if not self._is_lazy:
            self._registry  # noqa: B018 - made now

    @cached_property
    def _registry(self) -> jsonschema_rs.Registry:
        defs = {name: self._portable(schema) for name, schema in self._components.items()}
        resource = {"$schema": self._dialect, "$defs": defs}
        try:
            return jsonschema_rs.Registry([(_BASE, resource)], draft=self._draft)
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise SchemaError(f"components.schemas: {error}") from None

    def checker(self, schema: Schema, place: str) -> Checker:
        """The checker for a ``schema`` of the document; ``place`` says where, for messages."""
        if self._is_lazy:
            return Checker(partial(self._compile, schema, place), self.pattern_examples)
        return self.compile(schema, place)

    def compile(self, schema: Schema, place: str) -> Checker:
        """The same for any schema, compiled now. Raises SchemaError."""
        compiled = self._compile(schema, place)
        return Checker(lambda: compiled, self.pattern_examples)

    def _compile(self, schema: Schema, place: str) -> Compiled:
        if isinstance(schema, Mapping) and "$schema" in schema:
            validator, _ = _DIALECTS[self._official(schema["$schema"])]
        else:
            validator = self._validator
        portable = self._portable(schema)
        key = f"{validator.__name__} {portable!r}"
        if key in self._compiled:
            return self._compiled[key]
        try:
            compiled = validator(
                portable,
                registry=self._registry,
                validate_formats=True,
                offline=True,
                pattern_options=_PATTERNS,
            )
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise SchemaError(f"{place}: {str(error).splitlines()[0]}") from None
        applied = self._efforts.of(schema)
        steps = partial(self._efforts.steps, applied)
        is_valid = compiled.is_valid
        if self._efforts.is_counted(applied):
            is_valid = partial(_is_soon_valid, is_valid, steps)
        first = _no_error if applied.has_alternatives else partial(_first_error, compiled.validate)
        found = Compiled(is_valid, compiled.iter_errors, first, steps)
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

    def _official(self, uri: Any) -> str:
        """The dialect of ``uri``, or of the meta-schema that the document itself has there."""
        own = self.identified.get(str(uri))
        return _dialect(own.get("$schema", self._dialect) if own else uri)

    def _portable(self, schema: Any) -> Any:
        """``schema`` with component references made absolute and dialect names made official.

        It requires no member that is ``not_required``.
        """
        return self._copy(node(schema, SCHEMA), frozenset())

    def _copy(self, here: Node, not_required: frozenset[str]) -> Any:
        """``not_required`` are members that the schemas around ``here`` do not require."""
        if not here.is_schema:
            return here.copy_containers(lambda child: self._copy(child, frozenset()))
        schema = here.value
        if self.not_required is not None:
            not_required |= marked_members(schema, self.not_required, self.resolve)
        if "pattern" in schema and isinstance(schema.get("examples"), list) and not self._is_lazy:
            examples = " or ".join(map(str, schema["examples"]))
            self.pattern_examples[str(schema["pattern"])] = examples
        return {
            key: self._member(here.child(key, value), not_required)
            if isinstance(value, (dict, list))
            else self._word(key, value)
            for key, value in schema.items()
        }

    def _member(self, here: Node, not_required: frozenset[str]) -> Any:
        if here.pointer[-1] == "required":
            return without(here.value, not_required)
        if here.pointer[-1] == "allOf" and isinstance(here.value, list):
            return [self._copy(part, not_required) for _, part in here.children()]
        return self._copy(here, frozenset())

    def _word(self, key: str, value: Any) -> Any:
        if key in {"$ref", "$dynamicRef"} and isinstance(value, str):
            return _absolute(value)
        if key == "$schema" and isinstance(value, str):
            return value if value in self.identified else _dialect(value)
        return value


def _is_soon_valid(
    is_valid: Callable[[Any], bool], steps: Callable[[Any, int], int], value: Any
) -> bool:
    return steps(value, MAX_EFFORT) <= MAX_EFFORT and is_valid(value)


@dataclass(frozen=True)
class RequestResponseSchemas:
    """The schemas of what clients send, and those of what the server sends."""

    request: Schemas
    response: Schemas

    def findings(self) -> dict[str, Any]:
        """What compiling them found out: a JSON value, for ``request_response_schemas``."""
        both = self.request, self.response
        return {
            "notRequired": [one.not_required for one in both],
            "patternExamples": [one.pattern_examples for one in both],
            "hasIdentifiers": len(self.request.identified) > 1,
        }


def request_response_schemas(
    document: Mapping[str, Any], findings: Mapping[str, Any] | None = None
) -> RequestResponseSchemas:
    """One for both, unless a member is ``readOnly`` or ``writeOnly``. Raises SchemaError.

    ``findings`` are those of the same document: its schemas are known to be right, and each is
    compiled when it is first used.
    """
    if findings is None:
        known, examples = identified(document), [None, None]
        marks = [
            mark if is_marked_anywhere(document, mark) else None
            for mark in (OF_THE_SERVER, OF_THE_CLIENT)
        ]
    else:
        known = identified(document) if findings["hasIdentifiers"] else {"": document}
        marks, examples = findings["notRequired"], findings["patternExamples"]
    request = Schemas(document, marks[0], known, examples[0])
    if not any(marks):
        return RequestResponseSchemas(request, request)
    return RequestResponseSchemas(request, Schemas(document, marks[1], known, examples[1]))


def _absolute(reference: str) -> str:
    if reference.startswith(COMPONENTS):
        return f"{_BASE}#/$defs/{reference.removeprefix(COMPONENTS)}"
    return reference


def _dialect(uri: Any) -> str:
    """The official URI of a supported dialect. The OpenAPI dialect only adds annotations."""
    known = str(uri).removesuffix("#")
    if known.startswith(_OAS_DIALECT):
        return _DRAFT_2020_12
    if known not in _DIALECTS:
        supported = ", ".join([*_DIALECTS, _OAS_DIALECT + "base"])
        raise SchemaError(f"the JSON Schema dialect {uri!r} is not known; known are {supported}")
    return known
