"""A valid value for a JSON Schema, for an operation that has no handler and no example.

No library is used: of those on PyPI, faker-jsonschema imports Hypothesis at run time, and jsf and
hypothesis-jsonschema have had no release since early 2024. The schema is flattened one way at a
time (see _merge), a value is built for it, and the first one that the validator of the whole schema
accepts is the answer.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from math import ceil, floor
from random import Random
from typing import Any, Final, TypeVar

from invoice_sandbox.openapi.schema import _strings
from invoice_sandbox.openapi.schema._merge import (
    ANNOTATIONS,
    CONTAINS,
    FORMATS,
    FRACTION,
    PATTERNS,
    REFERENCES,
    TYPES,
    ConflictError,
    Flat,
    Schema,
    Scope,
    alternatives,
    both,
    identity,
    item_schema,
    leaf_accepts,
    member_schema,
)

_T = TypeVar("_T")

_ATTEMPTS: Final = 60
_STEPS: Final = 10_000
_STEPS_OF_ATTEMPT: Final = 2_500
_ALTERNATIVES: Final = 24
_RICH_DEPTH: Final = 5
_DEEPEST: Final = 40
_RETRIES: Final = 30
_MOST_ITEMS: Final = 1_000
_LONGEST: Final = 1_000_000
_MOST_SPARE: Final = 60
_FEW: Final = 3


class CannotGenerate(ValueError):  # noqa: N818 - the name is part of the interface
    """No valid value was found; the message says where in the schema, why, and what to do."""


class _DeadEndError(Exception):
    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(f"{pointer}: {reason}")


class _ExhaustedError(_DeadEndError):
    """The attempt took too many steps; no other choice is tried in it."""


@dataclass(frozen=True)
class _Style:
    """How one attempt makes its choices; the numbers are probabilities."""

    optional: float
    annotated: float
    few: bool = False
    vary: bool = False
    exclusive: bool = False


_SIMPLE: Final = _Style(optional=1, annotated=1, few=True)
_MINIMAL: Final = _Style(optional=0, annotated=0)
_FULL: Final = _Style(optional=1, annotated=0, exclusive=True)


@dataclass
class _Run:
    """One attempt: its random source, its style and the steps it may still take."""

    rng: Random
    style: _Style
    resolve: Callable[[str], Schema]
    left: int = _STEPS_OF_ATTEMPT

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability


@dataclass(frozen=True)
class _Place:
    """Where in the schema the run is; ``active`` are the references it is inside of."""

    pointer: str = "#"
    name: str = ""
    depth: int = 0
    active: frozenset[str] = frozenset()
    vary: bool = False

    def member(self, name: str) -> _Place:
        pointer = f"{self.pointer}/properties/{name.replace('~', '~0').replace('/', '~1')}"
        return replace(self, pointer=pointer, name=name, depth=self.depth + 1)

    def item(self, vary: bool) -> _Place:
        pointer, vary = f"{self.pointer}/items", self.vary or vary
        return replace(self, pointer=pointer, depth=self.depth + 1, vary=vary)

    def fail(self, reason: str) -> _DeadEndError:
        return _DeadEndError(self.pointer, reason)


def generate(
    schema: Schema,
    *,
    resolve: Callable[[str], Schema],
    is_valid: Callable[[Any], bool],
    seed: int | str,
    invent: bool = False,
) -> Any:
    """A JSON value (dict, list, str, int, float, bool or None) that ``is_valid`` accepts.

    ``resolve`` gives the schema that a ``$ref`` names (LookupError or ValueError if none). Examples
    and defaults of the schema are used unless told to ``invent``. The same schema and seed give the
    same value in every process. Raises CannotGenerate when no valid value
    is found within a bounded number of attempts.
    """
    failure = "# (the whole schema): no candidate satisfied all its keywords together"
    left = _STEPS
    for attempt in range(_ATTEMPTS):
        rng = _random(seed, attempt)
        style = _style(attempt, rng)
        style = replace(style, annotated=0) if invent else style
        run = _Run(rng, style, resolve, min(left, _STEPS_OF_ATTEMPT))
        granted = run.left
        try:
            value = _build(run, schema, _Place(vary=run.style.vary))
            if is_valid(value):
                return value
        except _DeadEndError as error:
            failure = str(error)
        left -= granted - run.left
        if left <= 0:
            break
    raise CannotGenerate(f"{failure}; add an example to the operation or the schema")


def _random(seed: int | str, attempt: int) -> Random:
    digest = hashlib.sha256(f"{seed!r}/{attempt}".encode()).digest()
    return Random(int.from_bytes(digest))  # noqa: S311 - examples, not secrets


def _style(attempt: int, rng: Random) -> _Style:
    first = (_SIMPLE, _MINIMAL, _FULL)
    if attempt < len(first):
        return first[attempt]
    return _Style(
        optional=rng.choice((0, 0.3, 0.7, 1)),
        annotated=rng.choice((0, 0.5, 0.9)),
        vary=rng.random() < 0.8,
        exclusive=rng.random() < 0.7,
    )


def _build(run: _Run, schema: Schema, place: _Place) -> Any:
    """A value for ``schema``. Raises _DeadEndError when no choice leads to one."""
    if place.depth > _DEEPEST:
        raise place.fail(f"it requires a value nested more than {_DEEPEST} levels deep")
    failure = place.fail("its keywords exclude each other")
    try:
        for flat in _ways(run, schema, place):
            active = place.active.union(flat.get(REFERENCES, ()))
            try:
                return _value(run, flat, replace(place, active=active))
            except _ExhaustedError:
                raise
            except _DeadEndError as error:
                failure = error
    except ConflictError as error:
        failure = place.fail(str(error))
    raise failure


def _ways(run: _Run, schema: Schema, place: _Place) -> Iterator[Flat]:
    """The ways to satisfy ``schema``. Raises ConflictError and, after too many, _ExhaustedError."""

    def spend() -> None:
        run.left -= 1
        if run.left < 0:
            raise _ExhaustedError(place.pointer, "it branches too much to find a value")

    def order(branches: Sequence[Schema]) -> Sequence[Schema]:
        return _ordered(run, branches, place)

    scope = Scope(run.resolve, order, spend, run.style.exclusive)
    return islice(alternatives(schema, scope), _ALTERNATIVES)


def _ordered(run: _Run, branches: Sequence[Schema], place: _Place) -> Sequence[Schema]:
    """Branches that lead back to where the run already is come last, so that recursion ends."""
    order = list(branches)
    if run.style.vary:
        run.rng.shuffle(order)
    return sorted(order, key=lambda each: _recurses(each, place))


def _recurses(schema: Any, place: _Place) -> bool:
    if isinstance(schema, Mapping):
        return schema.get("$ref") in place.active or any(
            _recurses(each, place) for each in schema.values()
        )
    return isinstance(schema, list) and any(_recurses(each, place) for each in schema)


def _value(run: _Run, flat: Flat, place: _Place) -> Any:
    given = [value for value in _annotated(flat) if leaf_accepts(flat, value)]
    if given and run.chance(run.style.annotated):
        return copy.deepcopy(run.rng.choice(given) if place.vary else given[0])
    if "enum" in flat:
        return _constant(run, flat, place)
    failure = place.fail("no type is left for it")
    for name in _types(run, flat, place):
        try:
            return _BUILDERS[name](run, flat, place)
        except _ExhaustedError:
            raise
        except _DeadEndError as error:
            failure = error
    raise failure


def _annotated(flat: Flat) -> list[Any]:
    examples = flat.get("examples", [])
    singles = [flat[key] for key in ANNOTATIONS[1:] if key in flat]
    return [*(examples if isinstance(examples, list) else []), *singles]


def _constant(run: _Run, flat: Flat, place: _Place) -> Any:
    allowed = [value for value in flat["enum"] if leaf_accepts(flat, value)]
    if not allowed:
        raise place.fail("none of its constants satisfies its other keywords")
    return copy.deepcopy(run.rng.choice(allowed))


_TELLING: Final[Mapping[str, Sequence[str]]] = {
    "object": (
        *("properties", "patternProperties", "additionalProperties", "propertyNames"),
        *("required", "dependentRequired", "minProperties", "maxProperties"),
    ),
    "array": ("items", "prefixItems", CONTAINS, "minItems", "maxItems", "uniqueItems"),
    "string": (PATTERNS, FORMATS, "minLength", "maxLength", "contentEncoding"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}


def _types(run: _Run, flat: Flat, place: _Place) -> Sequence[str]:
    """The types to try: those allowed, or where any is, first those that the keywords are about."""
    if "type" in flat:
        allowed = list(flat["type"])
        if place.vary:
            run.rng.shuffle(allowed)
        return allowed
    told = [name for name, keywords in _TELLING.items() if not flat.keys().isdisjoint(keywords)]
    return [*told, *(name for name in TYPES if name not in told)]


def _null(_: _Run, flat: Flat, place: _Place) -> Any:
    return _accepted(None, flat, place)


def _boolean(run: _Run, flat: Flat, place: _Place) -> Any:
    first = run.chance(0.5) if place.vary else True
    return _accepted(first if leaf_accepts(flat, first) else not first, flat, place)


def _accepted(value: _T, flat: Flat, place: _Place) -> _T:
    if not leaf_accepts(flat, value):
        raise place.fail("the value built for it breaks one of its own keywords")
    return value


def _string(run: _Run, flat: Flat, place: _Place) -> str:
    if flat.get("minLength", 0) > _LONGEST:
        raise place.fail(f"it needs a text of more than {_LONGEST} characters")
    wanted = _strings.Wanted(
        words=flat.get("title") or _words(place.name) or "text",
        min_length=int(flat.get("minLength", 0)),
        max_length=flat.get("maxLength"),
        formats=[*flat.get(FORMATS, ()), flat.get("contentEncoding", "")],
        patterns=flat.get(PATTERNS, ()),
        vary=place.vary,
    )
    try:
        for text in _strings.candidates(wanted, run.rng):
            if leaf_accepts(flat, text):
                return text
    except _strings.PatternError as error:
        raise place.fail(str(error)) from None
    raise place.fail(f"no text was found for {_described(flat)}")


def _described(flat: Flat) -> str:
    names = {PATTERNS: "pattern", FORMATS: "format", "minLength": "", "maxLength": ""}
    return ", ".join(f"{name or key} {flat[key]}" for key, name in names.items() if key in flat)


def _words(name: str) -> str:
    """``debtorName`` and ``debtor_name`` as people write them: ``Debtor name``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-\s]+", " ", name).strip().capitalize()


