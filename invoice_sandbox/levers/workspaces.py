"""Isolated places to work in."""

from __future__ import annotations

from datetime import datetime

from invoice_sandbox.clock import ClockState, clock_at, instant_text, parse_instant
from invoice_sandbox.errors import refuse
from invoice_sandbox.ids import new_key
from invoice_sandbox.levers.clock import LATEST
from invoice_sandbox.levers.lever import Lever
from invoice_sandbox.store import Record
from invoice_sandbox.workspaces import Wish


async def list_workspaces(lever: Lever) -> list[Record]:
    """The caller's workspace and those made from it, newest first."""
    family = await lever.engine.workspaces.family(lever.workspace)
    return [await lever.describe(one) for one in reversed(family)]


async def create_workspace(lever: Lever) -> Record:
    """A new workspace and its key, which is shown only here. Raises ApiError 400 and 409."""
    key = new_key()
    scenario = lever.body.get("scenario")
    if scenario is not None:
        lever.engine.project.scenario(scenario, "scenario")
    wish = Wish(
        seed=lever.body.get("seed"),
        clock=_clock(lever),
        scenario=scenario,
        made_by=lever.workspace.id,
    )
    workspace = await lever.engine.workspaces.create(key, wish)
    return {**await lever.describe(workspace), "key": key}


async def delete_workspace(lever: Lever) -> Record:
    """Delete a workspace that was made from this one, and those made from it.

    Raises ApiError 404 for any other, and 409 for the caller's own.
    """
    wanted = lever.path["id"]
    if wanted == lever.workspace.id:
        raise refuse(
            "conflict",
            problem="A workspace cannot delete itself",
            advice="Use a key of the workspace that it was made from.",
        )
    family = await lever.engine.workspaces.family(lever.workspace)
    found = next((one for one in family if one.id == wanted), None)
    if found is None:
        raise refuse("unknown_resource", kind="workspace made from this one", member="id")
    gone = await lever.engine.workspaces.family(found)
    await lever.engine.workspaces.delete(gone)
    for workspace in gone:
        lever.engine.listeners.remove_all(workspace.id)
    return {"id": wanted, "deleted": True}


async def reset_workspace(lever: Lever) -> Record:
    """The workspace as it was made. Raises ApiError 409 for a key that it was not made with."""
    async with lever.engine.agenda.alone(lever.workspace.id):
        await lever.engine.workspaces.reset(lever.workspace, lever.credential)
    lever.engine.listeners.disconnect(lever.workspace.id)
    return await lever.describe(await lever.fresh())


def _clock(lever: Lever) -> ClockState | None:
    """The clock that was asked for, or None: then it is as the server's."""
    usual = lever.engine.workspaces.clock
    mode = lever.body.get("clock", usual.mode)
    if "now" in lever.body:
        return clock_at(mode, _beginning(lever.body["now"]), lever.engine.wall)
    return None if mode == usual.mode else ClockState(mode)


def _beginning(text: str) -> datetime:
    now = parse_instant(text)
    if now > LATEST:
        raise refuse(
            "conflict",
            problem=f"A clock does not begin after {instant_text(LATEST)}",
            advice="Choose an earlier 'now'.",
        )
    return now
