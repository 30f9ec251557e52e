"""A valid value for a JSON Schema, for a response that has no example.

Everything that the schemas of one place demand is put together: references and ``allOf`` are
followed, of ``oneOf`` and ``anyOf`` one alternative is taken. A place may have several candidates:
examples, constants, alternatives, types. The value has the first of each; where the validator
rejects it, that place gets the next one.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from random import Random
from typing import Any, Final
from urllib.parse import urldefrag

from invoice_sandbox.openapi.load.documents import pointer_text
from invoice_sandbox.openapi.load.model import address
from invoice_sandbox.openapi.load.pointers import named
from invoice_sandbox.openapi.schema.annotations import OF_THE_CLIENT, OF_THE_SERVER
from invoice_sandbox.openapi.schema.compile import COMPONENTS, Schema, Schemas
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
_MOST_ITEMS: Final = 1_000
_TRIES: Final = 5
"""Texts and numbers that are tried at one place."""

_HINTS: Final[Mapping[str, Sequence[str]]] = {
    "object": (
        *("properties", "required", "additionalProperties", "patternProperties"),
        *("minProperties", "propertyNames"),
    ),
    "array": ("items", "prefixItems", "contains", "minItems", "uniqueItems"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""Types by the keywords that only they have, for schemas without a type."""

_TYPES: Final = ("string", "integer", "boolean", "object", "array", "number", "null")
_SAYS_NOTHING: Final = frozenset(
    {"$id", "$anchor", "$dynamicAnchor", "$schema", "$defs", "definitions", "$comment"}
    | {"examples", "example", "default", "title", "description", "summary", "deprecated"}
    | {"readOnly", "writeOnly", "$ref", "allOf"}
)

Part = tuple[Any, str]
"""A schema, and the address that its references start from."""

Applied = tuple[Mapping[str, Any], str]
"""The same, of a schema that is no boolean."""


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
        run.try_others([one.pointer for one in found])
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
        return next((one for one in reversed(self.steps) if isinstance(one, str)), "")

    def below(self, step: str | int, parts: Sequence[Applied]) -> _Place:
        """The place of a member or an item of this one, to which ``parts`` apply."""
        around = self.around | {id(schema) for schema, _ in parts}
        number = self.number + step if isinstance(step, int) else self.number
        return _Place((*self.steps, step), around, number)

    def fail(self, reason: str) -> _DeadEndError:
        """The error for this place."""
        return _DeadEndError(f"{short_name(self.pointer) or 'the value'}: {reason}")


