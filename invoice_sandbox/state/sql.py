"""The tables, and every statement, the same for SQLite and PostgreSQL. ``?`` is a parameter.

A row belongs to a workspace and to one of its states: ``LIVE``, or the id of a snapshot. So a
snapshot is a copy of rows, and restoring one is a copy in the other direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from invoice_sandbox.state import USERS

VERSION: Final = 4
"""The version of the tables and of what is in them. A server uses no other."""

LIVE: Final = ""
"""The state that requests read and change."""

EVERY: Final = "*"
"""Stands for all workspaces, in a session that looks for one."""

_STATE: Final = "workspace {text} NOT NULL, state {text} NOT NULL"

TABLES: Final[Mapping[str, str]] = {
    "workspace": f"{_STATE}, content {{bytes}} NOT NULL, meters {{bytes}} NOT NULL, "
    "snapshot {bytes}, position BIGINT NOT NULL, last_used BIGINT NOT NULL, "
    "requests BIGINT NOT NULL, snapshots BIGINT NOT NULL, next_due BIGINT, "
    "shift BIGINT NOT NULL, frozen_at BIGINT, PRIMARY KEY (workspace, state)",
    "record": f"{_STATE}, collection {{text}} NOT NULL, position BIGINT NOT NULL, "
    "id {text} NOT NULL, content {bytes} NOT NULL, "
    "PRIMARY KEY (workspace, state, collection, position)",
    "term": f"{_STATE}, collection {{text}} NOT NULL, field {{text}} NOT NULL, "
    "value {text} NOT NULL, position BIGINT NOT NULL, "
    "PRIMARY KEY (workspace, state, collection, field, value, position)",
    "step": f"{_STATE}, lane {{text}} NOT NULL, due BIGINT NOT NULL, number BIGINT NOT NULL, "
    "content {bytes} NOT NULL, PRIMARY KEY (workspace, state, lane, due, number)",
    "credential": f"{_STATE}, digest {{text}} NOT NULL, content {{bytes}} NOT NULL, "
    "PRIMARY KEY (workspace, state, digest)",
    "log": "workspace {text} NOT NULL, log {text} NOT NULL, number BIGINT NOT NULL, "
    "size BIGINT NOT NULL, content {bytes} NOT NULL, PRIMARY KEY (workspace, log, number)",
}
"""The columns of each table. Instants are milliseconds since 1970; JSON is bytes, as it may have
characters that a text of PostgreSQL cannot have. ``meters`` are counters, ``requests`` the numbers
of requests that were given to a server; ``next_due`` is compared with real time and ``shift``, or
with ``frozen_at``."""

INDEXES: Final = (
    "CREATE UNIQUE INDEX record_id ON record (workspace, state, collection, id)",
    "CREATE INDEX step_due ON step (workspace, state, due)",
    "CREATE INDEX credential_digest ON credential (digest)",
)

_OF_STATE: Final = "WHERE workspace = ? AND state = ?"
_OF_COLLECTION: Final = f"{_OF_STATE} AND collection = ?"

OPEN: Final = f"SELECT content, meters, next_due FROM workspace {_OF_STATE}"
CLOSE: Final = (
    "UPDATE workspace SET content = ?, meters = ?, next_due = ?, shift = ?, frozen_at = ? "
    f"{_OF_STATE}"
)

GET: Final = f"SELECT position, content FROM record {_OF_COLLECTION} AND id = ?"
INSERT: Final = (
    "INSERT INTO record (workspace, state, collection, position, id, content) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)
UPDATE: Final = f"UPDATE record SET content = ? {_OF_COLLECTION} AND position = ?"
DELETE: Final = f"DELETE FROM record {_OF_COLLECTION} AND position = ?"
ADD_TERM: Final = (
    "INSERT INTO term (workspace, state, collection, field, value, position) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)
DELETE_TERM: Final = (
    f"DELETE FROM term {_OF_COLLECTION} AND field = ? AND value = ? AND position = ?"
)

ADD_STEP: Final = (
    "INSERT INTO step (workspace, state, lane, due, number, content) VALUES (?, ?, ?, ?, ?, ?)"
)
DELETE_STEP: Final = f"DELETE FROM step {_OF_STATE} AND lane = ? AND due = ? AND number = ?"
_STEP: Final = f"SELECT due, number, content FROM step {_OF_STATE} AND lane = ?"
STEPS: Final = f"{_STEP} ORDER BY due, number"
FIRST_STEP: Final = f"{_STEP} AND due <= ? ORDER BY due, number LIMIT 1"
STEP: Final = f"{_STEP} AND number = ?"
NEXT_DUE: Final = f"SELECT min(due) FROM step {_OF_STATE}"
NEXT_DUE_OF: Final = f"{NEXT_DUE} AND lane = ?"
LANES: Final = f"SELECT lane, min(due) FROM step {_OF_STATE} AND lane > '' GROUP BY lane"

READ: Final = f"SELECT content, meters, snapshot, requests FROM workspace {_OF_STATE}"
WORKSPACE: Final = f"SELECT content, last_used FROM workspace {_OF_STATE}"
WORKSPACES: Final = (
    "SELECT workspace, content, last_used FROM workspace WHERE state = ? "
    "ORDER BY position, workspace"
)
COUNT_WORKSPACES: Final = "SELECT count(*) FROM workspace WHERE state = ?"
DUE_WORKSPACES: Final = (
    "SELECT workspace FROM workspace WHERE state = ? "
    "AND next_due <= coalesce(frozen_at, ? + shift) FOR UPDATE SKIP LOCKED"
)
"""Only of PostgreSQL, where other servers may make something due, or be about to run it."""

CREATE: Final = (
    "INSERT INTO workspace (workspace, state, content, meters, position, last_used, requests, "
    "snapshots, shift, frozen_at) SELECT ?, ?, ?, ?, coalesce(max(position), 0) + 1, ?, 0, 0, ?, ? "
    "FROM workspace WHERE state = '' ON CONFLICT (workspace, state) DO NOTHING RETURNING position"
)
DELETE_WORKSPACE: Final = tuple(f"DELETE FROM {table} WHERE workspace = ?" for table in TABLES)
SNAPSHOTS: Final = (
    "SELECT snapshot, meters FROM workspace WHERE workspace = ? AND state <> '' ORDER BY position"
)
SAVE: Final = (
    "INSERT INTO workspace (workspace, state, content, meters, snapshot, position, last_used, "
    "requests, snapshots, shift) SELECT workspace, ?, content, ?, ?, "
    "(SELECT coalesce(max(position), 0) + 1 FROM workspace WHERE workspace = ? AND state <> ''), "
    f"0, ?, 0, 0 FROM workspace {_OF_STATE}"
)
DROP: Final = f"DELETE FROM workspace {_OF_STATE}"
RESTORE: Final = f"{CLOSE.partition(' WHERE')[0]}, requests = ? {_OF_STATE}"
RESERVE: Final = f"UPDATE workspace SET requests = requests + ? {_OF_STATE} RETURNING requests"
RETURN: Final = f"UPDATE workspace SET requests = ? {_OF_STATE} AND requests = ?"
NUMBER_SNAPSHOT: Final = (
    f"UPDATE workspace SET snapshots = snapshots + 1 {_OF_STATE} RETURNING snapshots"
)
USE: Final = f"UPDATE workspace SET last_used = ? {_OF_STATE} AND last_used < ?"
SIZE_OF_USERS: Final = (
    f"SELECT coalesce(sum(length(content) + length(id) + ?), 0) FROM record {_OF_COLLECTION}"
)
CONTENTS: Final = (
    f"SELECT collection, content FROM record {_OF_STATE} ORDER BY collection, position"
)
FIND_CREDENTIAL: Final = "SELECT content FROM credential WHERE digest = ? AND state = ?"

ADD_LOGGED: Final = (
    "INSERT INTO log (workspace, log, number, size, content) SELECT ?, ?, 0, ?, ? "
    f"WHERE EXISTS (SELECT 1 FROM workspace {_OF_STATE}) "
    "ON CONFLICT (workspace, log, number) DO UPDATE SET size = log.size + excluded.size "
    "RETURNING size"
)
"""The row with the number 0 counts the entries that a log has had."""

ADD_ENTRY: Final = "INSERT INTO log (workspace, log, number, size, content) VALUES (?, ?, ?, ?, ?)"
_OF_LOG: Final = "WHERE workspace = ? AND log = ?"
LOGGED: Final = f"SELECT size FROM log {_OF_LOG} AND number = 0"
ENTRIES: Final = f"SELECT number, size, content FROM log {_OF_LOG} AND number > ? ORDER BY number"
TRIM: Final = f"DELETE FROM log {_OF_LOG} AND number BETWEEN 1 AND ?"

TRY: Final = f"{ADD_ENTRY} ON CONFLICT (workspace, log, number) DO NOTHING"
END_TRIAL: Final = "DELETE FROM log WHERE workspace = ?"
"""A row that is written to know whether that is possible."""

CREDENTIALS: Final = f"SELECT digest, content FROM credential {_OF_STATE} ORDER BY digest"
GRANT: Final = (
    "INSERT INTO credential (workspace, state, digest, content) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (workspace, state, digest) DO UPDATE SET content = excluded.content"
)
REVOKE: Final = f"DELETE FROM credential {_OF_STATE} AND digest = ?"


def get_many(count: int) -> str:
    """Return the query of so many records by collection and id."""
    marks = ", ".join(["(?, ?)"] * count)
    return (
        f"WITH wanted (collection, id) AS (VALUES {marks}) "
        "SELECT wanted.collection, wanted.id, position, content FROM wanted JOIN record "
        "ON record.collection = wanted.collection AND record.id = wanted.id "
        "WHERE workspace = ? AND state = ?"
    )


def page_query(values: int | None, *, oldest_first: bool) -> str:
    """Return the query of records from a position on; with ``values``: those that have one of so
    many terms of a field."""
    order = "DESC" if not oldest_first else "ASC"
    compare = ">=" if oldest_first else "<"
    if values == 1:  # both indexes are in the order of positions
        return (
            "SELECT record.position, record.content FROM term JOIN record USING "
            "(workspace, state, collection, position) WHERE term.workspace = ? AND term.state = ? "
            f"AND term.collection = ? AND field = ? AND value = ? AND term.position {compare} ? "
            f"ORDER BY term.position {order} LIMIT ?"
        )
    having = "" if values is None else f"AND position IN (SELECT position {_of_terms(values)}) "
    return (
        f"SELECT position, content FROM record {_OF_COLLECTION} "
        f"{having}AND position {compare} ? ORDER BY position {order} LIMIT ?"
    )


def count_query(values: int) -> str:
    """Return the query of how many records have one of so many terms of a field."""
    return f"SELECT count(DISTINCT position) {_of_terms(values)}"


def _of_terms(values: int) -> str:
    marks = ", ".join(["?"] * values)
    return f"FROM term {_OF_COLLECTION} AND field = ? AND value IN ({marks})"


_COPIED: Final[Mapping[str, str]] = {
    "record": "collection, position, id, content",
    "term": "collection, field, value, position",
    "step": "lane, due, number, content",
    "credential": "digest, content",
}
"""The columns of the tables that a snapshot copies, besides workspace and state."""


def copies() -> Iterator[str]:
    """Return statements that copy a state except its users: the target, workspace, source."""
    for table, columns in _COPIED.items():
        yield (
            f"INSERT INTO {table} (workspace, state, {columns}) "
            f"SELECT workspace, ?, {columns} FROM {table} {_OF_STATE}{_without_users(table)}"
        )


def drops(*, with_users: bool) -> Iterator[str]:
    """Return statements that delete what a state has: workspace, state."""
    for table in _COPIED:
        yield f"DELETE FROM {table} {_OF_STATE}{'' if with_users else _without_users(table)}"


def _without_users(table: str) -> str:
    return f" AND collection <> '{USERS}'" if table in {"record", "term"} else ""


Batch = Sequence[tuple[str, Sequence[tuple[Any, ...]]]]
"""Statements, and the values of each time that one is to be carried out."""


class Session(Protocol):
    """A transaction of the database, which ends when it is committed or left. Raises StoreError."""

    def one(self, statement: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the first row, or None."""
        ...

    def all(self, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Return all rows."""
        ...

    def write(self, batch: Batch) -> None:
        """Carry out statements."""
        ...

    def commit(self, batch: Batch = ()) -> None:
        """Carry out statements and end the transaction, which takes effect."""
        ...


class Database(Protocol):
    """The database that keeps the rows: ``sqlite`` and ``postgresql``. Raises StoreError.

    ``place`` is how messages name it. 0 ``threads``: only the one that opened it may call it.
    """

    place: str

    @property
    def threads(self) -> int:
        """The number of threads that may call it at a time."""
        ...

    @property
    def for_update(self) -> str:
        """The clause that locks the row that a query finds."""
        ...

    def session(self, workspace: str) -> AbstractContextManager[Session]:
        """Return a session that reaches the rows of a workspace; ``EVERY``: all rows."""
        ...

    def one(
        self, workspace: str, statement: str, values: tuple[Any, ...]
    ) -> tuple[Any, ...] | None:
        """Return the first row of a query that is a transaction of its own."""
        ...

    def alone(self) -> AbstractContextManager[None]:
        """Let no other server begin in the block."""
        ...

    def hold(self, workspace: str) -> bool:
        """Let no other server hold the workspace; False: one does."""
        ...

    def let_go(self, workspace: str) -> None:
        """End what ``hold`` began."""
        ...

    def close(self) -> None:
        """Nothing may be called afterwards."""
        ...
