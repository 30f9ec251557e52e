"""Values of one type each: texts, numbers and lists, for a canonical form.

A function takes the attempt, the form, its view and the place, and raises DeadEndError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, lcm
from random import Random
from typing import Any, Final, Protocol

import jsonschema_rs
from jsonschema_rs import CanonicalSchema, canonical
from jsonschema_rs.canonical import CanonicalKind

from invoice_sandbox.openapi.schema import strings
from invoice_sandbox.openapi.schema.canonical import (
    Schema,
    Sources,
    accepts,
    item_form,
    without,
)
from invoice_sandbox.openapi.schema.patterns import PatternError

RICH_DEPTH: Final = 5
RETRIES: Final = 30
MAX_ITEMS: Final = 1_000
_MAX_LENGTH: Final = 1_000_000


class DeadEndError(Exception):
    """No value for a place; another choice before it may lead to one."""


class ExhaustedError(Exception):
    """The attempt took too many steps; no other choice is tried in it."""


@dataclass(frozen=True)
class Style:
    """How one attempt makes its choices: probabilities, and at ``most`` how many members that are
    not required an object has."""

    optional: float
    annotated: float
    most: int | None = None
    vary: bool = False


@dataclass(frozen=True)
class Place:
    """Where the run is: the schemas as written, and the references that it is inside of."""

    written: tuple[Schema, ...] = ()
    pointer: str = "#"
    name: str = ""
    depth: int = 0
    active: frozenset[str] = frozenset()
    vary: bool = False

    def below(self, written: Sequence[Schema], step: str, name: str = "") -> Place:
        pointer = f"{self.pointer}/{step}"
        return replace(
            self,
            written=tuple(written),
            pointer=pointer,
            name=name or self.name,
            depth=self.depth + 1,
        )

    def fail(self, reason: str) -> DeadEndError:
        return DeadEndError(f"{self.pointer}: {reason}")


class Attempt(Protocol):
    """What builds the values that others contain."""

    rng: Random
    style: Style
    sources: Sources

    def chance(self, probability: float) -> bool: ...

    def build(self, form: CanonicalSchema, place: Place) -> Any: ...

    def applicable(
        self, written: Sequence[Schema], keys: Sequence[str] = ...
    ) -> list[Mapping[str, Any]]: ...

    def recurs(self, form: CanonicalSchema, place: Place) -> bool: ...


def string_value(run: Attempt, form: CanonicalSchema, view: Any, place: Place) -> str:
    least = view.min_length or 0
    if least > _MAX_LENGTH:
        raise place.fail(f"it needs a text of more than {_MAX_LENGTH} characters")
    written = run.applicable(place.written)
    title = next((one["title"] for one in written if isinstance(one.get("title"), str)), "")
    encodings = [str(one["contentEncoding"]) for one in written if "contentEncoding" in one]
    wanted = strings.Wanted(
        words=title or _words(place.name) or "text",
        min_length=least,
        max_length=view.max_length,
        formats=[*view.formats, *encodings],
        patterns=view.patterns,
        vary=place.vary,
    )
    try:
        for text in strings.candidates(wanted, run.rng):
            if accepts(form, text):
                return text
    except PatternError as error:
        raise place.fail(str(error)) from None
    raise place.fail(f"no text was found for {_described(view)}")


def _described(view: Any) -> str:
    facets = {
        "pattern": view.patterns,
        "format": view.formats,
        "minLength": view.min_length,
        "maxLength": view.max_length,
    }
    return ", ".join(f"{name} {value}" for name, value in facets.items() if value)


def _words(name: str) -> str:
    """``ownerName`` and ``owner_name`` as people write them: ``Owner name``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-\s]+", " ", name).strip().capitalize()


def number_value(run: Attempt, form: CanonicalSchema, view: Any, place: Place) -> int | float:
    """A multiple of the roundest step of which there is one between the bounds."""
    for step in _steps(view, whole=form.kind == CanonicalKind.INTEGER):
        low, high = _multiples(view, step)
        for _ in range(min(RETRIES, high - low + 1)):
            value = step * run.rng.randint(low, high)
            plain = int(value) if value.denominator == 1 else float(value)
            if accepts(form, plain):
                return plain
    raise place.fail("no number was found between its bounds")