class _Reader:
    """Finds the schemas that apply to one place."""

    def __init__(self, schemas: Schemas) -> None:
        self._known = schemas.identified
        self.hidden = schemas.not_required

    def applied(self, parts: Iterable[Part]) -> list[Applied] | None:
        """Return the schemas with what they refer to and their ``allOf``; None if one is false."""
        found: list[Applied] = []
        waiting = [*parts]
        while waiting:
            schema, base = waiting.pop(0)
            if schema is False:
                return None
            if not isinstance(schema, Mapping) or any(schema is one for one, _ in found):
                continue
            if isinstance(schema.get("$id"), str) and self._known.get(base) is not schema:
                base = urldefrag(address(schema["$id"], base)).url
            found.append((schema, base))
            waiting[:0] = [*self._referred(schema, base), *_listed(schema, "allOf", base)]
        return found

    def variants(
        self,
        parts: Iterable[Part],
        place: _Place,
        decided: frozenset[tuple[int, str]] = frozenset(),
    ) -> Iterator[list[Applied]]:
        """Yield the schemas that apply, for each way to choose among alternatives."""
        found = self.applied(parts)
        for schema, base in found or ():
            for keyword, alternatives in self._choices(schema, base, place):
                key = (id(schema), keyword)
                if key in decided:
                    continue
                for one in alternatives:
                    yield from self.variants([*(found or ()), *one], place, decided | {key})
                return
        if found is not None:
            yield found

    def leads_back(self, parts: Iterable[Part], place: _Place) -> bool:
        """True if a schema that applies also applies to something around the place."""
        return any(id(schema) in place.around for schema, _ in self.applied(parts) or ())

    def is_hidden(self, parts: Iterable[Part]) -> bool:
        """True if a member is readOnly in a request, or writeOnly in a response."""
        found = self.applied(parts) or ()
        marks = (
            mark
            for schema, _ in found
            for mark in (OF_THE_SERVER, OF_THE_CLIENT)
            if schema.get(mark) is True
        )
        return self.hidden is not None and next(marks, None) == self.hidden

    def shown(self, parts: Iterable[Part]) -> Iterator[Any]:
        """Yield examples and defaults; those of a part only where there is nothing but that."""
        for schema, _ in self.applied(parts) or ():
            examples = schema.get("examples", [])
            yield from examples if isinstance(examples, list) else []
            yield from (schema[key] for key in ("example", "default") if key in schema)
            if schema.keys() - _SAYS_NOTHING or len(schema.get("allOf", ())) > 1:
                return

    def _referred(self, schema: Mapping[str, Any], base: str) -> Iterator[Part]:
        reference = schema.get("$ref")
        if isinstance(reference, str):
            whole = _whole(reference, base)
            yield named(whole, "", self._known), urldefrag(whole).url

    def _choices(
        self, schema: Mapping[str, Any], base: str, place: _Place
    ) -> Iterator[tuple[str, Iterable[list[Part]]]]:
        """Yield the alternatives of one schema, by keyword; each is the schemas that apply."""
        has_discriminator = isinstance(schema.get("discriminator"), Mapping)
        for keyword in ("oneOf", "anyOf"):
            listed = [[one] for one in _listed(schema, keyword, base)]
            alternatives = [*_with_names(schema, listed), *listed] if has_discriminator else listed
            if alternatives:
                yield keyword, self._in_order(alternatives, place, keyword == "oneOf")
        if "if" in schema:
            met = [(schema["if"], base), (schema.get("then", True), base)]
            yield "if", [met, [(schema.get("else", True), base)]]

    def _in_order(
        self, alternatives: Sequence[list[Part]], place: _Place, is_exclusive: bool
    ) -> Iterator[list[Part]]:
        """Yield null after other alternatives, and last what leads back; then, if only one may
        apply, each with what the others do not allow."""

        def rank(parts: list[Part]) -> int:
            first = parts[0][0]
            is_null = isinstance(first, Mapping) and first.get("type") == "null"
            return 2 * self.leads_back(parts, place) + is_null

        ordered = sorted(alternatives, key=rank)
        yield from ordered
        for one in ordered if is_exclusive else ():
            yield self._only(one, [other for other in alternatives if other[0] is not one[0]])

    def _only(self, one: list[Part], others: Iterable[list[Part]]) -> list[Part]:
        """Return an alternative with a member for each other one that this does not allow."""
        own = {
            name for schema, _ in self.applied(one) or () for name in schema.get("properties", ())
        }
        found = [*one]
        for other in others:
            wrong = (
                (name, type_)
                for schema, base in self.applied(other) or ()
                for name, member in schema.get("properties", {}).items()
                for type_ in ("string", "integer")
                if name not in own and type_ not in self._types_of((member, base))
            )
            name, type_ = next(wrong, ("", ""))
            if name:
                member = {"required": [name], "properties": {name: {"type": type_}}}
                found.append((member, ""))
        return found

    def _types_of(self, part: Part) -> list[str]:
        return _types([schema for schema, _ in self.applied([part]) or ()])


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
        self._too_deep = _DeadEndError()

    def attempt(self, schema: Schema) -> Any:
        """Return the next value. Raises _DeadEndError."""
        self._left = _MOST_VALUES
        self._built.clear()
        return self._build([(schema, "")], _Place())

    def try_others(self, rejected: Iterable[str]) -> None:
        """Give the closest place around each rejected one its next candidate."""
        for pointer in {self._closest(one) for one in rejected}:
            self._next[pointer] = self._built.get(pointer, 0) + 1
            self._forget_below(pointer)

    def _closest(self, pointer: str) -> str:
        while pointer and pointer not in self._built:
            pointer = pointer.rpartition("/")[0]
        return pointer

    def _forget_below(self, pointer: str) -> None:
        for known in (self._built, self._next):
            for one in [one for one in known if one.startswith(f"{pointer}/")]:
                del known[one]

    def _build(self, parts: Sequence[Part], place: _Place) -> Any:
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
                self._forget_below(place.pointer)
                continue
            self._built[place.pointer] = number
            return value
        raise failure

    def _candidates(self, parts: Sequence[Part], place: _Place) -> Iterator[Callable[[], Any]]:
        for shown in () if self._dynamic else self._reader.shown(parts):
            yield partial(copy.deepcopy, shown)
        for variant in self._reader.variants(parts, place):
            constants = _constants([schema for schema, _ in variant])
            for constant in _from(constants or (), place.number):
                yield partial(copy.deepcopy, constant)
            for type_ in _types([schema for schema, _ in variant]) if constants is None else ():
                yield from self._of_type(type_, variant, place)

    def _of_type(
        self, type_: str, parts: Sequence[Applied], place: _Place
    ) -> Iterator[Callable[[], Any]]:
        if type_ == "object":
            yield partial(self._object, parts, place, _MOST_OPTIONAL)
            yield partial(self._object, parts, place, 0)
        elif type_ == "array":
            yield partial(self._array, parts, place)
        elif type_ in {"boolean", "null"}:
            values = _from([True, False], place.number) if type_ == "boolean" else [None]
            yield from (partial(copy.copy, one) for one in values)
        else:
            yield from (partial(self._scalar, type_, parts, place, one) for one in range(_TRIES))

    def _scalar(self, type_: str, parts: Sequence[Applied], place: _Place, number: int) -> Any:
        plain = [schema for schema, _ in parts]
        random = Random(f"{self._seed}{place.pointer}/{number}")  # noqa: S311 - no secret
        try:
            if type_ == "string":
                return text_for(plain, place.name, place.number + number, random)
            return number_for(plain, type_ == "integer", number, random)
        except NoScalarError as error:
            raise place.fail(str(error)) from None

    def _object(self, parts: Sequence[Applied], place: _Place, most: int) -> dict[str, Any]:
        plain = [schema for schema, _ in parts]
        required = [name for names in said(plain, "required") for name in names]
        declared = dict.fromkeys(name for one in said(plain, "properties") for name in one)
        room = at_most(plain, "maxProperties", _MOST_ITEMS) - len({*required})
        optional = (
            name
            for name in declared
            if name not in required
            and self._is_wanted(_member(parts, name), place.below(name, parts))
        )
        names = [*required, *islice(optional, min(most, max(room, 0)))]
        value: dict[str, Any] = {}
        for name in dict.fromkeys([*(one for one in declared if one in names), *names]):
            try:
                self._add(value, name, parts, place)
            except _DeadEndError:
                if name in required:
                    raise
        least = at_least(plain, "minProperties")
        for name in (*declared, *(f"member{number}" for number in range(1, least + 1))):
            if name not in value and len(value) < least:
                with suppress(_DeadEndError):
                    self._add(value, name, parts, place)
        if len(value) < least:
            raise place.fail(f"no {least} members were found")
        return value

    def _add(
        self, value: dict[str, Any], name: str, parts: Sequence[Applied], place: _Place
    ) -> None:
        member = _member(parts, name)
        if not self._reader.is_hidden(member):
            value[name] = self._build(member, place.below(name, parts))

    def _is_wanted(self, parts: Sequence[Part], place: _Place) -> bool:
        """True if a member or an item that is not required becomes part of the value."""
        is_small = _MOST_VALUES - self._left < _RICH_VALUES and len(place.steps) <= _RICH_DEPTH
        return is_small and not self._reader.leads_back(parts, place)

    def _array(self, parts: Sequence[Applied], place: _Place) -> list[Any]:
        plain = [schema for schema, _ in parts]
        least = at_least(plain, "minItems")
        most = at_most(plain, "maxItems", _MOST_ITEMS)
        if least > most:
            raise place.fail(f"it needs {least} items")
        first = max((len(one.get("prefixItems", ())) for one in plain), default=1)
        count = max(least, min(most, max(first, 1)))
        plan = [_item(parts, index) for index in range(count)]
        texts = set[str]() if any(said(plain, "uniqueItems")) else None
        items: list[Any] = []
        for index, item in enumerate(plan):
            try:
                below = place.below(index, parts)
                if index >= least and not self._is_wanted(item, below):
                    break
                items.append(self._item(item, below, texts))
            except _DeadEndError:
                if index < least:
                    raise
                break
        return items

    def _item(self, parts: Sequence[Part], place: _Place, others: set[str] | None) -> Any:
        """Return an item that is none of ``others``, to which its text is added."""
        value = self._build(parts, place)
        while others is not None and _text(value) in others:
            self._next[place.pointer] = self._built[place.pointer] + 1
            self._forget_below(place.pointer)
            value = self._build(parts, place)
        if others is not None:
            others.add(_text(value))
        return value


