"""State of workspaces behind one async, transactional protocol.

Values go in and come out as copies: nothing may rely on the identity of stored state, so that a
database can stand behind the same protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from invoice_sandbox.base.clock import ClockState

Record = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """An answer that is to go wrong on purpose; see the levers' contract for the kinds.

    ``operation`` None means every operation. ``delay`` and ``up_to`` are seconds. ``left`` is how
    often it will still take effect, None for ever; ``seen`` counts the requests it was drawn for.
    ``scenario`` is the story that it belongs to; an ``only_named`` one meets only requests that
    name that story.
    """

    id: str
    kind: str
    operation: str | None = None
    status: int | None = None
    delay: float | None = None
    up_to: float | None = None
    when: Literal["before", "after"] = "before"
    left: int | None = 1
    probability: float = 1
    seen: int = 0
    fired: int = 0
    scenario: str | None = None
    only_named: bool = False


@dataclass(frozen=True)
class Workspace:
    """The unit of isolation. ``token`` stands for ``seed`` inside ids, ``made_by`` is the id of
    the workspace that this one was made from, ``conditions`` are those under which its scenario is
    told, and ``named`` the scenarios whose faults were set up because a request named them."""

    id: str
    seed: int
    token: str
    clock: ClockState
    scenario: str
    made_by: str | None = None
    faults: tuple[Fault, ...] = ()
    conditions: Mapping[str, Any] = field(default_factory=dict)
    named: tuple[str, ...] = ()


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
    """Something that a workspace does at ``due``, by the name of one of its project's actions.

    ``scenario`` is the name of the scenario that has it done, if one does, and ``place`` where the
    step stands in it, from 0. Steps of one ``lane`` are done one after the other, and independently
    of all others.
    """

    number: int
    due: datetime
    action: str
    arguments: Record
    scenario: str | None = None
    lane: str | None = None
    place: int | None = None


@dataclass(frozen=True)
class Snapshot:
    """A workspace as it was: ``taken_at`` is its own instant, ``clock`` its clock at that time."""

    id: str
    taken_at: datetime
    clock: ClockState


@dataclass(frozen=True)
class Log:
    """The entries that a bounded log still holds, oldest first, and how many it has dropped."""

    entries: tuple[Any, ...] = ()
    dropped: int = 0


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


class NoWorkspaceError(KeyError):
    """The workspace does not exist, or not any more."""


class Transaction(Protocol):
    """One workspace, seen and changed by one request or one step; all of it or nothing."""

    async def workspace(self) -> Workspace:
        """The workspace as it is now."""
        ...

    async def change_workspace(self, workspace: Workspace) -> None:
        """Give the workspace another clock, scenario or faults."""
        ...

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

    async def schedule(
        self,
        due: datetime,
        action: str,
        arguments: Mapping[str, Any],
        scenario: str | None = None,
        lane: str | None = None,
        place: int | None = None,
    ) -> None:
        """Have ``action`` done at the workspace's instant ``due``."""
        ...

    async def steps(self, lane: str | None = None) -> tuple[ScheduledStep, ...]:
        """The steps of a lane that are still to be done, by time, then by creation.

        Without ``lane`` those that stand in none.
        """
        ...

    async def take_due(self, now: datetime) -> ScheduledStep | None:
        """Take the step outside of lanes that is due first, if ``now`` has come to it."""
        ...

    async def first_in_lane(self, lane: str, now: datetime) -> ScheduledStep | None:
        """The first step of a lane, if ``now`` has come to it; it stays where it is."""
        ...

    async def discard_step(self, number: int, lane: str | None = None) -> bool:
        """Forget a step; False: there is none of that number."""
        ...

    async def credentials(self) -> tuple[Credential, ...]:
        """Every credential that was in force when the transaction began."""
        ...

    async def grant(self, credential: Credential) -> None:
        """Let the credential in, from the commit on."""
        ...

    async def revoke(self, digest: str) -> None:
        """Let the credential in no longer, from the commit on."""
        ...


class Store(Protocol):
    """All workspaces. Whatever names a workspace that is not there raises NoWorkspaceError,
    unless it says otherwise."""

    async def create_workspace(self, workspace: Workspace, now: datetime) -> None:
        """Add an empty workspace, last used ``now``. Raises KeyError when its id is taken."""
        ...

    async def delete_workspace(self, workspace_id: str) -> None:
        """Forget the workspace and everything in it; what is gone already stays gone."""
        ...

    async def workspace(self, workspace_id: str) -> Workspace | None:
        """The workspace, or None."""
        ...

    async def workspaces(self) -> tuple[tuple[Workspace, datetime], ...]:
        """Every workspace and when it was last used, in the order of their making."""
        ...

    async def credential(self, digest: str) -> Credential | None:
        """The credential that is in force for a digest, whatever its workspace."""
        ...

    async def note_request(self, workspace_id: str, now: datetime) -> int:
        """1, 2, 3, … for each request of the workspace, whether or not it commits anything.

        The workspace was last used ``now``, which is real time.
        """
        ...

    async def last_used(self, workspace_id: str) -> datetime:
        """When the workspace's last request came, in real time."""
        ...

    async def next_due(self, workspace_id: str) -> datetime | None:
        """When the workspace's next step outside of lanes is due, or None."""
        ...

    async def lanes(self, workspace_id: str) -> Mapping[str, datetime]:
        """When the first step of each lane is due; lanes without steps are left out."""
        ...

    def transaction(self, workspace_id: str) -> AbstractAsyncContextManager[Transaction]:
        """A transaction, alone on its workspace: committed on leaving, undone on an exception."""
        ...

    async def next_snapshot_number(self, workspace_id: str) -> int:
        """1, 2, 3, … for each snapshot of the workspace; no snapshot takes it back."""
        ...

    async def take_snapshot(self, workspace_id: str, snapshot: Snapshot) -> None:
        """Keep the workspace as it is: state, agenda, scenario, faults, credentials, counters."""
        ...

    async def restore_snapshot(
        self, workspace_id: str, snapshot_id: str, clock: ClockState
    ) -> None:
        """Make the workspace what it was, with ``clock``. Raises KeyError for no such snapshot."""
        ...

    async def drop_snapshot(self, workspace_id: str, snapshot_id: str) -> None:
        """Forget a snapshot. Raises KeyError when there is none of that id."""
        ...

    async def snapshots(self, workspace_id: str) -> tuple[Snapshot, ...]:
        """Every snapshot, in the order of their taking."""
        ...

    async def snapshot_credentials(
        self, workspace_id: str, snapshot_id: str
    ) -> tuple[Credential, ...]:
        """The credentials that restoring would leave in force. Raises KeyError."""
        ...

    async def append(self, workspace_id: str, log: str, entry: Any, size: int = 0) -> None:
        """Add an entry of about ``size`` bytes to a bounded log, which no snapshot hits.

        Of a workspace that is gone nothing is kept.
        """
        ...

    async def log(self, workspace_id: str, log: str) -> Log:
        """What a log holds; nothing for one that was never written."""
        ...

    async def claim(self, workspace_id: str, name: str) -> bool:
        """Whether the name was free and is now taken by the caller."""
        ...

    async def release(self, workspace_id: str, name: str) -> None:
        """Make a claimed name free again."""
        ...
