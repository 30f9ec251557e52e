"""A file that keeps the rows of a store: SQLite, of the standard library.

What is committed is in the write-ahead log, which the operating system writes to the disk: it
survives the end of the process. With ``full``, a commit waits for the disk (``synchronous=FULL``).
Another program may read the file meanwhile, for instance to copy it; a second server may not open
it. So nobody else writes, and a transaction begins when it writes.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from invoice_sandbox.state import StoreError
from invoice_sandbox.state.columns import (
    decoded,
    decoded_credential,
    decoded_meters,
    decoded_workspace,
    instant_of,
)
from invoice_sandbox.state.sql import INDEXES, TABLES, VERSION, Batch

_APPLICATION: Final = 0x494C5321
"""The ``application_id`` of our files."""

_TYPES: Final = {"text": "TEXT", "bytes": "BLOB"}
_SECONDS_TO_WAIT: Final = 2.0
"""For another program that writes to the file, before that is an error."""

_CONTENT: Final[Mapping[str, Any]] = {
    "SELECT content FROM workspace": decoded_workspace,
    "SELECT meters FROM workspace": decoded_meters,
    "SELECT content FROM record": decoded,
    "SELECT content FROM step": decoded,
    "SELECT due FROM step": instant_of,
    "SELECT content FROM credential": decoded_credential,
    "SELECT content FROM log WHERE number > 0": decoded,
}
"""Functions that read each column that may be damaged."""


class Database:
    """An open file. Only the thread that opened it may use it."""

    threads = 0
    for_update = ""

    def __init__(self, path: Path, *, full: bool = False) -> None:
        """Open the file, or create it. Raises StoreError."""
        self.path = path
        self.place = f"'{path}'"
        self.open_sessions = 0
        if not path.parent.is_dir():
            raise StoreError(f"there is no folder '{path.parent}'")
        self._lock = _locked(path)
        try:
            self.connection = _connection(path)
            try:
                self._prepare("FULL" if full else "NORMAL")
            except BaseException:
                self.connection.close()
                raise
        except sqlite3.Error as error:
            self._lock.close()
            raise StoreError(problem_of(path, error)) from None
        except StoreError:
            self._lock.close()
            raise

    def session(self, workspace: str) -> Session:  # noqa: ARG002  all are in the file
        """Return a session. All rows are in its reach."""
        return Session(self)

    def one(
        self,
        workspace: str,  # noqa: ARG002  all are in the file
        statement: str,
        values: tuple[Any, ...],
    ) -> tuple[Any, ...] | None:
        """Return the first row of a query."""
        return Session(self).one(statement, values)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Return at once: no other server has the file."""
        yield

    def hold(self, _workspace: str) -> bool:
        """Return True: no other server has the file."""
        return True

    def let_go(self, _workspace: str) -> None:
        """Nothing is held."""

    def limit_pages(self, most: int) -> None:
        """Let the file not grow beyond ``most`` pages, as on a disk that is full."""
        self.connection.execute(f"PRAGMA max_page_count = {most}")

    def close(self) -> None:
        """Close the file. Nothing may be written afterwards."""
        self.connection.close()
        self._lock.close()

    def _prepare(self, synchronous: Literal["FULL", "NORMAL"]) -> None:
        """Create the tables in a new file. A file that is not ours, or is damaged, is rejected
        before anything in it is changed."""
        execute = self.connection.execute
        is_new = execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        if not is_new:
            self._check()
        execute("PRAGMA journal_mode = WAL")
        execute(f"PRAGMA synchronous = {synchronous}")
        execute("PRAGMA wal_autocheckpoint = 4000")  # the same pages change again and again
        if is_new:
            self._create()
        try:
            execute("BEGIN IMMEDIATE")
            execute(f"PRAGMA user_version = {VERSION}")  # fails where the file cannot be written
        finally:
            if self.connection.in_transaction:
                execute("ROLLBACK")

    def _check(self) -> None:
        execute = self.connection.execute
        if execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
            raise StoreError(f"'{self.path}' is a database of another program")
        (version,) = execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            raise StoreError(
                f"'{self.path}' was written by another version: its schema is {version}, "
                f"this server uses {VERSION}. Use that version, or another file"
            )
        (found,) = execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise StoreError(f"'{self.path}' is damaged ({found}); restore a copy of it")
        self._check_content()

    def _check_content(self) -> None:
        """Raise StoreError for content that cannot be read, without showing it."""
        try:
            for query, read in _CONTENT.items():
                for (value,) in self.connection.execute(query):
                    read(value)
        except sqlite3.Error:
            raise
        except Exception as error:
            problem = type(error).__name__
            message = f"'{self.path}' is damaged ({problem}); restore a copy of it"
            raise StoreError(message) from None

    def _create(self) -> None:
        statements = [
            "BEGIN",
            *(
                f"CREATE TABLE {name} ({columns.format_map(_TYPES)}) WITHOUT ROWID"
                for name, columns in TABLES.items()
            ),
            *INDEXES,
            f"PRAGMA application_id = {_APPLICATION}",
            f"PRAGMA user_version = {VERSION}",
            "COMMIT",
        ]
        for statement in statements:
            self.connection.execute(statement)


