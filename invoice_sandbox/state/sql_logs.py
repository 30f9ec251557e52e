"""The logs of workspaces in a database: entries are written together, soon after they are added."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple

from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.state import Log, NoWorkspaceError, Record
from invoice_sandbox.state.memory import LOG_BYTES, LOG_ENTRIES
from invoice_sandbox.state.rows import decoded, encoded
from invoice_sandbox.state.sql import (
    ADD_ENTRY,
    ADD_LOGGED,
    ENTRIES,
    EVERY,
    LIVE,
    LOGGED,
    TOO_LARGE,
    TRIM,
    WORKSPACE,
    Session,
)

_DELAY: Final = 0.05
"""Seconds after which entries are written."""

_POLL: Final = 1.0
"""Seconds after which whoever waits for entries looks for those of other servers."""


class _Entry(NamedTuple):
    """An entry that waits to be written; ``shown`` makes a record of it."""

    workspace_id: str
    log: str
    entry: Any
    size: int
    shown: Callable[[Any], Record] | None


class SqlLogs:
    """The logs of all workspaces. Entries wait in memory until they are written. What this process
    has added stays what it was: a recording needs the secrets that the database does not have."""

    def __init__(
        self, session: Callable[[str], AbstractContextManager[Session]], threads: int
    ) -> None:
        self._session = session
        self._has_threads = threads > 0
        self._waiting: list[_Entry] = []
        self._whole: defaultdict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
        self._news: dict[str, asyncio.Event] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:  # entries are written when somebody reads them
            self._loop = None

    def append(
        self,
        workspace_id: str,
        log: str,
        entry: Any,
        size: int = 0,
        shown: Callable[[Any], Record] | None = None,
    ) -> None:
        """Add an entry of about ``size`` bytes to a bounded log."""
        with self._lock:
            self._waiting.append(_Entry(workspace_id, log, entry, size, shown))
            is_first = len(self._waiting) == 1
        if self._loop is None or not (is_first or workspace_id in self._news):
            return
        if self._has_threads:
            self._loop.call_soon_threadsafe(self._on_entry, workspace_id, is_first)
        else:
            self._on_entry(workspace_id, is_first)

    def _on_entry(self, workspace_id: str, is_first: bool) -> None:
        """Wake whoever waits for entries, and see to it that they are written."""
        self.wake(workspace_id)
        if is_first and self._loop is not None:
            self._loop.call_later(_DELAY, self._write_later)

    def wake(self, workspace_id: str) -> None:
        """Let those look again who wait for entries."""
        news = self._news.pop(workspace_id, None)
        if news is not None:
            news.set()

    def _write_later(self) -> None:
        if self._has_threads and self._loop is not None:
            self._loop.run_in_executor(None, self._try_to_write)
        else:
            self._try_to_write()

    def _try_to_write(self) -> None:
        try:
            self.write()
        except ApiError:
            return  # they wait until somebody reads the log, or adds to it

    def write(self) -> None:
        """Write the entries that wait. Raises ApiError 503."""
        with self._writing:
            with self._lock:
                entries, self._waiting = self._waiting, []
            if not entries:
                return
            try:
                self._write(entries)
            except ApiError:
                with self._lock:
                    self._waiting[:0] = entries[-LOG_ENTRIES:]
                raise

    def _write(self, entries: list[_Entry]) -> None:
        by_log = defaultdict(list)
        for entry in entries:
            by_log[entry.workspace_id, entry.log].append(entry)
        with self._session(EVERY) as session:
            session.write(())
            for (workspace_id, log), added in sorted(by_log.items()):
                self._add(session, workspace_id, log, added)
            session.commit()

    def _add(self, session: Session, workspace_id: str, log: str, added: list[_Entry]) -> None:
        """Add entries to a log, unless its workspace is gone, and drop those that are too many."""
        row = session.one(ADD_LOGGED, (workspace_id, log, len(added), b"", workspace_id, LIVE))
        if row is None:
            return
        last, whole = row[0], self._whole[workspace_id, log]
        rows = []
        for number, entry in enumerate(added, last - len(added) + 1):
            rows.append((workspace_id, log, number, entry.size, _content(entry)))
            if entry.shown is not None:
                whole[number] = entry.entry
        session.write([(ADD_ENTRY, rows)])
        large = session.one(TOO_LARGE, (workspace_id, log, LOG_BYTES))
        gone = max(large[0] if large else 0, last - LOG_ENTRIES)
        session.write([(TRIM, [(workspace_id, log, gone)])])
        for number in [number for number in whole if number <= gone]:
            del whole[number]

    def forget(self, workspace_id: str) -> None:
        """Forget a workspace that was deleted."""
        for key in [key for key in self._whole if key[0] == workspace_id]:
            del self._whole[key]
        self.wake(workspace_id)

    def log(self, workspace_id: str, log: str) -> Log:
        """Return the entries of a log."""
        return self._read(workspace_id, {log: 0})[log]

    def count_logged(self, workspace_id: str, log: str) -> int:
        """Return how many entries a log has had."""
        self.write()
        with self._session(workspace_id) as session:
            row = session.one(LOGGED, (workspace_id, log))
        return row[0] if row else 0

    def _read(self, workspace_id: str, after: Mapping[str, int]) -> Mapping[str, Log]:
        """Return the entries of logs after those with these numbers."""
        self.write()
        found = {}
        with self._session(workspace_id) as session:
            if session.one(WORKSPACE, (workspace_id, LIVE)) is None:
                raise NoWorkspaceError(workspace_id)
            for log, number in after.items():
                last = session.one(LOGGED, (workspace_id, log))
                rows = session.all(ENTRIES, (workspace_id, log, number)) if last else []
                whole = self._whole.get((workspace_id, log), {})
                entries = [whole.get(number) or decoded(content) for number, content in rows]
                found[log] = Log(tuple(entries), (last[0] if last else 0) - len(entries))
        return found

    async def tail(self, workspace_id: str, after: Mapping[str, int]) -> Mapping[str, Log]:
        """Wait until one of these logs has entries after a number; the new entries of each log."""
        while True:
            news = self._news.setdefault(workspace_id, asyncio.Event())
            if self._has_threads:
                found = await asyncio.to_thread(self._read, workspace_id, after)
            else:
                found = self._read(workspace_id, after)
            if any(log.entries for log in found.values()):
                return found
            await _wait(news, _POLL if self._has_threads else None)


async def _wait(news: asyncio.Event, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return


def _content(entry: _Entry) -> bytes:
    return encoded(entry.entry if entry.shown is None else entry.shown(entry.entry))
