"""A file that keeps the rows of a persistent store: SQLite, of the standard library.

A batch of changes is one transaction. It is in the file when ``write`` returns: the write-ahead log
was flushed to the disk (``synchronous=FULL``). Another program may read the file meanwhile, for
instance to copy it; a second server may not open it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.state.rows import TABLES, Change, StoreError, Table
from invoice_sandbox.state.sql import statements

VERSION: Final = 1
"""The version of the schema, which the file has as its ``user_version``."""

_APPLICATION: Final = 0x494C5321
"""The ``application_id`` of our files."""

_SECONDS_TO_WAIT: Final = 2.0
"""For another program that writes to the file, before that is an error."""


class Database:
    """An open file. Its methods may be called from any thread, by one at a time."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it. Raises StoreError."""
        self.path = path
        if not path.parent.is_dir():
            raise StoreError(f"there is no folder '{path.parent}'")
        self._lock = _locked(path)
        try:
            self._connection = _connection(path)
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.Error as error:
            self._lock.close()
            raise StoreError(problem_of(path, error)) from None
        except StoreError:
            self._lock.close()
            raise

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """All rows of a table in the order of its key; states in the order of writing.

        Raises StoreError.
        """
        columns = TABLES[table]
        order = "rowid" if table == "states" else ", ".join(columns.key)
        selected = ", ".join((*columns.key, *columns.values))
        try:
            yield from self._connection.execute(f"SELECT {selected} FROM {table} ORDER BY {order}")
        except sqlite3.Error as error:
            raise StoreError(problem_of(self.path, error)) from None

    def write(self, changes: Sequence[Change]) -> None:
        """Make all changes, in their order, or none. Raises StoreError."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for statement, values in statements(changes):
                self._connection.executemany(statement, values)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise StoreError(problem_of(self.path, error)) from None

    def limit_pages(self, most: int) -> None:
        """Let the file not grow beyond ``most`` pages, as on a disk that is full."""
        self._connection.execute(f"PRAGMA max_page_count = {most}")

    def close(self) -> None:
        """Close the file. Nothing may be written afterwards."""
        self._connection.close()
        self._lock.close()

    def _roll_back(self) -> None:
        """End a transaction that SQLite has not ended itself because of an error."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _prepare(self) -> None:
        """Create the tables in a new file. A file that is not ours, or is damaged, is rejected
        before anything in it is changed."""
        execute = self._connection.execute
        is_new = execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        if not is_new:
            self._check()
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        if is_new:
            self._create()
        try:
            execute("BEGIN IMMEDIATE")
            execute(f"PRAGMA user_version = {VERSION}")  # fails where the file cannot be written
        finally:
            self._roll_back()

    def _check(self) -> None:
        execute = self._connection.execute
        if execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
            raise StoreError(f"'{self.path}' is a database of another program")
        (version,) = execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            age = "a newer" if version > VERSION else "an older"
            raise StoreError(
                f"'{self.path}' was written by {age} version: its schema is {version}, "
                f"this server uses {VERSION}"
            )
        (found,) = execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise StoreError(f"'{self.path}' is damaged ({found}); restore a copy of it")

    def _create(self) -> None:
        statements = [
            "BEGIN",
            *(_definition(name, table) for name, table in TABLES.items()),
            f"PRAGMA application_id = {_APPLICATION}",
            f"PRAGMA user_version = {VERSION}",
            "COMMIT",
        ]
        for statement in statements:
            self._connection.execute(statement)


def _connection(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        path, timeout=_SECONDS_TO_WAIT, isolation_level=None, check_same_thread=False
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


def _definition(name: str, table: Table) -> str:
    """The statement that creates a table. Small rows are in the tree of the key.

    There, a row of more than 1,002 bytes takes a page of its own for the rest, so tables with
    larger rows have row ids, which are in the order of writing. Files of earlier servers have them
    in ``states`` only.
    """
    columns = ", ".join((*table.key, *table.values))
    suffix = "" if name in _WITH_ROW_IDS else " WITHOUT ROWID"
    return f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({', '.join(table.key)})){suffix}"


_WITH_ROW_IDS: Final = ("states", "records", "logs")


def problem_of(path: Path, error: sqlite3.Error) -> str:
    """What is wrong with the file, in a sentence that names it."""
    if path.is_dir():
        return f"'{path}' is a folder; name a file in it"
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    text = _PROBLEMS.get(code)
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