def _steps(view: Any, whole: bool) -> Iterator[Fraction]:
    multiples = [Fraction(str(one)) for one in view.multiple_of]

    if multiples:
        scale = lcm(*(one.denominator for one in multiples))
        step = Fraction(lcm(*(int(one * scale) for one in multiples)), scale)
        yield step * step.denominator if whole else step
    elif whole:
        yield Fraction(1)
    else:
        first = int(view.excludes_integers)
        yield from (Fraction(1, 10**digits) for digits in range(first, 16))


def _multiples(view: Any, step: Fraction) -> tuple[int, int]:
    """The least and greatest n for which n * step is within the bounds, at most 100 if open."""
    lows, highs = [], []
    if view.minimum is not None:
        bound = Fraction(str(view.minimum)) / step
        lows = [floor(bound) + 1 if getattr(view, "exclusive_minimum", False) else ceil(bound)]
    if view.maximum is not None:
        bound = Fraction(str(view.maximum)) / step
        highs = [ceil(bound) - 1 if getattr(view, "exclusive_maximum", False) else floor(bound)]
    if lows:
        return lows[0], min(highs, default=lows[0] + 99)
    high = min(highs, default=100)
    return min(1 if high > 0 else high - 99, high), high


def array_value(run: Attempt, _form: CanonicalSchema, view: Any, place: Place) -> list[Any]:
    least, most = view.min_items or 0, MAX_ITEMS if view.max_items is None else view.max_items
    if least > min(most, MAX_ITEMS):
        raise place.fail(f"it needs {least} items")
    count = max(len(view.prefix_items), 1)
    while count > least and not is_wanted(run, item_form(view, count - 1), place):
        count -= 1
    plan = [item_form(view, index) for index in range(max(least, min(count, most)))]
    taken = 0
    for needed in view.contains:
        if place.vary and run.chance(0.3):
            taken = 0  # one item may match several of them
        taken = _place_contained(run, plan, needed, view, range(taken, most))
    items: list[Any] = []
    is_set = view.distinctness == canonical.Distinctness.ALL_DISTINCT
    seen: set[str] | None = set() if is_set else None
    written = [one["items"] for one in run.applicable(place.written) if "items" in one]
    for index, wanted in enumerate(plan):
        below = place.below(written, "items")
        vary = place.vary or index > len(view.prefix_items)
        items.append(_item(run, wanted, replace(below, vary=vary), seen))
    if view.distinctness == canonical.Distinctness.SOME_REPEATED:
        items = [*items[:1], *items] if items else [None, None]
    return items


def is_wanted(run: Attempt, form: CanonicalSchema, place: Place) -> bool:
    shallow = place.depth < RICH_DEPTH and not run.recurs(form, place)
    is_possible = run.sources.opened(form).kind != CanonicalKind.FALSE
    return is_possible and shallow and run.chance(run.style.optional)


def _place_contained(
    run: Attempt, plan: list[CanonicalSchema], needed: Any, view: Any, room: range
) -> int:
    """Makes ``minContains`` items match, the others not if there is a maximum; where it ended."""
    count = 1 if needed.min_contains is None else needed.min_contains
    start = max(room.start, min(len(view.prefix_items), room.stop - count))
    if run.style.vary:
        start = run.rng.randint(room.start, start)
    end = min(start + count, room.stop)
    while len(plan) < end:
        plan.append(item_form(view, len(plan)))
    for index, form in enumerate(plan):
        if start <= index < end:
            plan[index] = form.intersect(needed.schema)
        elif needed.max_contains is not None:
            plan[index] = without(form, needed.schema)
    return end


def _item(run: Attempt, form: CanonicalSchema, place: Place, seen: set[str] | None) -> Any:
    """One item; it is none of ``seen``, to which it is added, where items have to differ."""
    for attempt in range(RETRIES):
        value = run.build(form, replace(place, vary=place.vary or attempt > 0))
        identity = jsonschema_rs.canonical.json.to_string(value)
        if seen is None or identity not in seen:
            if seen is not None:
                seen.add(identity)
            return value
    raise place.fail("no further item was found that differs from the others")
