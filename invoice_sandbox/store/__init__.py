"""State of workspaces behind one async, transactional protocol.

Values go in and come out as copies: nothing may rely on the identity of stored state, so that a
database can stand behind the same protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from invoice_sandbox.clock import ClockState

Record = dict[str, Any]


@dataclass(frozen=True)
class Workspace:
    """The unit of isolation. ``token`` stands for ``seed`` inside ids."""

    id: str
    seed: int
    token: str
    clock: ClockState
    scenario: str


@dataclass(frozen=True)
class Credential:
    """What is known of a key or session: only the SHA-256 ``digest`` of its secret.

    ``subject`` is the key's or user's id; a ``capability`` is part of an address and opens only
    what its ``subject`` names.
    """

    digest: str
    workspace_id: str
    subject: str
    scopes: frozenset[str]
    expires_at: datetime | None = None
    kind: Literal["api_key", "session", "capability"] = "api_key"


@dataclass(frozen=True)
class ScheduledStep:
    """Something that a workspace does at ``due``, by the name of one of its project's actions."""

    number: int
    due: datetime
    action: str
    arguments: Record


@dataclass(frozen=True)
class Condition:
    """A record's ``field`` compared with ``value``; a record without the field does not match.

    ``in``: the field is one of the values; ``has``: the field is a list that holds the value.
    """

    field: str
    operator: Literal["=", ">=", "<=", "in", "has"]
    value: str | tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """Records newest first, and where the next page begins, if there is one."""

    records: tuple[Record, ...]
    next_position: int | None


class Transaction(Protocol):
    """One workspace, seen and changed by one request or one step; all of it or nothing."""

    async def get(self, kind: str, key: str) -> Record | None:
        """The record, or None."""
        ...

    async def put(self, kind: str, key: str, record: Mapping[str, Any]) -> None:
        """Insert the record, or replace it where it stands in the order."""
        ...

    async def page(
        self,
        kind: str,
        *,
        limit: int,
        before: int | None = None,
        where: tuple[Condition, ...] = (),
    ) -> Page:
        """At most ``limit`` records, newest first, older than position ``before``."""
        ...

    async def count(self, kind: str, where: tuple[Condition, ...] = ()) -> int:
        """How many records match."""
        ...

    async def next_number(self, name: str) -> int:
        """1, 2, 3, … for each ``name``."""
        ...

    async def schedule(self, due: datetime, action: str, arguments: Mapping[str, Any]) -> None:
        """Have ``action`` done at the workspace's instant ``due``."""
        ...

    async def take_due(self, now: datetime) -> ScheduledStep | None:
        """Take the step that is due first, by time, then by creation, if ``now`` has come to it."""
        ...

    async def discard_step(self, number: int) -> None:
        """Forget a step that cannot be done."""
        ...

    async def grant(self, credential: Credential) -> None:
        """Let the credential in, from the commit on."""
        ...

    async def revoke(self, digest: str) -> None:
        """Let the credential in no longer, from the commit on."""
        ...


class Store(Protocol):
    """All workspaces."""

    async def create_workspace(self, workspace: Workspace) -> None:
        """Add an empty workspace. Raises KeyError when its id is taken."""
        ...

    async def workspace(self, workspace_id: str) -> Workspace | None:
        """The workspace, or None."""
        ...

    async def credential(self, digest: str) -> Credential | None:
        """The credential that is in force for a digest, whatever its workspace."""
        ...

    async def next_request_number(self, workspace_id: str) -> int:
        """1, 2, 3, … for each request of the workspace, whether or not it commits anything."""
        ...

    async def next_due(self, workspace_id: str) -> datetime | None:
        """When the workspace's next step is due, or None."""
        ...

    def transaction(self, workspace_id: str) -> AbstractAsyncContextManager[Transaction]:
        """A transaction, alone on its workspace: committed on leaving, undone on an exception."""
        ...
