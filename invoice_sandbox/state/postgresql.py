"""The rows of a persistent store in PostgreSQL, and which server process runs which workspaces.

A batch of changes is one transaction in one round trip, which fails if another replica has taken
the place of this one. The server works in a role that sees no rows but those of the workspace that
a transaction names. The schema, and every function that is called here, is in ``migrations``.

The driver is psycopg: like ``sqlite3`` it can be used by the one thread that writes, it sends a
batch without waiting for the response to each statement, and its pool connects again by itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from invoice_sandbox.state.jobs import CONNECTIONS_OF_JOBS, Jobs, OfFamily, usage
from invoice_sandbox.state.rows import TABLES, Change, Row, StoreError, Table
from invoice_sandbox.state.sql import Dialect, statements

LEASE: Final = 10.0
"""Seconds after which a replica that does not extend its lease has ended."""

SCHEMA: Final = "0006"
"""The version of the schema that this server uses: that of the newest migration."""

_ROLE: Final = "invoice_sandbox_server"
_REPLACED: Final = "IS001"
_WRITTEN: Final = "IS002"
"""Errors of the functions: another replica took the place of this one; the batch was written."""

CONNECTIONS: Final = 4 + CONNECTIONS_OF_JOBS
_SECONDS_TO_CONNECT: Final = 5
_MILLISECONDS_TO_WAIT: Final = 10_000
"""For another transaction or the other end of the connection. After that a statement is an error.
"""

_MILLISECONDS_TO_WORK: Final = 120_000
"""For a statement, such as the copy of everything in a large workspace."""

_BYTES: Final = frozenset({"name", "content", "snapshot"})
"""Columns of texts that may hold any character, and of JSON."""

_AS_TEXT: Final = b"\n"
"""Begins JSON that was packed as ``str``: it has numbers that only a Decimal keeps."""


def _options(schema: str) -> Mapping[str, Any]:
    """Of a connection, which ends soon if nothing comes back from the other end."""
    return {
        "options": f"-c role={_ROLE} -c search_path={schema} -c client_min_messages=warning "
        f"-c lock_timeout={_MILLISECONDS_TO_WAIT} -c statement_timeout={_MILLISECONDS_TO_WORK} "
        f"-c idle_in_transaction_session_timeout={_MILLISECONDS_TO_WAIT}",
        "connect_timeout": _SECONDS_TO_CONNECT,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": _MILLISECONDS_TO_WAIT,
    }


class ReplacedError(StoreError):
    """Another replica has taken the place of this one, which must forget everything it knows."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place}: another server has taken the place of this one")


class Claim(NamedTuple):
    """The family of a workspace, and the number and the address of the replica that runs it."""

    family: str
    replica: int
    address: str


def _adapted(table: Table, values: tuple[Any, ...]) -> tuple[Any, ...]:
    columns = (*table.key, *table.values)
    return tuple(
        _as_bytes(column, value) if column in _BYTES and isinstance(value, str) else value
        for column, value in zip(columns, values, strict=False)
    )


def _as_bytes(column: str, text: str) -> bytes:
    return text.encode() if column == "name" else _AS_TEXT + text.encode()


