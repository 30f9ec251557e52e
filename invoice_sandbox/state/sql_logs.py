"""The logs of workspaces in a database: entries are written together, soon after they are added."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, NamedTuple

from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.state import Log, NoWorkspaceError, Record, most_logged, sql
from invoice_sandbox.state.columns import decoded, encoded
from invoice_sandbox.state.memory import LOG_BYTES

_DELAY: Final = 1.0
"""Seconds after which entries are written, if nothing was added meanwhile."""

_DELAY_OF_SHARED: Final = 0.05
"""Seconds after which entries are written that other servers may read."""

_LONGEST_DELAY: Final = 5.0
"""Seconds after which entries are written in any case. Those that are too old for the log by then
need not be written."""

_SLICE: Final = 50
"""Entries that are written without a pause."""

_POLL: Final = 1.0
"""Seconds after which whoever waits for entries looks for those of other servers."""


class _Entry(NamedTuple):
    """An entry that waits to be written; ``shown`` makes a record of it."""

    entry: Any
    size: int
    shown: Callable[[Any], Record] | None


class _Waiting:
    """The last entries of a log that wait to be written, and how many there were."""

    def __init__(self, most: int) -> None:
        self.count = 0
        self.entries: deque[_Entry] = deque(maxlen=most)

    def split(self, first: int) -> _Waiting:
        """Keep the first entries and return the others."""
        others = _Waiting(self.entries.maxlen or 0)
        others.count = len(self.entries) - first
        self.count -= others.count
        others.entries.extendleft(self.entries.pop() for _ in range(others.count))
        return others


_NONE: Final = _Waiting(0)


class SqlLogs:
    """The logs of all workspaces. Entries wait in memory until they are written. What this process
    has added stays what it was: a recording needs the secrets that the database does not have."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._waiting: dict[tuple[str, str], _Waiting] = {}
        self._added = 0
        self._whole: defaultdict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
        self._news: dict[str, asyncio.Event] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:  # entries are written when somebody reads them
            self._loop = None

    def session(self, workspace_id: str) -> AbstractContextManager[sql.Session]:
        """Open a session of the database."""
        raise NotImplementedError

    def append(
        self,
        workspace_id: str,
        log: str,
        entry: Any,
        size: int = 0,
        shown: Callable[[Any], Record] | None = None,
    ) -> None:
        """Add an entry of about ``size`` bytes to a bounded log."""
        key, added = (workspace_id, log), _Entry(entry, size, shown)
        with self._lock:
            is_first = not self._waiting
            waiting = self._waiting.setdefault(key, _Waiting(most_logged(log)))
            waiting.count += 1
            waiting.entries.append(added)
            self._added += 1
        if self._loop is None or not (is_first or workspace_id in self._news):
            return
        if self.threads:
            self._loop.call_soon_threadsafe(self._on_entry, workspace_id, is_first)
        else:
            self._on_entry(workspace_id, is_first)

    def _on_entry(self, workspace_id: str, is_first: bool) -> None:
        """Wake whoever waits for entries, and see to it that they are written."""
        self.wake(workspace_id)
        if is_first and self._loop is not None:
            latest = self._loop.time() + _LONGEST_DELAY
            delay = _DELAY_OF_SHARED if self.threads else _DELAY
            self._loop.call_later(delay, self._write_later, self._added, latest)

    def wake(self, workspace_id: str) -> None:
        """Let those look again who wait for entries."""
        news = self._news.pop(workspace_id, None)
        if news is not None:
            news.set()

    def _write_later(self, added: int, latest: float) -> None:
        """Write entries that wait, unless others were added after the first ``added``."""
        if self._loop is None:
            return
        if self.threads:
            self._loop.run_in_executor(None, self._try_to_write)
        elif added != self._added and self._loop.time() < latest:
            self._loop.call_later(_DELAY, self._write_later, self._added, latest)
        elif self._try_to_write(_SLICE) and self._waiting:
            self._loop.call_soon(self._write_later, self._added, 0.0)  # others go on

    def _try_to_write(self, most: int | None = None) -> bool:
        """Write entries that wait. False: that is tried again later."""
        try:
            self.write_logs(most)
        except ApiError:
            if self._loop is not None:
                again = partial(self._loop.call_later, _LONGEST_DELAY, self._write_later, 0, 0.0)
                self._loop.call_soon_threadsafe(again)
            return False
        return True

    def write_logs(self, most: int | None = None) -> None:
        """Write the entries that wait, but not many more than ``most``. Raises ApiError 503."""
        with self._writing:
            waiting = self._taken(most)
            if not waiting:
                return
            try:
                with self.session(sql.EVERY) as session:
                    session.write(())
                    for key in sorted(waiting):
                        self._add(session, *key, waiting[key])
                    session.commit()
            except ApiError:
                self._wait_again(waiting)
                raise

    def _taken(self, most: int | None) -> dict[tuple[str, str], _Waiting]:
        """Take entries that wait."""
        taken, count = {}, 0
        with self._lock:
            while self._waiting and (most is None or count < most):
                key = next(iter(self._waiting))
                found = taken[key] = self._waiting.pop(key)
                if most is not None and len(found.entries) > most:
                    self._waiting[key] = found.split(most)
                count += len(found.entries)
        return taken

    def _wait_again(self, waiting: dict[tuple[str, str], _Waiting]) -> None:
        """Let entries wait that were not written, before those that were added since."""
        with self._lock:
            for key, older in waiting.items():
                newer = self._waiting.get(key, _NONE)
                older.count += newer.count
                older.entries.extend(newer.entries)
                self._waiting[key] = older

    def _add(self, session: sql.Session, workspace_id: str, log: str, added: _Waiting) -> None:
        """Add entries to a log, unless its workspace is gone, and drop those that are too many."""
        row = session.one(
            sql.ADD_LOGGED, (workspace_id, log, added.count, b"", workspace_id, sql.LIVE)
        )
        if row is None:
            return
        last, whole = row[0], self._whole[workspace_id, log]
        rows = []
        for number, entry in enumerate(added.entries, last - len(added.entries) + 1):
            rows.append((workspace_id, log, number, entry.size, _content(entry)))
            if entry.shown is not None:
                whole[number] = entry.entry
        session.write([(sql.ADD_ENTRY, rows)])
        gone = last - most_logged(log)
        session.write([(sql.TRIM, [(workspace_id, log, gone)])])
        for number in [number for number in whole if number <= gone]:
            del whole[number]

    def forget_logs(self, workspace_id: str) -> None:
        """Forget a workspace that was deleted: another one may get its id."""
        with self._writing, self._lock:
            for logs in (self._waiting, self._whole):
                for key in [key for key in logs if key[0] == workspace_id]:
                    del logs[key]
        self.wake(workspace_id)

    def log(self, workspace_id: str, log: str) -> Log:
        """Return the entries of a log."""
        return self._read(workspace_id, {log: 0})[log]

    def count_logged(self, workspace_id: str, log: str) -> int:
        """Return how many entries a log has had."""
        if self.threads:
            self.write_logs()
        with self.session(workspace_id) as session:
            row = session.one(sql.LOGGED, (workspace_id, log))
        return (row[0] if row else 0) + self._own((workspace_id, log)).count

    def _own(self, key: tuple[str, str]) -> _Waiting:
        """Return the entries that wait, where no other server may write some before them."""
        return _NONE if self.threads else self._waiting.get(key, _NONE)

    def _read(self, workspace_id: str, after: Mapping[str, int]) -> Mapping[str, Log]:
        """Return the entries of logs after those with these numbers."""
        if self.threads:
            self.write_logs()
        found = {}
        with self.session(workspace_id) as session:
            if session.one(sql.WORKSPACE, (workspace_id, sql.LIVE)) is None:
                raise NoWorkspaceError(workspace_id)
            for log, number in after.items():
                found[log] = self._entries(session, workspace_id, log, number)
        return found

    def _entries(self, session: sql.Session, workspace_id: str, log: str, after: int) -> Log:
        """Return the entries of a log after a number, as many as it may have."""
        key = (workspace_id, log)
        own, whole = self._own(key), self._whole.get(key, {})
        row = session.one(sql.LOGGED, key)
        last = (row[0] if row else 0) + own.count
        first, entries, left = max(after, last - most_logged(log)), list[Any](), LOG_BYTES
        stored = session.all(sql.ENTRIES, (*key, first)) if row else []
        rows: list[tuple[int, int, _Entry | None, bytes]]
        rows = [(number, size, None, content) for number, size, content in stored]
        start = last - len(own.entries) + 1
        rows += [(number, one.size, one, b"") for number, one in enumerate(own.entries, start)]
        for number, size, waiting, content in reversed(rows):
            left -= size
            if left < 0 or number <= first:
                break
            found = waiting.entry if waiting else whole.get(number)
            entries.append(found if waiting or found is not None else decoded(content))
        return Log(tuple(reversed(entries)), last - len(entries))

    async def tail(self, workspace_id: str, after: Mapping[str, int]) -> Mapping[str, Log]:
        """Wait until one of these logs has entries after a number; the new entries of each log."""
        while True:
            news = self._news.setdefault(workspace_id, asyncio.Event())
            if self.threads:
                found = await asyncio.to_thread(self._read, workspace_id, after)
            else:
                found = self._read(workspace_id, after)
            if any(log.entries for log in found.values()):
                return found
            await _wait(news, _POLL if self.threads else None)


async def _wait(news: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return


def _content(entry: _Entry) -> bytes:
    return encoded(entry.entry if entry.shown is None else entry.shown(entry.entry))
