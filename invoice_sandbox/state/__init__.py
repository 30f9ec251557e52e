"""The store protocol: the state of workspaces behind async transactions.

Records are copied when they are written and when they are read. No code may rely on the identity
of a stored object, so that a database can implement the same protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, Protocol

from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.base.errors import reject

Record = dict[str, Any]

MEBIBYTE: Final = 1024 * 1024


@dataclass(frozen=True)
class Fault:
    """An injected fault. The control API's contract describes each ``kind``.

    ``operation`` None means every operation. ``delay`` and ``up_to`` are seconds. ``left`` is the
    number of times that it will still take effect, None: no limit. ``seen`` counts the requests it
    was considered for, ``fired`` those it took effect on. ``scenario`` is the scenario that it
    belongs to; with ``only_named`` it affects only requests that name that scenario.
    ``retry_after`` are the seconds in that header, None: without it. ``patch`` is merged into the
    body of the response. ``stub`` is an object as JSON, with the ``body`` and ``headers`` that a
    ``response`` was given.
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
    retry_after: float | None = None
    patch: Mapping[str, Any] | None = None
    stub: str | None = None


@dataclass(frozen=True)
class Workspace:
    """The unit of isolation.

    ``token`` represents ``seed`` inside ids. ``made_by`` is the id of the workspace whose key
    created this one, ``maker`` the id of that key if it may do nothing else. Placeholder secrets
    derive from ``secret_seed``. ``conditions`` are the conditions of its scenario. ``named`` are
    the scenarios whose faults were added because a request named them.
    """

    id: str
    seed: int
    token: str
    clock: ClockState
    scenario: str
    made_by: str | None = None
    maker: str | None = None
    secret_seed: str = field(default="", repr=False)
    faults: tuple[Fault, ...] = ()
    conditions: Mapping[str, Any] = field(default_factory=dict)
    named: tuple[str, ...] = ()


@dataclass(frozen=True)
class Credential:
    """A key, a session or a capability, identified by the SHA-256 ``digest`` of its secret.

    ``subject`` is the id of the key or of the user. A ``capability`` is a secret in a URL; it gives
    access only to what its ``subject`` names. A ``revoked`` key gives access to nothing, but its
    requests are in the journal of its workspace. ``id`` names a session to those who may end it.
    """

    digest: str
    workspace_id: str
    subject: str
    scopes: frozenset[str]
    expires_at: datetime | None = None
    type: Literal["api_key", "session", "capability", "revoked"] = "api_key"
    id: str = ""


USERS: Final = "users"
"""The collection of the users who may log in. Snapshots do not have it: restoring one neither
removes a user nor lets in one who was disabled."""


@dataclass(frozen=True)
class ScheduledStep:
    """A call of one of the project's actions, scheduled for the workspace's instant ``due``.

    ``scenario`` is the name of the scenario that scheduled it, if any, and ``place`` the index of
    the step in that scenario's file. Steps of one ``lane`` run one after the other; lanes are
    independent of each other. ``run`` is its number among the steps that ran, once it runs.
    """

    number: int
    due: datetime
    action: str
    arguments: Record
    scenario: str | None = None
    lane: str | None = None
    place: int | None = None
    run: int | None = None


@dataclass(frozen=True)
class Snapshot:
    """A saved workspace: ``taken_at`` is an instant of its clock, ``clock`` the clock itself."""

    id: str
    taken_at: datetime
    clock: ClockState


class Contents(NamedTuple):
    """Contents of a workspace, or of a snapshot: records by collection, oldest first; None if they
    take more than MAX_CONTENTS."""

    workspace: Workspace
    records: Mapping[str, Sequence[Record]] | None


MAX_CONTENTS: Final = 8 * MEBIBYTE
"""Bytes of records that a recording has."""


STEPS_LOG: Final = "steps"
"""The log of the steps that ran in a workspace, without the attempts to deliver."""

_MOST_LOGGED: Final = 1_000
_MOST_STEPS: Final = 5_000


def most_logged(log: str) -> int:
    """The most entries of a log; older ones are dropped. Steps are the reasons of every record."""
    return _MOST_STEPS if log == STEPS_LOG else _MOST_LOGGED


OUTCOMES_LOG: Final = "outcomes"
"""The log of what webhook receivers responded, so that a replay gives the same responses."""


@dataclass(frozen=True)
class Log:
    """The entries of a bounded log, oldest first, and the number of older ones, which it has
    dropped or which were not asked for."""

    entries: tuple[Any, ...] = ()
    dropped: int = 0

    @property
    def last(self) -> int:
        """The number of the last entry; the first one ever has the number 1."""
        return self.dropped + len(self.entries)


class Condition(NamedTuple):
    """A record's ``field`` compared with ``value``; a record without the field does not match.

    ``>=`` and ``<=`` compare instants: the value is a datetime, the field an RFC 3339 text. ``in``:
    the field is one of the values; ``has``: the field is a list that holds the value, or one of the
    values.
    """

    field: str
    operator: Literal["=", ">=", "<=", "in", "has"]
    value: str | tuple[str, ...] | datetime


