"""A transaction on a workspace in a database.

It keeps in memory what it has read, and what it will write. Rows are written when it commits, or
before a search that needs them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from invoice_sandbox.state import (
    Capacity,
    Condition,
    Credential,
    Page,
    Record,
    ScheduledStep,
    Workspace,
    check_limit,
    columns,
    sql,
)
from invoice_sandbox.state.collection import RECORD_BYTES, matches
from invoice_sandbox.state.memory import (
    MAX_DELIVERIES,
    MAX_STEPS,
    NUMBER_BYTES,
    STEP_BYTES,
    Indexes,
)

NUMBERS: Final = "#numbers"
"""The collection of the counters that there may be many of: with a slash in their name."""

_LAST: Final = 2**62
_FIRST_ROWS: Final = 100
_MOST_ROWS: Final = 2000
"""Rows that a search reads at first, and at a time."""

_UNKNOWN: Final = b"?"
_STALE: Final = -1
"""Stands for the instant of the first step, once that has been removed."""

Terms = frozenset[tuple[str, str]]


class _Entry(NamedTuple):
    """A record: its position, what the database has of it, and what it will have; None: nothing.

    A new one has no ``position`` yet. ``stored`` is ``_UNKNOWN`` if the database was not asked.
    ``terms`` are the index terms of a ``content`` that is to be written.
    """

    position: int | None = None
    stored: bytes | None = None
    content: bytes | None = None
    terms: Terms = frozenset()


class _Gone(NamedTuple):
    """A record to delete."""

    collection: str
    position: int
    stored: bytes


Key = tuple[str, str]
_ORDER: Final = (
    sql.DELETE_TERM,
    sql.DELETE,
    sql.INSERT,
    sql.UPDATE,
    sql.ADD_TERM,
    sql.DELETE_STEP,
    sql.ADD_STEP,
)
_Rows = defaultdict[str, list[tuple[Any, ...]]]
_StepRow = tuple[str, int, int, bytes]


@dataclass
class _Buffer:
    """All that the transaction has read and changed. ``unplaced`` records may be new, ``changed``
    ones are to be written."""

    meters: columns.Meters
    next_due: int | None
    latest: int | None
    workspace: Workspace | None = None
    entries: dict[Key, _Entry] = field(default_factory=dict)
    unplaced: dict[Key, None] = field(default_factory=dict)
    changed: dict[Key, None] = field(default_factory=dict)
    gone: list[_Gone] = field(default_factory=list)
    steps: dict[int, _StepRow] = field(default_factory=dict)
    steps_gone: dict[int, tuple[str, int]] = field(default_factory=dict)
    credentials: dict[str, Credential | None] = field(default_factory=dict)

    def copy(self) -> _Buffer:
        """Return an independent copy."""
        other = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list | columns.Meters):
                setattr(other, name, value.copy())
        return other

    @property
    def has_rows(self) -> bool:
        """True if rows are to be written."""
        return bool(self.changed or self.gone or self.steps or self.steps_gone)


class SqlTransaction:
    """The state of one workspace within a session of the database."""

    def __init__(
        self,
        session: sql.Session,
        workspace_id: str,
        content: bytes,
        meters: bytes,
        next_due: int | None,
        indexes: Indexes,
        capacity: Capacity,
    ) -> None:
        self._session = session
        self._id = workspace_id
        self._content, self._meters, self._stored_due = content, meters, next_due
        self._indexes = indexes
        self._capacity = capacity
        counters = columns.decoded_meters(meters)
        self._buffer = _Buffer(counters, next_due, counters.latest)
        self._attempts = self._savepoints = 0
        self._made: dict[str, str] = {}
        self._known_steps: dict[int, tuple[str, int, int]] = {}

    def workspace(self) -> Workspace:
        """Return the workspace."""
        return self._buffer.workspace or columns.decoded_workspace(self._content)

    def change_workspace(self, workspace: Workspace) -> None:
        """Replace the workspace."""
        if workspace.clock != self.workspace().clock:
            self._buffer.latest = None
        self._buffer.workspace = workspace

    def has_steps(self) -> bool:
        """Return True if any step is scheduled, in whatever lane."""
        return self._buffer.next_due is not None

    def next_due(self) -> datetime | None:
        """Return when the first step of any lane is due, of a transaction that has committed."""
        return None if self._buffer.next_due is None else columns.instant_of(self._buffer.next_due)

    def not_before(self, instant: datetime) -> datetime:
        """Return the instant, or the latest one that this returned since the clock was set."""
        at, latest = columns.milliseconds(instant), self._buffer.latest
        if latest is not None and latest > at:
            return columns.instant_of(latest)
        self._buffer.latest = at
        return instant

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Undo the changes that are made in the block if it raises an error."""
        self._write()
        saved, depth = self._buffer.copy(), self._attempts
        self._attempts = depth + 1
        try:
            yield
        except BaseException:
            self._buffer = saved
            if self._savepoints > depth:
                self._session.write([(f"ROLLBACK TO SAVEPOINT attempt{depth}", [()])])
                self._known_steps.clear()
            raise
        finally:
            self._attempts = depth
            self._savepoints = min(self._savepoints, depth)

    # --- records

    def get(self, collection: str, key: str) -> Record | None:
        """Return the record, or None."""
        content = self._entry((collection, columns.short(key))).content
        return None if content is None else columns.decoded(content)

    def _entry(self, key: Key) -> _Entry:
        """Return a record as it is now."""
        entry = self._buffer.entries.get(key)
        if entry is None:
            entry = _Entry()
            if self._buffer.meters.counts.get(key[0]):
                row = self._session.one(sql.GET, (self._id, sql.LIVE, *key))
                entry = _Entry(row[0], row[1], row[1]) if row else entry
            self._buffer.entries[key] = entry
        return entry

    def put(self, collection: str, key: str, record: Mapping[str, Any]) -> None:
        """Insert the record at the end of the collection, or replace it in its position."""
        buffer, content = self._buffer, columns.encoded(record)
        name = (collection, columns.short(key))
        entry = buffer.entries.get(name)
        if entry is None:
            is_known = self._is_fresh(key) or not buffer.meters.counts.get(collection)
            entry = _Entry(stored=None if is_known else _UNKNOWN)
        if buffer.meters.size + len(content) + len(key) + RECORD_BYTES > self._capacity.most:
            entry = self._entry_with_room(name, len(content))
        terms = columns.terms_of(record, self._indexes.get(collection, ()))
        before = entry.content
        buffer.entries[name] = _Entry(entry.position, entry.stored, content, terms)
        buffer.changed[name] = None
        if entry.position is None:
            buffer.unplaced[name] = None
        else:
            buffer.meters.size += len(content) - len(before or b"")

    def _is_fresh(self, key: str) -> bool:
        """True if a key has a number that was made in this transaction: nothing can have it."""
        name = self._made.get(key.rpartition("_")[2])
        return name is not None and key.startswith(f"{name}_")

    def _entry_with_room(self, name: Key, size: int) -> _Entry:
        """Return the record, after it was checked whether it may be replaced by a larger one."""
        self._place()
        entry = self._entry(name)
        is_new = entry.content is None
        added = size - len(entry.content or b"") + (len(name[1]) + RECORD_BYTES) * is_new
        if added > 0 and (is_new or name[0] not in self._capacity.growing):
            self._capacity.check(self._buffer.meters.size, added)
        return entry

    def _place(self) -> None:
        """Give new records their positions, once it is known which ones are new."""
        buffer = self._buffer
        if not buffer.unplaced:
            return
        unknown = [key for key in buffer.unplaced if buffer.entries[key].stored is _UNKNOWN]
        known: dict[Key, tuple[int, bytes]] = {}
        for start in range(0, len(unknown), _FIRST_ROWS):
            some = unknown[start : start + _FIRST_ROWS]
            values = (*(part for key in some for part in key), self._id, sql.LIVE)
            rows = self._session.all(sql.get_many(len(some)), values)
            known |= {(row[0], row[1]): (row[2], row[3]) for row in rows}
        for key in buffer.unplaced:
            _, _, content, terms = buffer.entries[key]
            assert content is not None  # noqa: S101  what is deleted has been placed
            if key in known:
                position, stored = known[key]
                buffer.meters.size += len(content) - len(stored)
            else:
                position, stored = self._next_position(key[0]), None
                buffer.meters.size += len(content) + len(key[1]) + RECORD_BYTES
            buffer.entries[key] = _Entry(position, stored, content, terms)
        buffer.unplaced.clear()

    def _next_position(self, collection: str) -> int:
        """Return the position of one more record."""
        meters = self._buffer.meters
        position = meters.positions.get(collection, 0)
        meters.positions[collection] = position + 1
        meters.counts[collection] = meters.counts.get(collection, 0) + 1
        return position

    def delete(self, collection: str, key: str) -> bool:
        """Remove the record; False if there is none."""
        self._place()
        buffer, name = self._buffer, (collection, columns.short(key))
        entry = self._entry(name)
        if entry.content is None or entry.position is None:
            return False
        buffer.meters.counts[collection] -= 1
        buffer.meters.size -= len(entry.content) + len(name[1]) + RECORD_BYTES
        buffer.changed.pop(name, None)
        buffer.entries[name] = _Entry()
        if entry.stored is not None:
            buffer.gone.append(_Gone(collection, entry.position, entry.stored))
        return True

    def page(
        self,
        collection: str,
        *,
        limit: int | None = None,
        before: int | None = None,
        where: tuple[Condition, ...] = (),
        oldest_first: bool = False,
        shared: bool = False,  # noqa: ARG002  every record is read anew
    ) -> Page:
        """Return at most ``limit`` records (None: all), newest first or ``oldest_first``."""
        start = before if before is not None else 0 if oldest_first else _LAST
        rows = self._search(collection, where, start, limit, oldest_first=oldest_first)
        records = tuple(record for _, record in islice(rows, limit))
        following = None if limit is None else next(rows, None)
        if following is None:
            return Page(records, None)
        return Page(records, following[0] + (not oldest_first))

    def count(self, collection: str, where: tuple[Condition, ...] = ()) -> int:
        """Return how many records match."""
        if not where:
            self._place()
            return self._buffer.meters.counts.get(collection, 0)
        found, rest = self._best(collection, where)
        if found is not None and not rest:
            self._write(collection)
            values = (self._id, sql.LIVE, collection, found[0], *found[1])
            row = self._session.one(sql.count_query(len(found[1])), values)
            return int(row[0]) if row else 0
        return sum(1 for _ in self._search(collection, where, 0, None, oldest_first=True))

    def _search(
        self,
        collection: str,
        where: tuple[Condition, ...],
        start: int,
        limit: int | None,
        *,
        oldest_first: bool,
    ) -> Iterator[tuple[int, Record]]:
        """Yield the records that match, with their positions."""
        self._write(collection)
        if not self._buffer.meters.counts.get(collection) or any(
            condition.value == () for condition in where
        ):
            return
        found, rest = self._best(collection, where)
        of_collection = (self._id, sql.LIVE, collection)
        term: tuple[str, ...] = () if found is None else (found[0], *found[1])
        if found is not None and len(found[1]) > 1:
            term = of_collection + term
        query = sql.page_query(None if found is None else len(found[1]), oldest_first=oldest_first)
        most = min(limit + 1, _MOST_ROWS) if limit is not None and not rest else _FIRST_ROWS
        while True:
            rows = self._session.all(query, (*of_collection, *term, start, most))
            for position, content in rows:
                record = columns.decoded(content)
                if matches(record, rest):
                    yield position, record
            if len(rows) < most:
                return
            start, most = rows[-1][0] + oldest_first, min(most * 4, _MOST_ROWS)

    def _best(
        self, collection: str, where: tuple[Condition, ...]
    ) -> tuple[tuple[str, Sequence[str]] | None, tuple[Condition, ...]]:
        """Return the term to look up, of which the index has the fewest values, and the conditions
        that are left."""
        best: tuple[str, Sequence[str]] | None = None
        used: Condition | None = None
        for condition in where:
            found = self._term(collection, condition)
            if found is not None and (best is None or len(found[1]) < len(best[1])):
                best, used = found, condition
        return best, tuple(condition for condition in where if condition is not used)

    def _term(self, collection: str, condition: Condition) -> tuple[str, Sequence[str]] | None:
        """Return the field and the values that the index has for a condition; None: no index."""
        name, operator, value = condition
        if isinstance(value, datetime) or name not in self._indexes.get(collection, ()):
            return None
        values = (value,) if isinstance(value, str) else tuple(dict.fromkeys(value))
        if not values:
            return None
        return name if operator != "has" else f"{name}[]", [columns.short(text) for text in values]

    def next_number(self, name: str) -> int:
        """Return the next number of the counter ``name``."""
        if "/" in name:
            number: int = (self.get(NUMBERS, name) or {"n": 0})["n"] + 1
            self.put(NUMBERS, name, {"n": number})
            return number
        meters = self._buffer.meters
        if name not in meters.numbers:
            self._capacity.check(meters.size, NUMBER_BYTES)
            meters.size += NUMBER_BYTES
        meters.numbers[name] = number = meters.numbers.get(name, 0) + 1
        self._made[f"{number:04d}"] = name
        return number

    # --- steps

    def schedule(
        self,
        due: datetime,
        action: str,
        arguments: Mapping[str, Any],
        scenario: str | None = None,
        lane: str | None = None,
        place: int | None = None,
        *,
        is_retry: bool = False,
    ) -> None:
        """Schedule a call of ``action`` for the workspace's instant ``due``, in milliseconds."""
        buffer, meters = self._buffer, self._buffer.meters
        content = columns.encoded((action, arguments, scenario, place))
        if not is_retry:  # it takes the place of the attempt before it
            if lane is None:
                check_limit("due steps", MAX_STEPS, meters.waiting)
            else:
                check_limit("pending deliveries", MAX_DELIVERIES, meters.in_lanes)
            self._capacity.check(meters.size, len(content) + STEP_BYTES)
        meters.steps_made = number = meters.steps_made + 1
        at = columns.milliseconds(due)
        buffer.steps[number] = lane or "", at, number, content
        self._count_step(lane or "", len(content), 1)
        buffer.next_due = at if buffer.next_due is None else min(buffer.next_due, at)

    def _count_step(self, lane: str, size: int, change: int) -> None:
        meters = self._buffer.meters
        meters.size += change * (size + STEP_BYTES)
        if lane:
            meters.in_lanes += change
        else:
            meters.waiting += change

    def steps(self, *lanes: str | None) -> tuple[ScheduledStep, ...]:
        """Return the scheduled steps of lanes, by due time, then by creation."""
        self._write()
        found = []
        for lane in lanes:
            rows = self._session.all(sql.STEPS, (self._id, sql.LIVE, lane or ""))
            found += [self._step(lane, row) for row in rows]
        return tuple(sorted(found, key=lambda step: (step.due, step.number)))

    def take_due(self, now: datetime) -> ScheduledStep | None:
        """Remove and return the first step without a lane that is due at ``now``, if any."""
        step = self.first_due(None, now)
        if step is not None:
            self.discard_step(step.number)
        return step

    def first_due(self, lane: str | None, now: datetime) -> ScheduledStep | None:
        """Return the first step of a lane that is due at ``now``, if any. It stays scheduled."""
        at = columns.milliseconds(now)
        if self._buffer.next_due is None or self._buffer.next_due > at:
            return None
        self._write()
        row = self._session.one(sql.FIRST_STEP, (self._id, sql.LIVE, lane or "", at))
        return None if row is None else self._step(lane, row)

    def _step(self, lane: str | None, row: tuple[Any, ...]) -> ScheduledStep:
        """Return the step of a row, and remember where it is."""
        due, number, content = row
        self._known_steps[number] = lane or "", due, len(content)
        action, arguments, scenario, place = columns.decoded(content)
        return ScheduledStep(
            number, columns.instant_of(due), action, arguments, scenario, lane, place
        )

    def discard_step(self, number: int, lane: str | None = None) -> bool:
        """Remove a step. False: there is no step of that number."""
        buffer = self._buffer
        if number in buffer.steps_gone:
            return False
        known = self._place_of(number, lane or "")
        if known is None or known[0] != (lane or ""):
            return False
        if buffer.steps.pop(number, None) is None:
            buffer.steps_gone[number] = known[:2]
        self._count_step(known[0], known[2], -1)
        if known[1] == buffer.next_due:
            buffer.next_due = _STALE
        return True

    def _place_of(self, number: int, lane: str) -> tuple[str, int, int] | None:
        """Return the lane of a step, when it is due, and its size; None: there is none."""
        if number in self._buffer.steps:
            lane, due, _, content = self._buffer.steps[number]
            return lane, due, len(content)
        if number not in self._known_steps:
            row = self._session.one(sql.STEP, (self._id, sql.LIVE, lane, number))
            return None if row is None else (lane, row[0], len(row[2]))
        return self._known_steps[number]

    # --- credentials

    def credentials(self) -> tuple[Credential, ...]:
        """Return every credential that was valid when the transaction began."""
        rows = self._session.all(sql.CREDENTIALS, (self._id, sql.LIVE))
        return tuple(columns.decoded_credential(content) for _, content in rows)

    def grant(self, credential: Credential) -> None:
        """Make the credential valid when the transaction commits."""
        self._buffer.credentials[credential.digest] = credential

    def revoke(self, digest: str) -> None:
        """Make the credential invalid when the transaction commits."""
        self._buffer.credentials[digest] = None

    # --- writing

    def commit(self) -> None:
        """Write what is left to write."""
        self._place()
        if self._buffer.next_due == _STALE:
            self._write()
            row = self._session.one(sql.NEXT_DUE, (self._id, sql.LIVE))
            self._buffer.next_due = row[0] if row else None
        self._session.commit([*self._rows(), *self._granted(), *self._closing()])

    def _write(self, collection: str | None = None) -> None:
        """Write rows, if a search of a collection needs them; None: whatever it needs."""
        self._place()
        buffer = self._buffer
        if not buffer.has_rows:
            return
        changed = {key[0] for key in buffer.changed}.union(
            gone_row.collection for gone_row in buffer.gone
        )
        if collection is not None and collection not in changed:
            return
        batch: list[tuple[str, list[tuple[Any, ...]]]] = []
        while self._savepoints < self._attempts:
            batch.append((f"SAVEPOINT attempt{self._savepoints}", [()]))
            self._savepoints += 1
        self._session.write([*batch, *self._rows()])

    def _rows(self) -> list[tuple[str, list[tuple[Any, ...]]]]:
        """Return the statements for records and steps that were changed, which are then written."""
        buffer, rows = self._buffer, _Rows(list)
        for collection, position, stored in buffer.gone:
            rows[sql.DELETE].append((self._id, sql.LIVE, collection, position))
            for term in self._terms(collection, stored):
                rows[sql.DELETE_TERM].append((self._id, sql.LIVE, collection, *term, position))
        for key in buffer.changed:
            self._add_record(rows, key, buffer.entries[key])
        for number, place in buffer.steps_gone.items():
            rows[sql.DELETE_STEP].append((self._id, sql.LIVE, *place, number))
        rows[sql.ADD_STEP] += [(self._id, sql.LIVE, *step) for step in buffer.steps.values()]
        for written in (buffer.gone, buffer.changed, buffer.steps_gone, buffer.steps):
            written.clear()
        return [(statement, rows[statement]) for statement in _ORDER if rows[statement]]

    def _add_record(self, rows: _Rows, key: Key, entry: _Entry) -> None:
        """Add the rows of a record that was changed."""
        (collection, row_id), (position, stored, content, terms) = key, entry
        self._buffer.entries[key] = entry._replace(stored=content)
        before: Terms = frozenset()
        if stored is None:
            rows[sql.INSERT].append((self._id, sql.LIVE, collection, position, row_id, content))
        elif stored != content:
            rows[sql.UPDATE].append((content, self._id, sql.LIVE, collection, position))
            before = self._terms(collection, stored)
        else:
            return
        for changed, statement in (
            (before - terms, sql.DELETE_TERM),
            (terms - before, sql.ADD_TERM),
        ):
            for term in changed:
                rows[statement].append((self._id, sql.LIVE, collection, *term, position))

    def _terms(self, collection: str, stored: bytes) -> Terms:
        """Return the index terms of a record that the database has."""
        fields = self._indexes.get(collection, ())
        return columns.terms_of(columns.decoded(stored), fields) if fields else frozenset()

    def _granted(self) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        for digest, credential in self._buffer.credentials.items():
            yield sql.REVOKE, [(self._id, sql.LIVE, digest)]
            if credential is not None:
                content = columns.encoded_credential(credential)
                yield sql.GRANT, [(self._id, sql.LIVE, digest, content)]

    def _closing(self) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """Return the statement that writes the row of the workspace, if it was changed."""
        buffer, meters = self._buffer, columns.encoded_meters(self._buffer.meters)
        workspace, content = self.workspace(), self._content
        if buffer.workspace is not None:
            content = columns.encoded_workspace(workspace)
        new = (content, meters, buffer.next_due)
        if new != (self._content, self._meters, self._stored_due):
            buffer.meters.latest = buffer.latest
            new = (content, columns.encoded_meters(buffer.meters), buffer.next_due)
            yield sql.CLOSE, [(*new, *columns.clock_columns(workspace.clock), self._id, sql.LIVE)]
