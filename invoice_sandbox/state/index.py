"""How records of a collection are found: by key, by the terms of indexed fields, by conditions.

A term is a field with a text of it, or with a text of its list. Of a term of few records there are
hints only, by its hash; the positions of others are bits in blocks, but for the last changes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final

from rpds import HashTrieMap

from invoice_sandbox.state import Condition, Record

Term = tuple[str, ...]
"""``(field, text)``, or ``(field, text, _ITEM)`` of a list."""

Terms = tuple[Term, ...]

_ITEM: Final = "item"

Bits = tuple[tuple[int, int], ...]
"""Positions: the number of each block, and its positions as bits."""

Has = Callable[[int, Term], bool]
"""Whether the record in a position has a term."""

_BLOCK: Final = 2048
_FEW: Final = 32
"""Positions of a term from which they are kept as bits."""

_MOST_DIGITS: Final = 9

_RECENT: Final = 256
"""Changes of bits that are made at once, which is faster."""

_Recent = tuple[Term, int, Any] | None
"""The last change of bits: a term, a position, and the change before. Versions share changes."""


_NO_BITS: Final[HashTrieMap[Term, Bits]] = HashTrieMap()


class Hints:
    """Positions at which a name was found in some version, in the order of their first use.

    They are only added to, so all versions share them; whoever uses one looks whether it is right.
    Several positions of a name are kept as bytes, which take little memory.
    """

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: dict[Hashable, int | bytes] = {}

    def of(self, name: Hashable) -> tuple[int, ...]:
        """Where ``name`` may be."""
        found = self._positions.get(name)
        if found is None:
            return ()
        return (found,) if isinstance(found, int) else tuple(memoryview(found).cast("I"))

    def add(self, name: Hashable, position: int) -> tuple[int, ...]:
        """Note another position, and return all of them."""
        if name not in self._positions:
            self._positions[name] = position
            return (position,)
        before = self.of(name)
        if position in before:
            return before
        after = (*before, position)
        self._positions[name] = array("I", after).tobytes()
        return after

    def copy(self) -> Hints:
        """Independent ones."""
        copied = Hints()
        copied._positions = self._positions.copy()
        return copied


class Keys:
    """The key of each position, and where to find a key. They are only added to, like hints.

    Most keys end with a number that is counted like the positions: they need no hint.
    """

    __slots__ = ("_distance", "_hints", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self._hints = Hints()
        self._distance: int | None = None

    def add(self, key: str, position: int) -> None:
        """Note the key of the next position."""
        if len(self.names) > position:
            del self.names[position:]  # what a transaction that failed has left
        self.names.append(key)
        number = _number(key)
        if self._distance is None and number >= 0:
            self._distance = position - number
        if number < 0 or number + (self._distance or 0) != position:
            self._hints.add(key, position)

    def others(self, key: str) -> tuple[int, ...]:
        """Where else than at its number the key may be."""
        return self._hints.of(key)

    def counted(self, key: str) -> int:
        """The position that the number at the end of the key stands for; below 0: there is none."""
        number = _number(key)
        return -1 if number < 0 else number + (self._distance or 0)

    def copy(self, length: int) -> Keys:
        """Those of the positions below ``length``, and the hints of all."""
        copied = Keys()
        copied.names, copied._hints = self.names[:length], self._hints.copy()
        copied._distance = self._distance
        return copied


def _number(key: str) -> int:
    """The number at the end of a key; -1: there is none."""
    digits = key[key.rfind("_") + 1 :]
    return int(digits) if digits.isdecimal() and len(digits) <= _MOST_DIGITS else -1


class Index:
    """The positions of the records that have a term, of a text or a list in one of the ``fields``.

    ``_recent`` are the bits that are still to be changed, and how many.
    """

    __slots__ = ("_count", "_few", "_many", "_recent", "fields")

    def __init__(
        self,
        fields: tuple[str, ...],
        few: Hints,
        many: HashTrieMap[Term, Bits] = _NO_BITS,
        recent: _Recent = None,
        count: int = 0,
    ) -> None:
        self.fields = fields
        self._few = few
        self._many = many
        self._recent = recent
        self._count = count

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
                items = dict.fromkeys([one for one in value if type(one) is str])
                found += [(field, one, _ITEM) for one in items]
        return found

    def wanted(self, condition: Condition) -> tuple[Term, ...] | None:
        """The terms that the condition selects, None if it has to be evaluated."""
        field, operator, value = condition
        if field not in self.fields:
            return None
        if operator == "in":
            return tuple([(field, one) for one in value]) if isinstance(value, tuple) else None
        if not isinstance(value, str):
            return None
        found: Mapping[str, Terms] = {"=": ((field, value),), "has": ((field, value, _ITEM),)}
        return found.get(operator)

    def positions(self, term: Term, has: Has) -> Bits:
        """Where the records are that have the term."""
        found = self._many.get(term)
        if found is None:
            return _toggled((), self._found(self._few.of(hash(term)), term, has))
        return _toggled(found, [position for one, position in self._changes() if one == term])

    def with_terms(self, position: int, terms: Iterable[Term], has: Has) -> Index:
        """The index after the record in a position has got terms.

        It is the same one if none of them is kept as bits: hints are shared by all versions.
        """
        many, recent, count = self._many, self._recent, self._count
        for term in terms:
            if term in many:
                recent, count = (term, position, recent), count + 1
            elif len(hints := self._few.add(hash(term), position)) > _FEW:
                others = self._found([one for one in hints if one != position], term, has)
                many = many.insert(term, _toggled((), [*others, position]))
        return self._changed(many, recent, count)

    def without_terms(self, position: int, terms: Iterable[Term]) -> Index:
        """The index after the record in a position has lost terms."""
        recent, count = self._recent, self._count
        for term in terms:
            if term in self._many:
                recent, count = (term, position, recent), count + 1
        return self._changed(self._many, recent, count)

    def _changed(self, many: HashTrieMap[Term, Bits], recent: _Recent, count: int) -> Index:
        if many is self._many and recent is self._recent:
            return self
        changed = Index(self.fields, self._few, many, recent, count)
        if count < _RECENT:
            return changed
        return Index(self.fields, self._few, _merged(many, changed._changes()))

    def _changes(self) -> Iterator[tuple[Term, int]]:
        recent = self._recent
        while recent is not None:
            term, position, recent = recent
            yield term, position

    def _found(self, hints: Iterable[int], term: Term, has: Has) -> Iterable[int]:
        return (one for one in hints if has(one, term))


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


def _merged(
    many: HashTrieMap[Term, Bits], recent: Iterable[tuple[Term, int]]
) -> HashTrieMap[Term, Bits]:
    by_term: dict[Term, list[int]] = {}
    for term, position in recent:
        by_term.setdefault(term, []).append(position)
    for term, positions in by_term.items():
        many = many.insert(term, _toggled(many[term], positions))
    return many


def _toggled(bits: Bits, positions: Iterable[int]) -> Bits:
    """Bits after each of the positions was added, or removed if it was there."""
    changed: dict[int, int] = {}
    for position in positions:
        block, bit = divmod(position, _BLOCK)
        changed[block] = changed.get(block, 0) ^ (1 << bit)
    if not changed:
        return bits
    before = dict(bits)
    return tuple(
        {**before, **{one: before.get(one, 0) ^ new for one, new in changed.items()}}.items()
    )


def matches(record: Record, where: tuple[Condition, ...]) -> bool:
    """Whether a record meets all conditions."""
    return all(
        condition.field in record
        and _OPERATORS[condition.operator](record[condition.field], condition.value)
        for condition in where
    )


def _compare(compare: Callable[[str, str], bool], value: Any, wanted: str) -> bool:
    # Without its Z, an instant with milliseconds sorts after the same second without them.
    return isinstance(value, str) and compare(value.removesuffix("Z"), wanted.removesuffix("Z"))


def _has(value: Any, wanted: str) -> bool:
    return isinstance(value, list) and wanted in value


_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": lambda value, wanted: bool(value == wanted),
    ">=": lambda value, wanted: _compare(str.__ge__, value, wanted),
    "<=": lambda value, wanted: _compare(str.__le__, value, wanted),
    "in": lambda value, wanted: value in wanted,
    "has": _has,
}
