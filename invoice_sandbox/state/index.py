"""An index of one field of a collection, as a persistent value.

A term is a text of the field, or a text of its list in a tuple. Of a term of few records there are
hints only, by its hash; the positions of others are bits in blocks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from rpds import HashTrieMap

from invoice_sandbox.state import Condition
from invoice_sandbox.state.versions import Hints

Term = str | tuple[str]
Terms = frozenset[Term]

Bits = tuple[tuple[int, int], ...]
"""Positions, in the order of blocks: the number of each block, and its positions as bits."""

Has = Callable[[int, Term], bool]
"""Whether the record in a position has a term."""

_BLOCK: Final = 2048
_FEW: Final = 32
"""Positions of a term from which they are kept as bits."""

_NO_TERMS: Final[Terms] = frozenset()


class Index:
    """The positions of the records that have a term."""

    __slots__ = ("_few", "_many")

    def __init__(self, few: Hints, many: HashTrieMap[Term, Bits]) -> None:
        self._few = few
        self._many = many

    def copy(self, length: int) -> Index:
        """An independent one of the positions below ``length``."""
        return Index(self._few.copy(length), self._many)

    def positions(self, term: Term, has: Has) -> Bits:
        """Where the records are that have the term."""
        found = self._many.get(term)
        return _bits(self._found(self._few.of(hash(term)), term, has)) if found is None else found

    def changed(self, position: int, removed: Terms, added: Terms, has: Has) -> Index:
        """The index after the record in a position has lost and got terms."""
        many = self._many
        for term in removed:
            if term in many:
                many = many.insert(term, _toggled(many[term], position))
        for term in added:
            before = many.get(term)
            if before is not None:
                many = many.insert(term, _toggled(before, position))
            elif len(hints := self._few.add(hash(term), position)) > _FEW:
                others = self._found([one for one in hints if one != position], term, has)
                many = many.insert(term, _bits((*others, position)))
        return self if many is self._many else Index(self._few, many)

    def _found(self, hints: Iterable[int], term: Term, has: Has) -> Iterable[int]:
        return (one for one in hints if has(one, term))


def terms_of(value: Any) -> Terms:
    """What a record with that value of the field is found by."""
    if type(value) is str:
        return frozenset((value,))
    if isinstance(value, (list, tuple)):
        return frozenset((one,) for one in value if type(one) is str)
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


def _bits(positions: Iterable[int]) -> Bits:
    bits: Bits = ()
    for position in positions:
        bits = _toggled(bits, position)
    return bits


def _toggled(blocks: Bits, position: int) -> Bits:
    block, bit = divmod(position, _BLOCK)
    if blocks and blocks[-1][0] == block:
        return (*blocks[:-1], (block, blocks[-1][1] ^ (1 << bit)))
    at = bisect_left(blocks, (block,))
    is_there = at < len(blocks) and blocks[at][0] == block
    bits = (blocks[at][1] if is_there else 0) ^ (1 << bit)
    return (*blocks[:at], (block, bits), *blocks[at + is_there :])
