"""Injected faults: answers that go wrong on purpose, before or after the request is carried out.

Only what this layer answers is exempt from the check against the contract.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import MODE, ApiError, code_for
from invoice_sandbox.http import Exchange, Layer, Proceed, Reply
from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.scenarios.faults import REPLACE_RESPONSE, delay_seconds, select_fault
from invoice_sandbox.scenarios.library import faults_of
from invoice_sandbox.scenarios.script import Scenario
from invoice_sandbox.state import Fault, Workspace

_RETRY: Final = ("Retry-After", "1")
_HEADERS: Final = {
    401: (("WWW-Authenticate", 'Bearer realm="sandbox"'),),
    429: (_RETRY,),
    503: (_RETRY,),
}
"""What clients look for in answers of these statuses."""

_WITHOUT_BODY: Final = frozenset({204, 205, 304})


def inject_faults(engine: Engine) -> Layer:
    """Let the first fault that fits take effect. The levers themselves are never touched."""

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        workspace = exchange.workspace
        contract, operation = exchange.routed
        if workspace is None or contract is not engine.project.contract:
            return await proceed(exchange)
        if not workspace.faults and exchange.named is None:
            return await proceed(exchange)
        fault = await _draw(engine, workspace, operation, exchange.named)
        if fault is None:
            return await proceed(exchange)
        exchange.why["fault"] = f"{fault.id} {fault.kind}"
        if fault.when == "after":
            return await _after(engine, exchange, workspace, fault, proceed)
        return await _before(engine, exchange, workspace, fault, proceed)

    return layer


async def _draw(
    engine: Engine, workspace: Workspace, operation: Operation, named: Scenario | None
) -> Fault | None:
    async with engine.store.transaction(workspace.id) as state:
        current = await state.workspace()
        if named is not None and named.name not in {current.scenario, *current.named}:
            lent = (*current.faults, *faults_of(named, only_named=True))
            current = replace(current, faults=lent, named=(*current.named, named.name))
            await state.change_workspace(current)
        drawn = select_fault(current, operation, named.name if named else None)
        if drawn.faults != current.faults:
            await state.change_workspace(replace(current, faults=drawn.faults))
    return drawn.fault


async def _before(
    engine: Engine, exchange: Exchange, workspace: Workspace, fault: Fault, proceed: Proceed
) -> Reply:
    if fault.kind == "latency":
        await engine.system_clock.sleep(delay_seconds(workspace, fault))
        return await proceed(exchange)
    if fault.kind in REPLACE_RESPONSE:
        return _injected(exchange, fault)
    exchange.spoilt_by = fault
    return Reply(503)  # a reset: nothing of it goes out


async def _after(
    engine: Engine, exchange: Exchange, workspace: Workspace, fault: Fault, proceed: Proceed
) -> Reply:
    if fault.kind not in REPLACE_RESPONSE and fault.kind != "latency":
        exchange.spoilt_by = fault
        return await proceed(exchange)
    try:
        reply = await proceed(exchange)
    except ApiError:
        if fault.kind == "latency":
            await engine.system_clock.sleep(delay_seconds(workspace, fault))
            raise
        return _injected(exchange, fault)
    if fault.kind in REPLACE_RESPONSE:
        return _injected(exchange, fault)
    await engine.system_clock.sleep(delay_seconds(workspace, fault))
    return reply


def _injected(exchange: Exchange, fault: Fault) -> Reply:
    status = fault.status or 503
    headers = _HEADERS.get(status, ())
    if status in _WITHOUT_BODY:
        return Reply(status)
    if status < 400:
        return Reply(status, jsonio.dumps({"data": {}, "mode": MODE}), headers=headers)
    message = f"This answer was injected by the fault {fault.id}. Remove it, or wait and try again."
    error = {"code": code_for(status), "message": message, "requestId": exchange.request_id}
    return Reply(status, jsonio.dumps({"error": error, "mode": MODE}), headers=headers)
