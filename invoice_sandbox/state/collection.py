"""One collection of records as a persistent value: another version shares what did not change.

Keeping a version is a snapshot, going back to a version is a rollback. Records are stored as texts,
in blocks that are compressed once they are full: texts of one block are like each other, so they
take a tenth of their room together. Reading one takes as long as reading its block, so the last
blocks that were read are kept.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypeVar

import orjson
from msgspec import Struct

from invoice_sandbox.base.jsonio import dumps, fitted, packed_bytes, unpacked
from invoice_sandbox.state import Condition, Instant, Page, Record
from invoice_sandbox.state.index import (
    Hints,
    Index,
    Instants,
    Keys,
    Term,
    ascending,
    descending,
    intersection,
    matches,
    union,
    without,
)

RECORD_BYTES: Final = 250
"""What a record takes besides its text and its key."""

_Asked = tuple[int | None, int | None, tuple[Condition, ...], bool]
"""The limit, position and conditions of a page, and whether its oldest record is first."""

_MAX_COMPARED: Final = 1000
"""Records of a collection that is compared with another."""

_KEPT_PAGES: Final = 16
_KEPT_RECORDS: Final = 100
_KEPT_TEXTS: Final = 16
"""How many pages a version keeps, and of how many records; and how many records that were read by
their keys."""

T = TypeVar("T")

Stored = bytes
"""A record as JSON text, after a space if its numbers have digits that only a Decimal keeps."""

_EXACT: Final = b" "
_BLOCK: Final = 16
_GROUP: Final = 64
"""Texts of a block, and blocks of a group."""

_ALL: Final = 2**_BLOCK - 1
_LONGEST: Final = 8 * 1024
"""Bytes of a text that is compressed with others."""

_MOST_LOOSE: Final = 4
_KEPT: Final = 32
"""Blocks that were read last, of 128 KB each at most."""

_WINDOW_BITS: Final = -14
"""Negative, as the texts need neither zlib's header nor its checksum."""

_MEMORY_LEVEL: Final = 6


