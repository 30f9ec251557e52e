"""Control functions of workspaces."""

from __future__ import annotations

from datetime import datetime

from invoice_sandbox.base.clock import ClockState, Turn, clock_at, instant_text, parse_instant
from invoice_sandbox.base.errors import reject
from invoice_sandbox.base.ids import new_key
from invoice_sandbox.control.clock import LATEST
from invoice_sandbox.runtime.control_call import ControlCall
from invoice_sandbox.runtime.workspaces import WorkspaceOptions
from invoice_sandbox.state import Record


async def list_workspaces(call: ControlCall) -> list[Record]:
    """The caller's workspace and those created from it, newest first."""
    family = await call.engine.workspaces.family(call.workspace)
    described, turn = [], Turn()
    for one in reversed(family):
        described.append(await call.describe(one))
        await turn.give_way()
    return described


async def create_workspace(call: ControlCall) -> Record:
    """A new workspace and its key, which is shown only once. Raises ApiError 400 and 409."""
    key = new_key(call.engine.project.conventions.key_prefix)
    scenario = call.body.get("scenario")
    if scenario is not None:
        call.engine.project.scenario(scenario, "scenario")
    options = WorkspaceOptions(
        seed=call.body.get("seed"),
        clock=_clock(call),
        scenario=scenario,
        made_by=call.workspace.id,
    )
    workspace = await call.engine.workspaces.create(key, options)
    return {**await call.describe(workspace), "key": key}


async def delete_workspace(call: ControlCall) -> Record:
    """Delete a workspace that was created from this one, and those created from it.

    Raises ApiError 404 for any other, and 409 for the caller's own.
    """
    wanted = call.path["id"]
    if wanted == call.workspace.id:
        raise reject(
            "conflict",
            problem="A workspace cannot delete itself",
            advice="Use a key of the workspace that it was created from.",
        )
    family = await call.engine.workspaces.family(call.workspace)
    found = next((one for one in family if one.id == wanted), None)
    if found is None:
        raise reject("unknown_resource", kind="workspace created from this one", member="id")
    gone = await call.engine.workspaces.family(found)
    await call.engine.workspaces.delete(gone)
    for workspace in gone:
        call.engine.listeners.remove_all(workspace.id)
    return {"id": wanted, "deleted": True}


async def reset_workspace(call: ControlCall) -> Record:
    """The reset workspace. Raises ApiError 409 for any key but the one it was created with."""
    async with call.engine.agenda.lock(call.workspace.id):
        await call.engine.workspaces.reset(call.workspace, call.credential)
    call.engine.listeners.disconnect(call.workspace.id)
    return await call.describe(await call.fresh())


def _clock(call: ControlCall) -> ClockState | None:
    """The requested clock, or None for that of the server."""
    default = call.engine.workspaces.clock
    mode = call.body.get("clock", default.mode)
    if "now" in call.body:
        return clock_at(mode, _first_instant(call.body["now"]), call.engine.system_clock)
    return None if mode == default.mode else ClockState(mode)


def _first_instant(text: str) -> datetime:
    now = parse_instant(text)
    if now > LATEST:
        raise reject(
            "conflict",
            problem=f"A clock cannot begin after {instant_text(LATEST)}",
            advice="Choose an earlier 'now'.",
        )
    return now
