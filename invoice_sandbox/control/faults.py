"""Control functions of fault injection."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from invoice_sandbox.base.errors import InputProblem, InputProblems, conflict, reject, reject_inputs
from invoice_sandbox.base.ids import resource_id
from invoice_sandbox.project.api import Response
from invoice_sandbox.runtime.control_call import ControlCall
from invoice_sandbox.scenarios.faults import (
    PREFIX,
    fault_of,
    fault_problem,
    response_problem,
    shown_fault,
)
from invoice_sandbox.state import Record, check_limit

MAX_FAULTS: Final = 100
"""Faults of a workspace."""


def list_faults(call: ControlCall) -> list[Record]:
    """The faults in force, in the order in which they are tried."""
    return [shown_fault(fault) for fault in call.fresh().faults]


def add_fault(call: ControlCall) -> Record:
    """Inject a fault from the next request on. Raises ApiError 409 for a contradictory one, and
    400 for a response that the contract does not allow."""
    project = call.engine.project
    needs_keys = project.conventions.access != "any"
    problem = fault_problem(project.contract.operations, call.body, needs_keys=needs_keys)
    if problem is not None:
        raise conflict(problem, "See addFault in GET /sandbox/openapi.json.")
    problem = response_problem(project.contract, call.body)
    if problem is not None:
        inputs = InputProblems((InputProblem(problem, is_sentence=True),), 1)
        raise reject_inputs("schema_violated", inputs, [""])
    with call.engine.store.transaction(call.workspace.id) as state:
        workspace = state.workspace()
        check_limit("faults", MAX_FAULTS, len(workspace.faults))
        number = state.next_number(PREFIX)
        fault = fault_of(resource_id(PREFIX, workspace.token, number), call.body)
        state.change_workspace(replace(workspace, faults=(*workspace.faults, fault)))
    return shown_fault(fault)


def clear_faults(call: ControlCall) -> Response:
    """Remove all faults."""
    with call.engine.store.transaction(call.workspace.id) as state:
        state.change_workspace(replace(state.workspace(), faults=()))
    return Response([])


def remove_fault(call: ControlCall) -> Record:
    """Remove one fault. Raises ApiError 404."""
    wanted = call.path["id"]
    with call.engine.store.transaction(call.workspace.id) as state:
        workspace = state.workspace()
        left = tuple(fault for fault in workspace.faults if fault.id != wanted)
        if len(left) == len(workspace.faults):
            raise reject("unknown_resource", kind="fault", member="id", value=wanted)
        state.change_workspace(replace(workspace, faults=left))
    return {"id": wanted, "deleted": True}
