"""A valid value for a JSON Schema, for a response that has no example.

Everything that the schemas of one place demand is put together: references and ``allOf`` are
followed, of ``oneOf`` and ``anyOf`` one alternative is taken. A place may have several candidates:
examples, constants, alternatives, types. The value has the first of each; where the validator
rejects it, that place gets the next one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from random import Random
from typing import Any, Final

from invoice_sandbox.openapi.load.documents import pointer_text
from invoice_sandbox.openapi.load.pointers import named
from invoice_sandbox.openapi.schema.annotations import OF_THE_CLIENT, OF_THE_SERVER
from invoice_sandbox.openapi.schema.compile import Schema, Schemas
from invoice_sandbox.openapi.schema.problems import Problem, short_name
from invoice_sandbox.openapi.schema.scalars import (
    NoScalarError,
    at_least,
    at_most,
    number_for,
    said,
    text_for,
)

_ATTEMPTS: Final = 100
_MOST_VALUES: Final = 5_000
_RICH_VALUES: Final = 500
"""Values of an attempt, and those of one that has members that are not required."""

_DEEPEST: Final = 40
_RICH_DEPTH: Final = 5
_MOST_OPTIONAL: Final = 12
_TRIES: Final = 5
"""Texts and numbers that are tried at one place."""

_HINTS: Final[Mapping[str, Sequence[str]]] = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems", "uniqueItems"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""Types by the keywords that only they have, for schemas without a type."""

_TYPES: Final = ("string", "integer", "boolean", "object", "array", "number", "null")

Applied = Mapping[str, Any]
"""A schema that applies to a place and is not a boolean."""


class CannotGenerate(ValueError):  # noqa: N818 - the name is part of the interface
    """No valid value was found; the message says where, why, and what to do."""


class _DeadEndError(Exception):
    """No value for a place; another candidate around it may lead to one."""


def generate(
    schemas: Schemas,
    schema: Schema,
    seed: int | str,
    *,
    dynamic: bool = False,
    problems: Callable[[Any], Sequence[Problem]] | None = None,
) -> Any:
    """Return a JSON value in which ``problems`` finds nothing; by default the schema decides.

    Examples and defaults of the schema are used unless ``dynamic``. The same schema and seed give
    the same value in every process. Raises CannotGenerate, and SchemaError.
    """
    find = schemas.compile(schema, "schema").problems if problems is None else problems
    run = _Run(_Reader(schemas), str(seed), dynamic)
    failure = ""
    for _ in range(_ATTEMPTS):
        try:
            value = run.attempt(schema)
        except _DeadEndError as error:
            failure = failure or str(error)
            break
        found = find(value)
        if not found:
            return value
        failure = failure or f"{found[0].pointer or 'the value'}: {found[0].text}"
        run.try_others([problem.pointer for problem in found])
    raise CannotGenerate(f"{failure}; add an example to the operation or the schema")


@dataclass(frozen=True)
class _Place:
    """A place in the value; ``around`` are the schemas that apply to what it is inside of.

    ``number`` is not 0 where values are to differ from others of the same schema.
    """

    steps: tuple[str | int, ...] = ()
    around: frozenset[int] = frozenset()
    number: int = 0

    @property
    def pointer(self) -> str:
        """The JSON Pointer to it."""
        return pointer_text(self.steps)

    @property
    def name(self) -> str:
        """The name of the closest member."""
        return next((step for step in reversed(self.steps) if isinstance(step, str)), "")

    def below(self, step: str | int, parts: Sequence[Applied]) -> _Place:
        """Return the place of a member or an item of this one, to which ``parts`` apply."""
        around = self.around | {id(schema) for schema in parts}
        number = self.number + step if isinstance(step, int) else self.number
        return _Place((*self.steps, step), around, number)

    def fail(self, reason: str) -> _DeadEndError:
        """Return the error for this place."""
        return _DeadEndError(f"{short_name(self.pointer) or 'the value'}: {reason}")


