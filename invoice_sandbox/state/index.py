"""How records of a collection are found: by key, by the terms of an indexed field, by conditions.

A term is a text of the field, or a text of its list in a tuple. Of a term of few records there are
hints only, by its hash; the positions of others are bits in blocks, but for the last changes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from rpds import HashTrieMap

from invoice_sandbox.state import Condition, Record

Term = str | tuple[str]
Terms = tuple[Term, ...]

Bits = tuple[tuple[int, int], ...]
"""Positions: the number of each block, and its positions as bits."""

Has = Callable[[int, Term], bool]
"""Whether the record in a position has a term."""

_BLOCK: Final = 2048
_FEW: Final = 32
"""Positions of a term from which they are kept as bits."""

_MOST_DIGITS: Final = 9

_RECENT: Final = 64
"""Changes of bits that are made at once, which is faster."""

_NO_TERMS: Final[Terms] = ()


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
        before = self.of(name)
        if position in before:
            return before
        after = (*before, position)
        self._positions[name] = array("I", after).tobytes() if before else position
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
        del self.names[position:]  # what a transaction that failed has left
        self.names.append(key)
        if self._distance is None:
            self._distance = 0
            number = self.counted(key)
            self._distance = None if number < 0 else position - number
        if self.counted(key) != position:
            self._hints.add(key, position)

    def others(self, key: str) -> tuple[int, ...]:
        """Where else than at its number the key may be."""
        return self._hints.of(key)

    def counted(self, key: str) -> int:
        """The position that the number at the end of the key stands for; -1: there is none."""
        digits = key[key.rfind("_") + 1 :]
        if self._distance is None or len(digits) > _MOST_DIGITS or not digits.isdecimal():
            return -1
        return int(digits) + self._distance

    def copy(self, length: int) -> Keys:
        """Those of the positions below ``length``, and the hints of all."""
        copied = Keys()
        copied.names, copied._hints = self.names[:length], self._hints.copy()
        copied._distance = self._distance
        return copied


class Index:
    """The positions of the records that have a term. ``recent`` are the bits to be changed."""

    __slots__ = ("_few", "_many", "_recent")

    def __init__(
        self,
        few: Hints,
        many: HashTrieMap[Term, Bits],
        recent: tuple[tuple[Term, int], ...] = (),
    ) -> None:
        self._few = few
        self._many = many
        self._recent = recent

    def copy(self) -> Index:
        """An independent one."""
        return Index(self._few.copy(), self._many, self._recent)

    def positions(self, term: Term, has: Has) -> Bits:
        """Where the records are that have the term."""
        found = self._many.get(term)
        if found is None:
            return _toggled((), self._found(self._few.of(hash(term)), term, has))
        return _toggled(found, [position for one, position in self._recent if one == term])

    def with_terms(self, position: int, terms: Sequence[Term], has: Has) -> Index:
        """The index after the record in a position has got terms.

        It is the same one if none of them is kept as bits: hints are shared by all versions.
        """
        many, toggled = self._many, []
        for term in terms:
            if term in many:
                toggled.append((term, position))
            elif len(hints := self._few.add(hash(term), position)) > _FEW:
                others = self._found([one for one in hints if one != position], term, has)
                many = many.insert(term, _toggled((), [*others, position]))
        return self._changed(many, toggled)

    def without_terms(self, position: int, terms: Sequence[Term]) -> Index:
        """The index after the record in a position has lost terms."""
        return self._changed(self._many, [(one, position) for one in terms if one in self._many])

    def _changed(self, many: HashTrieMap[Term, Bits], toggled: list[tuple[Term, int]]) -> Index:
        if many is self._many and not toggled:
            return self
        recent = (*self._recent, *toggled)
        if len(recent) < _RECENT:
            return Index(self._few, many, recent)
        return Index(self._few, _merged(many, recent))

    def _found(self, hints: Iterable[int], term: Term, has: Has) -> Iterable[int]:
        return (one for one in hints if has(one, term))


def terms_of(value: Any) -> Terms:
    """What a record with that value of the field is found by."""
    if type(value) is str:
        return (value,)
    if isinstance(value, (list, tuple)):
        return tuple(dict.fromkeys([(one,) for one in value if type(one) is str]))
    return _NO_TERMS


def wanted(condition: Condition) -> tuple[Term, ...] | None:
    """The terms that the condition selects, None if it has to be evaluated."""
    value = condition.value
    if condition.operator == "in":
        return value if isinstance(value, tuple) else None
    if not isinstance(value, str):
        return None
    found: Mapping[str, tuple[Term, ...]] = {"=": (value,), "has": ((value,),)}
    return found.get(condition.operator)


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
