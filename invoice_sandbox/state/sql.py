"""The changes of rows as SQL that SQLite and PostgreSQL understand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from invoice_sandbox.state import USERS
from invoice_sandbox.state.rows import TABLES, Change, CopyState, DropState, Row, Table, encoded

Statement = tuple[str, Sequence[tuple[Any, ...]]]
"""SQL, and the values of each time that it is to be carried out."""


class Dialect(NamedTuple):
    """The ``mark`` of a parameter, the tables, and what makes parameters of values."""

    mark: str
    tables: Mapping[str, Table] = TABLES
    adapt: Callable[[Table, tuple[Any, ...]], tuple[Any, ...]] = lambda _, values: values


SQLITE: Final = Dialect("?")


def statements(changes: Sequence[Change], dialect: Dialect = SQLITE) -> Iterator[Statement]:
    """SQL that makes the changes in their order; of several changes of a row the last one."""
    rows: dict[str, dict[tuple[Any, ...], Row]] = {name: {} for name in dialect.tables}
    for change in changes:
        if isinstance(change, Row):
            rows[change.table][change.key] = change
            continue
        yield from _of_rows(rows, dialect)
        rows = {name: {} for name in dialect.tables}
        if isinstance(change, CopyState):
            yield from _copy(change, dialect)
        else:
            yield from _drop(change, dialect)
    yield from _of_rows(rows, dialect)


def _of_rows(
    rows: Mapping[str, Mapping[tuple[Any, ...], Row]], dialect: Dialect
) -> Iterator[Statement]:
    for name, changed in rows.items():
        table = dialect.tables[name]
        gone = [row.key for row in changed.values() if row.values is None]
        if gone:
            where = _equal(table.key, dialect)
            yield f"DELETE FROM {name} WHERE {where}", [dialect.adapt(table, one) for one in gone]
        written = [
            dialect.adapt(table, (*row.key, *encoded(row)))
            for row in changed.values()
            if row.values is not None
        ]
        if written:
            yield _upsert(name, table, dialect), written


def _upsert(name: str, table: Table, dialect: Dialect) -> str:
    columns = (*table.key, *table.values)
    marks = ", ".join([dialect.mark] * len(columns))
    new = ", ".join(f"{one} = excluded.{one}" for one in table.values)
    conflict = f"ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {new}"
    return f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks}) {conflict}"


def _copy(change: CopyState, dialect: Dialect) -> Iterator[Statement]:
    workspace, source, target = change
    mark, of_state = dialect.mark, _equal(("workspace", "state"), dialect)
    for name, table in dialect.tables.items():
        if not table.has_states:
            continue
        where = f"{of_state} AND collection <> '{USERS}'" if name == "records" else of_state
        yield f"DELETE FROM {name} WHERE {where}", [(workspace, target)]
        rest = ", ".join((*table.key[2:], *table.values))
        selected = f"SELECT workspace, {mark}, {rest} FROM {name} WHERE {where}"
        into = f"INSERT INTO {name} (workspace, state, {rest})"
        yield f"{into} {selected}", [(target, workspace, source)]


def _drop(change: DropState, dialect: Dialect) -> Iterator[Statement]:
    for name, table in dialect.tables.items():
        if change.state is None:
            where = _equal(("workspace",), dialect)
            yield f"DELETE FROM {name} WHERE {where}", [(change.workspace,)]
        elif table.has_states:
            where = _equal(("workspace", "state"), dialect)
            yield f"DELETE FROM {name} WHERE {where}", [tuple(change)]


def _equal(columns: Iterable[str], dialect: Dialect) -> str:
    return " AND ".join(f"{one} = {dialect.mark}" for one in columns)
