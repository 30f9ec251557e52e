"""The columns of rows: workspaces, snapshots, credentials and records as JSON, and counters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import msgspec

from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.base.jsonio import Packed, packed, unpacked
from invoice_sandbox.state import Credential, Fault, Record, Snapshot, Workspace

_AS_TEXT: Final = b"\n"
"""Begins JSON that was packed as ``str``: it has numbers that only a Decimal keeps."""

_SHORT: Final = 200
"""Characters of a key, or of an index term, that a row has as it is."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class Meters(msgspec.Struct):
    """Counters of a state: the next position and the number of records of each ``collection``,
    ``numbers`` by name, the bytes of everything, steps: made, and waiting without and with a lane;
    and the ``latest`` instant of an event."""

    positions: dict[str, int] = {}
    counts: dict[str, int] = {}
    numbers: dict[str, int] = {}
    size: int = 0
    steps_made: int = 0
    waiting: int = 0
    in_lanes: int = 0
    latest: int | None = None

    def copy(self) -> Meters:
        """Return an independent copy."""
        return msgspec.structs.replace(
            self,
            positions=self.positions.copy(),
            counts=self.counts.copy(),
            numbers=self.numbers.copy(),
        )

    def move(self, name: str, other: Meters, size: int) -> None:
        """Take a collection of ``size`` bytes from other counters."""
        if name in other.positions:
            self.positions[name], self.counts[name] = other.positions[name], other.counts[name]
            self.size += size

    def drop(self, name: str, size: int) -> None:
        """Forget a collection of ``size`` bytes."""
        if self.positions.pop(name, None) is not None:
            del self.counts[name]
            self.size -= size


encoded_meters: Final = msgspec.json.Encoder().encode
decoded_meters: Final = msgspec.json.Decoder(Meters).decode


def short(text: str) -> str:
    """Return a text that stands for this one in a column that an index has: itself, unless it is
    long, or has characters that a column cannot have."""
    if len(text) <= _SHORT and text.isprintable() and not text.startswith("#"):
        return text
    return f"#{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def terms_of(record: Mapping[str, Any], fields: Iterable[str]) -> frozenset[tuple[str, str]]:
    """Return the index terms of a record: of each text, and of each text in a list."""
    found = set()
    for field in fields:
        value = record.get(field)
        if isinstance(value, str):
            found.add((field, short(value)))
        elif isinstance(value, list | tuple):
            found |= {(f"{field}[]", short(item)) for item in value if isinstance(item, str)}
    return frozenset(found)


def milliseconds(instant: datetime) -> int:
    """Return the milliseconds from 1970 to an instant."""
    return (instant - _EPOCH) // _MILLISECOND


def instant_of(value: int) -> datetime:
    """Return the instant so many milliseconds after 1970."""
    return _EPOCH + value * _MILLISECOND


def encoded(value: Any) -> bytes:
    """Return a JSON value as a column has it."""
    content = packed(value)
    return _AS_TEXT + content.encode() if isinstance(content, str) else content


def decoded(content: bytes) -> Any:
    """Return the JSON value that a column has."""
    text: Packed = content[1:].decode() if content[:1] == _AS_TEXT else content
    return unpacked(text)


def encoded_workspace(workspace: Workspace) -> bytes:
    """Return a workspace as a column has it."""
    return encoded({**asdict(workspace), "clock": _clock_record(workspace.clock)})


@lru_cache(maxsize=1024)
def decoded_workspace(content: bytes) -> Workspace:
    """Return the workspace that a column has."""
    record = decoded(content)
    clock, faults = _clock(record["clock"]), tuple(Fault(**fault) for fault in record["faults"])
    return Workspace(
        **{**record, "clock": clock, "faults": faults, "named": tuple(record["named"])}
    )


def encoded_snapshot(snapshot: Snapshot) -> bytes:
    """Return a snapshot as a column has it."""
    taken_at = snapshot.taken_at.isoformat()
    return encoded(
        {"id": snapshot.id, "taken_at": taken_at, "clock": _clock_record(snapshot.clock)}
    )


def decoded_snapshot(content: bytes) -> Snapshot:
    """Return the snapshot that a column has."""
    record = decoded(content)
    return Snapshot(record["id"], _instant(record["taken_at"]), _clock(record["clock"]))


def _clock_record(clock: ClockState) -> Record:
    shift = clock.shift // timedelta(microseconds=1)
    return {"mode": clock.mode, "at": clock.at.isoformat(), "shift": shift}


def _clock(record: Record) -> ClockState:
    shift = timedelta(microseconds=record["shift"])
    return ClockState(record["mode"], _instant(record["at"]), shift)


def clock_columns(clock: ClockState) -> tuple[int, int | None]:
    """Return what is due by: the shift of a live clock, and the instant of a frozen one."""
    return clock.shift // _MILLISECOND, milliseconds(clock.at) if clock.mode == "frozen" else None


def encoded_credential(credential: Credential) -> bytes:
    """Return a credential as a column has it."""
    expires = credential.expires_at
    return encoded(
        {
            **vars(credential),
            "scopes": sorted(credential.scopes),
            "expires_at": None if expires is None else expires.isoformat(),
        }
    )


@lru_cache(maxsize=1024)
def decoded_credential(content: bytes) -> Credential:
    """Return the credential that a column has."""
    record = decoded(content)
    expires = record["expires_at"]
    expires_at = None if expires is None else _instant(expires)
    return Credential(**{**record, "scopes": frozenset(record["scopes"]), "expires_at": expires_at})


_instant = datetime.fromisoformat
