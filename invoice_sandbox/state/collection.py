"""One collection of records: dicts by key, with an index entry for each value of an indexed field.

A record is copied when it is written and when it is read. A change returns what undoes it. The
position of a record never changes, so that cursors stay valid. A snapshot shares the collection
until the next change, which copies it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache, partial
from itertools import islice
from typing import Any, Final

from msgspec import to_builtins

from invoice_sandbox.base.clock import parse_instant
from invoice_sandbox.base.jsonio import dumps
from invoice_sandbox.state import Condition, Instant, Page, Record

RECORD_BYTES: Final = 250
"""Bytes that a record takes besides its text and its key."""

_MOST_COMPARED: Final = 1000
"""Records of a collection that is compared with another."""

Term = tuple[str, ...]
"""A field and its value; of a list, a field, one of its items, and ``_ITEM``."""

_ITEM: Final = "item"
_NEVER: Final = -(2**63)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

copied: Final = partial(to_builtins, builtin_types=(Decimal,))
"""An independent copy of a record, with lists for tuples."""


@dataclass(slots=True, eq=False)
class Row:
    """A record in its position, with the bytes of its JSON text and its index terms."""

    position: int
    key: str
    record: Record
    size: int
    terms: tuple[Term, ...]
    instants: tuple[tuple[str, int], ...]


class Collection:
    """Records by key and by position, and the positions of each index term.

    ``terms`` has a position for a term of one record, as most are, and a sorted list for others.
    ``instants`` has pairs of an instant and a position for each indexed field, sorted.
    """

    __slots__ = ("fields", "instants", "is_shared", "positions", "rows", "size", "terms")

    def __init__(self, fields: Iterable[str] = ()) -> None:
        fields = tuple(fields)
        self.fields = tuple(field for field in fields if not isinstance(field, Instant))
        self.instants: dict[str, list[tuple[int, int]]] = {
            str(field): [] for field in fields if isinstance(field, Instant)
        }
        self.rows: dict[str, Row] = {}
        self.positions: list[Row | None] = []
        self.terms: dict[Term, int | list[int]] = {}
        self.size = 0
        self.is_shared = False

    def copy(self) -> Collection:
        """Return an independent collection with the same rows."""
        other = Collection()
        other.fields = self.fields
        other.instants = {field: pairs.copy() for field, pairs in self.instants.items()}
        other.rows, other.positions = self.rows.copy(), self.positions.copy()
        other.terms = {
            term: found if isinstance(found, int) else found.copy()
            for term, found in self.terms.items()
        }
        other.size = self.size
        return other

    def is_like(self, other: Collection) -> bool:
        """True if both are small and have the same records in the same positions."""
        return (
            len(self.positions) == len(other.positions) == len(self.rows) <= _MOST_COMPARED
            and self.rows.keys() == other.rows.keys()
            and all(
                row.position == other.rows[key].position and row.record == other.rows[key].record
                for key, row in self.rows.items()
            )
        )

    def position(self, key: str) -> int | None:
        """Return the position of the record, or None."""
        row = self.rows.get(key)
        return None if row is None else row.position

    def get(self, key: str) -> Record | None:
        """Return a copy of the record, or None."""
        row = self.rows.get(key)
        return None if row is None else copied(row.record)

    def row_of(self, key: str, record: Mapping[str, Any]) -> Row:
        """Return the row that the record would have: in its position, or at the end."""
        before = self.rows.get(key)
        kept = copied(record)
        return Row(
            len(self.positions) if before is None else before.position,
            key,
            kept,
            len(dumps(kept)),
            _terms(kept, self.fields),
            tuple([(field, _instant(kept.get(field))) for field in self.instants]),
        )

    def replace(self, key: str, row: Row | None) -> Row | None:
        """Put the row in the place of the one of that key, which is returned. None: remove it."""
        before = self.rows.get(key)
        if before is not None:
            self._remove_entries(before, () if row is None else row.terms)
            self.size -= before.size + len(key) + RECORD_BYTES
        if row is not None:
            self.rows[key] = row
            if row.position == len(self.positions):
                self.positions.append(row)
            self.positions[row.position] = row
            self._add_entries(row, () if before is None else before.terms)
            self.size += row.size + len(key) + RECORD_BYTES
        elif before is not None:
            del self.rows[key]
            self.positions[before.position] = None
        return before

    def _add_entries(self, row: Row, present: tuple[Term, ...]) -> None:
        position = row.position
        for term in row.terms:
            if term in present:
                continue
            found = self.terms.get(term)
            if found is None:
                self.terms[term] = position
            elif isinstance(found, int):
                self.terms[term] = sorted((found, position))
            else:
                insort(found, position)
        for field, instant in row.instants:
            insort(self.instants[field], (instant, row.position))

    def _remove_entries(self, row: Row, kept: tuple[Term, ...]) -> None:
        for term in row.terms:
            if term not in kept:
                self._remove_position(term, row.position)
        for field, instant in row.instants:
            pairs = self.instants[field]
            del pairs[bisect_left(pairs, (instant, row.position))]

    def _remove_position(self, term: Term, position: int) -> None:
        found = self.terms[term]
        if isinstance(found, int) or len(found) == 1:
            del self.terms[term]
        else:
            del found[bisect_left(found, position)]

    def page(
        self,
        limit: int | None,
        start: int | None,
        where: tuple[Condition, ...],
        *,
        oldest_first: bool = False,
        shared: bool = False,
    ) -> Page:
        """Return at most ``limit`` records, newest first or ``oldest_first``.

        ``start`` is the ``next_position`` of the page before: the first one with ``oldest_first``,
        else the one after the first. ``shared``: the records are no copies.
        """
        rows = self._matching(where, start, oldest_first)
        found = [row.record for row in islice(rows, limit)]
        records = tuple(found if shared else copied(found))
        following = None if limit is None else next(rows, None)
        if following is None:
            return Page(records, None)
        return Page(records, following.position + (not oldest_first))

    def count(self, where: tuple[Condition, ...]) -> int:
        """Return how many records match."""
        if not where:
            return len(self.rows)
        found, conditions = self._candidates(where)
        if not conditions:
            return len(found)
        return sum(1 for _ in self._matching(where, None, oldest_first=True))

    def _matching(
        self, where: tuple[Condition, ...], start: int | None, oldest_first: bool
    ) -> Iterator[Row]:
        found, conditions = self._candidates(where)
        low, high = 0, len(found)
        if start is not None and oldest_first:
            low = bisect_left(found, start)
        elif start is not None:
            high = bisect_left(found, start)
        for index in range(low, high) if oldest_first else range(high - 1, low - 1, -1):
            row = self.positions[found[index]]
            if row is not None and (not conditions or matches(row.record, conditions)):
                yield row

    def _candidates(
        self, where: tuple[Condition, ...]
    ) -> tuple[Sequence[int], tuple[Condition, ...]]:
        """Return the positions that the most selective index has, and the other conditions."""
        best: Sequence[int] = range(len(self.positions))
        used = None
        for condition in where:
            found = self._indexed(condition)
            if found is not None and len(found) <= len(best):
                best, used = found, condition
        return best, tuple([condition for condition in where if condition is not used])

    def _indexed(self, condition: Condition) -> Sequence[int] | None:
        """Return the sorted positions of the records that match; None: no index has them."""
        field, operator, value = condition
        if isinstance(value, datetime):
            return self._dated(field, operator, _milliseconds(value))
        if field not in self.fields:
            return None
        item = (_ITEM,) if operator == "has" else ()
        values = (value,) if isinstance(value, str) else value
        found = [self._positions((field, text, *item)) for text in values]
        return found[0] if len(found) == 1 else sorted(set().union(*found))

    def _positions(self, term: Term) -> Sequence[int]:
        found = self.terms.get(term, ())
        return (found,) if isinstance(found, int) else found

    def _dated(self, field: str, operator: str, instant: int) -> Sequence[int] | None:
        pairs = self.instants.get(field)
        if pairs is None:
            return None
        if operator == ">=":
            return sorted(position for _, position in pairs[bisect_left(pairs, (instant,)) :])
        first, last = bisect_left(pairs, (_NEVER + 1,)), bisect_left(pairs, (instant + 1,))
        return sorted(position for _, position in pairs[first:last])


def _terms(record: Record, fields: Iterable[str]) -> tuple[Term, ...]:
    """Return the index terms of a record: one of a text, one for each text of a list."""
    terms: list[Term] = []
    for field in fields:
        value = record.get(field)
        if isinstance(value, str):
            terms.append((field, value))
        elif isinstance(value, list):
            texts = [item for item in value if isinstance(item, str)]
            terms += [(field, text, _ITEM) for text in dict.fromkeys(texts)]
    return tuple(terms)


def _milliseconds(instant: datetime) -> int:
    return (instant - _EPOCH) // _MILLISECOND


def _instant(value: Any) -> int:
    """Return the milliseconds from 1970 to an RFC 3339 text; _NEVER for anything else."""
    return _instant_of(value) if isinstance(value, str) else _NEVER


@lru_cache(maxsize=16)  # the records of a request have one instant
def _instant_of(text: str) -> int:
    try:
        return _milliseconds(parse_instant(text))
    except ValueError:
        return _NEVER


def matches(record: Record, where: tuple[Condition, ...]) -> bool:
    """True if a record meets all conditions."""
    return all(
        condition.field in record
        and _OPERATORS[condition.operator](record[condition.field], condition.value)
        for condition in where
    )


def _has(value: Any, wanted: str | tuple[str, ...]) -> bool:
    if not isinstance(value, list):
        return False
    return any(text in value for text in wanted) if isinstance(wanted, tuple) else wanted in value


_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": lambda value, wanted: bool(value == wanted),
    ">=": lambda value, wanted: _instant(value) >= _milliseconds(wanted),
    "<=": lambda value, wanted: _NEVER < _instant(value) <= _milliseconds(wanted),
    "in": lambda value, wanted: value in wanted,
    "has": _has,
}
