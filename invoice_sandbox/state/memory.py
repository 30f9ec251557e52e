"""The store in memory: dicts, and an undo log per transaction, which nothing interrupts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from heapq import heapify, heappop, heappush, merge
from itertools import islice
from typing import Any, Final

from invoice_sandbox.base.clock import ClockState, in_milliseconds
from invoice_sandbox.base.jsonio import Packed, packed, unpacked
from invoice_sandbox.state import (
    MAX_CONTENTS,
    USERS,
    Capacity,
    Condition,
    Contents,
    Credential,
    Log,
    NoWorkspaceError,
    Page,
    Record,
    ScheduledStep,
    Snapshot,
    Workspace,
    check_limit,
    most_logged,
)
from invoice_sandbox.state.collection import RECORD_BYTES, Collection, Row

Indexes = Mapping[str, Iterable[str]]
"""The indexed fields of each collection."""

NO_INDEXES: Final[Indexes] = {}

MAX_STEPS: Final = 50_000
MAX_DELIVERIES: Final = 10_000
"""Steps without a lane, and steps of lanes, that may wait in a workspace."""

CAPACITY: Final = Capacity()

STEP_BYTES: Final = 400
NUMBER_BYTES: Final = 200
"""Bytes that a scheduled step takes besides its text, and what a counter takes."""

LOG_BYTES: Final = 4 * 1024 * 1024


StoredStep = tuple[datetime, int, Packed]
"""When a step is due, its number, and its action, arguments, scenario and place."""

_FEW: Final = 16


class StepQueue(dict[int, StoredStep]):
    """The steps of one lane by number, and by due time, then by number.

    They are stored as JSON text, which the garbage collector need not visit.

    The heap may hold steps that were removed, but not many more of them than of the others.
    """

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[StoredStep] = []

    def add(self, step: StoredStep) -> None:
        """Add a step."""
        self[step[1]] = step
        heappush(self._heap, step)

    def remove(self, number: int) -> StoredStep | None:
        """Remove and return a step; None: there is none of that number."""
        removed = self.pop(number, None)
        if len(self._heap) > 2 * len(self) + _FEW:
            self._heap = list(self.values())
            heapify(self._heap)
        return removed

    def first(self) -> StoredStep:
        """The step that is due first; there must be one."""
        while self._heap[0][1] not in self:
            heappop(self._heap)
        return self._heap[0]

    def in_order(self, lane: str | None) -> Iterator[ScheduledStep]:
        """All steps; the queue is that of ``lane``."""
        return (scheduled_step(step, lane) for step in sorted(self.values()))

    def copy(self) -> StepQueue:
        """An independent copy."""
        copied = StepQueue()
        copied.update(self)
        copied._heap = self._heap.copy()
        return copied


def scheduled_step(stored: StoredStep, lane: str | None) -> ScheduledStep:
    """The step that was stored in a lane."""
    due, number, rest = stored
    action, arguments, scenario, place = unpacked(rest)
    return ScheduledStep(number, due, action, arguments, scenario, lane, place)


@dataclass
class State:
    """The state that a transaction changes and a snapshot saves."""

    workspace: Workspace
    collections: dict[str, Collection] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    requests: int = 0
    steps: dict[str | None, StepQueue] = field(default_factory=dict)
    steps_made: int = 0
    in_lanes: int = 0
    credentials: dict[str, Credential] = field(default_factory=dict)
    size: int = 0
    latest: datetime | None = None

    def copy(self) -> State:
        """Return an independent copy. Both share the collections until one changes them."""
        for collection in self.collections.values():
            collection.is_shared = True
        return State(
            self.workspace,
            self.collections.copy(),
            self.numbers.copy(),
            self.requests,
            {lane: steps.copy() for lane, steps in self.steps.items()},
            self.steps_made,
            self.in_lanes,
            self.credentials.copy(),
            self.size,
        )

    def take_users(self, other: State | None) -> None:
        """Let the users of another state take the place of its own; None: nobody."""
        own = self.collections.pop(USERS, None)
        self.size -= own.size if own else 0
        users = other.collections.get(USERS) if other else None
        if users is not None:
            self.collections[USERS] = users
            self.size += users.size

    def replace(self, name: str, key: str, row: Row | None) -> Row | None:
        """Put the row in the place of the one of that key, which is returned. None: remove it."""
        collection = self.collections[name]
        if collection.is_shared:
            collection = self.collections[name] = collection.copy()
        size = collection.size
        before = collection.replace(key, row)
        self.size += collection.size - size
        return before

    def forget_last(self, name: str, key: str) -> None:
        """Undo that a record was added at the end of the collection."""
        self.replace(name, key, None)
        self.collections[name].positions.pop()

    def forget_number(self, name: str) -> None:
        """Remove a counter."""
        del self.numbers[name]
        self.size -= NUMBER_BYTES


class BoundedLog:
    """The latest entries. Older ones are dropped and counted."""

    def __init__(self, entries: int, size: int = LOG_BYTES) -> None:
        self._most, self._most_bytes = entries, size
        self._entries: deque[Any] = deque()
        self._sizes: deque[int] = deque()
        self._bytes = 0
        self._dropped = 0

    def append(self, entry: Any, size: int) -> range:
        """Add an entry of about ``size`` bytes.

        Returns the numbers of the entries that it drops. The entry has the number ``last``.
        """
        first = self._dropped + 1
        self._entries.append(entry)
        self._sizes.append(size)
        self._bytes += size
        while len(self._entries) > self._most or self._bytes > self._most_bytes:
            self._entries.popleft()
            self._bytes -= self._sizes.popleft()
            self._dropped += 1
        return range(first, self._dropped + 1)

    @property
    def last(self) -> int:
        """The number of the last entry; the first one ever has the number 1."""
        return self._dropped + len(self._entries)

    def read(self, after: int = 0) -> Log:
        """The entries, or those after the one with a number."""
        older = min(max(after - self._dropped, 0), len(self._entries))
        return Log(tuple(islice(self._entries, older, None)), self._dropped + older)


class _Logs(dict[str, BoundedLog]):
    """The logs of a workspace by name; one that was never written is empty."""

    def __missing__(self, name: str) -> BoundedLog:
        log = self[name] = BoundedLog(most_logged(name))
        return log


class Space:
    """Everything of one workspace."""

    def __init__(self, workspace: Workspace, now: datetime) -> None:
        self.state = State(workspace)
        self.last_used = now
        self.snapshots: dict[str, tuple[Snapshot, State]] = {}
        self.logs = _Logs()
        self.snapshots_numbered = 0
        self.news: asyncio.Event | None = None

    async def changed(self) -> None:
        """Wait until a log has another entry, or the workspace has ended."""
        self.news = self.news or asyncio.Event()
        await self.news.wait()

    def wake(self) -> None:
        """Let those go on that wait."""
        if self.news is not None:
            self.news.set()
            self.news = None


class MemoryStore:
    """All workspaces of this process. Nothing outlives the process.

    ``indexes`` are the fields of each collection by which its records are looked up often.
    """

    def __init__(self, indexes: Indexes = NO_INDEXES, capacity: Capacity = CAPACITY) -> None:
        self.indexes = indexes
        self.capacity = capacity
        self._spaces: dict[str, Space] = {}
        self._owners: dict[str, str] = {}
        self._shared: dict[str, Collection] = {}

    is_persistent = False
    threads = 0

    def check(self) -> None:
        """Nothing: memory can always be changed."""

    def is_ready(self) -> bool:
        """Return True: memory can always be changed."""
        return True

    def alone(self) -> AbstractContextManager[None]:
        """Return at once: no other server has the store."""
        return nullcontext()

    def hold(self, _workspace_id: str) -> bool:
        """Return True: no other server has the store."""
        return True

    def let_go(self, _workspace_id: str) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing is open."""

    def create_workspace(self, workspace: Workspace, now: datetime) -> None:
        """Add an empty workspace, last used ``now``. Raises KeyError when its id is taken."""
        if workspace.id in self._spaces:
            raise KeyError(workspace.id)
        self._spaces[workspace.id] = Space(workspace, now)

    def delete_workspace(self, workspace_id: str) -> None:
        """Delete the workspace with everything in it."""
        space = self._spaces.pop(workspace_id, None)
        if space is not None:
            space.wake()
            self._forget_owners(space)

    def workspace(self, workspace_id: str) -> Workspace | None:
        """The workspace, or None."""
        space = self._spaces.get(workspace_id)
        return space.state.workspace if space else None

    def workspaces(self) -> tuple[tuple[Workspace, datetime], ...]:
        """Every workspace and when it was last used, in the order of creation."""
        return tuple((space.state.workspace, space.last_used) for space in self._spaces.values())

    def count_workspaces(self) -> int:
        """Return the number of workspaces."""
        return len(self._spaces)

    def credential(self, digest: str) -> Credential | None:
        """The valid credential with that digest."""
        space = self._spaces.get(self._owners.get(digest, ""))
        return space.state.credentials.get(digest) if space else None

    def note_request(self, workspace_id: str, now: datetime) -> int:
        """Count a request and return its number."""
        space = self._spaces.get(workspace_id) or self.space(workspace_id)
        space.last_used = now
        space.state.requests += 1
        return space.state.requests

    def continue_requests(self, workspace_id: str, number: int) -> None:
        """Give the next request this number, as a replay does."""
        self.space(workspace_id).state.requests = number - 1

    def last_used(self, workspace_id: str) -> datetime:
        """When the workspace received its last request, in real time."""
        return self.space(workspace_id).last_used

    def due_workspaces(self, now: datetime) -> tuple[str, ...]:  # noqa: ARG002
        """Return nothing: no other server makes anything due."""
        return ()

    def due_times(self, workspace_id: str) -> Mapping[str | None, datetime]:
        """When the first step of each lane is due, and under None the first without a lane."""
        steps = self.space(workspace_id).state.steps
        return {lane: queue.first()[0] for lane, queue in steps.items()}

    def transaction(self, workspace_id: str) -> Opening:
        """A transaction. Those of one workspace are serial."""
        return Opening(self, workspace_id)

    def begin(self, workspace_id: str) -> MemoryTransaction:
        """Return a transaction that has begun."""
        return MemoryTransaction(self.space(workspace_id).state, self.indexes, self.capacity)

    def commit(self, workspace_id: str, changed: Mapping[str, Credential | None]) -> None:
        """Make the changed credentials of a transaction valid, or invalid (None)."""
        for digest, credential in changed.items():
            credentials = self._spaces[workspace_id].state.credentials
            if credential is None:
                credentials.pop(digest, None)
                self._owners.pop(digest, None)
            else:
                credentials[digest] = credential
                self._owners[digest] = workspace_id

    def next_snapshot_number(self, workspace_id: str) -> int:
        """The number of the next snapshot."""
        space = self.space(workspace_id)
        space.snapshots_numbered += 1
        return space.snapshots_numbered

    def take_snapshot(self, workspace_id: str, snapshot: Snapshot) -> None:
        """Save the workspace."""
        space = self.space(workspace_id)
        if not space.snapshots:
            self._share_collections(space.state)
        kept = sum(state.size for _, state in space.snapshots.values())
        self.capacity.check(kept, space.state.size)
        saved = space.state.copy()
        saved.take_users(None)
        space.snapshots[snapshot.id] = (snapshot, saved)

    def restore_snapshot(self, workspace_id: str, snapshot_id: str, clock: ClockState) -> None:
        """Restore the workspace, with ``clock``."""
        space = self.space(workspace_id)
        state = space.snapshots[snapshot_id][1].copy()
        state.workspace = replace(state.workspace, clock=clock)
        state.take_users(space.state)
        state.credentials = _after_restoring(space, snapshot_id)
        self._forget_owners(space)
        space.state = state
        self._owners.update(dict.fromkeys(state.credentials, workspace_id))

    def drop_snapshot(self, workspace_id: str, snapshot_id: str) -> None:
        """Delete a snapshot."""
        del self.space(workspace_id).snapshots[snapshot_id]

    def snapshots(self, workspace_id: str) -> tuple[Snapshot, ...]:
        """Every snapshot, oldest first."""
        return tuple(snapshot for snapshot, _ in self.space(workspace_id).snapshots.values())

    def snapshot_credentials(self, workspace_id: str, snapshot_id: str) -> tuple[Credential, ...]:
        """The credentials that are valid after restoring the snapshot."""
        return tuple(_after_restoring(self.space(workspace_id), snapshot_id).values())

    def contents(self, workspace_id: str, snapshot_id: str | None = None) -> Contents:
        """Return what the workspace holds, or held when the snapshot was taken."""
        space = self.space(workspace_id)
        state = space.state if snapshot_id is None else space.snapshots[snapshot_id][1]
        records = None
        if state.size <= MAX_CONTENTS:
            records = {
                name: [*collection.page(None, None, (), oldest_first=True).records]
                for name, collection in sorted(state.collections.items())
            }
        return Contents(state.workspace, records)

    def append(
        self,
        workspace_id: str,
        log: str,
        entry: Any,
        size: int = 0,
        shown: Callable[[Any], Record] | None = None,  # noqa: ARG002  for what outlives the process
    ) -> None:
        """Add an entry of about ``size`` bytes to a bounded log."""
        space = self._spaces.get(workspace_id)
        if space is not None:
            space.logs[log].append(entry, size)
            if space.news is not None:
                space.wake()

    def log(self, workspace_id: str, log: str) -> Log:
        """The entries of a log."""
        found = self.space(workspace_id).logs.get(log)
        return found.read() if found else Log()

    def count_logged(self, workspace_id: str, log: str) -> int:
        """Return the number of entries that a log has had."""
        found = self.space(workspace_id).logs.get(log)
        return found.last if found else 0

    async def tail(self, workspace_id: str, after: Mapping[str, int]) -> Mapping[str, Log]:
        """Wait until one of these logs has entries after a number; the new entries of each log."""
        while True:
            space = self.space(workspace_id)
            found = {log: space.logs[log].read(number) for log, number in after.items()}
            if any(entries.entries for entries in found.values()):
                return found
            await space.changed()

    def space(self, workspace_id: str) -> Space:
        """Return everything of a workspace."""
        try:
            return self._spaces[workspace_id]
        except KeyError:
            raise NoWorkspaceError(workspace_id) from None

    def _share_collections(self, state: State) -> None:
        """Workspaces begin with the same fixtures: let equal collections take the memory of one."""
        for name, collection in state.collections.items():
            shared = self._shared.setdefault(name, collection)
            shared.is_shared = True
            if collection is not shared and collection.is_like(shared):
                state.collections[name] = shared

    def _forget_owners(self, space: Space) -> None:
        for digest in space.state.credentials:
            self._owners.pop(digest, None)


