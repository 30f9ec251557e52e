"""A store that several server processes share: each workspace is run by one of them at a time.

A process that runs a workspace has it in memory, as the persistent store has, so its requests, its
due steps and its deliveries come one after the other without asking the database. Another process
sends requests to it (``http.gateway``). Workspaces are claimed as families: a child of the first
workspace with everything created from it, because these share quotas and rate windows.

Every second a process extends its lease. When the lease is over, another process claims its
families, and from then on everything that the first one writes fails. It knows when its lease ends,
and then responds 503 instead of with what may be out of date.

A process that stops running a family writes down when something in it is due. That is a job of the
job engine (``jobs``) for whichever process takes it at that instant.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import ContextVar
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

from invoice_sandbox.base.clock import FollowingClock, SystemClock
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.state import Capacity, Credential, NoWorkspaceError, OnOpen, Workspace
from invoice_sandbox.state.memory import Indexes, Space
from invoice_sandbox.state.persistent import PersistentStore, RecordedOpening
from invoice_sandbox.state.postgresql import LEASE, Claim, Database, ReplacedError, Replica
from invoice_sandbox.state.rows import StoreError, decoded_credential, decoded_workspace
from invoice_sandbox.state.writer import Writer, unavailable

_SECONDS_BETWEEN_BEATS: Final = 1.0
_SECONDS_TO_TAKE: Final = 2 * LEASE
_SECONDS_BETWEEN_CLAIMS: Final = 0.1

log = logging.getLogger("invoice_sandbox")

T = TypeVar("T")

_workspace_of = lru_cache(maxsize=10_000)(decoded_workspace)


class SharedStore(PersistentStore):
    """The workspaces that this process runs, of all in the database."""

    def __init__(
        self, database: Database, address: str, indexes: Indexes, capacity: Capacity
    ) -> None:
        """Other processes reach this one at ``address``. Raises StoreError."""
        began = time.monotonic()
        replica = database.register(address)
        super().__init__(replica, indexes, capacity)
        self.database: Replica = replica
        self.shared = database
        self.address = address
        self.others = 0
        self._families: dict[str, str] = {}
        self._moved: set[str] = set()
        self.unopened: set[str] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._latest = 0
        self._on_open: OnOpen | None = None
        self._clock: FollowingClock | None = None
        self._began_as: ContextVar[Replica | None] = ContextVar("began_as", default=None)
        self._lease = _Lease(self, began + LEASE)
        tasks = {"take_up": self._take_up, "hand_over": self.hand_over}
        self._jobs = database.jobs(tasks, self._look_after)

    is_shared = True

    async def secret(self) -> str:
        """What the processes of the store know each other by."""
        return await self._asked(self.shared.secret)

    async def clock(self) -> SystemClock:
        """The database's clock, which all processes of the store go by."""
        self._clock = FollowingClock(await self._asked(self.shared.now))
        return self._clock

    def check(self) -> None:
        """Raise ApiError 503 while changes cannot be kept, or may be made elsewhere."""
        super().check()
        self._lease.check()

    def _check_is(self, replica: Replica) -> None:
        """Raise ApiError 503 unless this is the replica still, and its lease is not over."""
        self._lease.check()
        if self.database is not replica:
            raise unavailable()

    def pool(self) -> Mapping[str, int]:
        """Connections to the database."""
        own, jobs = self.shared.pool(), self._jobs.pool()
        return {name: count + jobs.get(name, 0) for name, count in own.items()}

    def readiness(self) -> Mapping[str, bool]:
        """Whether jobs are taken."""
        return {**super().readiness(), "jobs": self._jobs.work}

    def transaction(self, workspace_id: str) -> RecordedOpening:
        """A transaction. ``flush`` knows as which replica the work of this task began."""
        if self._began_as.get() is None:
            self._began_as.set(self.database)
        return super().transaction(workspace_id)

    def begin_request(self) -> None:
        """A request begins, in a task that may have a copy of what another one knew."""
        self._began_as.set(None)

    async def flush(self) -> None:
        """Wait until all changes are written; what was read was up to date then.

        Raises ApiError 503, also if the process has begun again since the first transaction of this
        request or task: then its changes are lost.
        """
        try:
            async with asyncio.timeout(LEASE):
                await super().flush()
        except TimeoutError:
            raise unavailable() from None
        self._lease.check()
        if self._began_as.get() not in {None, self.database}:
            raise unavailable()

    async def abandon(self) -> None:
        """Let other processes run everything, without keeping anything more."""
        await self._jobs.close()
        await asyncio.to_thread(self._lease.end)
        await self._writer.close()
        if self._writer.problem is None:
            left = {one: self._first_due(one) for one in set(self._families.values())}
            with suppress(ApiError):
                await self._asked(self.database.release, left)
        await asyncio.to_thread(self.database.close)
        await asyncio.to_thread(self.shared.close)

    # --- who runs what

    async def locate(self, digests: Sequence[str]) -> Claim | None:
        """The process that runs the workspace with one of these credentials, or else the first;
        None: this process runs it.

        Raises ApiError 503.
        """
        if any(one in self._owners for one in digests):
            return None
        claim = await self._asked(self.database.claim, digests)
        if claim is None:
            raise unavailable()
        return None if await self._open(claim) else claim

    async def lost(self, claim: Claim) -> None:
        """Nobody listens at the address of another process on this machine: it has ended."""
        await self._asked(self.shared.retire, claim.replica)

    async def take(self, workspace_id: str) -> None:
        """Run the workspace from now on. Raises NoWorkspaceError, and ApiError 503."""
        deadline = time.monotonic() + _SECONDS_TO_TAKE
        while time.monotonic() < deadline:
            asked = partial(self.database.claim, name=workspace_id, is_wanted=True)
            claim = await self._asked(asked)
            if claim is None:
                raise NoWorkspaceError(workspace_id)
            if await self._open(claim):
                return
            await asyncio.sleep(_SECONDS_BETWEEN_CLAIMS)
        raise unavailable()

    async def let_go(self, workspace_id: str) -> None:
        """Let the process that gets its first request run a new workspace."""
        if self.others and self._families[workspace_id] == workspace_id:
            await self.hand_over(workspace_id)

    async def hand_over(self, family: str) -> None:
        """Let another process run a family, after everything of it was written.

        One that could not be released is opened again.
        """
        async with self._lock_of(family):
            members = self._members(family)
            if not members and family in self.unopened:
                raise unavailable()  # only what is loaded shows when something is due
            try:
                due = await self._close(members)
                await super().flush()
                await self._asked(self.database.release, {family: due})
            except ApiError:
                self.unopened.add(family)
                raise

    async def watch(self, on_open: OnOpen) -> None:
        """Call ``on_open`` with the id of each workspace that this process runs."""
        self._on_open = on_open
        await super().watch(on_open)
        self._jobs.start(self._registered)

    def _registered(self) -> int | None:
        """The number of the replica; None: it was replaced, and has not begun again yet."""
        return None if self._lease.is_over() else self.database.number

    async def _open(self, claim: Claim) -> bool:
        """Load the family of a claim, unless it is here. False: another process runs it.

        Until it is loaded, or cannot be, it is among the ``unopened`` ones: somebody has to.
        """
        if claim.replica != self.database.number:
            return False
        self.unopened.add(claim.family)
        try:
            async with self._lock_of(claim.family):
                is_here = await self._load(claim.family)
        except ApiError:
            raise
        except Exception:
            self.unopened.discard(claim.family)
            raise
        self.unopened.discard(claim.family)
        return is_here

    async def _load(self, family: str) -> bool:
        if self._members(family):
            return True
        replica = self.database
        claim = await self._asked(partial(replica.claim, name=family))
        if claim is None or claim.replica != replica.number:
            return False
        if self._clock is not None:  # no earlier than what another process has written
            self._clock.follow(await self._asked(self.shared.now))
        await self.flush()  # what this process has changed in it before
        rows = await self._asked(self.shared.read, family)
        self._check_is(replica)
        await self._add(family, rows)
        return True

    async def _add(self, family: str, rows: Mapping[str, Iterable[tuple[Any, ...]]]) -> None:
        await self.load(rows.__getitem__)
        for name in [name for name, *_ in rows["workspaces"] if name in self._spaces]:
            self._families[name] = family
            self._moved.discard(name)
            if self._on_open is not None:
                await self._on_open(name)

    async def _close(self, members: Sequence[str]) -> float | None:
        """Forget workspaces, once nothing is changing them. When something in them is due."""
        due: list[float | None] = []
        for workspace_id in members:
            self._forget_owners(self._spaces[workspace_id])  # so that no request finds it here
        for workspace_id in members:
            with suppress(NoWorkspaceError):
                space = await self.lock(workspace_id)
                self._record_end(workspace_id, space)
                self._forget_owners(space)
                due.append(_due(space))
                del self._spaces[workspace_id]
                self._forget(workspace_id)
                self._moved.add(workspace_id)
                space.wake()
                space.lock.release()
        return _first(due)

    def _first_due(self, family: str) -> float | None:
        members = [self._spaces[one] for one in self._members(family) if one in self._spaces]
        return _first(map(_due, members))

    def _members(self, family: str) -> list[str]:
        return [name for name, kin in self._families.items() if kin == family]

    def _forget(self, workspace_id: str) -> None:
        super()._forget(workspace_id)
        self._families.pop(workspace_id, None)

    def _lock_of(self, family: str) -> asyncio.Lock:
        return self._locks.setdefault(family, asyncio.Lock())

    def _space(self, workspace_id: str) -> Space:
        if workspace_id in self._moved:
            raise unavailable()  # it was here when the request arrived
        return super()._space(workspace_id)

    async def _asked(self, question: Callable[..., T], *arguments: object) -> T:
        """What the database responds. Raises ApiError 503."""
        try:
            return await asyncio.to_thread(question, *arguments)
        except StoreError as error:
            log.warning("%s", error)
            raise unavailable() from None

    # --- jobs, and what the process does every second

    async def _take_up(self, family: str) -> None:
        """Run a family in which something is due, unless a process runs it already."""
        replica = self.database
        try:
            is_leased = await self._asked(replica.lease_due, family)
        except ApiError:
            self.unopened.add(family)  # its response may have been lost
            raise
        if is_leased:
            await self._open(Claim(family, replica.number, ""))

    async def _look_after(self) -> None:
        """Let other processes run what was run by one that has ended without a word."""
        await self._asked(self.database.look_after)

    async def go_on(self) -> None:
        """Open what could not be opened."""
        for family in tuple(self.unopened):
            await self._open(Claim(family, self.database.number, ""))

    async def begin_again(self) -> None:
        """Forget everything, as other processes run it, and become a new replica.

        Raises StoreError, also if a newer server has upgraded the schema. It is tried every second.
        """
        self._lease.ends = 0
        self._jobs.restart()
        self.unopened.clear()
        while self._spaces:
            await self._close(list(self._spaces))
        self._writer.discard()
        began = time.monotonic()
        self.database = await asyncio.to_thread(self.shared.register, self.address)
        self._writer = Writer(self.database.write)
        self._lease.ends = began + LEASE
        log.error("Another server has run the workspaces of this one, which has begun again")

    # --- what concerns workspaces that others may run

    async def create_workspace(self, workspace: Workspace, now: datetime) -> None:
        """Add an empty workspace. Raises KeyError when its id is taken."""
        self.check()
        parent = None if workspace.made_by is None else self._spaces[workspace.made_by]
        is_eldest = parent is None or parent.state.workspace.made_by is None
        family = workspace.id if is_eldest else self._families[str(workspace.made_by)]
        position, used = self._position(workspace, now), now.isoformat()
        self._positions[workspace.id] = position
        replica = self.database
        if not await self._asked(replica.reserve, workspace.id, position, used, family):
            raise KeyError(workspace.id)
        self._check_is(replica)
        self._families[workspace.id] = family
        self._moved.discard(workspace.id)
        await super().create_workspace(workspace, now)

    async def delete_workspace(self, workspace_id: str) -> None:
        """Delete the workspace with everything in it, whoever runs it."""
        if workspace_id not in self._spaces:
            try:
                await self.take(workspace_id)
            except NoWorkspaceError:
                return
        await super().delete_workspace(workspace_id)

    async def workspaces(self) -> tuple[tuple[Workspace, datetime], ...]:
        """Every workspace and when it was last used, in the order of creation; of one that another
        process runs as it was written last."""
        return tuple(
            self._here(name) or (_workspace_of(content), datetime.fromisoformat(used))
            for name, used, content in await self._directory()
        )

    async def count_workspaces(self) -> int:
        """How many workspaces there are."""
        return len(await self._directory())

    async def _directory(self) -> list[tuple[str, str, bytes]]:
        await super().flush()
        return await self._asked(self.shared.directory)

    async def known(self, workspace_id: str) -> Workspace | None:
        """The workspace, whoever runs it, or None."""
        here = await self.workspace(workspace_id)
        if here is not None:
            return here
        content = await self._asked(self.shared.described, workspace_id)
        return None if content is None else _workspace_of(content)

    async def known_credential(self, digest: str) -> Credential | None:
        """The valid credential with that digest, whoever runs its workspace."""
        here = await self.credential(digest)
        if here is not None:
            return here
        content = await self._asked(self.shared.look_up, digest)
        return None if content is None else decoded_credential(content)

    async def due_times(self, workspace_id: str) -> Mapping[str | None, datetime]:
        """When the first step of each lane is due, whoever runs the workspace."""
        if workspace_id in self._spaces:
            return await super().due_times(workspace_id)
        found = await self._asked(self.shared.due, workspace_id)
        return {lane: datetime.fromisoformat(due) for lane, due in found}

    def _here(self, name: str) -> tuple[Workspace, datetime] | None:
        space = self._spaces.get(name)
        return None if space is None else (space.state.workspace, space.last_used)

    def _position(self, workspace: Workspace, now: datetime) -> int:
        """0 for the first workspace, which there is only once."""
        if workspace.made_by is None or workspace.id in self._positions:
            return self._positions.get(workspace.id, 0)
        self._latest = max(self._latest + 1, int(now.timestamp() * 1_000_000))
        return self._latest