def _read(column: str, value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    if column == "name":
        return value.decode()
    return value[1:].decode() if value[:1] == _AS_TEXT else value


_DIALECT: Final = Dialect("%s", adapt=_adapted)


class Database:
    """Connections to a database. Methods may be called from any thread. They raise StoreError."""

    def __init__(self, dsn: str) -> None:
        """Connect. The schema must be there."""
        self.shown = shown(dsn)
        self._dsn = dsn
        self._pool = ConnectionPool(
            dsn,
            kwargs={"autocommit": True, **_options("invoice_sandbox")},
            min_size=1,
            max_size=CONNECTIONS - CONNECTIONS_OF_JOBS,
            timeout=_SECONDS_TO_CONNECT,
            open=False,
            name="invoice-sandbox",
        )
        try:
            with self._errors():
                self._pool.open()
                self._pool.wait(_SECONDS_TO_CONNECT)
        except BaseException:
            self._pool.close()
            raise

    def register(self, address: str) -> Replica:
        """A new replica, which runs nothing yet; others reach it at ``address``.

        Fails if a newer server has upgraded the schema.
        """
        ((number,),) = self.call("register", address, LEASE, SCHEMA)
        return Replica(self, number)

    def retire(self, replica: int) -> None:
        """End a replica."""
        self.call("retire", replica)

    def now(self) -> datetime:
        """What the clock of the database shows."""
        with self.connected() as connection:
            ((shown,),) = connection.execute("SELECT clock_timestamp()").fetchall()
        return shown.astimezone(UTC)  # type: ignore[no-any-return]

    def secret(self) -> str:
        """What replicas know each other by."""
        return str(self.call("deployment")[0][0])

    def look_up(self, digest: str) -> bytes | None:
        """The row of a credential, in whatever workspace; None: there is none."""
        found = self.call("look_up", [digest])
        return found[0][-1] if found else None

    def due(self, workspace: str) -> list[tuple[str | None, str]]:
        """When the first step of each lane of a workspace is due."""
        with self.connected() as connection, connection.transaction(), connection.pipeline():
            connection.execute(*_in_workspace(workspace))
            return connection.execute(
                "SELECT lane, min(due COLLATE \"C\") FROM steps WHERE state = '' GROUP BY lane"
            ).fetchall()

    def directory(self) -> list[tuple[str, str, bytes]]:
        """Of every workspace its id, its last use, and itself, in the order of creation."""
        return self.call("directory")

    def described(self, workspace: str) -> bytes | None:
        """The row of a workspace itself; None: there is none."""
        with self.connected() as connection, connection.transaction(), connection.pipeline():
            connection.execute(*_in_workspace(workspace))
            found = connection.execute(
                "SELECT content FROM states WHERE state = ''", binary=True
            ).fetchone()
        return None if found is None else found[0]

    def read(self, family: str) -> Mapping[str, list[tuple[Any, ...]]]:
        """The rows of all workspaces of a family, by table, as they were written; those of a
        workspace in the order of the key."""
        found: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
        with self.connected() as connection:
            for (name,) in connection.execute("SELECT members(%s)", (family,)).fetchall():
                with connection.transaction(), connection.pipeline():
                    connection.execute(*_in_workspace(name))
                    cursors = {
                        table: connection.cursor(binary=True).execute(_selection(table))
                        for table in TABLES
                    }
                    for table, cursor in cursors.items():
                        found[table] += _rows(table, cursor.fetchall())
        return found

    def pool(self) -> Mapping[str, int]:
        """How many connections are used and idle, and how many callers wait for one."""
        return usage(self._pool.get_stats())

    def jobs(
        self, tasks: Mapping[str, OfFamily], look_after: Callable[[], Awaitable[None]]
    ) -> Jobs:
        """Takes jobs, with connections of its own."""
        return Jobs(self._dsn, _options("invoice_sandbox_jobs"), LEASE, tasks, look_after)

    def check(self) -> None:
        """Replace connections that were cut."""
        self._pool.check()

    def close(self) -> None:
        """Disconnect."""
        self._pool.close()

    def call(self, function: str, *arguments: Any) -> list[Any]:
        """The rows that a function of the schema returns."""
        marks = ", ".join(["%s"] * len(arguments))
        with self.connected() as connection:
            return connection.execute(f"SELECT * FROM {function}({marks})", arguments).fetchall()

    @contextmanager
    def connected(self) -> Iterator[psycopg.Connection]:
        """A connection of the pool. Every error of the driver in the block is a StoreError."""
        with self._errors(), self._pool.connection() as connection:
            yield connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if error.sqlstate == _REPLACED:
                raise ReplacedError(self.shown) from None
            if error.sqlstate == _WRITTEN:
                raise _WrittenError from None
            raise StoreError(_problem(self.shown, error)) from None


class Replica:
    """A server process that is registered in the database for as long as it extends its lease.

    Methods may be called from any thread, ``write`` by one at a time. They raise StoreError, and
    ReplacedError once another replica has taken the place of this one.
    """

    def __init__(self, database: Database, number: int) -> None:
        self.number = number
        self._database = database
        self._batch = 1

    def beat(self) -> int:
        """Extend the lease. How many other replicas there are."""
        found = self._database.call("beat", self.number, LEASE)
        if not found:
            raise ReplacedError(self._database.shown)
        return int(found[0][0])

    def claim(
        self, digests: Sequence[str] = (), name: str | None = None, *, is_wanted: bool = False
    ) -> Claim | None:
        """The family of the workspace with one of the credentials or that name, without either the
        first; run by this replica now if no other runs it. None: there is no such workspace.

        ``is_wanted`` asks the other replica to release it.
        """
        found = self._database.call("claim", self.number, list(digests), name, is_wanted)
        return Claim(*found[0]) if found else None

    def lease_due(self, family: str) -> bool:
        """Run a family until the lease ends, if no replica does and something in it is due."""
        ((is_leased,),) = self._database.call("lease_due", self.number, family)
        return bool(is_leased)

    def look_after(self) -> None:
        """End the other replicas whose lease is over, and write the jobs that are missing."""
        self._database.call("look_after", self.number)

    def reserve(self, workspace: str, position: int, used: str, family: str) -> bool:
        """Add an empty workspace to a family that this replica runs. False: its id is taken."""
        ((is_new,),) = self._database.call(
            "reserve", self.number, workspace, position, used, family
        )
        return bool(is_new)

    def release(self, families: Mapping[str, float | None]) -> None:
        """Run these families no longer. Each comes with the instant at which something in it is
        due, in seconds since 1970; None: never."""
        self._database.call("release", self.number, list(families), list(families.values()))

    def write(self, changes: Sequence[Change]) -> None:
        """Make all changes, in their order within a workspace, or none; once, even if it is called
        again after an error."""
        with (
            suppress(_WrittenError),
            self._database.connected() as connection,
            connection.pipeline(),
            connection.transaction(),
        ):
            cursor = connection.cursor()
            for name, own in groupby(sorted(changes, key=_workspace), _workspace):
                cursor.execute(*_in_workspace(name))
                for statement, times in statements(list(own), _DIALECT):
                    for values in times:  # executemany would wait for the responses
                        cursor.execute(statement, values)
            # last, as what it locks is the row in which ``beat`` extends the lease meanwhile
            cursor.execute("SELECT fence(%s, %s)", (self.number, self._batch))
        self._batch += 1

    def close(self) -> None:
        """End this replica, or leave it to its lease if the database cannot be reached."""
        with suppress(StoreError):
            self._database.retire(self.number)


class _WrittenError(Exception):
    """The batch is in the database already."""


def shown(dsn: str) -> str:
    """The address without its password."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        return "postgresql"
    place = f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
    return f"postgresql://{place}"


def _problem(place: str, error: psycopg.Error) -> str:
    if isinstance(error, PoolTimeout):
        return f"{place} cannot be reached, or all connections are in use"
    text = str(error).strip().partition("\n")[0]
    return f"{place} cannot be used: {text or type(error).__name__}"


def _workspace(change: Change) -> str:
    return str(change.key[0]) if isinstance(change, Row) else change.workspace


def _in_workspace(name: str) -> tuple[str, tuple[str]]:
    return "SELECT set_config('invoice_sandbox.workspace', %s, true)", (name,)


def _selection(name: str) -> str:
    table = TABLES[name]
    order = "written" if name == "states" else ", ".join(table.key)
    return f"SELECT {', '.join((*table.key, *table.values))} FROM {name} ORDER BY {order}"


def _rows(name: str, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    columns = (*TABLES[name].key, *TABLES[name].values)
    places = [index for index, column in enumerate(columns) if column in _BYTES]
    if not places:
        return rows
    return [
        tuple(
            _read(columns[index], value) if index in places else value
            for index, value in enumerate(row)
        )
        for row in rows
    ]
