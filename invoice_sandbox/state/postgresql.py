"""A PostgreSQL database that keeps the rows of a persistent store.

One server uses a database at a time: the connection that writes holds an advisory lock, which ends
with the connection. A batch of changes is one transaction in one round trip. It works in a role
that sees no rows but those of the workspace that is named.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from invoice_sandbox.state.rows import TABLES, VERSION, Change, Row, StoreError
from invoice_sandbox.state.sql import definitions, selection, statements

SCHEMA: Final = "invoice_sandbox"
ROLE: Final = "invoice_sandbox_server"

_LOCK: Final = 0x494C5321
_SECONDS_TO_CONNECT: Final = 5
_SECONDS_FOR_THE_LOCK: Final = 5.0
"""For another server to end, before that is an error at start."""

_PAUSE: Final = 0.25
_MILLISECONDS_TO_WAIT: Final = 10_000
"""For another transaction or the other end of the connection. After that a statement is an error.
"""

_MILLISECONDS_TO_WORK: Final = 120_000
"""For a statement, such as the copy of everything in a large workspace."""

_OPTIONS: Final[Mapping[str, Any]] = {
    "options": f"-c search_path={SCHEMA} -c client_min_messages=warning "
    f"-c lock_timeout={_MILLISECONDS_TO_WAIT} -c statement_timeout={_MILLISECONDS_TO_WORK} "
    f"-c idle_in_transaction_session_timeout={_MILLISECONDS_TO_WAIT} "
    "-c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 -c tcp_keepalives_count=3",
    "connect_timeout": _SECONDS_TO_CONNECT,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": _MILLISECONDS_TO_WAIT,
}
"""Of the connection: both ends notice soon that nothing comes back from the other."""

_TYPES: Final = {str: 'text COLLATE "C"', int: "bigint", bytes: "bytea"}

_ROLE_EXISTS: Final = f"""DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{ROLE}') THEN
    CREATE ROLE {ROLE} NOLOGIN;
    EXECUTE format('GRANT {ROLE} TO %I', current_user);
  ELSIF NOT pg_has_role(current_user, '{ROLE}', 'MEMBER') THEN
    EXECUTE format('GRANT {ROLE} TO %I', current_user);
  END IF;
EXCEPTION WHEN insufficient_privilege THEN
  RAISE EXCEPTION 'its user may not create roles. Let an administrator run once: '
    'CREATE ROLE {ROLE}; GRANT {ROLE} TO %', current_user;
