"""Faults: what goes wrong with a response because somebody asked for it.

A fault replaces the response, delays it, or alters how it is sent, before the request is carried
out or after. The control API has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from msgspec import structs

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ApiError, ErrorType
from invoice_sandbox.base.waiting import Later
from invoice_sandbox.http.prefer import from_contract, reply_of
from invoice_sandbox.http.request import SCENARIO, InjectedFault, Reply, Request
from invoice_sandbox.openapi.message.media_types import is_json
from invoice_sandbox.openapi.responses import WITHOUT_BODY, Choice, given_response
from invoice_sandbox.project.conventions import Conventions
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.scenarios.faults import REPLACE_RESPONSE, delay_seconds, select_fault
from invoice_sandbox.scenarios.library import faults_of
from invoice_sandbox.state import Fault, Transaction, Workspace

Outcome = Reply | ApiError | Later
"""A response, an error, or what has to be waited for before."""

_CHALLENGE: Final = (("WWW-Authenticate", 'Bearer realm="sandbox"'),)
_HTML: Final = "<!doctype html><title>{status}</title><h1>Error {status}</h1><p>{text}</p>\n"
"""The page that a gateway returns, which is not part of the API."""

_INJECTED: Final = "The fault {id} injected this response"
_ADVICE: Final = "Remove it, or wait and try again."


def named_scenario(engine: Engine, request: Request) -> None:
    """Note the scenario that a request names. Raises ApiError 400."""
    name = request.head.first.get(SCENARIO)
    if name is not None and _has_faults(request):
        request.scenario = engine.project.scenario(name, "X-Sandbox-Scenario")


def _has_faults(request: Request) -> bool:
    """True unless it is sent to the control API, or by the sandbox itself."""
    return not (request.target.is_control or request.is_observer)


def choose_fault(request: Request, state: Transaction) -> Fault | None:
    """Return the fault that takes effect on a request, and count it.

    A scenario adds its faults when it is named for the first time.
    """
    workspace, named = state.workspace(), request.scenario
    is_known = request.workspace is not None and _has_faults(request)
    if not is_known or not (workspace.faults or named):
        return None
    current = workspace
    if named is not None and named.name not in {current.scenario, *current.named}:
        faults = (*current.faults, *faults_of(named, only_named=True))
        current = replace(current, faults=faults, named=(*current.named, named.name))
    operation = request.target.operation
    selected = select_fault(current, operation, named.name if named else None)
    current = replace(current, faults=selected.faults)
    if current != workspace:
        state.change_workspace(current)
    if selected.fault is not None:
        request.why["fault"] = f"{selected.fault.id} {selected.fault.kind}"
    return selected.fault


def before(engine: Engine, request: Request, fault: Fault | None, go_on: Any) -> Outcome | None:
    """Return what a fault does instead of the request, or before it; None: nothing.

    ``go_on`` carries the request out without the fault.
    """
    if fault is None or fault.when == "after":
        return None
    if fault.kind == "latency":
        return Later(partial(_sleep, engine, request, fault), lambda _: go_on())
    if fault.kind in REPLACE_RESPONSE:
        return _replacement(engine, request, fault)
    _alter(engine, request, fault)
    return Reply(503)  # a reset: nothing of it is sent


def after(engine: Engine, request: Request, fault: Fault | None, outcome: Outcome) -> Outcome:
    """Return what a fault makes of the outcome of a request, a success or an error."""
    if fault is None or fault.when == "before":
        return outcome
    if isinstance(outcome, Later):
        later = partial(_after_result, engine, request, fault, outcome)
        return Later(outcome.work, later, outcome.undo)
    if fault.patch is not None:
        return _patched(outcome, fault.patch) if isinstance(outcome, Reply) else outcome
    if fault.kind == "latency":
        return Later(partial(_sleep, engine, request, fault), lambda _: outcome)
    if fault.kind in REPLACE_RESPONSE:
        return _replacement(engine, request, fault)
    _alter(engine, request, fault)
    return outcome


def _after_result(
    engine: Engine, request: Request, fault: Fault, outcome: Later, result: Any
) -> Outcome:
    return after(engine, request, fault, outcome.then(result))


async def _sleep(engine: Engine, request: Request, fault: Fault) -> None:
    await engine.system_clock.sleep(delay_seconds(_workspace(engine, request), fault))


def _workspace(engine: Engine, request: Request) -> Workspace:
    return request.workspace or engine.default_workspace()


def _alter(engine: Engine, request: Request, fault: Fault) -> None:
    seconds = delay_seconds(_workspace(engine, request), fault)
    request.fault = InjectedFault(fault.kind, seconds)


def _replacement(engine: Engine, request: Request, fault: Fault) -> Reply:
    if fault.kind == "response":
        return _stubbed(request, fault, _workspace(engine, request))
    return _injected(engine.project.conventions, request, fault)


def _patched(reply: Reply, patch: Mapping[str, Any]) -> Reply:
    """The response with ``patch`` merged into its JSON object; other bodies are not changed."""
    if not reply.body or not is_json(reply.media_type.partition(";")[0]):
        return reply
    return structs.replace(
        reply, body=jsonio.dumps(jsonio.merge_patch(jsonio.loads(reply.body), patch))
    )


def _stubbed(request: Request, fault: Fault, workspace: Workspace) -> Reply:
    """The response that the fault was given, else that of the contract."""
    endpoint = request.target
    stub = jsonio.loads(fault.stub.encode()) if fault.stub else {}
    headers = stub.get("headers", {})
    if "body" in stub:
        given = given_response(
            endpoint.contract,
            endpoint.operation,
            workspace.seed,
            fault.status,
            stub["body"],
            headers,
        )
        return reply_of(given, request)
    return from_contract(request, workspace, Choice(fault.status), headers)


def _injected(conventions: Conventions, request: Request, fault: Fault) -> Reply:
    status = fault.status or 503
    headers = _CHALLENGE if status == HTTPStatus.UNAUTHORIZED else ()
    if fault.retry_after is not None:
        headers = (*headers, ("Retry-After", str(math.ceil(fault.retry_after))))
    if status in WITHOUT_BODY:
        return Reply(status)
    if fault.kind == "html":
        text = _HTML.format(status=status, text=_INJECTED.format(id=fault.id))
        return Reply(status, text.encode(), "text/html; charset=utf-8", headers)
    if status < 400:
        return Reply(status, jsonio.dumps(conventions.success_body({})), headers=headers)
    error = ApiError(ErrorType("injected", status, _INJECTED, _ADVICE), {"id": fault.id})
    message = conventions.message(error)
    media_type, body = next(conventions.error_bodies(error, message, request.id))
    return Reply(status, jsonio.dumps(body), media_type, headers)
