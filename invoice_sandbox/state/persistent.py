"""A store that outlives the process: the memory store, which records what it changes.

Reads come from memory. A transaction that commits hands its changes to the writer, in the order in
which transactions commit; ``flush`` waits until they are written. So the file always holds what
memory held at some moment, and never a part of a transaction.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from invoice_sandbox.base.clock import FIRST, ClockState
from invoice_sandbox.base.jsonio import packed
from invoice_sandbox.state import (
    Capacity,
    Credential,
    Record,
    Snapshot,
    Workspace,
)
from invoice_sandbox.state.memory import (
    Indexes,
    MemoryStore,
    MemoryTransaction,
    Opening,
    Space,
    State,
)
from invoice_sandbox.state.rows import (
    LIVE,
    REQUESTS,
    Change,
    CopyState,
    DropState,
    Row,
    StoreError,
    decoded,
    decoded_credential,
    decoded_snapshot,
    decoded_workspace,
    from_bytes,
)
from invoice_sandbox.state.steps import StoredStep
from invoice_sandbox.state.writer import Writer

_RESERVED: Final = 1000
"""Numbers of requests that are reserved at a time: none is given twice, even after a crash."""

_SECONDS_UNNOTED: Final = 60
"""The time of last use is written when it has changed by this."""


class Database(Protocol):
    """What keeps the rows: ``sqlite`` and ``postgresql``. Methods raise StoreError."""

    place: str
    """How messages name it."""

    beats: float | None
    """Seconds between empty batches, None: there are none."""

    def rows(self, table: str, /) -> Iterable[tuple[Any, ...]]:
        """All rows of a table, in the order of its key."""
        ...

    def write(self, changes: Sequence[Change], /) -> None:
        """Make all changes or none."""
        ...

    def close(self) -> None:
        """Nothing may be written afterwards."""
        ...


class PersistentStore(MemoryStore):
    """The workspaces of one process, kept in a database."""

    def __init__(self, database: Database, indexes: Indexes, capacity: Capacity) -> None:
        """An empty store; ``load`` fills it."""
        super().__init__(indexes, capacity)
        self.database = database
        self._writer = Writer(database.write, database.beats)
        self._positions: dict[str, int] = {}
        self._reserved: dict[str, int] = {}
        self._noted: dict[str, datetime] = {}

    is_persistent = True

    def check(self) -> None:
        """Raise ApiError 503 while changes cannot be kept."""
        self._writer.check()

    async def flush(self) -> None:
        """Wait until all changes are written, except those that were recorded lazily."""
        await self._writer.flush()

    async def close(self) -> None:
        """Write everything that is left, then close the database."""
        for workspace_id, space in self._spaces.items():
            self._record_end(workspace_id, space)
        await self.abandon()

    async def abandon(self) -> None:
        """Write what is left of committed changes, then close the database."""
        await self._writer.close()
        self.database.close()

    def create_workspace(self, workspace: Workspace, now: datetime) -> None:
        """Add an empty workspace."""
        self.check()
        super().create_workspace(workspace, now)
        self._positions[workspace.id] = max(self._positions.values(), default=0) + 1
        self._record(self._used(workspace.id, self._spaces[workspace.id]))
        self._record(_state(workspace.id, LIVE, workspace))

    def delete_workspace(self, workspace_id: str) -> None:
        """Delete the workspace with everything in it."""
        self.check()
        super().delete_workspace(workspace_id)
        self._record(DropState(workspace_id, None))
        self._forget(workspace_id)

    def note_request(self, workspace_id: str, now: datetime) -> int:
        """Count a request and return its number. After a crash, numbers may be left out."""
        number = super().note_request(workspace_id, now)
        if number > self._reserved.get(workspace_id, 0):
            self._reserved[workspace_id] = number + _RESERVED
            self._record(_number(workspace_id, LIVE, REQUESTS, number + _RESERVED))
        if (now - self._noted[workspace_id]).total_seconds() >= _SECONDS_UNNOTED:
            self._writer.add([self._used(workspace_id, self._spaces[workspace_id])], lazily=True)
        return number

    def transaction(self, workspace_id: str) -> RecordedOpening:
        """A transaction. Raises ApiError 503 while changes cannot be kept."""
        return RecordedOpening(self, workspace_id)

    def record(self, transaction: RecordedTransaction) -> None:
        """Hand over the changes of a transaction that has committed."""
        self._writer.add(transaction.changes, lazily=transaction.is_lazy)

    def next_snapshot_number(self, workspace_id: str) -> int:
        """The number of the next snapshot."""
        number = super().next_snapshot_number(workspace_id)
        self._record(self._used(workspace_id, self._spaces[workspace_id]))
        return number

    def take_snapshot(self, workspace_id: str, snapshot: Snapshot) -> None:
        """Save the workspace."""
        self.check()
        super().take_snapshot(workspace_id, snapshot)
        state = self._spaces[workspace_id].snapshots[snapshot.id][1]
        self._record(
            CopyState(workspace_id, LIVE, snapshot.id),
            _state(workspace_id, snapshot.id, state.workspace, snapshot),
            _number(workspace_id, snapshot.id, REQUESTS, state.requests),
        )

    def restore_snapshot(self, workspace_id: str, snapshot_id: str, clock: ClockState) -> None:
        """Restore the workspace, with ``clock``."""
        self.check()
        super().restore_snapshot(workspace_id, snapshot_id, clock)
        self._reserved.pop(workspace_id, None)
        space = self._spaces[workspace_id]
        saved, left = space.snapshots[snapshot_id][1].credentials, space.state.credentials
        self._record(
            CopyState(workspace_id, snapshot_id, LIVE),
            _state(workspace_id, LIVE, space.state.workspace),
            *(Row("credentials", (workspace_id, LIVE, one), None) for one in saved.keys() - left),
        )

    def drop_snapshot(self, workspace_id: str, snapshot_id: str) -> None:
        """Delete a snapshot."""
        self.check()
        super().drop_snapshot(workspace_id, snapshot_id)
        self._record(DropState(workspace_id, snapshot_id))

    def append(
        self,
        workspace_id: str,
        log: str,
        entry: Any,
        size: int = 0,
        shown: Callable[[Any], Record] | None = None,
    ) -> None:
        """Add an entry to a bounded log. While nothing can be written, it is kept in memory."""
        space = self._spaces.get(workspace_id)
        if space is None:
            return
        kept = space.logs[log]
        gone = kept.append(entry, size)
        if self._writer.problem is None:
            rows = [Row("logs", (workspace_id, log, number), None) for number in gone]
            rows.append(Row("logs", (workspace_id, log, kept.last), (entry, shown)))
            self._writer.add(rows, lazily=True)
        space.wake()

    def _forget(self, workspace_id: str) -> None:
        for known in (self._positions, self._reserved, self._noted):
            known.pop(workspace_id, None)

    def _record_end(self, workspace_id: str, space: Space) -> None:
        """Record what need not be exact while the process runs the workspace."""
        number = _number(workspace_id, LIVE, REQUESTS, space.state.requests)
        self._record(number, self._used(workspace_id, space))

    def _record(self, *changes: Change) -> None:
        self._writer.add(changes)

    def _used(self, workspace_id: str, space: Space) -> Row:
        self._noted[workspace_id] = space.last_used
        used = space.last_used.isoformat()
        values = (self._positions[workspace_id], used, space.snapshots_numbered)
        return Row("workspaces", (workspace_id,), values)

    def load(self) -> None:
        """Add everything that the database has. Raises StoreError.

        Whatever a wrong byte leads to is one error, which shows nothing of what the database has.
        """
        try:
            self._load(self.database.rows)
        except StoreError:
            raise
        except Exception as error:
            place, problem = self.database.place, type(error).__name__
            raise StoreError(f"{place} is damaged ({problem}); restore a copy of it") from None

    def _load(self, rows: Callable[[str], Iterable[tuple[Any, ...]]]) -> None:
        spaces, states = self._read_states(rows)
        for workspace_id, position, used, snapshots in sorted(
            rows("workspaces"), key=lambda row: row[1]
        ):
            space = spaces.get(workspace_id)
            if space is None or not space.snapshots:  # the process ended as it was made
                self._record(DropState(workspace_id, None))
                continue
            space.last_used = self._noted[workspace_id] = datetime.fromisoformat(used)
            space.snapshots_numbered = snapshots
            self._positions[workspace_id] = position
            self._reserved[workspace_id] = space.state.requests
            self._spaces[workspace_id] = space
            for digest in space.state.credentials:
                self._owners[digest] = workspace_id
        for state in states:
            self._share_collections(state)
        self._read_logs(rows("logs"))

    def _read_states(
        self, rows: Callable[[str], Iterable[tuple[Any, ...]]]
    ) -> tuple[dict[str, Space], list[State]]:
        """The workspaces with their states, and all states."""
        spaces: dict[str, Space] = {}
        loading: dict[tuple[str, str], _Loading] = {}
        for workspace_id, name, content, snapshot in sorted(rows("states"), key=_age):
            workspace = decoded_workspace(content)
            one = loading[workspace_id, name] = _Loading(State(workspace), self.indexes)
            space = spaces.setdefault(workspace_id, Space(workspace, FIRST))
            if snapshot is None:
                space.state = one.state
            else:
                space.snapshots[name] = (decoded_snapshot(snapshot), one.state)
        for workspace_id, name, collection, _, key, content in rows("records"):
            loading[workspace_id, name].record(collection, key.decode(), content)
        for workspace_id, name, counter, value in rows("numbers"):
            loading[workspace_id, name].number(counter.decode(), value)
        for workspace_id, name, number, due, lane, content in rows("steps"):
            step = (datetime.fromisoformat(due), number, from_bytes(content))
            loading[workspace_id, name].step(lane, step)
        for workspace_id, name, _, content in rows("credentials"):
            loading[workspace_id, name].credential(decoded_credential(content))
        return spaces, [one.state for one in loading.values()]

    def _read_logs(self, rows: Iterable[tuple[Any, ...]]) -> None:
        for workspace_id, log, number, content in rows:
            if workspace_id not in self._spaces:
                continue
            kept = self._spaces[workspace_id].logs[log]
            kept.continue_after(number - 1)
            gone = kept.append(decoded(content), len(content))
            self._record(*(Row("logs", (workspace_id, log, one), None) for one in gone))


async def open_store(place: Path | str, indexes: Indexes, capacity: Capacity) -> PersistentStore:
    """A store with everything that a file, or the database at an address, holds. It is created if
    it is not there. Raises StoreError."""
    store = PersistentStore(await asyncio.to_thread(_opened, place), indexes, capacity)
    try:
        store.load()
    except BaseException:
        await store.abandon()
        raise
    return store


def _opened(place: Path | str) -> Database:
    """The driver is imported when it is needed."""
    if isinstance(place, str):
        from invoice_sandbox.state import postgresql

        return postgresql.Database(place)
    from invoice_sandbox.state import sqlite

    return sqlite.Database(place)


def _age(row: tuple[Any, ...]) -> tuple[int, str]:
    """The place of a state among those of its workspace: ids of snapshots end with a number."""
    return len(row[1]), row[1]


class RecordedTransaction(MemoryTransaction):
    """A transaction that records its changes.

    ``is_lazy``: nobody has to wait until they are written.
    """

    def __init__(self, state: State, indexes: Indexes, capacity: Capacity) -> None:
        """A transaction on a state that nobody else changes."""
        super().__init__(state, indexes, capacity)
        self._id = state.workspace.id
        self.changes: list[Change] = []
        self.is_lazy = True

    def change_workspace(self, workspace: Workspace) -> None:
        """Replace the workspace."""
        super().change_workspace(workspace)
        self._record(_state(self._id, LIVE, workspace))

    def put(
        self, collection: str, key: str, record: Mapping[str, Any], *, lazily: bool = False
    ) -> None:
        """Insert the record at the end of the collection, or replace it in its position."""
        content = packed(record)  # now, as its owner may modify it
        super().put(collection, key, record)
        self._record(self._of_record(collection, key, content), lazily=lazily)

    def delete(self, collection: str, key: str) -> bool:
        """Remove the record; False if there is none."""
        found = self._state.collections.get(collection)
        if found is not None and found.position(key) is not None:
            self._record(self._of_record(collection, key, None))
        return super().delete(collection, key)

    def next_number(self, name: str) -> int:
        """The next number of the counter ``name``."""
        number = super().next_number(name)
        self._record(_number(self._id, LIVE, name, number))
        return number

    def grant(self, credential: Credential) -> None:
        """Make the credential valid when the transaction commits."""
        super().grant(credential)
        self._record(Row("credentials", (self._id, LIVE, credential.digest), (credential,)))

    def revoke(self, digest: str) -> None:
        """Make the credential invalid when the transaction commits."""
        super().revoke(digest)
        self._record(Row("credentials", (self._id, LIVE, digest), None))

    def _put_step(self, lane: str | None, step: StoredStep) -> None:
        super()._put_step(lane, step)
        due, number, content = step
        self._record(Row("steps", (self._id, LIVE, number), (due, lane, content)))

    def _take_step(self, lane: str | None, number: int) -> StoredStep | None:
        self._record(Row("steps", (self._id, LIVE, number), None))
        return super()._take_step(lane, number)

    def _of_record(self, collection: str, key: str, content: Any) -> Row:
        position = self._state.collections[collection].position(key)
        assert position is not None  # noqa: S101  the record is there
        return Row("records", (self._id, LIVE, collection, position), (key, content))

    def _record(self, change: Change, *, lazily: bool = False) -> None:
        self.changes.append(change)
        self.is_lazy = self.is_lazy and lazily


class RecordedOpening(Opening):
    """Opens a transaction that records its changes, and hands them over when it commits."""

    __slots__ = ("_persistent", "_recorded")

    def __init__(self, store: PersistentStore, workspace_id: str) -> None:
        super().__init__(store, workspace_id)
        self._persistent = store

    def __enter__(self) -> RecordedTransaction:
        store = self._persistent
        store.check()
        state = store.space(self._workspace_id).state
        self._recorded = RecordedTransaction(state, store.indexes, store.capacity)
        self._transaction = self._recorded
        return self._recorded

    def __exit__(self, failed: type[BaseException] | None, *rest: object) -> None:
        super().__exit__(failed, *rest)
        if failed is None:
            self._persistent.record(self._recorded)


class _Loading(MemoryTransaction):
    """Fills a state by a transaction, so that whatever depends on its content is up to date."""

    def __init__(self, state: State, indexes: Indexes) -> None:
        super().__init__(state, indexes, _UNLIMITED)
        self.state = state

    def record(self, collection: str, key: str, content: bytes | None) -> None:
        """Add the next record of a collection; without content one that was deleted."""
        self.put(collection, key, {} if content is None else decoded(content))
        if content is None:
            self.delete(collection, key)
        self.forget_undo()

    def number(self, name: str, value: int) -> None:
        """Set a counter."""
        if name == REQUESTS:
            self.state.requests = value
        else:
            self.next_number(name)
            self.state.numbers[name] = value

    def step(self, lane: str | None, step: StoredStep) -> None:
        """Schedule a step under the number that it had."""
        self.state.steps_made = step[1]  # they come in the order of their numbers
        self._put_step(lane, step)

    def credential(self, credential: Credential) -> None:
        """Add a credential."""
        self.state.credentials[credential.digest] = credential


_UNLIMITED: Final = Capacity(sys.maxsize)
"""What is there may stay, even if the server now allows less."""


def _state(
    workspace_id: str, name: str, workspace: Workspace, snapshot: Snapshot | None = None
) -> Row:
    return Row("states", (workspace_id, name), (workspace, snapshot))


def _number(workspace_id: str, state: str, name: str, value: int) -> Row:
    return Row("numbers", (workspace_id, state, name.encode()), (value,))