END $$"""

_RIGHTS: Final = f"""GRANT USAGE ON SCHEMA {SCHEMA} TO {ROLE};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {SCHEMA} TO {ROLE}"""
"""They are given at each start, as a backup that was restored may lack them."""

_CREATE_SERVER: Final = f"""
CREATE TABLE server (version bigint NOT NULL, epoch bigint NOT NULL, batch bigint NOT NULL);
INSERT INTO server VALUES ({VERSION}, 0, 0)"""
"""``epoch`` counts the starts of servers, ``batch`` what the present one has written."""

_PROTECTION: Final = """ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON {table}
USING (workspace = current_setting('invoice_sandbox.workspace', true))"""
"""The role sees the rows of the workspace that a transaction names, and no others, even if a
statement forgets its condition."""

log = logging.getLogger("invoice_sandbox")
logging.getLogger("psycopg").setLevel(logging.ERROR)  # what it warns of is an error here, too


class Database:
    """The connection to a database. Methods may be called from any thread, by one at a time. They
    raise StoreError."""

    beats: float | None = 1.0
    """Seconds after which an empty ``write`` shows whether the database is still there."""

    def __init__(self, dsn: str) -> None:
        """Connect, and create the tables in a new database. Raises StoreError."""
        self.place = shown(dsn)
        self._dsn = dsn
        self._batch = 0
        self._latest: Sequence[Change] = ()
        with self._errors():
            self._connection = self._connected(_SECONDS_FOR_THE_LOCK)
            try:
                self._prepare()
                self._epoch = self._begin()
            except BaseException:
                self._connection.close()
                raise

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """All rows of a table in the order of its key."""
        with self._errors(), self._connection.transaction():
            # an error, not an empty table, for a user whom the policies of the table concern
            self._connection.execute("SET LOCAL row_security = off")
            yield from self._connection.cursor(binary=True).stream(selection(table))

    def write(self, changes: Sequence[Change]) -> None:
        """Make all changes, in their order within a workspace, or none; once, even if it is called
        again after an error."""
        with self._errors():
            if self._connection.closed and self._connect_again(changes):
                return
            if not changes:
                self._connection.execute("SELECT 1")
                return
            self._latest = changes
            self._write(changes)
            self._batch += 1

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    def _write(self, changes: Sequence[Change]) -> None:
        with self._connection.pipeline(), self._connection.transaction():
            cursor = self._connection.cursor()
            cursor.execute(f"SET LOCAL ROLE {ROLE}")
            cursor.execute("UPDATE server SET batch = %s", (self._batch + 1,))
            for name, own in groupby(sorted(changes, key=_workspace), _workspace):
                cursor.execute("SELECT set_config('invoice_sandbox.workspace', %s, true)", (name,))
                for statement, times in statements(list(own), "%s"):
                    for values in times:  # executemany would wait for the responses
                        cursor.execute(statement, values)

    def _connected(self, patience: float = 0) -> psycopg.Connection:
        """A connection that holds the lock."""
        connection = psycopg.connect(self._dsn, autocommit=True, **_OPTIONS)
        try:
            self._lock(connection, time.monotonic() + patience)
        except BaseException:
            connection.close()
            raise
        return connection

    def _lock(self, connection: psycopg.Connection, deadline: float) -> None:
        is_first = True
        while not _value(connection, f"SELECT pg_try_advisory_lock({_LOCK})"):
            if time.monotonic() >= deadline:
                raise StoreError(f"another server uses {self.place}; stop it, or name another one")
            if is_first:
                log.warning("Waiting for the server to end that uses %s", self.place)
            is_first = False
            time.sleep(_PAUSE)

    def _connect_again(self, changes: Sequence[Change]) -> bool:
        """Connect after the connection has ended. True if these changes were written by then."""
        connection = self._connected()
        try:
            epoch, batch = connection.execute("SELECT epoch, batch FROM server").fetchone() or ()
            if epoch != self._epoch:
                raise StoreError(
                    f"another server has used {self.place} meanwhile; start this one again"
                )
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        is_written = batch > self._batch and changes is self._latest
        self._batch = batch
        return is_written

    def _prepare(self) -> None:
        """Create the tables in a new database. Raises StoreError for those of another version."""
        with self._connection.transaction():
            execute = self._connection.execute
            execute(_ROLE_EXISTS)
            find = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
            tables = {name for (name,) in execute(find, (SCHEMA,)).fetchall()}
            if tables:
                self._check_version(is_known="server" in tables)
            else:
                self._create()
            execute(_RIGHTS)

    def _check_version(self, *, is_known: bool) -> None:
        version = _value(self._connection, "SELECT version FROM server") if is_known else 1
        if version != VERSION:
            raise StoreError(
                f"{self.place} was written by another version: its schema is {version}, this "
                f"server uses {VERSION}. Use that version, or another database; DROP SCHEMA "
                f"{SCHEMA} CASCADE deletes the state"
            )

    def _create(self) -> None:
        if _value(self._connection, f"SELECT to_regnamespace('{SCHEMA}')") is None:
            self._connection.execute(f"CREATE SCHEMA {SCHEMA}")
        for statement in (_CREATE_SERVER, *definitions(_TYPES)):
            self._connection.execute(statement)
        for table in TABLES:
            self._connection.execute(_PROTECTION.format(table=table))

    def _begin(self) -> int:
        """The number of this start: no server of an earlier one writes any more."""
        statement = "UPDATE server SET epoch = epoch + 1, batch = 0 RETURNING epoch"
        return int(_value(self._connection, statement))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Every error of the driver in the block is a StoreError."""
        try:
            yield
        except psycopg.Error as error:
            text = str(error).strip().partition("\n")[0] or type(error).__name__
            raise StoreError(f"{self.place} cannot be used: {text}") from None


def shown(dsn: str) -> str:
    """The address without its password."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        return "postgresql"
    place = f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
    return f"postgresql://{place}"


def _value(connection: psycopg.Connection, query: Any) -> Any:
    row = connection.execute(query).fetchone()
    return None if row is None else row[0]


def _workspace(change: Change) -> str:
    return str(change.key[0]) if isinstance(change, Row) else change.workspace