class Instant(str):
    """The name of an indexed field that holds an instant, for conditions with ``>=`` and ``<=``."""

    __slots__ = ()


@dataclass(frozen=True)
class Page:
    """Records, and the position where the next page begins; None: no next page.

    The records belong to whoever reads them.
    """

    records: Sequence[Record]
    next_position: int | None


@dataclass(frozen=True)
class Capacity:
    """The bytes of records and steps that a workspace may have, and again those of its snapshots.

    Records of ``growing`` collections may be replaced by larger ones beyond it: the server writes
    into them what it has sent.
    """

    most: int = 512 * MEBIBYTE
    growing: frozenset[str] = frozenset()

    def check(self, used: int, added: int) -> None:
        """Raise ApiError 429 if ``added`` to what is used is more."""
        if used + added > self.most:
            raise reject("state_full", limit=f"{self.most:,}")


def check_limit(what: str, most: int, used: int) -> None:
    """Raise ApiError 429 if there are ``most`` of something already."""
    if used >= most:
        raise reject("limit_reached", what=what, limit=f"{most:,}")


class NoWorkspaceError(KeyError):
    """The workspace does not exist, or was deleted."""


class StoreError(Exception):
    """The database cannot be used; the message names it and the reason.

    Raised within a transaction, which fails then, whatever is done about it: outside, it is
    ApiError 503.
    """


class Transaction(Protocol):
    """The state of one workspace for one request or one step. Commits all changes or none."""

    def workspace(self) -> Workspace:
        """The workspace."""
        ...

    def change_workspace(self, workspace: Workspace) -> None:
        """Replace the workspace, which may have another clock, scenario or faults."""
        ...

    def has_steps(self) -> bool:
        """Return True if any step is scheduled, in whatever lane."""
        ...

    def attempt(self) -> AbstractContextManager[None]:
        """A block whose changes are undone if it raises an error; the transaction goes on."""
        ...

    def next_due(self) -> datetime | None:
        """When the first step of any lane is due, after the transaction has committed."""
        ...

    def not_before(self, instant: datetime) -> datetime:
        """The instant, or the latest one that this returned since the clock was set.

        A request has the time of its arrival: when it has waited, events may be recorded that are
        later. Forgotten if the transaction changes nothing else.
        """
        ...

    def get(self, collection: str, key: str) -> Record | None:
        """The record, or None."""
        ...

    def put(self, collection: str, key: str, record: Mapping[str, Any]) -> None:
        """Insert the record at the end of the collection, or replace it in its position."""
        ...

    def delete(self, collection: str, key: str) -> bool:
        """Remove the record; False if there is none. The positions of all others stay valid."""
        ...

    def page(
        self,
        collection: str,
        *,
        limit: int | None = None,
        before: int | None = None,
        where: tuple[Condition, ...] = (),
        oldest_first: bool = False,
        shared: bool = False,
    ) -> Page:
        """At most ``limit`` records (None: all), newest first or ``oldest_first``.

        ``shared``: they may be the store's own, which whoever reads them must not change.

        ``before`` is the ``next_position`` of the page before this one, None for the first page.
        """
        ...

    def count(self, collection: str, where: tuple[Condition, ...] = ()) -> int:
        """Return the number of records that match."""
        ...

    def next_number(self, name: str) -> int:
        """The next number of the counter ``name``: 1, 2, 3, …"""
        ...

    def schedule(
        self,
        due: datetime,
        action: str,
        arguments: Mapping[str, Any],
        scenario: str | None = None,
        lane: str | None = None,
        place: int | None = None,
        *,
        is_retry: bool = False,
    ) -> None:
        """Schedule a call of ``action`` for the workspace's instant ``due``, to the millisecond.

        Raises ApiError 429 if too many wait. A retry is not counted.
        """
        ...

    def steps(self, *lanes: str | None) -> tuple[ScheduledStep, ...]:
        """The scheduled steps of lanes, by due time, then creation; None: those without lane."""
        ...

    def take_due(self, now: datetime) -> ScheduledStep | None:
        """Remove and return the first step without a lane that is due at ``now``, if any."""
        ...

    def first_due(self, lane: str | None, now: datetime) -> ScheduledStep | None:
        """The first step of a lane, or without one (None), that is due at ``now``, if any. It stays
        scheduled."""
        ...

    def discard_step(self, number: int, lane: str | None = None) -> bool:
        """Remove a step. False: there is no step of that number."""
        ...

    def credentials(self) -> tuple[Credential, ...]:
        """Every credential that was valid when the transaction began."""
        ...

    def grant(self, credential: Credential) -> None:
        """Make the credential valid when the transaction commits."""
        ...

    def revoke(self, digest: str) -> None:
        """Make the credential invalid when the transaction commits."""
        ...


DROPPED: Final = "dropped"
"""The collection of how many records were dropped, by what they are."""


def count_dropped(state: Transaction, name: str) -> None:
    """Count one more dropped record, of a collection or of another kind."""
    number = state.next_number(f"{DROPPED}/{name}")
    state.put(DROPPED, name, {"name": name, "count": number})