def _number(run: _Run, flat: Flat, place: _Place) -> int | float:
    return _numeric(run, flat, place, whole=False)


def _integer(run: _Run, flat: Flat, place: _Place) -> int | float:
    return _numeric(run, flat, place, whole=True)


def _numeric(run: _Run, flat: Flat, place: _Place, whole: bool) -> int | float:
    for step in _number_steps(flat, whole):
        low, high = _multiples(flat, step)
        for _ in range(min(_RETRIES, high - low + 1)):
            value = step * run.rng.randint(low, high)
            plain = int(value) if value.denominator == 1 else float(value)
            if leaf_accepts(flat, plain):
                return plain
    raise place.fail("no number was found between its bounds")


def _number_steps(flat: Flat, whole: bool) -> Iterator[Fraction]:
    """Distances between the numbers to choose from, the roundest first."""
    multiple = _fraction(flat.get("multipleOf", 0))
    if multiple:
        yield multiple * multiple.denominator if whole else multiple
    elif whole:
        yield Fraction(1)
    else:
        yield from (Fraction(1, 10**digits) for digits in range(int(FRACTION in flat), 16))


def _multiples(flat: Flat, step: Fraction) -> tuple[int, int]:
    """The least and greatest n for which n * step is within the bounds, at most 100 if open."""
    lows = [ceil(bound / step) for bound in _bounds(flat, "minimum")]
    lows += [floor(bound / step) + 1 for bound in _bounds(flat, "exclusiveMinimum")]
    highs = [floor(bound / step) for bound in _bounds(flat, "maximum")]
    highs += [ceil(bound / step) - 1 for bound in _bounds(flat, "exclusiveMaximum")]
    if lows:
        return max(lows), min(highs, default=max(lows) + 99)
    high = min(highs, default=100)
    return min(1 if high > 0 else high - 99, high), high


