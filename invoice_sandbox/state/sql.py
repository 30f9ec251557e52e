"""The tables, and the changes of their rows, as SQL that SQLite and PostgreSQL understand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from invoice_sandbox.state import USERS
from invoice_sandbox.state.rows import (
    TABLES,
    TYPES,
    Change,
    CopyState,
    DropState,
    Row,
    Table,
    encoded,
)

Statement = tuple[str, Sequence[tuple[Any, ...]]]
"""SQL, and the values of each time that it is to be carried out."""


def definitions(types: Mapping[type, str]) -> Iterator[str]:
    """The statements that create the tables, with the names that a database has for ``types``."""
    for name, table in TABLES.items():
        columns = (f"{one} {types[TYPES.get(one, str)]}" for one in (*table.key, *table.values))
        yield f"CREATE TABLE {name} ({', '.join(columns)}, PRIMARY KEY ({', '.join(table.key)}))"


def selection(name: str) -> str:
    """The query of all rows of a table, in the order of their keys."""
    table = TABLES[name]
    columns = ", ".join((*table.key, *table.values))
    return f"SELECT {columns} FROM {name} ORDER BY {', '.join(table.key)}"


def statements(changes: Sequence[Change], mark: str) -> Iterator[Statement]:
    """SQL that makes the changes in their order; of several changes of a row the last one.

    ``mark`` stands for a parameter.
    """
    rows: dict[str, dict[tuple[Any, ...], Row]] = {name: {} for name in TABLES}
    for change in changes:
        if isinstance(change, Row):
            rows[change.table][change.key] = change
            continue
        yield from _of_rows(rows, mark)
        rows = {name: {} for name in TABLES}
        if isinstance(change, CopyState):
            yield from _copy(change, mark)
        else:
            yield from _drop(change, mark)
    yield from _of_rows(rows, mark)


def _of_rows(rows: Mapping[str, Mapping[tuple[Any, ...], Row]], mark: str) -> Iterator[Statement]:
    for name, changed in rows.items():
        table = TABLES[name]
        gone = [row.key for row in changed.values() if row.values is None]
        if gone:
            yield f"DELETE FROM {name} WHERE {_equal(table.key, mark)}", gone
        written = [(*row.key, *encoded(row)) for row in changed.values() if row.values is not None]
        if written:
            yield _upsert(name, table, mark), written


def _upsert(name: str, table: Table, mark: str) -> str:
    columns = (*table.key, *table.values)
    marks = ", ".join([mark] * len(columns))
    new = ", ".join(f"{one} = excluded.{one}" for one in table.values)
    conflict = f"ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {new}"
    return f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks}) {conflict}"


def _copy(change: CopyState, mark: str) -> Iterator[Statement]:
    workspace, source, target = change
    of_state = _equal(("workspace", "state"), mark)
    for name, table in TABLES.items():
        if not table.has_states:
            continue
        where = f"{of_state} AND collection <> '{USERS}'" if name == "records" else of_state
        yield f"DELETE FROM {name} WHERE {where}", [(workspace, target)]
        rest = ", ".join((*table.key[2:], *table.values))
        selected = f"SELECT workspace, {mark}, {rest} FROM {name} WHERE {where}"
        into = f"INSERT INTO {name} (workspace, state, {rest})"
        yield f"{into} {selected}", [(target, workspace, source)]


def _drop(change: DropState, mark: str) -> Iterator[Statement]:
    for name, table in TABLES.items():
        if change.state is None:
            yield f"DELETE FROM {name} WHERE {_equal(('workspace',), mark)}", [(change.workspace,)]
        elif table.has_states:
            where = _equal(("workspace", "state"), mark)
            yield f"DELETE FROM {name} WHERE {where}", [tuple(change)]


def _equal(columns: Iterable[str], mark: str) -> str:
    return " AND ".join(f"{one} = {mark}" for one in columns)
