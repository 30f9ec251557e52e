"""The state of a persistent store as rows of tables, the same in SQLite and in PostgreSQL.

Everything that a snapshot saves has the name of a state in its key: ``LIVE``, or the id of a
snapshot. So a snapshot is a copy of rows, and restoring one is a copy in the other direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.base.jsonio import Packed, packed, unpacked
from invoice_sandbox.state import Credential, Fault, Record, Snapshot, Workspace

VERSION: Final = 2
"""The version of the tables and of what is in them. A server uses no other."""

LIVE: Final = ""
"""The state that requests read and change."""

REQUESTS: Final = ""
"""The name, among the counters of a state, of its number of requests."""


class Table(NamedTuple):
    """The columns of a table: those of its key, then the others. ``has_states``: the key has the
    workspace and the state first; otherwise the workspace alone."""

    key: tuple[str, ...]
    values: tuple[str, ...]
    has_states: bool = True


TABLES: Final[Mapping[str, Table]] = {
    "workspaces": Table(("workspace",), ("position", "last_used", "snapshots"), has_states=False),
    "states": Table(("workspace", "state"), ("content", "snapshot")),
    "records": Table(("workspace", "state", "collection", "position"), ("name", "content")),
    "numbers": Table(("workspace", "state", "name"), ("value",)),
    "steps": Table(("workspace", "state", "number"), ("due", "lane", "content")),
    "credentials": Table(("workspace", "state", "digest"), ("content",)),
    "logs": Table(("workspace", "log", "number"), ("content",), has_states=False),
}
"""``name`` of a record is its key in the collection. A record that was deleted has no content, and
its row keeps its position. ``snapshot`` of the live state is null."""

TYPES: Final[Mapping[str, type]] = {
    **dict.fromkeys(("position", "snapshots", "value", "number"), int),
    **dict.fromkeys(("name", "content", "snapshot"), bytes),
}
"""The types of columns; all others are texts. ``name`` and JSON may have characters that a text in
PostgreSQL cannot have."""

_AS_TEXT: Final = b"\n"
"""Begins JSON that was packed as ``str``: it has numbers that only a Decimal keeps."""


class StoreError(Exception):
    """The database cannot be used; the message names it and the reason."""


class Row(NamedTuple):
    """A row to write, with values that ``encoded`` understands; None: to delete."""

    table: str
    key: tuple[str | int | bytes, ...]
    values: tuple[Any, ...] | None


class CopyState(NamedTuple):
    """Replace the state ``target`` of a workspace by the state ``source``, except users."""

    workspace: str
    source: str
    target: str


class DropState(NamedTuple):
    """Delete a state of a workspace; None: the workspace with everything in it."""

    workspace: str
    state: str | None


Change = Row | CopyState | DropState


def encoded(row: Row) -> tuple[Any, ...]:
    """The values of a row as numbers, texts and bytes."""
    assert row.values is not None  # noqa: S101  a row to delete has no values
    encode = _ENCODERS.get(row.table)
    return row.values if encode is None else encode(*row.values)


def in_bytes(content: Packed) -> bytes:
    """Packed JSON as a column has it."""
    return _AS_TEXT + content.encode() if isinstance(content, str) else content


def from_bytes(content: bytes) -> Packed:
    """The packed JSON that a column has."""
    return content[1:].decode() if content[:1] == _AS_TEXT else content


def _encoded_state(workspace: Workspace, snapshot: Snapshot | None) -> tuple[bytes, bytes | None]:
    content = _json({**asdict(workspace), "clock": _clock_record(workspace.clock)})
    return content, None if snapshot is None else _json(_snapshot_record(snapshot))


def decoded_workspace(content: bytes) -> Workspace:
    """The workspace of a row of ``states``."""
    record = decoded(content)
    faults = tuple(Fault(**one) for one in record["faults"])
    named = tuple(record["named"])
    return Workspace(
        **{**record, "clock": _clock(record["clock"]), "faults": faults, "named": named}
    )


def decoded_snapshot(content: bytes) -> Snapshot:
    """The snapshot of a row of ``states``."""
    record = decoded(content)
    return Snapshot(record["id"], _instant(record["taken_at"]), _clock(record["clock"]))


def _snapshot_record(snapshot: Snapshot) -> Record:
    return {
        "id": snapshot.id,
        "taken_at": snapshot.taken_at.isoformat(),
        "clock": _clock_record(snapshot.clock),
    }


def _clock_record(clock: ClockState) -> Record:
    shift = clock.shift // timedelta(microseconds=1)
    return {"mode": clock.mode, "at": clock.at.isoformat(), "shift": shift}


def _clock(record: Record) -> ClockState:
    shift = timedelta(microseconds=record["shift"])
    return ClockState(record["mode"], _instant(record["at"]), shift)


def _encoded_credential(credential: Credential) -> tuple[bytes]:
    expires = credential.expires_at
    record = {
        **vars(credential),
        "scopes": sorted(credential.scopes),
        "expires_at": None if expires is None else expires.isoformat(),
    }
    return (_json(record),)


def decoded_credential(content: bytes) -> Credential:
    """The credential of a row of ``credentials``."""
    record = decoded(content)
    expires = record["expires_at"]
    scopes = frozenset(record["scopes"])
    expires_at = None if expires is None else _instant(expires)
    return Credential(**{**record, "scopes": scopes, "expires_at": expires_at})


def _encoded_entry(entry: Any, shown: Callable[[Any], Record] | None) -> tuple[bytes]:
    return (_json(entry if shown is None else shown(entry)),)


def _encoded_record(key: str, content: Packed | None) -> tuple[bytes, bytes | None]:
    return key.encode(), None if content is None else in_bytes(content)


def _encoded_step(due: datetime, lane: str | None, content: Packed) -> tuple[Any, ...]:
    return due.isoformat(), lane, in_bytes(content)


def _json(value: Any) -> bytes:
    return in_bytes(packed(value))


def decoded(content: bytes) -> Any:
    """The JSON value that a column has."""
    return unpacked(from_bytes(content))


_instant = datetime.fromisoformat

_ENCODERS: Final[Mapping[str, Callable[..., tuple[Any, ...]]]] = {
    "states": _encoded_state,
    "records": _encoded_record,
    "steps": _encoded_step,
    "credentials": _encoded_credential,
    "logs": _encoded_entry,
}