def _bounds(flat: Flat, key: str) -> list[Fraction]:
    return [_fraction(flat[key])] if key in flat else []


def _fraction(number: Any) -> Fraction:
    return Fraction(str(number))


def _array(run: _Run, flat: Flat, place: _Place) -> list[Any]:
    least, most = _item_counts(run, flat, place)
    plan = [item_schema(flat, index) for index in range(least)]
    taken = 0
    for needed in flat.get(CONTAINS, ()):
        if place.vary and run.chance(0.3):
            taken = 0  # one item may match several of them
        taken = _place_contained(run, plan, needed, flat, range(taken, most))
    items: list[Any] = []
    seen: set[str] | None = set() if flat.get("uniqueItems") else None
    prefix = len(flat.get("prefixItems", ()))
    for index, schema in enumerate(plan):
        items.append(_item(run, schema, place.item(vary=index > prefix), seen))
    return _accepted(items, flat, place)


def _item_counts(run: _Run, flat: Flat, place: _Place) -> tuple[int, int]:
    """How many items to build, and how many there may be."""
    least = int(flat.get("minItems", 0))
    most = int(flat.get("maxItems", _MOST_ITEMS))
    if least > min(most, _MOST_ITEMS):
        raise place.fail(f"it needs {least} items")
    wished = max(len(flat.get("prefixItems", ())), 1)
    while wished > least and not _is_wanted_item(run, item_schema(flat, wished - 1), place):
        wished -= 1
    return max(least, min(wished, most)), most