def _whole(reference: str, base: str) -> str:
    """The full address; components are those of the document, wherever they are referred to."""
    return address(reference, "" if reference.startswith(COMPONENTS) else base)


def _listed(schema: Mapping[str, Any], keyword: str, base: str) -> list[Part]:
    listed = schema.get(keyword)
    return [(one, base) for one in listed] if isinstance(listed, list) else []


def _with_names(
    schema: Mapping[str, Any], alternatives: Iterable[list[Part]]
) -> Iterator[list[Part]]:
    """Yield each alternative that is a reference with the name that the discriminator gives it."""
    discriminator = schema["discriminator"]
    member, mapping = discriminator.get("propertyName"), discriminator.get("mapping", {})
    for parts in alternatives:
        reference = parts[0][0].get("$ref") if isinstance(parts[0][0], Mapping) else None
        if isinstance(reference, str):
            own = reference.rpartition("/")[2]
            names = (name for name, target in mapping.items() if target in {reference, own})
            constant = {"const": next(names, own)}
            yield [*parts, ({"required": [member], "properties": {member: constant}}, "")]


def _member(parts: Iterable[Applied], name: str) -> list[Part]:
    """Return the schemas of a member."""
    found: list[Part] = []
    for schema, base in parts:
        own = [one for key, one in schema.get("properties", {}).items() if key == name]
        if not own and "additionalProperties" in schema:
            own = [schema["additionalProperties"]]
        found += [(one, base) for one in own]
    return found