class _Reader:
    """Finds the schemas that apply to one place."""

    def __init__(self, schemas: Schemas) -> None:
        self._known = schemas.identified
        self.hidden = schemas.not_required

    def applied(self, parts: Iterable[Schema]) -> list[Applied] | None:
        """Return the schemas with what they refer to and their ``allOf``; None if one is false."""
        found: list[Applied] = []
        waiting = [*parts]
        while waiting:
            schema = waiting.pop(0)
            if schema is False:
                return None
            if isinstance(schema, Mapping) and not any(schema is known for known in found):
                found.append(schema)
                named_ones = [named(schema["$ref"], "", self._known)] if "$ref" in schema else []
                waiting[:0] = [*named_ones, *schema.get("allOf", ())]
        return found

    def variants(
        self,
        parts: Iterable[Schema],
        place: _Place,
        decided: frozenset[tuple[int, str]] = frozenset(),
    ) -> Iterator[list[Applied]]:
        """Yield the schemas that apply, for each way to choose among alternatives."""
        found = self.applied(parts)
        for schema in found or ():
            for keyword, alternatives in self._choices(schema, place):
                key = (id(schema), keyword)
                if key in decided:
                    continue
                for alternative in alternatives:
                    yield from self.variants([*(found or ()), *alternative], place, decided | {key})
                return
        if found is not None:
            yield found

    def leads_back(self, parts: Iterable[Schema], place: _Place) -> bool:
        """True if a schema that applies also applies to something around the place."""
        return any(id(schema) in place.around for schema in self.applied(parts) or ())

    def is_hidden(self, parts: Iterable[Schema]) -> bool:
        """True if a member is readOnly in a request, or writeOnly in a response."""
        marks = (
            mark
            for schema in self.applied(parts) or ()
            for mark in (OF_THE_SERVER, OF_THE_CLIENT)
            if schema.get(mark) is True
        )
        return self.hidden is not None and next(marks, None) == self.hidden

    def shown(self, parts: Iterable[Schema]) -> Iterator[Any]:
        """Yield examples and defaults; not those of a part of an object."""
        for schema in self.applied(parts) or ():
            yield from schema.get("examples", ())
            yield from (schema[key] for key in ("example", "default") if key in schema)
            if "properties" in schema or len(schema.get("allOf", ())) > 1:
                return

    def _choices(
        self, schema: Applied, place: _Place
    ) -> Iterator[tuple[str, Sequence[Sequence[Schema]]]]:
        """Yield the alternatives of one schema, by keyword: null after others, and last what leads
        back. Each is the schemas that apply."""

        def rank(parts: Sequence[Schema]) -> int:
            first = parts[0]
            is_null = isinstance(first, Mapping) and first.get("type") == "null"
            return 2 * self.leads_back(parts, place) + is_null

        for keyword in ("oneOf", "anyOf"):
            listed = schema.get(keyword, ())
            if listed:
                alternatives = [
                    *_with_names(schema, listed),
                    *([alternative] for alternative in listed),
                ]
                yield keyword, sorted(alternatives, key=rank)
        if "if" in schema:
            met = [schema["if"], schema.get("then", True)]
            yield "if", [met, [schema.get("else", True)]]


class _Run:
    """The attempts to find one value.

    ``_built`` is the number of the candidate that each place has, ``_next`` the first one to take.
    """

    def __init__(self, reader: _Reader, seed: str, dynamic: bool) -> None:
        self._reader = reader
        self._seed = seed
        self._dynamic = dynamic
        self._built: dict[str, int] = {}
        self._next: dict[str, int] = {}
        self._left = 0
        self._too_deep = _DeadEndError("the value: it has too many members and items")

    def attempt(self, schema: Schema) -> Any:
        """Return the next value. Raises _DeadEndError."""
        self._left = _MOST_VALUES
        self._built.clear()
        return self._build([schema], _Place())

    def try_others(self, rejected: Iterable[str]) -> None:
        """Give the closest place around each rejected one its next candidate."""
        for pointer in {self._closest(place) for place in rejected}:
            self._next[pointer] = self._built.get(pointer, 0) + 1
            self._forget_below(pointer)

    def _closest(self, pointer: str) -> str:
        while pointer and pointer not in self._built:
            pointer = pointer.rpartition("/")[0]
        return pointer

    def _forget_below(self, pointer: str) -> None:
        for known in (self._built, self._next):
            for key in [key for key in known if key.startswith(f"{pointer}/")]:
                del known[key]

    def _build(self, parts: Sequence[Schema], place: _Place) -> Any:
        """Return a value for schemas that apply together. Raises _DeadEndError."""
        self._left -= 1
        if self._left < 0:
            raise self._too_deep
        if len(place.steps) > _DEEPEST:
            self._too_deep = place.fail("what is required leads back to itself, or too deep")
            raise self._too_deep
        failure = place.fail("its keywords exclude each other")
        first = self._next.get(place.pointer, 0)
        candidates = islice(self._candidates(parts, place), first, None)
        for number, candidate in enumerate(candidates, first):
            try:
                value = candidate()
            except _DeadEndError as error:
                failure = error
                self._next[place.pointer] = number + 1
                self._forget_below(place.pointer)
                continue
            self._built[place.pointer] = number
            return value
        raise failure

    def _candidates(self, parts: Sequence[Schema], place: _Place) -> Iterator[Callable[[], Any]]:
        for shown in () if self._dynamic else self._reader.shown(parts):
            yield partial(copy.deepcopy, shown)
        for variant in self._reader.variants(parts, place):
            constants = _constants(variant)
            for constant in _from(constants or (), place.number):
                yield partial(copy.deepcopy, constant)
            for type_ in _types(variant) if constants is None else ():
                yield from self._of_type(type_, variant, place)

    def _of_type(
        self, type_: str, parts: Sequence[Applied], place: _Place
    ) -> Iterator[Callable[[], Any]]:
        if type_ == "object":
            yield partial(self._object, parts, place, _MOST_OPTIONAL)
            yield partial(self._object, parts, place, 0)
        elif type_ == "array":
            yield partial(self._array, parts, place, 1)
            yield partial(self._array, parts, place, 0)
        elif type_ in {"boolean", "null"}:
            values = _from([True, False], place.number) if type_ == "boolean" else [None]
            yield from (partial(copy.copy, value) for value in values)
        else:
            yield from (
                partial(self._scalar, type_, parts, place, number) for number in range(_TRIES)
            )

    def _scalar(self, type_: str, parts: Sequence[Applied], place: _Place, number: int) -> Any:
        random = Random(f"{self._seed}{place.pointer}/{number}")  # noqa: S311 - no secret
        try:
            if type_ == "string":
                return text_for(parts, place.name, place.number + number, random)
            return number_for(parts, type_ == "integer", random)
        except NoScalarError as error:
            raise place.fail(str(error)) from None

    def _object(self, parts: Sequence[Applied], place: _Place, most: int) -> dict[str, Any]:
        required = {name for names in said(parts, "required") for name in names}
        declared = [*said(parts, "properties"), *said(parts, "required")]
        room = at_most(parts, "maxProperties", len(required) + most) - len(required)
        value: dict[str, Any] = {}
        for name in dict.fromkeys(name for names in declared for name in names):
            member, below = _member(parts, name), place.below(name, parts)
            if self._reader.is_hidden(member):
                continue
            if name in required:
                value[name] = self._build(member, below)
            elif room > 0 and self._is_wanted(member, below):
                with suppress(_DeadEndError):
                    value[name] = self._build(member, below)
                    room -= 1
        return value

    def _is_wanted(self, parts: Sequence[Schema], place: _Place) -> bool:
        """True if a member or an item that is not required becomes part of the value."""
        is_small = _MOST_VALUES - self._left < _RICH_VALUES and len(place.steps) <= _RICH_DEPTH
        return is_small and not self._reader.leads_back(parts, place)

    def _array(self, parts: Sequence[Applied], place: _Place, usual: int) -> list[Any]:
        least, most = at_least(parts, "minItems"), at_most(parts, "maxItems", usual)
        items: list[Any] = []
        for index in range(max(least, most)):
            item, below = _item(parts, index), place.below(index, parts)
            if index >= least and not self._is_wanted(item, below):
                break
            items.append(self._build(item, below))
        return items


