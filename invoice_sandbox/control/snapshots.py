"""Control functions of snapshots."""

from __future__ import annotations

from functools import partial
from typing import Final

from invoice_sandbox.base.clock import instant_text
from invoice_sandbox.base.errors import conflict, reject
from invoice_sandbox.base.ids import resource_id
from invoice_sandbox.base.waiting import Later
from invoice_sandbox.runtime.control_call import ControlCall
from invoice_sandbox.state import Record, Snapshot

MAX_SNAPSHOTS: Final = 50
"""The maximum number of snapshots of a workspace."""

_PREFIX: Final = "snp_sandbox"


def list_snapshots(call: ControlCall) -> list[Record]:
    """Return the snapshots, newest first."""
    taken = call.engine.workspaces.snapshots(call.workspace)
    return [_shown(snapshot) for snapshot in reversed(taken)]


def create_snapshot(call: ControlCall) -> Later:
    """Save the workspace, if possible without a delivery in flight, which a restored workspace
    would send again. Raises ApiError 409 at the maximum."""
    rest = partial(call.engine.agenda.rest, call.workspace.id)
    return Later(rest, lambda _: _created(call))


def _created(call: ControlCall) -> Record:
    workspace = call.fresh()
    taken = call.engine.workspaces.snapshots(workspace)
    if len(taken) >= MAX_SNAPSHOTS:
        raise conflict(
            f"The workspace has {MAX_SNAPSHOTS} snapshots, which is the maximum", "Delete one."
        )
    number = call.engine.store.next_snapshot_number(workspace.id)
    snapshot = Snapshot(
        resource_id(_PREFIX, workspace.token, number),
        workspace.clock.now(call.engine.system_clock),
        workspace.clock,
    )
    call.engine.store.take_snapshot(workspace.id, snapshot)
    return _shown(snapshot)


def delete_snapshot(call: ControlCall) -> Record:
    """Delete a snapshot. Raises ApiError 404."""
    wanted = call.path["id"]
    if wanted not in {taken.id for taken in call.engine.workspaces.snapshots(call.workspace)}:
        raise reject("unknown_resource", kind="snapshot", member="id", value=wanted)
    call.engine.store.drop_snapshot(call.workspace.id, wanted)
    return {"id": wanted, "deleted": True}


def restore_snapshot(call: ControlCall) -> Later:
    """Restore a snapshot. Raises ApiError 404, and 409 for a key that is newer than it."""
    engine, snapshot = call.engine, call.path["id"]
    restore = partial(engine.workspaces.restore, call.workspace, snapshot, call.credential)
    alone = partial(engine.agenda.alone, call.workspace.id, restore)
    return Later(alone, lambda _: _restored(call))


def _restored(call: ControlCall) -> Record:
    call.engine.listeners.disconnect(call.workspace.id)
    call.engine.agenda.start(call.workspace.id)
    return call.describe(call.fresh())


def _shown(snapshot: Snapshot) -> Record:
    return {"id": snapshot.id, "takenAt": instant_text(snapshot.taken_at)}
