"""Remember a workspace as it is, and go back to it."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.clock import instant_text
from invoice_sandbox.errors import refuse
from invoice_sandbox.ids import resource_id
from invoice_sandbox.levers.lever import Lever
from invoice_sandbox.store import Record, Snapshot

MOST: Final = 50
"""Snapshots that a workspace may hold."""

_PREFIX: Final = "snp_sandbox"


async def list_snapshots(lever: Lever) -> list[Record]:
    """Snapshots, newest first."""
    taken = await lever.engine.workspaces.snapshots(lever.workspace)
    return [_shown(snapshot) for snapshot in reversed(taken)]


async def create_snapshot(lever: Lever) -> Record:
    """Keep the workspace as it is. Raises ApiError 409 when it holds as many as it may."""
    workspace = await lever.fresh()
    taken = await lever.engine.workspaces.snapshots(workspace)
    if len(taken) >= MOST:
        raise refuse(
            "conflict",
            problem=f"The workspace holds {MOST} snapshots, which is the most it may",
            advice="Delete one.",
        )
    number = await lever.engine.store.next_snapshot_number(workspace.id)
    snapshot = Snapshot(
        resource_id(_PREFIX, workspace.token, number),
        workspace.clock.now(lever.engine.wall),
        workspace.clock,
    )
    await lever.engine.store.take_snapshot(workspace.id, snapshot)
    return _shown(snapshot)


async def delete_snapshot(lever: Lever) -> Record:
    """Forget a snapshot. Raises ApiError 404."""
    wanted = lever.path["id"]
    if wanted not in {one.id for one in await lever.engine.workspaces.snapshots(lever.workspace)}:
        raise refuse("unknown_resource", kind="snapshot", member="id")
    await lever.engine.store.drop_snapshot(lever.workspace.id, wanted)
    return {"id": wanted, "deleted": True}


async def restore_snapshot(lever: Lever) -> Record:
    """Go back to a snapshot. Raises ApiError 404, and 409 for a key that is younger than it."""
    async with lever.engine.agenda.alone(lever.workspace.id):
        snapshot = lever.path["id"]
        await lever.engine.workspaces.restore(lever.workspace, snapshot, lever.credential)
    lever.engine.listeners.disconnect(lever.workspace.id)
    await lever.engine.agenda.watch(lever.workspace.id)
    return await lever.describe(await lever.fresh())


def _shown(snapshot: Snapshot) -> Record:
    return {"id": snapshot.id, "takenAt": instant_text(snapshot.taken_at)}