def _with_names(schema: Applied, alternatives: Iterable[Schema]) -> Iterator[list[Schema]]:
    """Yield each alternative that is a reference with the name that the discriminator gives it."""
    discriminator = schema.get("discriminator", {})
    member, mapping = discriminator.get("propertyName"), discriminator.get("mapping", {})
    for alternative in alternatives if member else ():
        reference = alternative.get("$ref") if isinstance(alternative, Mapping) else None
        if reference:
            own = reference.rpartition("/")[2]
            names = (name for name, target in mapping.items() if target in {reference, own})
            constant = {"const": next(names, own)}
            yield [alternative, {"required": [member], "properties": {member: constant}}]


def _member(parts: Iterable[Applied], name: str) -> list[Schema]:
    """Return the schemas of a member."""
    return [
        schema.get("properties", {}).get(name, schema.get("additionalProperties", True))
        for schema in parts
    ]


def _item(parts: Iterable[Applied], index: int) -> list[Schema]:
    """Return the schemas of an item."""
    found: list[Schema] = []
    for schema in parts:
        prefix = schema.get("prefixItems", ())
        found.append(prefix[index] if index < len(prefix) else schema.get("items", True))
    return found


def _constants(schemas: Sequence[Applied]) -> list[Any] | None:
    """Return the shortest list of values by ``const`` or ``enum``; None if there is none."""
    lists = [*said(schemas, "enum"), *([constant] for constant in said(schemas, "const"))]
    return min(lists, key=len, default=None)


def _types(schemas: Sequence[Applied]) -> list[str]:
    """Return the types that the schemas allow; what they hint at first, null last."""
    hinted = [type_ for type_, keys in _HINTS.items() if any(said(schemas, key) for key in keys)]
    found = [*dict.fromkeys([*hinted, *_TYPES])]
    for declared in said(schemas, "type"):
        types = [declared] if isinstance(declared, str) else list(declared)
        types += ["integer"] * ("number" in types and "integer" not in types)
        found = [type_ for type_ in types if type_ in found]
    if "number" in found and "integer" in found:
        found.remove("integer")
    return sorted(found, key=lambda type_: type_ == "null")


def _from(values: Sequence[Any], number: int) -> list[Any]:
    """Return the values from one of them on, and then the others."""
    turn = number % max(len(values), 1)
    return [*values[turn:], *values[:turn]]