class Session:
    """A transaction, which begins when it writes: nobody else can change what it reads."""

    __slots__ = ("_connection", "_database", "_problem")

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection = database.connection
        self._problem: StoreError | None = None

    def __enter__(self) -> Session:
        self._database.open_sessions += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._database.open_sessions -= 1
        if self._database.open_sessions == 0 and self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def one(self, statement: str, values: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the first row, or None."""
        try:
            row: tuple[Any, ...] | None = self._connection.execute(statement, values).fetchone()
        except sqlite3.Error as error:
            raise self._failed(error) from None
        return row

    def all(self, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Return all rows."""
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._failed(error) from None

    def write(self, batch: Batch) -> None:
        """Carry out statements."""
        connection = self._connection
        if self._database.open_sessions > 1:
            raise RuntimeError("a transaction writes within another one")
        try:
            if not connection.in_transaction:
                connection.execute("BEGIN IMMEDIATE")
            for statement, rows in batch:
                if rows == [()]:
                    connection.execute(statement)
                else:
                    connection.executemany(statement, rows)
        except sqlite3.Error as error:
            raise self._failed(error) from None

    def commit(self, batch: Batch = ()) -> None:
        """Carry out statements and end the transaction."""
        if self._problem is not None:
            raise self._problem
        if batch:
            self.write(batch)
        if self._connection.in_transaction and self._database.open_sessions == 1:
            try:
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise self._failed(error) from None

    def _failed(self, error: sqlite3.Error) -> Exception:
        """Note an error and return the one to raise: nothing may take effect after it. A mistake of
        ours stays what it is."""
        if isinstance(error, sqlite3.ProgrammingError | sqlite3.IntegrityError):
            return error
        self._problem = StoreError(problem_of(self._database.path, error))
        return self._problem


def _connection(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        path,
        timeout=_SECONDS_TO_WAIT,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )


def _locked(path: Path) -> sqlite3.Connection:
    """A lock that ends with the process: an open transaction in a file beside the store.

    The file itself stays readable for others. Raises StoreError.
    """
    beside = path.with_name(f"{path.name}-lock")
    try:
        lock = sqlite3.connect(beside, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except BaseException:
            lock.close()
            raise
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
            raise StoreError(f"another server uses '{path}'") from None
        raise StoreError(problem_of(beside, error)) from None
    except sqlite3.Error as error:
        raise StoreError(problem_of(beside, error)) from None
    return lock


def problem_of(path: Path, error: sqlite3.Error) -> str:
    """Return what is wrong with the file, in a sentence that names it."""
    if path.is_dir():
        return f"'{path}' is a folder; name a file in it"
    if not hasattr(error, "sqlite_errorcode"):  # of Python, with the text that is not UTF-8
        return f"'{path}' {_PROBLEMS[sqlite3.SQLITE_CORRUPT]}"
    text = _PROBLEMS.get(error.sqlite_errorcode & 0xFF)
    return f"'{path}' {text}" if text else f"'{path}' cannot be used: {error}"


_PROBLEMS: Final[Mapping[int, str]] = {
    sqlite3.SQLITE_BUSY: "is locked by another program",
    sqlite3.SQLITE_LOCKED: "is locked by another program",
    sqlite3.SQLITE_READONLY: "cannot be written: it is read-only",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: check its permissions and those of its folder",
    sqlite3.SQLITE_PERM: "cannot be opened: check its permissions",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore a copy of it",
    sqlite3.SQLITE_FULL: "cannot be written: the disk is full",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk reports an error, or is full",
}
