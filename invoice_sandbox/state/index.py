"""How records of a collection are found: by key, by the terms of indexed fields, by conditions.

A term is a field with a text of it, or with a text of its list. Of a term of few records there are
hints only, by its hash; the positions of others are bits in blocks, but for the last changes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Protocol

from msgspec import Struct

from invoice_sandbox.base.clock import parse_instant
from invoice_sandbox.state import Condition, Record

Term = tuple[str, ...]
"""``(field, text)``, or ``(field, text, _ITEM)`` of a list."""

Terms = tuple[Term, ...]

_ITEM: Final = "item"
_OF_TERMS: Final = frozenset({"=", "has"})
"""Operators that select one term."""

Bits = tuple[tuple[int, int], ...]
"""Positions: the number of each block, and its positions as bits."""

Has = Callable[[int, Term], bool]
"""Whether the record in a position has a term."""

Gaps = Callable[[int, int], Iterable[tuple[int, int]]]
"""Where nothing is between two positions: positions, each with bits of those that begin there."""

_BLOCK: Final = 2048
_FEW: Final = 32
"""Positions of a term from which they are kept as bits."""

_MOST_DIGITS: Final = 9
_FIRST: Final = 64
"""The position from which keys are counted: fixtures before it may have other numbers."""

_RECENT: Final = 64
"""Changes of bits that are made at once, which is faster."""

_Recent = tuple[list[Term], int, Any] | None
"""The last change of bits: terms, a position, and the change before. Versions share changes."""


_NO_BITS: Final[Mapping[Term, Bits]] = {}


class Hints:
    """Positions at which a name was found in some version, in the order of their first use.

    They are only added to, so all versions share them; whoever uses one looks whether it is right.
    ``positions`` has several of a name as bytes, which take little memory.
    """

    __slots__ = ("positions",)

    def __init__(self) -> None:
        self.positions: dict[Hashable, int | bytes] = {}

    def of(self, name: Hashable) -> tuple[int, ...]:
        """Where ``name`` may be."""
        found = self.positions.get(name)
        if found is None:
            return ()
        return (found,) if isinstance(found, int) else tuple(memoryview(found).cast("I"))

    def add(self, name: Hashable, position: int) -> tuple[int, ...]:
        """Note another position, and return all of them."""
        if name not in self.positions:
            self.positions[name] = position
            return (position,)
        before = self.of(name)
        if position in before:
            return before
        after = (*before, position)
        self.positions[name] = array("I", after).tobytes()
        return after

    def copy(self) -> Hints:
        """Independent ones."""
        copied = Hints()
        copied.positions = self.positions.copy()
        return copied


class _Rows(Protocol):
    """What is stored in each position, None where it was deleted."""

    @property
    def length(self) -> int: ...

    def __getitem__(self, position: int, /) -> bytes | None: ...


class Keys:
    """The key of each position, and where to find a key. They are only added to, like hints.

    Most keys end with a number that is counted like the positions: they need no hint.
    """

    __slots__ = ("_distance", "_hints", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self._hints = Hints()
        self._distance: int | None = None

    def add(self, key: str, number: int, position: int) -> None:
        """Note the key of the next position, which ends with ``number``."""
        if len(self.names) > position:
            del self.names[position:]  # what a transaction that failed has left
        self.names.append(key)
        if self._distance is None and number >= 0 and position >= _FIRST:
            self._distance = position - number
        if self._distance is None or number < 0 or number + self._distance != position:
            self._hints.add(key, position)

    def find(self, key: str, rows: _Rows) -> tuple[int, int]:
        """The position of a key whose record is in ``rows``, -1: there is none; and the number at
        its end, -1: there is none."""
        digits = key[key.rfind("_") + 1 :]
        number = int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else -1
        length, names = rows.length, self.names
        if self._distance is not None and number >= 0:
            counted = number + self._distance
            if 0 <= counted < length and names[counted] == key and rows[counted] is not None:
                return counted, number
        if key in self._hints.positions:
            for position in self._hints.of(key):
                if position < length and names[position] == key and rows[position] is not None:
                    return position, number
        return -1, number

    def copy(self, length: int) -> Keys:
        """Those of the positions below ``length``, and the hints of all."""
        copied = Keys()
        copied.names, copied._hints = self.names[:length], self._hints.copy()
        copied._distance = self._distance
        return copied


class Index(Struct, eq=False):
    """The positions of the records that have a term, of a text or a list in one of the ``fields``.

    ``_recent`` are the bits that are still to be changed, and how many.
    """

    fields: tuple[str, ...]
    _few: Hints
    _many: Mapping[Term, Bits] = _NO_BITS
    _recent: _Recent = None
    _count: int = 0

    def copy(self) -> Index:
        """An independent one."""
        return Index(self.fields, self._few.copy(), self._many, self._recent, self._count)

    def terms_of(self, record: Mapping[str, Any]) -> list[Term]:
        """What a record is found by."""
        found: list[Term] = []
        for field in self.fields:
            value = record.get(field)
            if type(value) is str:
                found.append((field, value))
            elif isinstance(value, (list, tuple)):
                items: dict[Term, None] = {}
                for one in value:
                    if type(one) is str:
                        items[field, one, _ITEM] = None
                found += items
        return found

    def wanted(self, condition: Condition) -> tuple[Term, ...] | None:
        """The terms that the condition selects, None if it has to be evaluated."""
        field, operator, value = condition
        if value == ():
            return ()  # one of nothing
        if field not in self.fields:
            return None
        if isinstance(value, tuple):
            if operator == "in":
                return tuple([(field, one) for one in value])
            return tuple([(field, one, _ITEM) for one in value]) if operator == "has" else None
        if not isinstance(value, str) or operator not in _OF_TERMS:
            return None
        return ((field, value) if operator == "=" else (field, value, _ITEM),)

    def positions(self, term: Term, has: Has) -> Bits:
        """Where the records are that have the term."""
        found = self._many.get(term)
        if found is None:
            name = hash(term)
            if name not in self._few.positions:
                return ()
            return _changed((), _bits_of(self._found(self._few.of(name), term, has)))
        return _changed(found, self._changes((term,)).get(term, {}))

    def with_terms(self, position: int, terms: Iterable[Term], has: Has) -> Index:
        """The index after the record in a position has got terms.

        It is the same one if none of them is kept as bits: hints are shared by all versions.
        """
        many, few = self._many, self._few.positions
        kept: list[Term] = []
        more: dict[Term, Bits] = {}
        for term in terms:
            if term in many:
                kept.append(term)
                continue
            name = hash(term)
            if few.setdefault(name, position) == position:
                continue
            hints = self._few.add(name, position)
            if len(hints) > _FEW:
                others = self._found([one for one in hints if one != position], term, has)
                more[term] = _changed((), _bits_of([*others, position]))
        return self._with({**many, **more} if more else many, kept, position)

    def without_terms(self, position: int, terms: Iterable[Term]) -> Index:
        """The index after the record in a position has lost terms."""
        many = self._many
        return self._with(many, [term for term in terms if term in many], position)

    def _with(self, many: Mapping[Term, Bits], kept: list[Term], position: int) -> Index:
        """The index after the bits of a position have changed, of the terms that are ``kept``."""
        recent, count = self._recent, self._count
        if kept:
            recent, count = (kept, position, recent), count + 1
        elif many is self._many:
            return self
        changed = Index(self.fields, self._few, many, recent, count)
        if count < _RECENT:
            return changed
        merged = {term: _changed(many[term], bits) for term, bits in changed._changes().items()}
        return Index(self.fields, self._few, {**many, **merged})

    def _changes(self, wanted: Container[Term] | None = None) -> dict[Term, dict[int, int]]:
        """The bits of each block that have changed lately, by term; of those ``wanted`` (None: of
        all)."""
        found: dict[Term, dict[int, int]] = {}
        recent = self._recent
        while recent is not None:
            terms, position, recent = recent
            block, bit = divmod(position, _BLOCK)
            bits = 1 << bit
            for term in terms:
                if wanted is None or term in wanted:
                    blocks = found.setdefault(term, {})
                    blocks[block] = blocks.get(block, 0) ^ bits
        return found

    def _found(self, hints: Iterable[int], term: Term, has: Has) -> Iterable[int]:
        return (one for one in hints if has(one, term))


class Instants:
    """The instant of each position, of one field, in milliseconds.

    They are only added to, so all versions share them, until a record gets another instant. From
    the position ``_ordered`` on they never decrease, as instants of creation do.
    """

    __slots__ = ("_ordered", "_values")

    def __init__(self, values: array[int] | None = None, ordered: int = 0) -> None:
        self._values = array("q") if values is None else values
        self._ordered = ordered

    def copy(self, length: int) -> Instants:
        """Those of the positions below ``length``."""
        return Instants(self._values[:length], self._ordered)

    def add(self, position: int, instant: Any) -> None:
        """Note the instant of the next position."""
        values = self._values
        value = _milliseconds(instant) if type(instant) is str else _NEVER
        if len(values) > position:
            del values[position:]  # what a transaction that failed has left
        if values and value < values[-1]:
            self._ordered = position
        values.append(value)

    def replaced(self, position: int, instant: Any, length: int) -> Instants:
        """With another instant in a position."""
        value = _instant(instant)
        if self._values[position] == value:
            return self
        changed = self.copy(length)
        changed._values[position] = value  # noqa: SLF001  it is being made
        changed._ordered = max(self._ordered, min(position + 2, length))  # noqa: SLF001
        return changed

    def blocks(self, operator: str, instant: datetime, length: int) -> dict[int, int]:
        """The bits of the positions below ``length`` that meet a condition."""
        values, wanted, first = self._values, _milliseconds(instant), min(self._ordered, length)
        low, high = _NEVER + 1, wanted
        if operator == ">=":
            low, high = wanted, _LATEST
        start = bisect_left(values, low, first, length)
        blocks = _range(start, bisect_right(values, high, start, length))
        for position in range(first):
            if low <= values[position] <= high:
                block, bit = divmod(position, _BLOCK)
                blocks[block] = blocks.get(block, 0) | 1 << bit
        return blocks


_NEVER: Final = -(2**63)
_LATEST: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


@lru_cache(maxsize=1024)  # many records of one instant
def _milliseconds(instant: str | datetime) -> int:
    """An instant, or its text, since 1970; _NEVER for another text."""
    try:
        parsed = parse_instant(instant) if isinstance(instant, str) else instant
    except ValueError:
        return _NEVER
    return (parsed - _EPOCH) // _MILLISECOND


def _range(start: int, end: int) -> dict[int, int]:
    """The bits of the positions from ``start`` up to ``end``, without it."""
    blocks: dict[int, int] = {}
    while start < end:
        block, bit = divmod(start, _BLOCK)
        count = min(_BLOCK - bit, end - start)
        blocks[block] = ((1 << count) - 1) << bit
        start += count
    return blocks


def without(blocks: dict[int, int], gaps: Gaps) -> dict[int, int]:
    """The bits of each block without those of gaps."""
    left: dict[int, int] = {}
    for block, bits in blocks.items():
        first = block * _BLOCK
        for position, missing in gaps(first, first + _BLOCK):
            bits &= ~(missing << (position - first))  # noqa: PLW2901  the bits that are left
        left[block] = bits
    return left


def union(found: Iterable[Bits]) -> dict[int, int]:
    """The bits of each block that some of them have."""
    blocks: dict[int, int] = {}
    for positions in found:
        for block, bits in positions:
            blocks[block] = blocks.get(block, 0) | bits
    return blocks


def intersection(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    """The bits of each block that both have."""
    return {block: bits & other[block] for block, bits in one.items() if block in other}


def ascending(blocks: dict[int, int], start: int) -> Iterator[int]:
    """The positions from ``start`` on, the lowest first."""
    for block in sorted(blocks):
        first = block * _BLOCK
        below = max(start - first, 0)
        bits = blocks[block] >> below << below
        while bits:
            lowest = bits & -bits
            yield first + lowest.bit_length() - 1
            bits ^= lowest


def descending(blocks: dict[int, int], start: int) -> Iterator[int]:
    """The positions below ``start``, the highest first."""
    for block in sorted(blocks, reverse=True):
        first = block * _BLOCK
        bits = blocks[block]
        if start < first + _BLOCK:
            bits &= (1 << max(start - first, 0)) - 1
        while bits:
            top = bits.bit_length() - 1
            yield first + top
            bits ^= 1 << top


def _bits_of(positions: Iterable[int]) -> dict[int, int]:
    """The bits of each block that stand for the positions."""
    found: dict[int, int] = {}
    for position in positions:
        block, bit = divmod(position, _BLOCK)
        found[block] = found.get(block, 0) | 1 << bit
    return found


def _changed(bits: Bits, changes: Mapping[int, int]) -> Bits:
    """Bits after those that have changed were added, or removed if they were there."""
    if not changes:
        return bits
    before = dict(bits)
    return tuple(
        {**before, **{one: before.get(one, 0) ^ new for one, new in changes.items()}}.items()
    )


def matches(record: Record, where: tuple[Condition, ...]) -> bool:
    """Whether a record meets all conditions."""
    return all(
        condition.field in record
        and _OPERATORS[condition.operator](record[condition.field], condition.value)
        for condition in where
    )


def _instant(value: Any) -> int:
    return _milliseconds(value) if type(value) is str else _NEVER


def _has(value: Any, wanted: str | tuple[str, ...]) -> bool:
    if not isinstance(value, list):
        return False
    return any(one in value for one in wanted) if isinstance(wanted, tuple) else wanted in value


_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": lambda value, wanted: bool(value == wanted),
    ">=": lambda value, wanted: _instant(value) >= _milliseconds(wanted),
    "<=": lambda value, wanted: _NEVER < _instant(value) <= _milliseconds(wanted),
    "in": lambda value, wanted: value in wanted,
    "has": _has,
}