class Collection:
    """Records by key, in the order of their positions.

    The position of a record never changes, so that cursors stay valid. ``rows`` has the record of
    each position, None where it was deleted. ``keys``, ``instants`` and the hints of
    ``index`` are only added to, and shared by the versions until one ``is_detached``. ``count_all``
    is the number of records, ``size`` that of all keys and records in bytes.
    """

    __slots__ = (
        *("count_all", "index", "instants", "is_detached", "keys", "pages", "rows", "size"),
        "texts",
    )

    def __init__(self, fields: Iterable[str] = ()) -> None:
        self.rows = Rows()
        self.keys = Keys()
        self.count_all = 0
        self.size = 0
        fields = tuple(fields)
        self.index = Index(tuple(one for one in fields if not isinstance(one, Instant)), Hints())
        self.instants = {str(one): Instants() for one in fields if isinstance(one, Instant)}
        self.pages: dict[_Asked, Page] = {}
        self.texts: dict[str, Stored | None] = {}
        self.is_detached = False

    def position(self, key: str) -> int | None:
        """The position of the record, or None."""
        position, _ = self.keys.find(key, self.rows)
        return None if position < 0 else position

    def with_record(self, key: str, record: Mapping[str, Any]) -> Collection:
        """The collection with the record at its end, or replaced in its position."""
        text, is_exact = packed_bytes(record)
        size = len(text)
        if is_exact:
            text = _EXACT + text
        position, number = self.keys.find(key, self.rows)
        changed = self._version()
        if position < 0:
            position = self.rows.length
            changed.rows = self.rows.appended(text)
            changed.keys.add(key, number, position)
            changed.count_all += 1
            changed.size += size + len(key) + RECORD_BYTES
            if (index := changed.index).fields:
                terms = index.terms_of(record)
                changed.index = index.with_terms(position, terms, changed._has)  # noqa: SLF001
            for field, instants in changed.instants.items():
                instants.add(position, record.get(field))
        else:
            before = self.rows.known(position)
            changed.rows = self.rows.replaced(position, text)
            changed.size += size - size_of(before)
            changed._index(position, before, record)  # noqa: SLF001
            for field, instants in self.instants.items():
                after = instants.replaced(position, record.get(field), self.rows.length)
                if after is not instants:
                    changed.instants = {**changed.instants, field: after}
        return changed

    def without(self, key: str) -> Collection:
        """The collection without the record, which must exist."""
        position, _ = self.keys.find(key, self.rows)
        if position < 0:
            raise KeyError(key)
        before, changed = self.rows.known(position), self._version()
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
        version.pages, version.texts, version.is_detached = {}, {}, True
        return version

    def is_like(self, other: Collection) -> bool:
        """Whether both are small, and have the same records in the same positions.

        Both must have the same indexed fields.
        """
        length = self.rows.length
        return (
            length == other.rows.length
            and length <= _MAX_COMPARED
            and all(self.keys.names[one] == other.keys.names[one] for one in range(length))
            and all(self.rows[one] == other.rows[one] for one in range(length))
        )

    def get(self, key: str) -> Record | None:
        """A copy of the record, or None. A version keeps where it found the last ones."""
        try:
            text = self.texts[key]
        except KeyError:
            position, _ = self.keys.find(key, self.rows)
            text = None if position < 0 else self.rows[position]
            if len(self.texts) >= _KEPT_TEXTS:
                self.texts.clear()
            self.texts[key] = text
        return None if text is None else record_of(text)

    def page(
        self,
        limit: int | None,
        start: int | None,
        where: tuple[Condition, ...],
        oldest_first: bool = False,
    ) -> Page:
        """At most ``limit`` records, newest first or ``oldest_first``, from ``start`` on.

        A version keeps its last small pages.
        """
        if not self.count_all:
            return NO_RECORDS
        asked = (limit, start, where, oldest_first)
        if asked not in self.pages:
            page = self._page(*asked)
            if len(page.records) > _KEPT_RECORDS:
                return page
            if len(self.pages) >= _KEPT_PAGES:
                self.pages.clear()
            self.pages[asked] = page
        return self.pages[asked]

    def _page(
        self,
        limit: int | None,
        start: int | None,
        where: tuple[Condition, ...],
        oldest_first: bool,
    ) -> Page:
        found: list[Stored] = []
        blocks, others = self._blocks(where)
        if blocks is not None and not blocks:
            return NO_RECORDS
        if oldest_first:
            positions = self._ascending(max(start or 0, 0), blocks)
        else:
            length = self.rows.length
            positions = self._descending(length if start is None else min(start, length), blocks)
        for position, text in self._matching(positions, others):
            if len(found) == limit:
                return _page(found, position if oldest_first else position + 1)
            found.append(text)
        return _page(found, None)

    def count(self, where: tuple[Condition, ...]) -> int:
        """How many records match."""
        if not where:
            return self.count_all
        blocks, others = self._blocks(where)
        if blocks is not None and not others:
            return sum(bits.bit_count() for bits in blocks.values())
        return sum(1 for _ in self._matching(self._descending(self.rows.length, blocks), others))

    def _ascending(self, start: int, blocks: dict[int, int] | None) -> Iterable[int]:
        """The positions from ``start`` on that ``_blocks`` allows, the lowest first."""
        return range(start, self.rows.length) if blocks is None else ascending(blocks, start)

    def _descending(self, start: int, blocks: dict[int, int] | None) -> Iterable[int]:
        """The positions below ``start`` that ``_blocks`` allows, the highest first."""
        return range(start - 1, -1, -1) if blocks is None else descending(blocks, start)

    def _matching(
        self, positions: Iterable[int], others: tuple[Condition, ...]
    ) -> Iterator[tuple[int, Stored]]:
        """The records of the positions that meet the conditions."""
        for position in positions:
            found = self.rows[position]
            if found is not None and (not others or matches(record_of(found), others)):
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
        return found is not None and term in self.index.terms_of(record_of(found))

    def _index(self, position: int, before: Stored, after: Mapping[str, Any]) -> None:
        if self.index.fields:
            old = self.index.terms_of(record_of(before))
            new = self.index.terms_of(after)
            left = self.index.without_terms(position, [one for one in old if one not in new])
            added = [one for one in new if one not in old]
            self.index = left.with_terms(position, added, self._has)

    def _version(self) -> Collection:
        """The same, to be changed."""
        version = Collection.__new__(Collection)
        version.rows, version.keys = self.rows, self.keys
        version.count_all, version.size = self.count_all, self.size
        version.index, version.instants = self.index, self.instants
        version.pages, version.texts, version.is_detached = {}, {}, False
        if self.is_detached:
            length = self.rows.length
            version.keys, version.index = self.keys.copy(length), self.index.copy()
            version.instants = {name: one.copy(length) for name, one in self.instants.items()}
        return version


def stored(record: Any) -> Stored:
    """A record as text."""
    text, is_exact = packed_bytes(record)
    return _EXACT + text if is_exact else text


def record_of(text: Stored) -> Any:
    """A new record like the one that was stored, with lists for tuples and dicts for mappings."""
    return unpacked(text[1:].decode()) if text[:1] == _EXACT else orjson.loads(text)


def size_of(text: Stored) -> int:
    """The bytes of a record as JSON."""
    return len(text) - text.startswith(_EXACT)