def _after_restoring(space: Space, snapshot_id: str) -> dict[str, Credential]:
    """The credentials of a snapshot, without sessions that have ended since then."""
    saved, now = space.snapshots[snapshot_id][1].credentials, space.state.credentials
    return {digest: one for digest, one in saved.items() if one.type != "session" or digest in now}


class Opening:
    """Opens a transaction and ends it. A generator would take five times as long."""

    __slots__ = ("_store", "_transaction", "_workspace_id")

    def __init__(self, store: MemoryStore, workspace_id: str) -> None:
        self._store = store
        self._workspace_id = workspace_id

    def __enter__(self) -> MemoryTransaction:
        self._transaction = self._store.begin(self._workspace_id)
        return self._transaction

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is not None:
            self._transaction.undo()
        else:
            if self._transaction.changed_credentials:
                self._store.commit(self._workspace_id, self._transaction.changed_credentials)
            self._transaction.forget_undo()


class Attempt:
    """Undoes the changes of a transaction after a mark, if there was an error."""

    __slots__ = ("_credentials", "_mark", "_transaction")

    def __init__(
        self, transaction: MemoryTransaction, mark: int, credentials: dict[str, Credential | None]
    ) -> None:
        self._transaction, self._mark, self._credentials = transaction, mark, credentials

    def __enter__(self) -> None:
        pass

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is not None:
            self._transaction.undo(self._mark)
            self._transaction.changed_credentials = self._credentials


