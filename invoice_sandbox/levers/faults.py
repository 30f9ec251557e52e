"""Answers that go wrong on purpose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from invoice_sandbox.clock import parse_duration
from invoice_sandbox.contract.operations import Operation
from invoice_sandbox.errors import refuse
from invoice_sandbox.faults import ANSWERS, NEEDS_ANSWER, WAITS
from invoice_sandbox.handling import Answer
from invoice_sandbox.ids import resource_id
from invoice_sandbox.levers.lever import Lever
from invoice_sandbox.store import Fault, Record

MOST: Final = 100
"""Faults that a workspace may hold."""

_PREFIX: Final = "flt_sandbox"
_DELAY: Final = 2.0
_STATUS: Final = {"error": 429, "status": 503}


async def list_faults(lever: Lever) -> list[Record]:
    """The faults in force, in the order in which they are tried."""
    return [_shown(fault) for fault in (await lever.fresh()).faults]


async def add_fault(lever: Lever) -> Record:
    """Inject a fault from the next request on. Raises ApiError 409 for one that makes no sense."""
    problem = _problem(lever.engine.project.contract.operations, lever.body)
    if problem is not None:
        raise refuse("conflict", problem=problem, advice="See the levers' contract.")
    async with lever.engine.store.transaction(lever.workspace.id) as state:
        workspace = await state.workspace()
        if len(workspace.faults) >= MOST:
            raise refuse(
                "conflict",
                problem=f"The workspace holds {MOST} faults, which is the most it may",
                advice="Remove one.",
            )
        number = await state.next_number(_PREFIX)
        fault = _fault(resource_id(_PREFIX, workspace.token, number), lever.body)
        await state.change_workspace(replace(workspace, faults=(*workspace.faults, fault)))
    return _shown(fault)


async def clear_faults(lever: Lever) -> Answer:
    """Answers are as the contract says again."""
    async with lever.engine.store.transaction(lever.workspace.id) as state:
        await state.change_workspace(replace(await state.workspace(), faults=()))
    return Answer([])


async def remove_fault(lever: Lever) -> Record:
    """Remove one fault. Raises ApiError 404."""
    wanted = lever.path["id"]
    async with lever.engine.store.transaction(lever.workspace.id) as state:
        workspace = await state.workspace()
        left = tuple(fault for fault in workspace.faults if fault.id != wanted)
        if len(left) == len(workspace.faults):
            raise refuse("unknown_resource", kind="fault", member="id")
        await state.change_workspace(replace(workspace, faults=left))
    return {"id": wanted, "deleted": True}


def _problem(operations: Mapping[str, Operation], body: Mapping[str, Any]) -> str | None:
    """Why members that are right by themselves do not go together."""
    kind = body["kind"]
    if "status" in body and kind not in ANSWERS:
        return f"A fault of kind '{kind}' has no status; 'error' and 'status' have one"
    if "delay" in body and kind not in WAITS:
        return f"A fault of kind '{kind}' does not wait; 'latency' and 'drip' do"
    if "upTo" in body and kind != "latency":
        return "Only a fault of kind 'latency' waits for a time between two bounds"
    if body.get("when") == "before" and kind in NEEDS_ANSWER:
        return f"A fault of kind '{kind}' spoils an answer, so it is always 'after'"
    if "upTo" in body and parse_duration(body["upTo"]) < parse_duration(body.get("delay", "PT2S")):
        return "'upTo' is shorter than 'delay'"
    name = body.get("operation")
    if name is not None and not operations[name].security.alternatives:
        return f"{name} is asked without a key, so no workspace's faults can touch it"
    if kind == "error":
        return _undeclared(operations, body)
    return None


def _undeclared(operations: Mapping[str, Operation], body: Mapping[str, Any]) -> str | None:
    status = int(body.get("status", _STATUS["error"]))
    name = body.get("operation")
    asked = [operations[name]] if name else operations.values()
    if status >= 400 and any(one.response_for(status) is not None for one in asked):
        return None
    lack = f"{name} declares no error" if name else "No operation declares an error"
    return f"{lack} {status}; kind 'status' answers any"


def _fault(fault_id: str, body: Mapping[str, Any]) -> Fault:
    kind = body["kind"]
    default_delay = _DELAY if kind in WAITS else None
    return Fault(
        id=fault_id,
        kind=kind,
        operation=body.get("operation"),
        status=_whole(body.get("status", _STATUS.get(kind))),
        delay=_seconds(body, "delay", default_delay),
        up_to=_seconds(body, "upTo", None),
        when=body.get("when", "after" if kind in NEEDS_ANSWER else "before"),
        left=_whole(body.get("count", 1)),
        probability=float(body.get("probability", 1)),
    )


def _whole(value: Any) -> int | None:
    """Of JSON, 503.0 is an integer as well."""
    return None if value is None else int(value)


def _seconds(body: Mapping[str, Any], name: str, default: float | None) -> float | None:
    return parse_duration(body[name]).total_seconds() if name in body else default


def _shown(fault: Fault) -> Record:
    shown: Record = {
        "id": fault.id,
        "operation": fault.operation,
        "kind": fault.kind,
        "when": fault.when,
        "count": fault.left,
        "probability": fault.probability,
        "fired": fault.fired,
    }
    if fault.status is not None:
        shown["status"] = fault.status
    for name, seconds in (("delay", fault.delay), ("upTo", fault.up_to)):
        if seconds is not None:
            shown[name] = f"PT{seconds:g}S"
    return shown
