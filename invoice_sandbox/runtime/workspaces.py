"""Workspaces: made with starting data and a key, reset to it, deleted when nobody uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from invoice_sandbox.base.clock import ClockState, SystemClock, instant_text
from invoice_sandbox.base.errors import reject
from invoice_sandbox.base.ids import key_digest, new_secret, random_seed, resource_id, seed_token
from invoice_sandbox.project.loader import Project
from invoice_sandbox.scenarios.library import faults_of, with_conditions
from invoice_sandbox.state import Credential, Snapshot, Store, Workspace
from invoice_sandbox.state.credentials import EVERYTHING, issue_key
from invoice_sandbox.webhooks.inbox import open_inbox

BEGINNING: Final = "beginning"
"""The snapshot that every workspace has of itself as it was made; it is in no list."""


@dataclass(frozen=True)
class WorkspaceOptions:
    """What a new workspace is to be like. Without ``seed`` its ids never repeat those of another,
    without ``clock`` and ``scenario`` it has the server's; ``made_by`` is the workspace that asks
    for it."""

    seed: int | None = None
    clock: ClockState | None = None
    scenario: str | None = None
    made_by: str | None = None


@dataclass(frozen=True)
class Workspaces:
    """All workspaces of a server: at most ``most``, each kept until it is idle for ``idle``
    (None: for ever). One that no other made stays in any case. ``clock`` and ``scenario`` are
    those of a workspace that asks for no others."""

    store: Store
    project: Project
    system_clock: SystemClock
    most: int
    idle: timedelta | None
    clock: ClockState
    scenario: str

    async def create(self, key: str, options: WorkspaceOptions = WorkspaceOptions()) -> Workspace:
        """A workspace with the project's fixtures that ``key`` opens, with every scope.

        Raises ApiError 409 when there are as many as may be.
        """
        await self._delete_idle()
        if len(await self.store.workspaces()) >= self.most:
            raise reject(
                "conflict",
                problem=f"This server holds {self.most} workspaces, which is the most it may",
                advice="Delete one, or start the server with a larger --max-workspaces.",
            )
        seed = random_seed() if options.seed is None else options.seed
        token = seed_token(seed)
        workspace = Workspace(
            id=await self._free_id(f"wsp_sandbox_{token}"),
            seed=seed,
            token=token,
            clock=options.clock or self.clock,
            scenario=options.scenario or self.scenario,
            made_by=options.made_by,
        )
        faults = faults_of(with_conditions(self.project.scenarios, workspace.scenario, {}))
        workspace = replace(workspace, faults=faults)
        await self.store.create_workspace(workspace, self.system_clock.now())
        await self._fill(workspace, key)
        return workspace

    async def reset(self, workspace: Workspace, caller: Credential) -> None:
        """Make the workspace what it was at the beginning. Raises ApiError 409 like ``restore``."""
        clock = (await self._snapshot(workspace, BEGINNING)).clock
        await self._go_back(workspace, BEGINNING, clock, caller)

    async def restore(self, workspace: Workspace, snapshot_id: str, caller: Credential) -> None:
        """Make the workspace what it was when the snapshot was taken, its clock included.

        Raises ApiError 404, and 409 when the caller's own credential would be gone afterwards.
        """
        snapshot = await self._snapshot(workspace, snapshot_id)
        clock = snapshot.clock
        if clock.mode == "live":
            clock = ClockState("live", shift=snapshot.taken_at - self.system_clock.now())
        await self._go_back(workspace, snapshot_id, clock, caller)

    async def snapshots(self, workspace: Workspace) -> tuple[Snapshot, ...]:
        """The snapshots that were asked for, oldest first."""
        taken = await self.store.snapshots(workspace.id)
        return tuple(one for one in taken if one.id != BEGINNING)

    async def family(self, workspace: Workspace) -> tuple[Workspace, ...]:
        """The workspace, and those made from it, directly or not; oldest first."""
        members = [workspace]
        for one, _ in await self.store.workspaces():  # what was made stands behind its maker
            if one.made_by in {member.id for member in members}:
                members.append(one)
        return tuple(members)

    async def delete(self, workspaces: Sequence[Workspace]) -> None:
        """Delete them, with everything in them."""
        for workspace in workspaces:
            await self.store.delete_workspace(workspace.id)

    async def is_over(self, workspace: Workspace) -> bool:
        """Whether the workspace was idle for so long that it is to be deleted."""
        if self.idle is None or workspace.made_by is None:
            return False
        return await self.store.last_used(workspace.id) + self.idle <= self.system_clock.now()

    async def _fill(self, workspace: Workspace, key: str) -> None:
        if await self.store.credential(key_digest(key)) is not None:
            raise ValueError("this key opens another workspace already")
        now = workspace.clock.now(self.system_clock)
        async with self.store.transaction(workspace.id) as state:
            for kind, records in self.project.fixtures.items():
                for record in records:
                    await self.project.record(state, kind, record)
            number = await state.next_number("key_sandbox")
            await issue_key(
                state,
                workspace_id=workspace.id,
                key_id=resource_id("key_sandbox", workspace.token, number),
                key=key,
                name="Workspace key",
                scopes=[EVERYTHING],
                created_at=instant_text(now),
            )
            await open_inbox(state, workspace.id, new_secret())
        await self.store.take_snapshot(workspace.id, Snapshot(BEGINNING, now, workspace.clock))

    async def _snapshot(self, workspace: Workspace, snapshot_id: str) -> Snapshot:
        for snapshot in await self.store.snapshots(workspace.id):
            if snapshot.id == snapshot_id:
                return snapshot
        raise reject("unknown_resource", kind="snapshot", member="id")

    async def _go_back(
        self, workspace: Workspace, snapshot_id: str, clock: ClockState, caller: Credential
    ) -> None:
        left = await self.store.snapshot_credentials(workspace.id, snapshot_id)
        if caller.digest not in {credential.digest for credential in left}:
            raise reject(
                "conflict",
                problem="The key that was sent did not exist then, so it would be gone",
                advice="Use the key that the workspace was made with.",
            )
        await self.store.restore_snapshot(workspace.id, snapshot_id, clock)

    async def _delete_idle(self) -> None:
        for workspace, _ in await self.store.workspaces():
            if await self.is_over(workspace):
                await self.store.delete_workspace(workspace.id)

    async def _free_id(self, wanted: str) -> str:
        """``wanted``, or with a number behind it: two workspaces may ask for the same seed."""
        number, free = 1, wanted
        while await self.store.workspace(free) is not None:
            number += 1
            free = f"{wanted}_{number}"
        return free
