"""How much work it is to validate a value: a step for each schema that is applied to a part of it.

A schema may apply others to the same value (``anyOf``), which apply others again, so that the steps
double with each. Steps are counted without taking them: a schema that is applied to one part of a
value several times is counted once, with a factor. So the count itself is never much work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, Final

from invoice_sandbox.openapi.load.model import SCHEMA, Node, Pointer, node, walk
from invoice_sandbox.openapi.load.pointers import identified, named
from invoice_sandbox.openapi.load.text import DocumentError

MAX_CHAIN: Final = 256
"""Schemas that lead on from one to the next, by reference or keyword, for one value."""

MAX_EXPANDED: Final = 5_000
"""Schemas that one schema applies to one value, counted as often as it applies them."""

MAX_EFFORT: Final = 500_000
"""Steps to validate one value."""

_OFTEN: Final = 64
"""Times that a schema may be applied to one part of a value without being counted."""

_FAR: Final = 64
"""Schemas, one applied by the next, that are followed for a first estimate."""

_BACKTRACKING_STEPS: Final = 500
"""What a pattern costs that is matched by trial and error, as one with look-around."""

_TRIAL_AND_ERROR: Final = ("(?=", "(?!", "(?<=", "(?<!", *(f"\\{digit}" for digit in "123456789"))
_HERE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
_REST: Final = ("patternProperties", "additionalProperties", "unevaluatedProperties")
_TWICE: Final = frozenset({"unevaluatedProperties", "unevaluatedItems"})
_TO_THE_SAME: Final = frozenset({*_HERE, "$ref", "$dynamicRef"})
_ITEMS: Final = ("items", "additionalItems", "contains", "unevaluatedItems")
_APPLYING: Final = frozenset({*_HERE, *_REST, *_ITEMS, "properties", "prefixItems"})


@dataclass(eq=False)
class Applied:
    """What a schema applies: ``here`` to the same value, others to its members and items.

    ``steps`` is what it costs itself; ``has_alternatives`` whether it or one that it applies has
    ``anyOf`` or ``oneOf``. ``order`` is lower than that of whatever applies it, but for
    schemas that lead back into themselves, which have the same ``group``.
    """

    steps: int = 1
    here: list[Applied] = field(default_factory=list)
    members: dict[str, Applied] = field(default_factory=dict)
    rest: list[Applied] = field(default_factory=list)
    prefix: list[Applied] = field(default_factory=list)
    items: list[Applied] = field(default_factory=list)
    order: int = 0
    group: int = 0
    expanded: int = 1
    chain: int = 1
    times: float = 1
    has_alternatives: bool = False

    def parts(self) -> list[list[Applied]]:
        """What it applies to members and items; each list is for one of them."""
        if not (self.members or self.rest or self.prefix or self.items):
            return _NO_PARTS
        own = [[one, *self.rest] for one in self.members.values()] or [self.rest]
        return [*own, [*self.prefix, *self.items]]

    def all(self) -> list[Applied]:
        """Everything that it applies."""
        return [*self.here, *(one for part in self.parts() for one in part)]


class Efforts:
    """The schemas of a document, and what each applies."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._applied: dict[int, Applied] = {}
        self._closures: dict[Applied, tuple[tuple[Applied, int], ...]] = {}
        self._most: dict[int, float] = {}
        self._kept: list[Any] = []
        self._count = 0

    def of(self, schema: Any, base: str = "") -> Applied:
        """What ``schema`` applies."""
        found = self._read(node(schema, SCHEMA, base=base))
        for group in _groups(found):
            self._count += 1
            _measure(group, self._count)
        return found

    def is_counted(self, applied: Applied) -> bool:
        """Whether the steps for a value can be so many that they have to be counted."""
        return applied.times > _OFTEN

    def steps(self, applied: Applied, value: Any, most: int) -> int:
        """At most how many steps the validation of ``value`` takes, counted to beyond ``most``."""
        total, waiting = 0, [(value, {applied: 1})]
        while waiting and total <= most:
            value, times = waiting.pop()
            everything = self._everything(times)
            total += sum(one.steps * count for one, count in everything.items())
            for part, found in _parts(value, everything):
                total += len(everything)
                if found:
                    waiting.append((part, found))
                if total > most:
                    break
        return total

    def _everything(self, times: Mapping[Applied, int]) -> dict[Applied, int]:
        """All that is applied to one part of a value, and how often."""
        found: dict[Applied, int] = {}
        for one, count in times.items():
            for each, often in self._closure(one):
                found[each] = found.get(each, 0) + count * often
        return found

    @cached_property
    def _known(self) -> Mapping[str, Any]:
        return identified(self._document)

    def _closure(self, applied: Applied) -> tuple[tuple[Applied, int], ...]:
        if applied not in self._closures:
            waiting, found = {applied: 1}, {}
            while waiting:
                one = max(waiting, key=lambda each: each.order)
                found[one] = waiting.pop(one)
                for each in one.here:
                    if each not in found:
                        waiting[each] = waiting.get(each, 0) + found[one]
            self._closures[applied] = tuple(found.items())
        return self._closures[applied]

    def _read(self, start: Node) -> Applied:
        """What the schema at ``start`` applies, and what those apply that were not read before."""
        waiting: list[Node] = []
        found = self._entry(start, waiting)
        while waiting:
            here = waiting.pop()
            self._fill(self._applied[id(here.value)], here, waiting)
        return found

    def _entry(self, here: Node, waiting: list[Node]) -> Applied:
        if not isinstance(here.value, Mapping):
            return _TRIVIAL
        found = self._applied.get(id(here.value))
        if found is None:
            found = self._applied[id(here.value)] = Applied()
            self._kept.append(here.value)
            waiting.append(here)
        return found

    def _fill(self, applied: Applied, here: Node, waiting: list[Node]) -> None:
        schema = here.value
        values = schema.get("enum")
        applied.steps += len(values) // 16 if isinstance(values, list) else 0
        applied.has_alternatives = "anyOf" in schema or "oneOf" in schema
        applied.steps += _BACKTRACKING_STEPS if _backtracks(schema.get("pattern")) else 0
        for key, child in _applying(here):
            entries = [self._entry(one, waiting) for one in _schemas(child)]
            if key in _HERE:
                applied.here += entries
            elif key == "properties" and isinstance(child.value, dict):
                applied.members = dict(zip(child.value, entries, strict=True))
            elif key == "prefixItems" or (key == "items" and isinstance(child.value, list)):
                applied.prefix += entries
            elif key in _REST:
                applied.rest += entries
            elif key in _ITEMS:
                applied.items += entries
        target = self._target(here)
        if target is not None:
            applied.here.append(self._entry(target, waiting))
        if not schema.keys().isdisjoint(_TWICE):
            applied.here += applied.here  # they look a second time what the others apply to

    def most_expanded(self, here: Node, steps: int = 0) -> float:
        """No fewer schemas than the one at ``here`` applies to one value, itself included.

        It is quick, as members and items are left out; infinite where schemas lead back, or far.
        """
        schema = here.value
        if not isinstance(schema, Mapping) or schema.keys().isdisjoint(_TO_THE_SAME):
            return 1
        if id(schema) not in self._most and steps < _FAR:
            self._most[id(schema)] = inf
            below = sum(self.most_expanded(one, steps + 1) for one in self._applied_here(here))
            self._most[id(schema)] = 1 + below * (1 if schema.keys().isdisjoint(_TWICE) else 2)
        return self._most.get(id(schema), inf)

    def _applied_here(self, here: Node) -> Iterator[Node]:
        """The schemas that the one at ``here`` applies to the same value."""
        for key, child in _applying(here):
            if key in _HERE:
                yield from _schemas(child)
        target = self._target(here)
        if target is not None:
            yield target

    def _target(self, here: Node) -> Node | None:
        """The schema that the one at ``here`` refers to, if it is known."""
        reference = here.reference or here.value.get("$dynamicRef")
        if not isinstance(reference, str):
            return None
        is_plain = reference.startswith("#/") and not here.base
        known = {"": self._document} if is_plain else self._known
        found = named(reference, here.base, known)
        if not isinstance(found, Mapping):
            return None
        return node(found, SCHEMA, base=here.base)