def _is_wanted_item(run: _Run, schema: Schema, place: _Place) -> bool:
    shallow = place.depth < _RICH_DEPTH and not _recurses(schema, place)
    return schema is not False and shallow and run.chance(run.style.optional)


def _place_contained(
    run: _Run, plan: list[Schema], needed: Mapping[str, Any], flat: Flat, room: range
) -> int:
    """Makes ``minContains`` items match, the others not if there is a maximum; where it ended."""
    wanted, count = needed["contains"], int(needed.get("minContains", 1))
    start = max(room.start, min(len(flat.get("prefixItems", ())), room.stop - count))
    if run.style.vary:
        start = run.rng.randint(room.start, start)
    end = min(start + count, room.stop)
    while len(plan) < end:
        plan.append(item_schema(flat, len(plan)))
    for index, schema in enumerate(plan):
        if start <= index < end:
            plan[index] = both(schema, wanted)
        elif "maxContains" in needed:
            plan[index] = both(schema, {"not": wanted})
    return end


def _item(run: _Run, schema: Schema, place: _Place, seen: set[str] | None) -> Any:
    """One item; it is none of ``seen``, to which it is added, where items have to differ."""
    for attempt in range(_RETRIES):
        value = _build(run, schema, replace(place, vary=place.vary or attempt > 0))
        if seen is None or identity(value) not in seen:
            if seen is not None:
                seen.add(identity(value))
            return value
    raise place.fail("no further item was found that differs from the others")


def _object(run: _Run, flat: Flat, place: _Place) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for name in _with_dependents([*flat.get("required", ())], flat):
        value[name] = _build(run, member_schema(flat, name), place.member(name))
    for name in _optional_names(run, flat, place):
        _add_optional(run, flat, place, value, name)
    least = int(flat.get("minProperties", 0))
    for name in islice(_spare_names(run, flat, place), least + _MOST_SPARE):
        if len(value) >= least:
            break
        _add_optional(run, flat, place, value, name)
    order = [*flat.get("properties", {}), *value]
    return _accepted({name: value[name] for name in order if name in value}, flat, place)


def _with_dependents(names: list[str], flat: Flat) -> list[str]:
    """``names`` and, in turn, every name that dependentRequired asks for because of them."""
    dependents = flat.get("dependentRequired", {})
    for name in names:  # grows while it is read
        names += [each for each in dependents.get(name, ()) if each not in names]
    return list(dict.fromkeys(names))


def _optional_names(run: _Run, flat: Flat, place: _Place) -> list[str]:
    if place.depth >= _RICH_DEPTH:
        return []
    required = flat.get("required", ())
    names = [
        name
        for name, schema in flat.get("properties", {}).items()
        if name not in required and not _recurses(schema, place) and run.chance(run.style.optional)
    ]
    return names[:_FEW] if run.style.few else names


def _add_optional(run: _Run, flat: Flat, place: _Place, value: dict[str, Any], name: str) -> None:
    """Adds ``name`` and its dependents to ``value``, or nothing where they cannot be had."""
    names = [each for each in _with_dependents([name], flat) if each not in value]
    most = flat.get("maxProperties", _MOST_ITEMS)
    if len(value) + len(names) > most or not all(
        _is_name(run, flat, place, each) for each in names
    ):
        return
    try:
        value |= {n: _build(run, member_schema(flat, n), place.member(n)) for n in names}
    except _ExhaustedError:
        raise
    except _DeadEndError:
        return


def _is_name(run: _Run, flat: Flat, place: _Place, name: str) -> bool:
    ways = _ways(run, flat.get("propertyNames", True), place)
    return any(leaf_accepts(way, name) for way in ways)


def _spare_names(run: _Run, flat: Flat, place: _Place) -> Iterator[str]:
    """Names of further members, to reach minProperties."""
    yield from flat.get("properties", {})
    for pattern in flat.get("patternProperties", {}):
        wanted = _strings.Wanted(words="member", patterns=[pattern], vary=True)
        yield from _strings.candidates(wanted, run.rng)
    if "propertyNames" in flat:
        named = replace(place, pointer=f"{place.pointer}/propertyNames", vary=True)
        for _ in range(_RETRIES):
            yield _build(run, both({"type": "string"}, flat["propertyNames"]), named)
    yield from (f"member{number}" for number in range(1, _MOST_ITEMS))


_BUILDERS: Final[Mapping[str, Callable[[_Run, Flat, _Place], Any]]] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
}
