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

from invoice_sandbox.state.rows import VERSION, Change, StoreError
from invoice_sandbox.state.sql import definitions, selection, statements

_APPLICATION: Final = 0x494C5321
"""The ``application_id`` of our files."""

_TYPES: Final = {str: "TEXT", int: "INTEGER", bytes: "BLOB"}

_SECONDS_TO_WAIT: Final = 2.0
"""For another program that writes to the file, before that is an error."""


class Database:
    """An open file. Its methods may be called from any thread, by one at a time."""

    beats: float | None = None

    def __init__(self, path: Path) -> None:
        """Open the file, or create it. Raises StoreError."""
        self.path = path
        self.place = f"'{path}'"
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
        """All rows of a table in the order of its key. Raises StoreError."""
        try:
            # not "yield from": that would close the cursor, maybe after the connection
            for row in self._connection.execute(selection(table)):  # noqa: UP028
                yield row
        except sqlite3.Error as error:
            raise StoreError(problem_of(self.path, error)) from None

    def write(self, changes: Sequence[Change]) -> None:
        """Make all changes, in their order, or none. Raises StoreError."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for statement, values in statements(changes, "?"):
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
            raise StoreError(
                f"'{self.path}' was written by another version: its schema is {version}, "
                f"this server uses {VERSION}. Use that version, or another file"
            )
        (found,) = execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise StoreError(f"'{self.path}' is damaged ({found}); restore a copy of it")

    def _create(self) -> None:
        statements = [
            "BEGIN",
            *definitions(_TYPES),
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


def problem_of(path: Path, error: sqlite3.Error) -> str:
    """What is wrong with the file, in a sentence that names it."""
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
