"""Control functions of workspaces."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from invoice_sandbox.base.clock import ClockState, clock_at, instant_text, parse_instant
from invoice_sandbox.base.errors import conflict, reject
from invoice_sandbox.base.ids import new_key
from invoice_sandbox.base.waiting import Later
from invoice_sandbox.control.clock import LATEST
from invoice_sandbox.runtime.control_call import ControlCall
from invoice_sandbox.runtime.workspaces import WorkspaceOptions
from invoice_sandbox.state import Record, Workspace
from invoice_sandbox.state.credentials import CONTROL, allows


def list_workspaces(call: ControlCall) -> list[Record]:
    """Return the caller's workspace and those created from it, newest first.

    A key that may only create workspaces gets those that it created.
    """
    return [_described(call, workspace) for workspace in reversed(_visible(call))]


def create_workspace(call: ControlCall) -> Record:
    """Create a workspace and its key, which is shown only once. Raises ApiError 400 and 409."""
    key = new_key(call.engine.project.conventions.key_prefix)
    scenario = call.body.get("scenario")
    if scenario is not None:
        call.engine.project.scenario(scenario, "scenario")
    options = WorkspaceOptions(
        seed=call.body.get("seed"),
        clock=_clock(call),
        scenario=scenario,
        made_by=call.workspace.id,
        maker=_maker(call),
    )
    workspace = call.engine.workspaces.create(key, options)
    return {**_described(call, workspace), "key": key}


def delete_workspace(call: ControlCall) -> Record:
    """Delete a workspace that was created from this one, and those created from it.

    Raises ApiError 404 for any other, and 409 for the caller's own.
    """
    wanted = call.path["id"]
    if wanted == call.workspace.id:
        raise conflict(
            "A workspace cannot delete itself",
            "Use a key of the workspace that it was created from.",
        )
    visible = {workspace.id: workspace for workspace in _visible(call)}
    if wanted not in visible:
        kind = "workspace created from this one"
        raise reject("unknown_resource", kind=kind, member="id", value=wanted)
    for workspace in call.engine.workspaces.family(visible[wanted]):
        call.engine.workspaces.delete(workspace)
        call.engine.listeners.remove_all(workspace.id)
    return {"id": wanted, "deleted": True}


def reset_workspace(call: ControlCall) -> Later:
    """Reset the workspace. Raises ApiError 409 for any key but the one it was created with."""
    reset = partial(call.engine.workspaces.reset, call.workspace, call.credential)
    alone = partial(call.engine.agenda.alone, call.workspace.id, reset)
    return Later(alone, lambda _: _as_created(call))


def _as_created(call: ControlCall) -> Record:
    call.engine.listeners.disconnect(call.workspace.id)
    return call.describe(call.fresh())


def _maker(call: ControlCall) -> str | None:
    """The key of the request, if it may only create workspaces."""
    return None if allows(call.credential.scopes, CONTROL) else call.credential.subject


def _visible(call: ControlCall) -> Sequence[Workspace]:
    """The workspaces that the caller may list and delete, oldest first."""
    maker, workspaces = _maker(call), call.engine.workspaces
    if maker is None:
        return workspaces.family(call.workspace)
    return workspaces.made_with(call.workspace, maker)


def _described(call: ControlCall, workspace: Workspace) -> Record:
    """A workspace as the caller may see it: a key that only creates workspaces gets no seed."""
    described = call.describe(workspace)
    if _maker(call) is not None:
        del described["seed"]
    return described


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
        raise conflict(
            f"A clock cannot begin after {instant_text(LATEST)}", "Choose an earlier 'now'."
        )
    return now
