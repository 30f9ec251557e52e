"""One collection of records as a persistent value: another version shares what did not change.

Keeping a version is a snapshot, going back to a version is a rollback.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct
from rpds import HashTrieMap

from invoice_sandbox.base.jsonio import Packing, Stored, dumps, fitted, size_of
from invoice_sandbox.state import Condition, Instant, Page, Record
from invoice_sandbox.state.index import (
    Hints,
    Index,
    Instants,
    Keys,
    Term,
    descending,
    intersection,
    matches,
    union,
    without,
)

RECORD_BYTES: Final = 250
"""What a record takes besides its text and its key."""

_Asked = tuple[int | None, int | None, tuple[Condition, ...]]
"""The limit, position and conditions of a page."""

_MAX_COMPARED: Final = 1000
"""Records of a collection that is compared with another."""

_KEPT_PAGES: Final = 16
_KEPT_RECORDS: Final = 100
"""How many pages a version keeps, and of how many records."""

_BLOCK: Final = 64

T = TypeVar("T")


class Collection:
    """Records by key, in the order of their positions.

    The position of a record never changes, so that cursors stay valid. ``rows`` has the record of
    each position, None where it was deleted. ``keys``, ``packing``, ``instants`` and the hints of
    ``index`` are only added to, and shared by the versions until one ``is_detached``. ``count_all``
    is the number of records, ``size`` that of all keys and records in bytes.
    """

    __slots__ = (
        *("count_all", "index", "instants", "is_detached", "keys", "packing", "pages"),
        *("rows", "size"),
    )

    def __init__(self, fields: Iterable[str] = ()) -> None:
        self.rows: Rows[Stored | None] = Rows()
        self.keys = Keys()
        self.count_all = 0
        self.size = 0
        self.packing = Packing()
        fields = tuple(fields)
        self.index = Index(tuple(one for one in fields if not isinstance(one, Instant)), Hints())
        self.instants = {str(one): Instants() for one in fields if isinstance(one, Instant)}
        self.pages: dict[_Asked, Page] = {}
        self.is_detached = False

    def position(self, key: str) -> int | None:
        """The position of the record, or None."""
        found = self._find(key)
        return None if found is None else found[0]

    def _find(self, key: str) -> tuple[int, Stored] | None:
        """The record and its position, or None."""
        if self.count_all:
            rows, names = self.rows, self.keys.names
            for position in self.keys.of(key):
                if position < rows.length and names[position] == key:
                    stored = rows[position]
                    if stored is not None:
                        return position, stored
        return None

    def with_record(self, key: str, record: Mapping[str, Any]) -> Collection:
        """The collection with the record at its end, or replaced in its position."""
        changed = self._version()
        found, stored = self._find(key), changed.packing.pack(record)
        if found is None:
            position = self.rows.length
            changed.rows = self.rows.appended(stored)
            changed.keys.add(key, position)
            changed.count_all += 1
            changed.size += size_of(stored) + len(key) + RECORD_BYTES
            terms = self.index.terms_of(record)
            changed.index = changed.index.with_terms(position, terms, changed._has)  # noqa: SLF001
            for field, instants in changed.instants.items():
                instants.add(position, record.get(field))
        else:
            position, before = found
            changed.rows = self.rows.replaced(position, stored)
            changed.size += size_of(stored) - size_of(before)
            changed._index(position, before, record)  # noqa: SLF001
            for field, instants in self.instants.items():
                after = instants.replaced(position, record.get(field), self.rows.length)
                if after is not instants:
                    changed.instants = {**changed.instants, field: after}
        return changed

    def without(self, key: str) -> Collection:
        """The collection without the record, which must exist."""
        found = self._find(key)
        if found is None:
            raise KeyError(key)
        (position, before), changed = found, self._version()
        changed.rows = self.rows.replaced(position, None)
        changed.count_all -= 1
        changed.size -= size_of(before) + len(key) + RECORD_BYTES
        changed._index(position, before, _NO_MEMBERS)  # noqa: SLF001
        return changed

    def detached(self) -> Collection:
        """The same version, to continue from while others continue from a later one."""
        version = Collection.__new__(Collection)
        for name in self.__slots__:
            setattr(version, name, getattr(self, name))
        version.pages, version.is_detached = {}, True
        return version

    def is_like(self, other: Collection) -> bool:
        """Whether both are small, and have the same records in the same positions.

        Both must have the same indexed fields.
        """
        length = self.rows.length
        return (
            length == other.rows.length
            and length <= _MAX_COMPARED
            and self.packing.reads_like(other.packing)
            and all(self.keys.names[one] == other.keys.names[one] for one in range(length))
            and all(self.rows[one] == other.rows[one] for one in range(length))
        )

    def get(self, key: str) -> Record | None:
        """A copy of the record, or None."""
        found = self._find(key)
        return None if found is None else self.packing.unpack(found[1])

    def page(self, limit: int | None, before: int | None, where: tuple[Condition, ...]) -> Page:
        """At most ``limit`` records, newest first, older than position ``before``.

        A version keeps its last small pages.
        """
        if not self.count_all:
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
        blocks, others = self._blocks(where)
        if blocks is not None and not blocks:
            return _NO_RECORDS
        start = self.rows.length if before is None else min(before, self.rows.length)
        for position, stored in self._matching(start, blocks, others):
            if len(found) == limit:
                return _page(self.packing, found, position + 1)
            found.append(stored)
        return _page(self.packing, found, None)

    def count(self, where: tuple[Condition, ...]) -> int:
        """How many records match."""
        if not where:
            return self.count_all
        blocks, others = self._blocks(where)
        if blocks is not None and not others:
            return sum(bits.bit_count() for bits in blocks.values())
        return sum(1 for _ in self._matching(self.rows.length, blocks, others))

    def _matching(
        self, start: int, blocks: dict[int, int] | None, others: tuple[Condition, ...]
    ) -> Iterator[tuple[int, Stored]]:
        """The records before ``start``, the newest first, that ``_blocks`` and conditions allow."""
        positions = range(start - 1, -1, -1) if blocks is None else descending(blocks, start)
        for position in positions:
            found = self.rows[position]
            if found is not None and (not others or matches(self.packing.unpack(found), others)):
                yield position, found

    def _blocks(
        self, where: tuple[Condition, ...]
    ) -> tuple[dict[int, int] | None, tuple[Condition, ...]]:
        """What the indexes know: bits by block, None if nothing; and the other conditions."""
        blocks: dict[int, int] | None = None
        others: list[Condition] = []
        for condition in where:
            if isinstance(condition.value, datetime) and condition.field in self.instants:
                one = self._dated(condition, condition.value)
                blocks = one if blocks is None else intersection(blocks, one)
                continue
            terms = self.index.wanted(condition)
            if terms is None:
                others.append(condition)
                continue
            one = union([self.index.positions(term, self._has) for term in terms])
            blocks = one if blocks is None else intersection(blocks, one)
        return blocks, tuple(others)

    def _dated(self, condition: Condition, instant: datetime) -> dict[int, int]:
        """The bits of the records that meet a condition on an instant."""
        length = self.rows.length
        blocks = self.instants[condition.field].blocks(condition.operator, instant, length)
        if self.count_all == length:
            return blocks
        return without(blocks, self.rows.gaps)

    def _has(self, position: int, term: Term) -> bool:
        found = self.rows[position] if position < self.rows.length else None
        return found is not None and term in self.index.terms_of(self.packing.unpack(found))

    def _index(self, position: int, before: Stored, after: Mapping[str, Any]) -> None:
        if self.index.fields:
            old = self.index.terms_of(self.packing.unpack(before))
            new = self.index.terms_of(after)
            left = self.index.without_terms(position, [one for one in old if one not in new])
            added = [one for one in new if one not in old]
            self.index = left.with_terms(position, added, self._has)

    def _version(self) -> Collection:
        """The same, to be changed."""
        version = Collection.__new__(Collection)
        version.rows, version.keys = self.rows, self.keys
        version.count_all, version.size = self.count_all, self.size
        version.packing, version.index = self.packing, self.index
        version.instants = self.instants
        version.pages, version.is_detached = {}, False
        if self.is_detached:
            length = self.rows.length
            version.keys, version.packing = self.keys.copy(length), self.packing.copy()
            version.index = self.index.copy()
            version.instants = {name: one.copy(length) for name, one in self.instants.items()}
        return version


_NO_BLOCKS: Final[HashTrieMap[int, Any]] = HashTrieMap()


class Rows(Struct, Generic[T], eq=False, gc=False):
    """A list as a persistent value, in blocks: another version shares those that did not change."""

    length: int = 0
    _full: HashTrieMap[int, tuple[T, ...]] = _NO_BLOCKS
    _last: tuple[T, ...] = ()

    def __getitem__(self, position: int) -> T:
        """The item in a position, which must exist."""
        before_last = position - self.length + len(self._last)
        if before_last >= 0:
            return self._last[before_last]
        return self._full[position // _BLOCK][position % _BLOCK]

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The positions of None between those two, as bits of each block that has any.

        ``start`` must be the beginning of a block.
        """
        for first in range(start, min(end, self.length), _BLOCK):
            number = first // _BLOCK
            block = self._last if number == len(self._full) else self._full[number]
            if None in block:
                yield first, sum(1 << at for at, item in enumerate(block) if item is None)

    def appended(self, item: T) -> Rows[T]:
        """With one more item."""
        length, last = self.length + 1, (*self._last, item)
        if len(last) < _BLOCK:
            return Rows(length, self._full, last)
        return Rows(length, self._full.insert(len(self._full), last))

    def replaced(self, position: int, item: T) -> Rows[T]:
        """With another item in a position."""
        block, at = divmod(position, _BLOCK)
        is_last = block == len(self._full)
        before = self._last if is_last else self._full[block]
        after = (*before[:at], item, *before[at + 1 :])
        if is_last:
            return Rows(self.length, self._full, after)
        return Rows(self.length, self._full.insert(block, after), self._last)


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