def check_effort(document: Mapping[str, Any], place: Callable[[Pointer], str]) -> None:
    """Raise DocumentError for a schema that applies too many others to one value.

    ``place`` gives file, line and column of a place in the document.
    """
    efforts = Efforts(document)
    for here in walk(node(document)):
        if not here.is_schema or efforts.most_expanded(here) <= MAX_CHAIN:
            continue
        applied = efforts.of(here.value, here.base)
        if applied.chain > MAX_CHAIN:
            problem = f"leads on to more than {MAX_CHAIN} schemas, one after the other"
        elif applied.expanded > MAX_EXPANDED:
            problem = f"expands to more than {MAX_EXPANDED:,} schemas for one value"
        else:
            continue
        advice = "simplify it: no value could be validated"
        raise DocumentError(place(here.pointer), f"this schema {problem}", advice)


_TRIVIAL: Final = Applied()
_NO_PARTS: Final[list[list[Applied]]] = [[]]


def _applying(here: Node) -> Iterator[tuple[str, Node]]:
    """The keywords of a schema that apply others."""
    for key, value in here.value.items():
        if key in _APPLYING:
            yield key, here.child(key, value)


def _schemas(child: Node) -> Iterator[Node]:
    """The schemas of one keyword."""
    if child.type == SCHEMA:
        yield child
    elif child.type in {"[schema]", "{schema}"}:
        for _, one in child.children():
            yield one


