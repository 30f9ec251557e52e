"""A PostgreSQL database that keeps the rows of a store. Any number of servers use it.

Every thread of a server has a connection while it needs one. It works in a role that sees no rows
but those of the workspace that its transaction names.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from invoice_sandbox.state import StoreError
from invoice_sandbox.state.sql import EVERY, INDEXES, TABLES, VERSION, Batch

SCHEMA: Final = "invoice_sandbox"
ROLE: Final = "invoice_sandbox_server"

CONNECTIONS: Final = 8
"""Connections of a server at a time, and threads that use them."""

_LOCK: Final = 0x494C5321
_SECONDS_TO_CONNECT: Final = 5
_MILLISECONDS_TO_WAIT: Final = 10_000
"""For another transaction or the other end of the connection. After that a statement is an error.
"""

_ROWS: Final = 100
"""Rows that one statement inserts."""

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
"""Of a connection: both ends notice soon that nothing comes back from the other."""

_TYPES: Final = {"text": 'text COLLATE "C"', "bytes": "bytea"}

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

_CREATE_SERVER: Final = f"""CREATE TABLE server (version bigint NOT NULL);
INSERT INTO server VALUES ({VERSION})"""

_PROTECTION: Final = f"""ALTER TABLE {{table}} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {{table}} FORCE ROW LEVEL SECURITY;
CREATE POLICY of_workspace ON {{table}}
USING (current_setting('invoice_sandbox.workspace', true) IN (workspace, '{EVERY}'))"""
"""A transaction sees the rows of the workspace that it names, even if a statement forgets its
condition. One that names {EVERY} looks for a workspace: by a digest, or because a step is due."""

_HOLD: Final = "SELECT pg_try_advisory_lock(hashtextextended(%s, 0))"
_LET_GO: Final = "SELECT pg_advisory_unlock(hashtextextended(%s, 0))"
_NAME: Final = "SELECT set_config('invoice_sandbox.workspace', %s, true)"

log = logging.getLogger("invoice_sandbox")
logging.getLogger("psycopg").setLevel(logging.ERROR)  # what it warns of is an error here, too


class Database:
    """The connections to a database, which any thread may use. Raises StoreError."""

    threads = CONNECTIONS
    for_update = " FOR UPDATE"

    def __init__(self, dsn: str) -> None:
        """Connect, and create the tables in a new database. Raises StoreError."""
        self.place = shown(dsn)
        self._dsn = dsn
        self._idle: list[psycopg.Connection] = []
        self._free = threading.BoundedSemaphore(CONNECTIONS + 1)
        self._holder: psycopg.Connection | None = None
        self._holding = threading.Lock()
        with self.alone(), self.errors(), self._connected(None) as connection:
            _prepare(connection, self.place)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let no other server begin, or create the first workspace, in the block."""
        with self.errors():
            connection = self._connected(None)
        with connection:
            with self.errors():
                connection.execute(f"SELECT pg_advisory_lock({_LOCK})")
            yield

    def hold(self, workspace: str) -> bool:
        """Let no other server hold the workspace until ``let_go``; False: one does.

        All that this server holds ends with the one connection that it holds it with.
        """
        with self.errors(), self._holding:
            if self._holder is None or self._holder.closed:
                self._holder = self._connected(ROLE)
            return bool(_value(self._holder, _HOLD, workspace))

    def let_go(self, workspace: str) -> None:
        """End what ``hold`` began; nothing, if the connection was cut since."""
        with self.errors(), self._holding:
            if self._holder is not None and not self._holder.closed:
                self._holder.execute(_LET_GO, (workspace,))

    def session(self, workspace: str) -> Session:
        """Return a session that reaches the rows of a workspace."""
        return Session(self, workspace)

    def one(
        self, workspace: str, statement: str, values: tuple[Any, ...]
    ) -> tuple[Any, ...] | None:
        """Return the first row of a query that is a transaction of its own."""
        with Session(self, workspace) as session:
            return session.only(statement, values)

    def take(self) -> psycopg.Connection:
        """Return a connection, once one is free."""
        if not self._free.acquire(timeout=_MILLISECONDS_TO_WAIT / 1000):
            raise StoreError(f"{self.place} is too slow: every connection is in use")
        try:
            with suppress(IndexError):
                return self._idle.pop()
            with self.errors():
                return self._connected(ROLE)
        except BaseException:
            self._free.release()
            raise

    def renewed(self) -> psycopg.Connection:
        """Return a new connection after one was cut, as the idle ones may be, too."""
        self._end_idle()
        return self._connected(ROLE)

    def give(self, connection: psycopg.Connection) -> None:
        """Take back a connection that is not used any more."""
        if connection.closed:
            self._end_idle()
        else:
            self._idle.append(connection)
        self._free.release()

    def close(self) -> None:
        """End the connections that nobody uses, and what this server holds."""
        self._end_idle()
        if self._holder is not None:
            self._holder.close()

    def _end_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Make a StoreError of every error of the driver in the block."""
        try:
            yield
        except psycopg.Error as error:
            if error.sqlstate is None and isinstance(error, psycopg.ProgrammingError):
                raise  # a mistake of ours
            text = str(error).strip().partition("\n")[0] or type(error).__name__
            raise StoreError(f"{self.place} cannot be used: {text}") from None

    def _connected(self, role: str | None) -> psycopg.Connection:
        options = dict(_OPTIONS)
        if role is not None:
            options["options"] += f" -c role={role}"
        return psycopg.connect(self._dsn, autocommit=True, prepare_threshold=2, **options)


class Session:
    """A transaction on a connection of its own, which begins with its first statement.

    Statements that need no response are sent together with what follows.
    """

    __slots__ = ("_connection", "_cursor", "_database", "_has_begun", "_problem", "_workspace")

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace
        self._problem: StoreError | None = None

    def __enter__(self) -> Session:
        self._use(self._database.take())
        return self

    def _use(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._cursor = connection.cursor(binary=True)
        self._has_begun = False

    def __exit__(self, *_: object) -> None:
        connection = self._connection
        try:
            if connection.info.transaction_status != TransactionStatus.IDLE:
                connection.rollback()
        except psycopg.Error:
            connection.close()
        finally:
            self._database.give(connection)

    def one(self, statement: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the first row, or None."""
        self._execute(statement, values)
        row: tuple[Any, ...] | None = self._cursor.fetchone()
        return row

    def all(self, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Return all rows."""
        self._execute(statement, values)
        return self._cursor.fetchall()

    def only(self, statement: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the first row of a query after which the transaction ends."""
        self._begin(statement, values, is_only=True)
        row: tuple[Any, ...] | None = self._cursor.fetchone()
        return row

    def write(self, batch: Batch) -> None:
        """Carry out statements, in one round trip."""
        self._begin()
        with self._errors(), self._connection.pipeline():
            self._send(batch)

    def commit(self, batch: Batch = ()) -> None:
        """Carry out statements and end the transaction, in one round trip."""
        if batch:
            self._begin()
        if self._has_begun:
            with self._errors(), self._connection.pipeline():
                self._send(batch)
                self._connection.execute("COMMIT")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Note an error: nothing of the transaction may take effect after it."""
        if self._problem is not None:
            raise self._problem
        try:
            with self._database.errors():
                yield
        except StoreError as error:
            self._problem = error
            raise

    def _execute(self, statement: str, values: tuple[Any, ...]) -> None:
        if not self._has_begun:
            self._begin(statement, values)
            return
        with self._errors():
            self._cursor.execute(marked(statement), values)

    def _begin(
        self, statement: str = "", values: tuple[Any, ...] = (), *, is_only: bool = False
    ) -> None:
        """Begin the transaction, with the first statement; on another connection, if this one was
        cut since it was used."""
        if self._has_begun:
            return
        with self._errors():
            try:
                self._begin_here(statement, values, is_only=is_only)
            except psycopg.OperationalError:
                if not self._connection.closed:
                    raise
                self._use(self._database.renewed())
                self._begin_here(statement, values, is_only=is_only)
            self._has_begun = not is_only

    def _begin_here(self, statement: str, values: tuple[Any, ...], *, is_only: bool) -> None:
        with self._connection.pipeline():  # one transaction, also without BEGIN
            if not is_only:
                self._connection.execute("BEGIN")
            self._connection.execute(_NAME, (self._workspace,))
            if statement:
                self._cursor.execute(marked(statement), values)

    def _send(self, batch: Batch) -> None:
        for statement, rows in batch:
            most = _ROWS if statement.endswith("?)") else 1
            for start in range(0, len(rows), most):
                some = rows[start : start + most]
                values = [value for row in some for value in row]
                self._cursor.execute(marked(statement, len(some)), values)


@lru_cache(maxsize=512)
def marked(statement: str, rows: int = 1) -> str:
    """Return a statement with the marks for parameters that the driver has, for so many rows."""
    text, values, row = statement.partition(" VALUES ")
    return f"{text}{values}{', '.join([row] * rows)}".replace("?", "%s")


def _prepare(connection: psycopg.Connection, place: str) -> None:
    """Create the tables in a new database. Raises StoreError for those of another version."""
    with connection.transaction():
        execute = connection.execute
        execute(_ROLE_EXISTS)
        find = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        tables = {name for (name,) in execute(find, (SCHEMA,)).fetchall()}
        if tables:
            _check_version(connection, place, is_known="server" in tables)
        else:
            _create(connection)
        execute(_RIGHTS)


def _check_version(connection: psycopg.Connection, place: str, *, is_known: bool) -> None:
    version = _value(connection, "SELECT version FROM server") if is_known else 1
    if version != VERSION:
        raise StoreError(
            f"{place} was written by another version: its schema is {version}, this server uses "
            f"{VERSION}. Use that version, or another database; DROP SCHEMA {SCHEMA} CASCADE "
            "deletes the state"
        )


def _create(connection: psycopg.Connection) -> None:
    if _value(connection, f"SELECT to_regnamespace('{SCHEMA}')") is None:
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
    connection.execute(_CREATE_SERVER)
    for table, columns in TABLES.items():
        connection.execute(f"CREATE TABLE {table} ({columns.format_map(_TYPES)})")
        connection.execute(_PROTECTION.format(table=table))
    for index in INDEXES:
        connection.execute(index)


def shown(dsn: str) -> str:
    """Return the address without its password."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        return "postgresql"
    place = f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
    return f"postgresql://{place}"


def _value(connection: psycopg.Connection, query: Any, *values: Any) -> Any:
    row = connection.execute(query, values or None).fetchone()
    return None if row is None else row[0]