class _Block(Struct, gc=False, frozen=True):
    """``lines`` are compressed texts. ``loose`` has those that took the place of a line, and long
    ones. ``gone`` are bits of the places that have none."""

    lines: bytes
    loose: dict[int, Stored]
    gone: int

    def texts(self) -> list[Stored | None]:
        found: list[Stored | None] = [*_lines(self.lines)] if self.lines else [None] * _BLOCK
        for at in range(_BLOCK):
            if self.gone >> at & 1:
                found[at] = None
            elif at in self.loose:
                found[at] = self.loose[at]
        return found


def _closed(texts: Sequence[Stored | None]) -> _Block:
    """A block of these texts."""
    gone = sum(1 << at for at, one in enumerate(texts) if one is None)
    loose = {at: one for at, one in enumerate(texts) if one is not None and len(one) > _LONGEST}
    lines = b"\n".join([b"" if at in loose else one or b"" for at, one in enumerate(texts)])
    deflate = zlib.compressobj(1, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
    return _Block(deflate.compress(lines) + deflate.flush(), loose, gone)


@lru_cache(maxsize=_KEPT)
def _lines(block: bytes) -> list[Stored]:
    return zlib.decompress(block, _WINDOW_BITS).split(b"\n")


class Rows(Struct, eq=False, gc=False):
    """Texts as a persistent list: another version shares the blocks that did not change.

    A text that was deleted is None.
    """

    length: int = 0
    _groups: tuple[tuple[_Block, ...], ...] = ()
    _last: tuple[Stored | None, ...] = ()

    def __getitem__(self, position: int) -> Stored | None:
        """The text in a position, which must exist."""
        in_last = position - self.length + len(self._last)
        if in_last >= 0:
            return self._last[in_last]
        number, at = divmod(position, _BLOCK)
        block = self._groups[number // _GROUP][number % _GROUP]
        if block.gone >> at & 1:
            return None
        return block.loose[at] if at in block.loose else _lines(block.lines)[at]

    def known(self, position: int) -> Stored:
        """The text in a position, which must have one."""
        text = self[position]
        assert text is not None  # noqa: S101  whoever asks has found it
        return text

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The positions of None between those two, as bits of each block that has any.

        ``start`` must be the beginning of a block.
        """
        for first in range(start, min(end, self.length), _BLOCK):
            group, number = divmod(first // _BLOCK, _GROUP)
            if first + _BLOCK <= self.length:
                gone = self._groups[group][number].gone
            else:
                gone = sum(1 << at for at, one in enumerate(self._last) if one is None)
            if gone:
                yield first, gone

    def appended(self, text: Stored) -> Rows:
        """With one more text."""
        length, last = self.length + 1, (*self._last, text)
        if len(last) < _BLOCK:
            return Rows(length, self._groups, last)
        if length % (_BLOCK * _GROUP) == _BLOCK:
            return Rows(length, (*self._groups, (_closed(last),)))
        return Rows(length, (*self._groups[:-1], (*self._groups[-1], _closed(last))))

    def replaced(self, position: int, text: Stored | None) -> Rows:
        """With another text in a position that has one."""
        at = position % _BLOCK
        if position >= self.length - len(self._last):
            return Rows(self.length, self._groups, _with(self._last, at, text))
        number, of_group = divmod(position // _BLOCK, _GROUP)
        group = self._groups[number]
        block = group[of_group]
        loose, gone, lines = {**block.loose}, block.gone, block.lines
        if text is None:
            loose.pop(at, None)
            gone |= 1 << at
            lines = b"" if gone == _ALL else lines
        else:
            loose[at] = text
        changed = _Block(lines, loose, gone)
        if len(loose) > _MOST_LOOSE:
            changed = _closed(changed.texts())
        groups = _with(self._groups, number, _with(group, of_group, changed))
        return Rows(self.length, groups, self._last)


def _with(items: tuple[T, ...], at: int, item: T) -> tuple[T, ...]:
    """The items with another one in a place."""
    return (*items[:at], item, *items[at + 1 :])


class _Records(Sequence[Record]):
    """Copies of records, made when they are read."""

    __slots__ = ("_shown", "_stored")

    def __init__(self, found: Sequence[Stored]) -> None:
        self._stored = found
        self._shown: tuple[Callable[[Record], Any], bytes] | None = None

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, index: Any) -> Any:
        found = self._stored[index]
        return [record_of(one) for one in found] if isinstance(index, slice) else record_of(found)

    def __iter__(self) -> Iterator[Record]:
        return map(record_of, self._stored)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # records are dicts

    def written(self, present: Callable[[Record], Any]) -> bytes:
        if self._shown is None or self._shown[0] is not present:
            self._shown = (present, fitted(dumps([present(one) for one in self])))
        return self._shown[1]


def _page(found: Sequence[Stored], next_position: int | None) -> Page:
    records = _Records(found)
    return Page(records, next_position, records.written)


NO_RECORDS: Final = _page((), None)


_NO_MEMBERS: Final[Record] = {}