def _backtracks(pattern: Any) -> bool:
    return isinstance(pattern, str) and any(mark in pattern for mark in _TRIAL_AND_ERROR)


def _parts(
    value: Any, everything: Mapping[Applied, int]
) -> Iterator[tuple[Any, dict[Applied, int]]]:
    """The members or items of a value, each with what is applied to it, and how often."""
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield (
                child,
                _sum(
                    (one, times)
                    for each, times in everything.items()
                    for one in (
                        [each.members[key], *each.rest] if key in each.members else each.rest
                    )
                ),
            )
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield (
                child,
                _sum(
                    (one, times)
                    for each, times in everything.items()
                    for one in (*each.prefix[index : index + 1], *each.items)
                ),
            )


def _sum(found: Iterable[tuple[Applied, int]]) -> dict[Applied, int]:
    times: dict[Applied, int] = {}
    for one, count in found:
        times[one] = times.get(one, 0) + count
    return times


def _measure(group: list[Applied], number: int) -> None:
    """Measure schemas that lead to each other, or a single one; what they lead to is measured."""
    for one in group:
        one.order = one.group = number
    leads_back = any(_leads_back_twice(one, number) for one in group)
    for one in group:
        others = [each for each in one.here if each.group != number]
        one.expanded = min(MAX_EXPANDED + 1, 1 + sum(each.expanded for each in others))
        one.chain = 1 + max((each.chain for each in others), default=0)
        below = max(sum(_outside(each, number) for each in part) for part in one.parts())
        one.times = max(one.expanded, sum(each.times for each in others) + below)
    times = inf if leads_back else max(one.times for one in group)
    has_alternatives = any(each.has_alternatives for one in group for each in (one, *one.all()))
    for one in group:
        one.times, one.has_alternatives = times, has_alternatives


def _leads_back_twice(one: Applied, number: int) -> bool:
    back = [sum(each.group == number for each in part) for part in (one.here, *one.parts())]
    return max(back) > 1


def _outside(one: Applied, number: int) -> float:
    return 1 if one.group == number else one.times


def _groups(start: Applied) -> Iterator[list[Applied]]:
    """The schemas from ``start`` on that are not measured, those first that others lead to.

    Those that lead to each other are one group: the algorithm is Tarjan's.
    """
    index: dict[Applied, int] = {}
    low: dict[Applied, int] = {}
    path: list[Applied] = []
    if start.group:
        return
    work = [(start, iter(start.all()))]
    index[start] = low[start] = 0
    path.append(start)
    while work:
        one, others = work[-1]
        for each in others:
            if each.group or each is _TRIVIAL:
                continue
            if each not in index:
                index[each] = low[each] = len(index)
                path.append(each)
                work.append((each, iter(each.all())))
                break
            low[one] = min(low[one], index[each])
        else:
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[one])
            if low[one] == index[one]:
                group = [path.pop()]
                while group[-1] is not one:
                    group.append(path.pop())
                yield group
