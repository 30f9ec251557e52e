"""The store in a database. Everything that a request changes is there when its transaction ends.

Only request numbers, which are reserved in blocks, times of last use and the entries of logs wait
in memory: a crash may leave out numbers and lose what was logged in the last seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.state import (
    MAX_CONTENTS,
    USERS,
    Capacity,
    Contents,
    Credential,
    Instant,
    NoWorkspaceError,
    Record,
    Snapshot,
    StoreError,
    Workspace,
    columns,
    sql,
)
from invoice_sandbox.state.collection import RECORD_BYTES
from invoice_sandbox.state.memory import Indexes
from invoice_sandbox.state.sql_logs import SqlLogs
from invoice_sandbox.state.sql_transaction import SqlTransaction

_RESERVED: Final = 1000
"""Numbers of requests that are reserved at a time: none is given twice, even after a crash."""

_SECONDS_UNNOTED: Final = 60
"""The time of last use is written when it has changed by this."""

_SECONDS_TO_RETRY: Final = 0.5
_TRIAL: Final = 256 * 1024
"""Bytes that are written, and deleted, to try whether something can be written."""

log = logging.getLogger("invoice_sandbox")


class SqlStore(SqlLogs):
    """All workspaces of a database. ``threads`` may call it at a time, 0: only the event loop's."""

    is_persistent = True

    def __init__(self, database: sql.Database, indexes: Indexes, capacity: Capacity) -> None:
        super().__init__(database.threads)
        self.database = database
        self.capacity = capacity
        self.indexes = {
            name: tuple(field for field in fields if not isinstance(field, Instant))
            for name, fields in indexes.items()
        }
        self._used: dict[str, datetime] = {}
        self._noted: dict[str, datetime] = {}
        self._numbers: dict[str, tuple[int, int]] = {}
        self._numbering = threading.Lock()
        self._problem: str | None = None
        self._next_trial = 0.0

    # --- whether it can be used

    def check(self) -> None:
        """Raise ApiError 503 while changes cannot be kept."""
        if self._problem is not None and time.monotonic() >= self._next_trial:
            self._next_trial = time.monotonic() + _SECONDS_TO_RETRY
            self._try()
        if self._problem is not None:
            raise unavailable()

    def is_ready(self) -> bool:
        """Return True if something can be read and written."""
        try:
            with self.session(sql.EVERY) as session:
                session.commit([(sql.END_TRIAL, [(sql.EVERY,)])])
        except ApiError:
            return False
        return True

    def _try(self) -> None:
        """Write something and delete it, to know whether that is possible again."""
        row = (sql.EVERY, sql.EVERY, 0, 0, bytes(_TRIAL))
        try:
            with self.database.session(sql.EVERY) as session:
                session.commit([(sql.TRY, [row])])
                session.commit([(sql.END_TRIAL, [(sql.EVERY,)])])
        except StoreError:
            return
        self._problem = None
        log.warning("The store can be written again")

    @contextmanager
    def session(self, workspace_id: str) -> Iterator[sql.Session]:
        """Open a session of the database. Raises ApiError 503 for what it raises."""
        with self._errors(), self.database.session(workspace_id) as session:
            yield session

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise ApiError 503 while the store cannot be used."""
        self.check()
        try:
            yield
        except StoreError as error:
            if self._problem is None:
                log.error("The store cannot be used: %s", error)
            self._problem = str(error)
            raise unavailable() from error

    def alone(self) -> AbstractContextManager[None]:
        """Let no other server create the first workspace in the block."""
        return self.database.alone()

    def hold(self, workspace_id: str) -> bool:
        """Let no other server hold the workspace until ``let_go``. False: one does."""
        with self._errors():
            return self.database.hold(workspace_id)

    def let_go(self, workspace_id: str) -> None:
        """End what ``hold`` began."""
        with self._errors():
            self.database.let_go(workspace_id)

    def close(self) -> None:
        """Write what is left, then close the database."""
        try:
            self.write_logs()
            for workspace_id, (number, last) in self._numbers.items():
                with self.session(workspace_id) as session:
                    use = self._use(workspace_id, self._used[workspace_id])
                    rows = [(number, workspace_id, sql.LIVE, last)]
                    session.commit([(sql.RETURN, rows), use])
        except ApiError:
            log.error("The last log entries were not written")
        self.database.close()

    # --- workspaces

    def create_workspace(self, workspace: Workspace, now: datetime) -> None:
        """Add an empty workspace, last used ``now``. Raises KeyError when its id is taken."""
        clock = columns.clock_columns(workspace.clock)
        values = (
            workspace.id,
            sql.LIVE,
            columns.encoded_workspace(workspace),
            columns.encoded_meters(columns.Meters()),
            columns.milliseconds(now),
            *clock,
        )
        with self.session(sql.EVERY) as session:
            session.write(())
            if session.one(sql.CREATE, values) is None:
                raise KeyError(workspace.id)
            session.commit()

    def delete_workspace(self, workspace_id: str) -> None:
        """Delete the workspace with everything in it."""
        rows = [(workspace_id,)]
        with self.session(workspace_id) as session:
            session.one(sql.OPEN + self.database.for_update, (workspace_id, sql.LIVE))
            session.commit([(statement, rows) for statement in sql.DELETE_WORKSPACE])
        for known in (self._used, self._noted, self._numbers):
            known.pop(workspace_id, None)
        self.forget_logs(workspace_id)

    def workspace(self, workspace_id: str) -> Workspace | None:
        """Return the workspace, or None."""
        row = self._row(workspace_id)
        return columns.decoded_workspace(row[0]) if row else None

    def _row(self, workspace_id: str) -> tuple[Any, ...] | None:
        """Return the content of a workspace, and its last use."""
        return self._one(workspace_id, sql.WORKSPACE, (workspace_id, sql.LIVE))

    def _one(
        self, workspace_id: str, query: str, values: tuple[Any, ...]
    ) -> tuple[Any, ...] | None:
        """Return the first row of a query that is a transaction of its own."""
        with self._errors():
            return self.database.one(workspace_id, query, values)

    def workspaces(self) -> tuple[tuple[Workspace, datetime], ...]:
        """Return every workspace and when it was last used, in the order of creation."""
        with self.session(sql.EVERY) as session:
            rows = session.all(sql.WORKSPACES, (sql.LIVE,))
        return tuple(
            (columns.decoded_workspace(content), self._latest_use(workspace_id, used))
            for workspace_id, content, used in rows
        )

    def count_workspaces(self) -> int:
        """Return how many workspaces there are."""
        row = self._one(sql.EVERY, sql.COUNT_WORKSPACES, (sql.LIVE,))
        return row[0] if row else 0

    def credential(self, digest: str) -> Credential | None:
        """Return the valid credential with that digest."""
        row = self._one(sql.EVERY, sql.FIND_CREDENTIAL, (digest, sql.LIVE))
        return columns.decoded_credential(row[0]) if row else None

    def note_request(self, workspace_id: str, now: datetime) -> int:
        """Count a request and return its number. After a crash, numbers may be left out."""
        with self._numbering:
            self._used[workspace_id] = now
            number, last = self._numbers.get(workspace_id, (0, 0))
            if number < last:
                self._numbers[workspace_id] = number + 1, last
        if number == last:
            return self._reserve(workspace_id, now)
        if (now - self._noted.get(workspace_id, now)).total_seconds() >= _SECONDS_UNNOTED:
            with self.session(workspace_id) as session:
                session.commit([self._use(workspace_id, now)])
        return number + 1

    def _reserve(self, workspace_id: str, now: datetime) -> int:
        """Reserve numbers, note the use of the workspace, and return the first of them.

        The row may be locked, so requests in other workspaces go on.
        """
        use = self._use(workspace_id, now)
        last = self._counted(workspace_id, sql.RESERVE, _RESERVED, use=[use])
        first = last - _RESERVED + 1
        with self._numbering:
            if self._numbers.get(workspace_id, (0, 0))[1] < last:
                self._numbers[workspace_id] = first, last
        return first

    def _counted(self, workspace_id: str, statement: str, *values: int, use: sql.Batch = ()) -> int:
        """Change a number of a workspace and return it."""
        with self.session(workspace_id) as session:
            session.write(())
            row = session.one(statement, (*values, workspace_id, sql.LIVE))
            session.commit(use)
        if row is None:
            raise NoWorkspaceError(workspace_id)
        return int(row[0])

    def _use(self, workspace_id: str, at: datetime) -> tuple[str, list[tuple[Any, ...]]]:
        """Return the statement that writes the last use of a workspace."""
        self._noted[workspace_id] = at
        used = columns.milliseconds(at)
        return sql.USE, [(used, workspace_id, sql.LIVE, used)]

    def last_used(self, workspace_id: str) -> datetime:
        """Return when the workspace received its last request, in real time."""
        row = self._row(workspace_id)
        if row is None:
            raise NoWorkspaceError(workspace_id)
        return self._latest_use(workspace_id, row[1])

    def _latest_use(self, workspace_id: str, used: int) -> datetime:
        return max(columns.instant_of(used), self._used.get(workspace_id, columns.instant_of(used)))

    def due_times(self, workspace_id: str) -> Mapping[str | None, datetime]:
        """Return when the first step of each lane is due, and of those without a lane."""
        with self.session(workspace_id) as session:
            if session.one(sql.WORKSPACE, (workspace_id, sql.LIVE)) is None:
                raise NoWorkspaceError(workspace_id)
            first = session.one(sql.NEXT_DUE_OF, (workspace_id, sql.LIVE, ""))
            lanes = session.all(sql.LANES, (workspace_id, sql.LIVE))
        found: dict[str | None, datetime] = {lane: columns.instant_of(due) for lane, due in lanes}
        if first is not None and first[0] is not None:
            found[None] = columns.instant_of(first[0])
        return found

    def due_workspaces(self, now: datetime) -> tuple[str, ...]:
        """Return the ids of the workspaces in which a step is due at the real instant ``now``."""
        with self.session(sql.EVERY) as session:
            rows = session.all(sql.DUE_WORKSPACES, (sql.LIVE, columns.milliseconds(now)))
        return tuple(workspace_id for (workspace_id,) in rows)

    @contextmanager
    def transaction(self, workspace_id: str) -> Iterator[SqlTransaction]:
        """Open a transaction. Those of one workspace are serial."""
        with self.session(workspace_id) as session:
            row = session.one(sql.OPEN + self.database.for_update, (workspace_id, sql.LIVE))
            if row is None:
                raise NoWorkspaceError(workspace_id)
            content, meters, due = row
            state = SqlTransaction(
                session, workspace_id, content, meters, due, self.indexes, self.capacity
            )
            yield state
            state.commit()

    # --- snapshots

    def next_snapshot_number(self, workspace_id: str) -> int:
        """Return the number of the next snapshot."""
        return self._counted(workspace_id, sql.NUMBER_SNAPSHOT)

    def take_snapshot(self, workspace_id: str, snapshot: Snapshot) -> None:
        """Save the workspace."""
        with self.session(workspace_id) as session:
            _, meters, _, requests = self._locked(session, workspace_id, sql.LIVE)
            saved = columns.decoded_meters(meters)
            kept = [
                columns.decoded_meters(one).size
                for _, one in session.all(sql.SNAPSHOTS, (workspace_id,))
            ]
            self.capacity.check(sum(kept), saved.size)
            saved.drop(USERS, _size_of_users(session, workspace_id))
            number = self._numbers.get(workspace_id, (requests, 0))[0]
            values = (
                snapshot.id,
                columns.encoded_meters(saved),
                columns.encoded_snapshot(snapshot),
                workspace_id,
                number,
                workspace_id,
                sql.LIVE,
            )
            session.commit(
                [
                    *_dropped(workspace_id, snapshot.id),
                    *_copied(workspace_id, sql.LIVE, snapshot.id),
                    (sql.SAVE, [values]),
                ]
            )

    def restore_snapshot(self, workspace_id: str, snapshot_id: str, clock: ClockState) -> None:
        """Restore the workspace, with ``clock``."""
        with self.session(workspace_id) as session:
            _, live, _, _ = self._locked(session, workspace_id, sql.LIVE)
            content, meters, _, requests = self._locked(session, workspace_id, snapshot_id)
            workspace = replace(columns.decoded_workspace(content), clock=clock)
            restored, size = columns.decoded_meters(meters), _size_of_users(session, workspace_id)
            restored.latest = None
            restored.move(USERS, columns.decoded_meters(live), size)
            left = _after_restoring(session, workspace_id, snapshot_id)
            due = session.one(sql.NEXT_DUE, (workspace_id, snapshot_id)) or (None,)
            values = (
                columns.encoded_workspace(workspace),
                columns.encoded_meters(restored),
                *due,
                *columns.clock_columns(clock),
                requests,
                workspace_id,
                sql.LIVE,
            )
            drop = [(table, [(workspace_id, sql.LIVE)]) for table in sql.drops(with_users=False)]
            rows = [
                (workspace_id, sql.LIVE, credential.digest, columns.encoded_credential(credential))
                for credential in left
            ]
            session.commit(
                [
                    *drop,
                    *_copied(workspace_id, snapshot_id, sql.LIVE),
                    drop[-1],
                    (sql.GRANT, rows),
                    (sql.RESTORE, [values]),
                ]
            )
        self._numbers.pop(workspace_id, None)

    def drop_snapshot(self, workspace_id: str, snapshot_id: str) -> None:
        """Delete a snapshot."""
        with self.session(workspace_id) as session:
            self._locked(session, workspace_id, snapshot_id)
            session.commit(_dropped(workspace_id, snapshot_id))

    def snapshots(self, workspace_id: str) -> tuple[Snapshot, ...]:
        """Return every snapshot, oldest first."""
        with self.session(workspace_id) as session:
            rows = session.all(sql.SNAPSHOTS, (workspace_id,))
        return tuple(columns.decoded_snapshot(content) for content, _ in rows)

    def snapshot_credentials(self, workspace_id: str, snapshot_id: str) -> tuple[Credential, ...]:
        """Return the credentials that are valid after restoring the snapshot."""
        with self.session(workspace_id) as session:
            self._locked(session, workspace_id, snapshot_id)
            return _after_restoring(session, workspace_id, snapshot_id)

    def contents(self, workspace_id: str, snapshot_id: str | None = None) -> Contents:
        """Return what the workspace holds, or held when the snapshot was taken."""
        state = snapshot_id or sql.LIVE
        with self.session(workspace_id) as session:
            content, meters, _, _ = self._locked(session, workspace_id, state)
            records: dict[str, list[Record]] | None = None
            if columns.decoded_meters(meters).size <= MAX_CONTENTS:
                names = sorted(columns.decoded_meters(meters).positions)
                records = {name: [] for name in names if not name.startswith("#")}
                for name, text in session.all(sql.CONTENTS, (workspace_id, state)):
                    if name in records:
                        records[name].append(columns.decoded(text))
        return Contents(columns.decoded_workspace(content), records)

    def _locked(self, session: sql.Session, workspace_id: str, state: str) -> tuple[Any, ...]:
        """Return the row of a state, which nobody changes until the session ends."""
        row = session.one(sql.READ + self.database.for_update, (workspace_id, state))
        if row is None:
            raise NoWorkspaceError(workspace_id) if state == sql.LIVE else KeyError(state)
        return row


def open_store(
    place: Path | str, indexes: Indexes, capacity: Capacity, *, full: bool = False
) -> SqlStore:
    """Return a store on a file, or on the database at an address. It is created if it is not
    there. ``full``: each change of a file waits for the disk. Raises StoreError."""
    if isinstance(place, str):
        from invoice_sandbox.state import postgresql  # the driver is imported when it is needed

        return SqlStore(postgresql.Database(place), indexes, capacity)
    from invoice_sandbox.state import sqlite

    return SqlStore(sqlite.Database(place, full=full), indexes, capacity)


def unavailable() -> ApiError:
    """Return the error while the store cannot be used."""
    return reject("store_unavailable", ("Retry-After", "1"))


def _size_of_users(session: sql.Session, workspace_id: str) -> int:
    row = session.one(sql.SIZE_OF_USERS, (RECORD_BYTES, workspace_id, sql.LIVE, USERS))
    return int(row[0]) if row else 0


def _dropped(workspace_id: str, state: str) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Return the statements that delete a state."""
    return [
        (statement, [(workspace_id, state)])
        for statement in (*sql.drops(with_users=True), sql.DROP)
    ]


def _copied(workspace_id: str, source: str, target: str) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Return the statements that copy a state, except its users."""
    return [(statement, [(target, workspace_id, source)]) for statement in sql.copies()]


def _after_restoring(
    session: sql.Session, workspace_id: str, snapshot_id: str
) -> tuple[Credential, ...]:
    """Return the credentials of a snapshot, without sessions that have ended since then."""
    saved = dict(session.all(sql.CREDENTIALS, (workspace_id, snapshot_id)))
    live = dict(session.all(sql.CREDENTIALS, (workspace_id, sql.LIVE)))
    found = {digest: columns.decoded_credential(content) for digest, content in saved.items()}
    return tuple(
        credential
        for credential in found.values()
        if credential.type != "session" or credential.digest in live
    )