class Store(Protocol):
    """All workspaces. A method raises NoWorkspaceError for a workspace that does not exist,
    unless its description says otherwise.

    What a transaction changes outlives the process once it has committed, if the store keeps
    anything. While it cannot, every method raises ApiError 503 and changes nothing. ``threads`` may
    call it at a time; 0: only that of the event loop, as no method waits.
    """

    threads: int

    @property
    def is_persistent(self) -> bool:
        """True if the workspaces outlive the process."""
        ...

    def check(self) -> None:
        """Raise ApiError 503 while changes cannot be kept."""
        ...

    def is_ready(self) -> bool:
        """True if something can be read and changed."""
        ...

    def alone(self) -> AbstractContextManager[None]:
        """A block in which no other server creates the first workspace."""
        ...

    def hold(self, workspace_id: str) -> bool:
        """Let no other server hold the workspace until ``let_go``, or until this one has ended.
        False: another one holds it."""
        ...

    def let_go(self, workspace_id: str) -> None:
        """End what ``hold`` began."""
        ...

    def close(self) -> None:
        """Keep what is not kept yet. Nothing may be called afterwards."""
        ...

    def create_workspace(self, workspace: Workspace, now: datetime) -> None:
        """Add an empty workspace, last used ``now``. Raises KeyError when its id is taken."""
        ...

    def delete_workspace(self, workspace_id: str) -> None:
        """Delete the workspace with everything in it. No error if it does not exist."""
        ...

    def workspace(self, workspace_id: str) -> Workspace | None:
        """The workspace, or None."""
        ...

    def workspaces(self) -> tuple[tuple[Workspace, datetime], ...]:
        """Every workspace and when it was last used, in the order of creation."""
        ...

    def count_workspaces(self) -> int:
        """Return the number of workspaces."""
        ...

    def credential(self, digest: str) -> Credential | None:
        """The valid credential with that digest, in any workspace; None: there is none."""
        ...

    def note_request(self, workspace_id: str, now: datetime) -> int:
        """Count a request and return its number: 1, 2, 3, … Not part of any transaction.

        Sets the time of last use to ``now``, which is real time.
        """
        ...

    def last_used(self, workspace_id: str) -> datetime:
        """When the workspace received its last request, in real time."""
        ...

    def due_workspaces(self, now: datetime) -> tuple[str, ...]:
        """The ids of workspaces in which a step is due at the real instant ``now``, of those that
        nobody has a transaction on."""
        ...

    def due_times(self, workspace_id: str) -> Mapping[str | None, datetime]:
        """When the first step of each lane is due, and under None the first step without a lane.

        Lanes without steps are omitted.
        """
        ...

    def transaction(self, workspace_id: str) -> AbstractContextManager[Transaction]:
        """A transaction, serial per workspace: commits on exit, rolls back on an exception."""
        ...

    def next_snapshot_number(self, workspace_id: str) -> int:
        """The number of the next snapshot: 1, 2, 3, … Restoring a snapshot does not reset it."""
        ...

    def take_snapshot(self, workspace_id: str, snapshot: Snapshot) -> None:
        """Save the workspace: state without users, agenda, scenario, faults, credentials,
        counters."""
        ...

    def restore_snapshot(self, workspace_id: str, snapshot_id: str, clock: ClockState) -> None:
        """Restore the workspace, with ``clock``. Users stay as they are, and no session that has
        ended begins again.

        Raises KeyError for an unknown snapshot.
        """
        ...

    def drop_snapshot(self, workspace_id: str, snapshot_id: str) -> None:
        """Delete a snapshot. Raises KeyError for an unknown one."""
        ...

    def snapshots(self, workspace_id: str) -> tuple[Snapshot, ...]:
        """Every snapshot, oldest first."""
        ...

    def snapshot_credentials(self, workspace_id: str, snapshot_id: str) -> tuple[Credential, ...]:
        """The credentials that are valid after restoring the snapshot. Raises KeyError."""
        ...

    def contents(self, workspace_id: str, snapshot_id: str | None = None) -> Contents:
        """Return what the workspace holds, or held when the snapshot was taken.

        Raises KeyError for an unknown snapshot.
        """
        ...

    def append(
        self,
        workspace_id: str,
        log: str,
        entry: Any,
        size: int = 0,
        shown: Callable[[Any], Record] | None = None,
    ) -> None:
        """Add an entry of about ``size`` bytes to a bounded log. Snapshots do not contain logs.

        Does nothing for a workspace that was deleted. A crash may lose the last entries. ``shown``
        returns what outlives the process of an entry: a record without secrets, for example.
        """
        ...

    def log(self, workspace_id: str, log: str) -> Log:
        """The entries of a log; empty if it was never written."""
        ...

    def count_logged(self, workspace_id: str, log: str) -> int:
        """Return the number of entries that a log has had, with those that it has dropped."""
        ...

    async def tail(self, workspace_id: str, after: Mapping[str, int]) -> Mapping[str, Log]:
        """Wait until one of these logs has entries after a number; the new entries of each log.

        Raises NoWorkspaceError when the workspace is deleted meanwhile.
        """
        ...