def _item(parts: Iterable[Applied], index: int) -> list[Part]:
    """Return the schemas of an item."""
    found: list[Part] = []
    for schema, base in parts:
        prefix = schema.get("prefixItems", ())
        found.append((prefix[index] if index < len(prefix) else schema.get("items", True), base))
    return found


def _constants(schemas: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """Return the values that every ``const`` and ``enum`` allows; None if there are none."""
    lists = [*said(schemas, "enum"), *([one] for one in said(schemas, "const"))]
    if not lists:
        return None
    others = [{_text(one) for one in each} for each in lists[1:]]
    return [one for one in lists[0] if all(_text(one) in each for each in others)]


def _types(schemas: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the types that the schemas allow; what they hint at first, null last."""
    hinted = [type_ for type_, keys in _HINTS.items() if any(said(schemas, key) for key in keys)]
    found = [*dict.fromkeys([*hinted, *_TYPES])]
    for declared in said(schemas, "type"):
        types = [declared] if isinstance(declared, str) else list(declared)
        types += ["integer"] * ("number" in types and "integer" not in types)
        found = [one for one in types if one in found]
    if "number" in found and "integer" in found:
        found.remove("integer")
    return sorted(found, key=lambda one: one == "null")


def _from(values: Sequence[Any], number: int) -> list[Any]:
    """Return the values from one of them on, and then the others."""
    turn = number % max(len(values), 1)
    return [*values[turn:], *values[:turn]]


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