class MemoryTransaction:
    """Changes state in place, with an undo log. Nothing waits in it, so nobody sees a part."""

    def __init__(
        self, state: State, indexes: Indexes = NO_INDEXES, capacity: Capacity = CAPACITY
    ) -> None:
        self._state = state
        self._capacity = capacity
        self._indexes = indexes
        self._undo: list[tuple[Any, ...]] = []
        self.changed_credentials: dict[str, Credential | None] = {}

    def workspace(self) -> Workspace:
        """The workspace."""
        return self._state.workspace

    def change_workspace(self, workspace: Workspace) -> None:
        """Replace the workspace."""
        if workspace.clock != self._state.workspace.clock:
            self._set_latest(None)
        self._undo.append((setattr, self._state, "workspace", self._state.workspace))
        self._state.workspace = workspace

    def attempt(self) -> Attempt:
        """Undo the changes that are made in the block if it raises an error."""
        return Attempt(self, len(self._undo), self.changed_credentials.copy())

    def has_steps(self) -> bool:
        """Return True if any step is scheduled, in whatever lane."""
        return bool(self._state.steps)

    def next_due(self) -> datetime | None:
        """When the first step of any lane is due."""
        steps = self._state.steps
        return min([queue.first()[0] for queue in steps.values()]) if steps else None

    def not_before(self, instant: datetime) -> datetime:
        """The instant, or the latest one that this returned since the clock was set."""
        latest = self._state.latest
        if latest is None or latest < instant:
            latest = instant
            self._set_latest(latest)
        return latest

    def _set_latest(self, instant: datetime | None) -> None:
        self._undo.append((setattr, self._state, "latest", self._state.latest))
        self._state.latest = instant

    def get(self, collection: str, key: str) -> Record | None:
        """The record, or None."""
        found = self._state.collections.get(collection)
        return None if found is None else found.get(key)

    def put(self, collection: str, key: str, record: Mapping[str, Any]) -> None:
        """Insert the record at the end of the collection, or replace it in its position."""
        state, capacity = self._state, self._capacity
        stored = state.collections.get(collection)
        if stored is None:
            stored = self._collection(collection)
        row, before = stored.row_of(key, record), stored.rows.get(key)
        is_new = before is None
        added = row.size - before.size if before else row.size + len(key) + RECORD_BYTES
        if added > 0 and (is_new or collection not in capacity.growing):
            capacity.check(state.size, added)
        state.replace(collection, key, row)
        undo = (state.forget_last, collection, key)
        self._undo.append(undo if is_new else (state.replace, collection, key, before))

    def delete(self, collection: str, key: str) -> bool:
        """Remove the record; False if there is none."""
        stored = self._collection(collection)
        if stored.position(key) is None:
            return False
        before = self._state.replace(collection, key, None)
        self._undo.append((self._state.replace, collection, key, before))
        return True

    def page(
        self,
        collection: str,
        *,
        limit: int | None = None,
        before: int | None = None,
        where: tuple[Condition, ...] = (),
        oldest_first: bool = False,
        shared: bool = False,
    ) -> Page:
        """At most ``limit`` records (None: all), newest first or ``oldest_first``."""
        found = self._state.collections.get(collection)
        if found is None:
            return Page((), None)
        return found.page(limit, before, where, oldest_first=oldest_first, shared=shared)

    def count(self, collection: str, where: tuple[Condition, ...] = ()) -> int:
        """Return the number of records that match."""
        found = self._state.collections.get(collection)
        return 0 if found is None else found.count(where)

    def next_number(self, name: str) -> int:
        """The next number of the counter ``name``."""
        numbers = self._state.numbers
        previous = numbers.get(name)
        if previous is None:
            self._capacity.check(self._state.size, NUMBER_BYTES)
            self._undo.append((self._state.forget_number, name))
            self._state.size += NUMBER_BYTES
            numbers[name] = 1
            return 1
        self._undo.append((numbers.__setitem__, name, previous))
        numbers[name] = previous + 1
        return previous + 1

    def _collection(self, name: str) -> Collection:
        found = self._state.collections.get(name)
        if found is None:
            found = self._state.collections[name] = Collection(self._indexes.get(name, ()))
        return found

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
        """Schedule a call of ``action`` for the workspace's instant ``due``, in milliseconds: its
        clock shows no others, so what is due between two would have to wait for the later one."""
        if due.microsecond % 1000:
            due = in_milliseconds(due)
        state = self._state
        text = packed((action, arguments, scenario, place))
        if not is_retry:  # it takes the place of the attempt before it
            if lane is None:
                check_limit("due steps", MAX_STEPS, len(state.steps.get(None, ())))
            else:
                check_limit("pending deliveries", MAX_DELIVERIES, state.in_lanes)
            self._capacity.check(state.size, len(text) + STEP_BYTES)
        state.steps_made = number = state.steps_made + 1
        self._put_step(lane, (due, number, text))
        self._undo.append((self._take_step, lane, number))

    def steps(self, *lanes: str | None) -> tuple[ScheduledStep, ...]:
        """The scheduled steps of lanes, by due time, then by creation."""
        queues = self._state.steps
        found = [queues[lane].in_order(lane) for lane in lanes if lane in queues]
        return tuple(merge(*found, key=lambda step: (step.due, step.number)))

    def take_due(self, now: datetime) -> ScheduledStep | None:
        """Remove and return the first step without a lane that is due at ``now``, if any."""
        first = self._first(None, now)
        if first is None:
            return None
        self.discard_step(first[1])
        return scheduled_step(first, None)

    def first_due(self, lane: str | None, now: datetime) -> ScheduledStep | None:
        """The first step of a lane that is due at ``now``, if any."""
        first = self._first(lane, now)
        return None if first is None else scheduled_step(first, lane)

    def _first(self, lane: str | None, now: datetime) -> StoredStep | None:
        queue = self._state.steps.get(lane)
        if queue is None:
            return None
        first = queue.first()
        return first if first[0] <= now else None

    def discard_step(self, number: int, lane: str | None = None) -> bool:
        """Remove a step. False: there is no step of that number."""
        step = self._take_step(lane, number)
        if step is not None:
            self._undo.append((self._put_step, lane, step))
        return step is not None

    def _put_step(self, lane: str | None, step: StoredStep) -> None:
        state = self._state
        queue = state.steps.get(lane)
        if queue is None:
            queue = state.steps[lane] = StepQueue()
        queue.add(step)
        if lane is not None:
            state.in_lanes += 1
        state.size += len(step[2]) + STEP_BYTES

    def _take_step(self, lane: str | None, number: int) -> StoredStep | None:
        queue = self._state.steps.get(lane)
        step = queue.remove(number) if queue else None
        if queue is None or step is None:
            return None
        self._state.in_lanes -= lane is not None
        self._state.size -= len(step[2]) + STEP_BYTES
        if not queue:
            del self._state.steps[lane]
        return step

    def credentials(self) -> tuple[Credential, ...]:
        """Every credential that was valid when the transaction began."""
        return tuple(self._state.credentials.values())

    def grant(self, credential: Credential) -> None:
        """Make the credential valid when the transaction commits."""
        self.changed_credentials[credential.digest] = credential

    def revoke(self, digest: str) -> None:
        """Make the credential invalid when the transaction commits."""
        self.changed_credentials[digest] = None

    def forget_undo(self) -> None:
        """Let go of all earlier versions: the undo log refers to the transaction, which refers to
        it, so they would wait for the garbage collector."""
        self._undo.clear()

    def undo(self, mark: int = 0) -> None:
        """Undo every change after a mark, the last one first."""
        while len(self._undo) > mark:
            undo, *arguments = self._undo.pop()
            undo(*arguments)