def _due(space: Space) -> float | None:
    """When something in a workspace is due, in real seconds since 1970. None: only if its clock is
    moved, or never."""
    steps, clock = space.state.steps, space.state.workspace.clock
    if not steps:
        return None
    first = min(queue.first()[0] for queue in steps.values())
    if clock.mode == "live":
        return first.timestamp() - clock.shift.total_seconds()
    return 0.0 if first <= clock.at else None


def _first(due: Iterable[float | None]) -> float | None:
    return min((one for one in due if one is not None), default=None)


class _Lease:
    """Extends the lease of the process in a thread of its own: a busy event loop loses none."""

    def __init__(self, store: SharedStore, ends: float) -> None:
        self.ends = ends
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._work: Future[None] | None = None
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise ApiError 503 if the lease is over."""
        if self.is_over():
            raise unavailable()

    def is_over(self) -> bool:
        """Whether the lease is over."""
        return time.monotonic() >= self.ends

    def end(self) -> None:
        """Extend it no more."""
        self._is_ending.set()
        self._thread.join(LEASE)

    def _run(self) -> None:
        while not self._is_ending.wait(_SECONDS_BETWEEN_BEATS):
            self._beat(self._store.database)

    def _beat(self, replica: Replica) -> None:
        began = time.monotonic()
        try:
            self._store.others = replica.beat()
            self.ends = began + LEASE
            if self._store.unopened:
                self._begin(self._store.go_on())
        except ReplacedError:
            if self._store.database is replica:
                self.ends = 0  # before it begins again, which waits for what it is doing now
                self._begin(self._store.begin_again())
        except StoreError as error:
            log.warning("%s", error)
            self._store.shared.check()
        except Exception:
            log.exception("the lease could not be extended")

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Let the event loop do it, unless it still does what was begun before."""
        if self._work is None or self._work.done():
            self._work = asyncio.run_coroutine_threadsafe(_logged(work), self._loop)
        else:
            work.close()


async def _logged(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except StoreError as error:
        log.warning("%s", error)
    except ApiError as error:
        log.warning("workspaces have to wait to be claimed or released: %s", error.message())
    except Exception:
        log.exception("workspaces could not be claimed or released")


async def open_shared_store(
    dsn: str, address: str, indexes: Indexes, capacity: Capacity
) -> SharedStore:
    """The store of a process that others reach at ``address``; it runs no workspace yet.

    The schema is upgraded if it has to be. Raises StoreError.
    """
    from invoice_sandbox.state.upgrade import upgrade

    await asyncio.to_thread(upgrade, dsn)
    database = await asyncio.to_thread(Database, dsn)
    try:
        return SharedStore(database, address, indexes, capacity)
    except BaseException:
        database.close()
        raise
