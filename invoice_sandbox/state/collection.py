"""One collection of records as a persistent value: another version shares what did not change.

Keeping a version is a snapshot, going back to a version is a rollback.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from rpds import HashTrieMap

from invoice_sandbox.base.jsonio import dumps, fitted
from invoice_sandbox.state import Condition, Page, Record
from invoice_sandbox.state.packing import Packing, Stored, position_of, size_of

Positions = int | tuple[tuple[int, int], ...]
"""One position; or several as bits, in the order of blocks: the number of each block, its bits."""

Index: TypeAlias = "HashTrieMap[Any, Positions]"
"""The positions of the records that have a term; ``_terms`` gives the terms of a record."""

RECORD_BYTES: Final = 250
"""What a record takes besides its text and its key."""

_BLOCK: Final = 2048

_Asked = tuple[int | None, int | None, tuple[Condition, ...]]
"""The limit, position and conditions of a page."""

_MAX_COMPARED: Final = 1000
"""Records of a collection that is compared with another."""

_KEPT_PAGES: Final = 16
_KEPT_RECORDS: Final = 100
"""How many pages a version keeps, and of how many records."""


class Collection:
    """Records by key, in the order of their positions.

    The position of a record never changes, so that cursors stay valid. ``keys`` has the key of
    each position. It is only appended to, and shared by the versions since the last restore: each
    uses as many as its ``length``. A position whose record was deleted has no record. ``size`` is
    that of all keys and records, in bytes.
    """

    __slots__ = ("indexes", "keys", "length", "packing", "pages", "records", "size")

    def __init__(self, fields: Iterable[str] = ()) -> None:
        self.records: HashTrieMap[str, Stored] = HashTrieMap()
        self.keys: list[str] = []
        self.length = 0
        self.size = 0
        self.packing = Packing()
        self.indexes: dict[str, Index] = {one: HashTrieMap() for one in fields}
        self.pages: dict[_Asked, Page] = {}

    def with_record(self, key: str, record: Mapping[str, Any]) -> Collection:
        """The collection with the record at its end, or replaced in its position."""
        before = self.records.get(key)
        position = self.length if before is None else position_of(before)
        indexes = self._indexed(position, before, record)
        stored = self.packing.pack(position, record)
        changed = self._version(self.records.insert(key, stored), indexes)
        changed.size += size_of(stored) + (
            len(key) + RECORD_BYTES if before is None else -size_of(before)
        )
        if before is None:
            del self.keys[position:]  # what a transaction that failed has left
            self.keys.append(key)
            changed.length += 1
        return changed

    def without(self, key: str) -> Collection:
        """The collection without the record, which must exist."""
        before = self.records[key]
        indexes = self._indexed(position_of(before), before, _NO_MEMBERS)
        changed = self._version(self.records.remove(key), indexes)
        changed.size -= size_of(before) + len(key) + RECORD_BYTES
        return changed

    def detached(self) -> Collection:
        """The same version, to continue from while others continue from a later one."""
        copied = self._version(self.records, self.indexes)
        copied.keys = self.keys[: self.length]
        copied.packing = self.packing.copy()
        return copied

    def is_like(self, other: Collection) -> bool:
        """Whether both are small, and have the same records in the same positions."""
        if self.length != other.length or self.length > _MAX_COMPARED:
            return False
        if len(self.records) != len(other.records) or self.indexes.keys() != other.indexes.keys():
            return False
        keys = self.keys[: self.length]
        return (
            self.packing.reads_like(other.packing)
            and keys == other.keys[: self.length]
            and all(self.records.get(key) == other.records.get(key) for key in keys)
        )

    def get(self, key: str) -> Record | None:
        """A copy of the record, or None."""
        found = self.records.get(key)
        return None if found is None else self.packing.unpack(found)

    def page(self, limit: int | None, before: int | None, where: tuple[Condition, ...]) -> Page:
        """At most ``limit`` records, newest first, older than position ``before``.

        A version keeps its last small pages.
        """
        if not self.records:
            return _NO_RECORDS
        asked = (limit, before, where)
        if asked not in self.pages:
            page = self._page(*asked)
            if len(page.records) > _KEPT_RECORDS:
                return page
            if len(self.pages) >= _KEPT_PAGES:
                self.pages.clear()
            self.pages[asked] = page
        return self.pages[asked]

    def _page(self, limit: int | None, before: int | None, where: tuple[Condition, ...]) -> Page:
        found: list[Stored] = []
        start = self.length if before is None else min(before, self.length)
        for stored in self._matching(start, where):
            if len(found) == limit:
                return _page(self.packing, found, position_of(stored) + 1)
            found.append(stored)
        return _page(self.packing, found, None)

    def count(self, where: tuple[Condition, ...]) -> int:
        """How many records match."""
        if not where:
            return len(self.records)
        blocks, others = self._blocks(where)
        if blocks is not None and not others:
            return sum(bits.bit_count() for bits in blocks.values())
        return sum(1 for _ in self._matching(self.length, where))

    def _matching(self, start: int, where: tuple[Condition, ...]) -> Iterator[Stored]:
        blocks, others = self._blocks(where)
        positions = range(start - 1, -1, -1) if blocks is None else _descending(blocks, start)
        for position in positions:
            found = self.records.get(self.keys[position])
            if found is None or position_of(found) != position:
                continue
            if not others or _matches(self.packing.unpack(found), others):
                yield found

    def _blocks(
        self, where: tuple[Condition, ...]
    ) -> tuple[dict[int, int] | None, tuple[Condition, ...]]:
        """What the indexes know: bits by block, None if nothing; and the other conditions."""
        blocks: dict[int, int] | None = None
        others: list[Condition] = []
        for condition in where:
            index = self.indexes.get(condition.field)
            terms = None if index is None else _wanted(condition)
            if index is None or terms is None:
                others.append(condition)
                continue
            one = _union([index[term] for term in terms if term in index])
            blocks = one if blocks is None else _intersection(blocks, one)
        return blocks, tuple(others)

    def _indexed(
        self, position: int, before: Stored | None, after: Mapping[str, Any]
    ) -> dict[str, Index]:
        changed: dict[str, Index] = {}
        if not self.indexes:
            return self.indexes
        earlier = _NO_MEMBERS if before is None else self.packing.unpack(before)
        for name, index in self.indexes.items():
            old, new = earlier.get(name), after.get(name)
            if old != new:
                terms = _terms(old) ^ _terms(new)
                changed[name] = _with_terms_toggled(index, terms, position)
        return {**self.indexes, **changed} if changed else self.indexes

    def _version(self, records: HashTrieMap[str, Stored], indexes: dict[str, Index]) -> Collection:
        version = Collection.__new__(Collection)
        version.records, version.indexes = records, indexes
        version.keys, version.length, version.size = self.keys, self.length, self.size
        version.packing, version.pages = self.packing, {}
        return version


class _Records(Sequence[Record]):
    """Copies of records, made when they are read."""

    __slots__ = ("_packing", "_shown", "_stored")

    def __init__(self, packing: Packing, stored: Sequence[Stored]) -> None:
        self._packing = packing
        self._stored = stored
        self._shown: tuple[Callable[[Record], Any], bytes] | None = None

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, index: Any) -> Any:
        found, unpack = self._stored[index], self._packing.unpack
        return [unpack(one) for one in found] if isinstance(index, slice) else unpack(found)

    def __iter__(self) -> Iterator[Record]:
        return map(self._packing.unpack, self._stored)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # records are dicts

    def written(self, present: Callable[[Record], Any]) -> bytes:
        if self._shown is None or self._shown[0] is not present:
            self._shown = (present, fitted(dumps([present(one) for one in self])))
        return self._shown[1]


def _page(packing: Packing, stored: Sequence[Stored], next_position: int | None) -> Page:
    records = _Records(packing, stored)
    return Page(records, next_position, records.written)


_NO_RECORDS: Final = _page(Packing(), (), None)


_NO_MEMBERS: Final[Record] = {}


def _wanted(condition: Condition) -> tuple[Any, ...] | None:
    """The terms of an index that the condition selects, None if it has to be evaluated."""
    value = condition.value
    if condition.operator == "in":
        return value if isinstance(value, tuple) else None
    if not isinstance(value, str):
        return None
    return {"=": (value,), "has": ((value,),)}.get(condition.operator)


def _terms(value: Any) -> frozenset[Any]:
    """What a record is found by: the text of the field, or each text of its list in a tuple."""
    if type(value) is str:
        return frozenset((value,))
    if isinstance(value, (list, tuple)):
        return frozenset((one,) for one in value if type(one) is str)
    return _NO_TERMS


_NO_TERMS: Final[frozenset[Any]] = frozenset()


def _with_terms_toggled(index: Index, terms: Iterable[Any], position: int) -> Index:
    for term in terms:
        positions = _toggled(index.get(term, ()), position)
        index = index.remove(term) if positions == () else index.insert(term, positions)
    return index


def _toggled(positions: Positions, position: int) -> Positions:
    if positions == ():
        return position
    if positions == position:
        return ()
    blocks = _blocks_of(positions)
    block, bit = divmod(position, _BLOCK)
    at = bisect_left(blocks, (block,))
    is_there = at < len(blocks) and blocks[at][0] == block
    bits = (blocks[at][1] if is_there else 0) ^ (1 << bit)
    return (*blocks[:at], *(((block, bits),) if bits else ()), *blocks[at + is_there :])


def _blocks_of(positions: Positions) -> tuple[tuple[int, int], ...]:
    if isinstance(positions, tuple):
        return positions
    block, bit = divmod(positions, _BLOCK)
    return ((block, 1 << bit),)


def _union(found: list[Positions]) -> dict[int, int]:
    blocks = dict(_blocks_of(found[0])) if found else {}
    for positions in found[1:]:
        for block, bits in _blocks_of(positions):
            blocks[block] = blocks.get(block, 0) | bits
    return blocks


def _intersection(one: dict[int, int], other: dict[int, int]) -> dict[int, int]:
    return {block: bits & other[block] for block, bits in one.items() if block in other}


def _descending(blocks: dict[int, int], start: int) -> Iterator[int]:
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


def _matches(record: Record, where: tuple[Condition, ...]) -> bool:
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
