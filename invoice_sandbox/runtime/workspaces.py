"""The lifetime of workspaces: create with fixtures and a key, snapshot, reset, delete when idle."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from invoice_sandbox.base.clock import ClockState, SystemClock, clock_at, instant_text
from invoice_sandbox.base.errors import conflict, existing
from invoice_sandbox.base.ids import key_digest, new_secret, random_seed, resource_id, seed_token
from invoice_sandbox.project.loader import Project
from invoice_sandbox.scenarios.library import faults_of, with_conditions
from invoice_sandbox.settings import SettingError
from invoice_sandbox.state import Credential, Snapshot, Store, Transaction, Workspace, check_limit
from invoice_sandbox.state.credentials import EVERYTHING, end_access_of_disabled, issue_key
from invoice_sandbox.webhooks.inbox import open_inbox

BEGINNING: Final = "beginning"
"""The snapshot that every workspace has from its creation. Lists do not contain it."""

MAX_CHILDREN: Final = 100
"""Workspaces that come from one that was created with the first key."""


@dataclass(frozen=True)
class WorkspaceOptions:
    """Options of a new workspace.

    ``seed`` None: a random one, so that its ids differ from those of all others. ``clock`` and
    ``scenario`` None: the server's. ``made_by``: the workspace whose key creates it; ``maker``: the
    key, if it may do nothing else.
    """

    seed: int | None = None
    clock: ClockState | None = None
    scenario: str | None = None
    made_by: str | None = None
    maker: str | None = None


@dataclass(frozen=True)
class Workspaces:
    """All workspaces of a server: at most ``most``, each deleted after ``idle`` without a request
    (None: never). The first workspace is never deleted. ``clock`` and ``scenario`` are defaults.
    ``responses`` counts those of each workspace by operationId and status, for the coverage.

    Placeholder secrets are random, unless only this machine can reach the server (``local``): then
    they derive from the seed, so that whole runs are the same."""

    store: Store
    project: Project
    system_clock: SystemClock
    most: int
    idle: timedelta | None
    clock: ClockState
    scenario: str
    local: bool = False
    responses: defaultdict[str, Counter[tuple[str, int]]] = field(
        default_factory=lambda: defaultdict(Counter)
    )

    def first(self, key: str, options: WorkspaceOptions) -> Workspace:
        """The workspace of requests without a credential, to which ``key`` has every scope.

        It is the one that the store has kept, or a new one. Raises SettingError for a key, or a
        kept scenario, that cannot be used.
        """
        kept = [workspace for workspace, _ in self.store.workspaces()]
        for workspace in kept:
            self._check_scenario(workspace)
        first = next((workspace for workspace in kept if workspace.made_by is None), None)
        if first is None:
            return self.create(key, options)
        self._admit(first, key)
        return first

    def _check_scenario(self, workspace: Workspace) -> None:
        """Raise SettingError for a scenario that was in the project when the workspace used it."""
        for name in (workspace.scenario, *workspace.named):
            if name not in self.project.scenarios:
                raise SettingError(
                    f"--store: the workspace {workspace.id} uses the scenario '{name}', "
                    "which the project does not have"
                )

    def _admit(self, workspace: Workspace, key: str) -> None:
        """Give ``key`` every scope of a kept workspace. Raises SettingError."""
        credential = self.store.credential(key_digest(key))
        if credential is not None and credential.type == "revoked":
            raise SettingError("--key: in the store this key was revoked; choose another")
        if credential is not None and credential.workspace_id != workspace.id:
            raise SettingError("--key: in the store this key has another workspace; choose another")
        if credential is None:
            with self.store.transaction(workspace.id) as state:
                now = workspace.clock.now(self.system_clock)
                self._issue(state, workspace, key, now)

    def create(self, key: str, options: WorkspaceOptions = WorkspaceOptions()) -> Workspace:
        """Create a workspace with the project's fixtures, to which ``key`` has every scope.

        Raises ApiError 409 when the server has ``most`` workspaces already, and 429 beyond
        MAX_CHILDREN of the workspace that it is created from.
        """
        self._delete_idle()
        self._check_children(options)
        if self.store.count_workspaces() >= self.most:
            raise conflict(
                f"The server has {self.most} workspaces, which is its limit",
                "Delete a workspace, or start the server with a larger --max-workspaces.",
            )
        seed = random_seed() if options.seed is None else options.seed
        token = seed_token(seed)
        workspace = Workspace(
            id=f"wsp_sandbox_{token}",
            seed=seed,
            token=token,
            clock=options.clock or self.clock,
            scenario=options.scenario or self.scenario,
            made_by=options.made_by,
            maker=options.maker,
            secret_seed=str(seed) if self.local else new_secret(),
        )
        faults = faults_of(with_conditions(self.project.scenarios, workspace.scenario, {}))
        workspace = replace(workspace, id=self._free_id(workspace.id), faults=faults)
        self.store.create_workspace(workspace, self.system_clock.now())
        self._fill(workspace, key)
        return workspace

    def reset(self, workspace: Workspace, caller: Credential) -> None:
        """Restore the workspace as it was created. Raises ApiError 409 like ``restore``."""
        clock = self._snapshot(workspace, BEGINNING).clock
        self._restore(workspace, BEGINNING, clock, caller)

    def restore(self, workspace: Workspace, snapshot_id: str, caller: Credential) -> None:
        """Restore the workspace and its clock from a snapshot.

        Raises ApiError 404, and 409 when the snapshot does not contain the caller's credential.
        """
        snapshot = self._snapshot(workspace, snapshot_id)
        clock = snapshot.clock
        if clock.mode == "live":
            clock = clock_at("live", snapshot.taken_at, self.system_clock)
        self._restore(workspace, snapshot_id, clock, caller)

    def snapshots(self, workspace: Workspace) -> tuple[Snapshot, ...]:
        """The snapshots that clients took, oldest first."""
        taken = self.store.snapshots(workspace.id)
        return tuple(snapshot for snapshot in taken if snapshot.id != BEGINNING)

    def family(self, workspace: Workspace) -> tuple[Workspace, ...]:
        """The workspace and those created from it, directly or indirectly; oldest first."""
        members = {workspace.id: workspace}
        for other, _ in self.store.workspaces():  # in the order of creation
            if other.made_by in members:
                members[other.id] = other
        return tuple(members.values())

    def made_with(self, workspace: Workspace, key_id: str) -> tuple[Workspace, ...]:
        """The workspaces that a key of the workspace created; oldest first."""
        return tuple(
            other
            for other in self.family(workspace)
            if (other.made_by, other.maker) == (workspace.id, key_id)
        )

    def eldest(self, workspace: Workspace) -> Workspace:
        """The child of the first workspace that this one comes from, or the first workspace."""
        line = [workspace, *self._line(workspace.made_by)]
        return line[max(len(line) - 2, 0)]

    def delete(self, workspace: Workspace) -> None:
        """Delete a workspace with everything in it."""
        self.store.delete_workspace(workspace.id)
        self.responses.pop(workspace.id, None)

    def count(self, workspace: Workspace, operation: str, status: int) -> None:
        """Count a response for the workspace and for those that it was created from."""
        for counted in (workspace, *self._line(workspace.made_by)):
            self.responses[counted.id][operation, status] += 1

    def counted(self, workspace: Workspace) -> Mapping[tuple[str, int], int]:
        """Return the number of responses by operationId and status."""
        return self.responses.get(workspace.id, Counter()).copy()

    def is_expired(self, workspace: Workspace) -> bool:
        """True if the workspace was idle for too long and must be deleted."""
        if self.idle is None or workspace.made_by is None:
            return False
        return self.store.last_used(workspace.id) + self.idle <= self.system_clock.now()

    def _line(self, maker: str | None) -> list[Workspace]:
        """The workspace of an id, the one that it was created from, and so on."""
        line: list[Workspace] = []
        while maker is not None and (workspace := self.store.workspace(maker)) is not None:
            line.append(workspace)
            maker = workspace.made_by
        return line

    def _check_children(self, options: WorkspaceOptions) -> None:
        """Raise ApiError 429 if there are too many workspaces beside the new one."""
        line = self._line(options.made_by)
        if len(line) > 1:  # what the first workspace creates is limited by ``most`` alone
            children = len(self.family(line[-2])) - 1
            check_limit("workspaces created from it", MAX_CHILDREN, children)
        if options.maker is not None:
            made = len(self.made_with(line[0], options.maker))
            check_limit("workspaces created from it", MAX_CHILDREN, made)

    def _fill(self, workspace: Workspace, key: str) -> None:
        if self.store.credential(key_digest(key)) is not None:
            raise ValueError("the key is in use by another workspace; choose a different one")
        now = workspace.clock.now(self.system_clock)
        with self.store.transaction(workspace.id) as state:
            for collection, records in self.project.fixtures.items():
                for record in records:
                    self.project.record(state, collection, record)
            self._issue(state, workspace, key, now)
            open_inbox(state, workspace.id, new_secret())
        self.store.take_snapshot(workspace.id, Snapshot(BEGINNING, now, workspace.clock))

    def _issue(self, state: Transaction, workspace: Workspace, key: str, now: datetime) -> None:
        number = state.next_number("key_sandbox")
        issue_key(
            state,
            workspace_id=workspace.id,
            key_id=resource_id("key_sandbox", workspace.token, number),
            key=key,
            name="Workspace key",
            scopes=[EVERYTHING],
            created_at=instant_text(now),
        )

    def _snapshot(self, workspace: Workspace, snapshot_id: str) -> Snapshot:
        taken = {snapshot.id: snapshot for snapshot in self.store.snapshots(workspace.id)}
        return existing(taken.get(snapshot_id), "snapshot", snapshot_id)

    def _restore(
        self, workspace: Workspace, snapshot_id: str, clock: ClockState, caller: Credential
    ) -> None:
        left = self.store.snapshot_credentials(workspace.id, snapshot_id)
        if caller.digest not in {credential.digest for credential in left}:
            raise conflict(
                "The snapshot does not contain the key of this request",
                "Use the key that the workspace was created with.",
            )
        self.store.restore_snapshot(workspace.id, snapshot_id, clock)
        with self.store.transaction(workspace.id) as state:
            ended_at = instant_text(clock.now(self.system_clock))
            end_access_of_disabled(state, ended_at)

    def _delete_idle(self) -> None:
        if self.idle is None:
            return
        latest = self.system_clock.now() - self.idle
        for workspace, used in self.store.workspaces():
            if workspace.made_by is not None and used <= latest:
                self.delete(workspace)

    def _free_id(self, wanted: str) -> str:
        """``wanted``, with a number if it is in use: two workspaces may have the same seed."""
        number, free = 1, wanted
        while self.store.workspace(free) is not None:
            number += 1
            free = f"{wanted}_{number}"
        return free
