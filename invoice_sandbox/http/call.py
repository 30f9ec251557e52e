"""The call of a handler: what it gets, what explains its response, and its result as a response
that the contract allows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.http.declared_errors import declared_status
from invoice_sandbox.http.endpoint import Endpoint
from invoice_sandbox.http.request import READING, Inputs, Reply, Request
from invoice_sandbox.openapi.message.media_types import concrete, is_json
from invoice_sandbox.openapi.operation import DeclaredResponse, Operation
from invoice_sandbox.openapi.responses import WITHOUT_BODY
from invoice_sandbox.openapi.schema.compile import Checker
from invoice_sandbox.project.api import Call, Origin, Response, Step
from invoice_sandbox.runtime.control_call import ControlCall, PublicControlCall, Raw
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.runtime.step_runner import LAST_STEPS
from invoice_sandbox.scenarios.library import SCENARIO_RUNS, resolver_of
from invoice_sandbox.scenarios.lifecycle import Machine
from invoice_sandbox.scenarios.script import Scenario
from invoice_sandbox.state import Transaction, Workspace, credentials

_MAX_HINTS: Final = 5
"""The most hints of a handler that the journal shows."""

_REMEMBERED: Final = 10_000
"""Keys of which the last use is known."""


def workspace_of(engine: Engine, request: Request) -> Workspace:
    """Return the workspace that a request is carried out in.

    That of its caller; of a request without one, that of a capability in its address, such as a
    signature, otherwise the first.
    """
    if request.workspace is not None:
        return request.workspace
    query = request.scope["query_string"].decode("latin-1")
    for text in (*request.path_texts.values(), *(value for _, value in parse_qsl(query))):
        found = engine.store.credential(key_digest(text))
        if found is not None and found.type == "capability":
            workspace = engine.store.workspace(found.workspace_id)
            if workspace is not None:
                request.served_by = workspace.id
                return workspace
    request.served_by = engine.first_workspace
    return engine.default_workspace()


def call_of(engine: Engine, request: Request, inputs: Inputs, state: Transaction) -> Call:
    """Return what the handler of an operation gets."""
    workspace, endpoint = state.workspace(), request.target
    now = workspace.clock.at
    if workspace.clock.mode == "live":
        arrived = workspace.clock.instant(request.begun)
        now = state.not_before(arrived)
    return Call(
        state=state,
        workspace=workspace,
        now=now,
        origin=_origin(engine, request),
        contract=engine.project.contract,
        lifecycle=engine.project.lifecycle,
        conventions=engine.project.conventions,
        scenarios=resolver_of(engine.project.scenarios, workspace, request.scenario),
        operation=endpoint.operation,
        url=request.url,
        base_url=engine.url,
        local=engine.local and request.head.forwarding is None,
        webhook_networks=engine.webhook_networks,
        calendar=engine.system_clock.calendar,
        path=inputs.path,
        query=inputs.query,
        body=inputs.body,
        media_type=inputs.media_type,
        accept=request.accept,
        caller=request.credential,
        passwords=engine.hashing,
        not_read=request.why.get("hints", ()),
    )


def control_call_of(
    engine: Engine, request: Request, inputs: Inputs
) -> ControlCall | PublicControlCall:
    """Return what a function of the control API gets."""
    headers, body = dict(request.head.headers), inputs.body or {}
    call = PublicControlCall(engine, inputs.path, inputs.query, headers, body, request.content)
    if request.credential is None or request.workspace is None:
        return call
    return ControlCall(
        **vars(call),
        credential=request.credential,
        workspace=request.workspace,
        origin=_origin(engine, request),
    )


def _origin(engine: Engine, request: Request) -> Origin:
    """Return who sent a request."""
    credential = request.credential
    return Origin(
        actor_type=credential.type if credential else "anonymous",
        actor_id=credential.subject if credential else None,
        request_id=request.id,
        ip=request.address or None,
        show_agent=partial(engine.journal.redactor.user_agent, request.head.headers),
    )


def note_use(engine: Engine, state: Transaction, request: Request, now: datetime) -> None:
    """Note that a key was used; not by who only looks at the control API."""
    credential, endpoint = request.credential, request.target
    is_looking = endpoint.is_control and request.method in READING
    if credential is None or credential.type != "api_key" or is_looking or request.is_observer:
        return
    second = int(now.timestamp())
    if engine.key_uses.get(credential.digest) != second or state.workspace().clock.mode == "frozen":
        credentials.note_use(state, credential, now)
        if len(engine.key_uses) >= _REMEMBERED:
            engine.key_uses.clear()
        engine.key_uses[credential.digest] = second


def do_steps(engine: Engine, call: Call) -> None:
    """Do the steps of the scenarios in force that come before this request is carried out."""
    name = call.operation.id
    if not call.scenarios.has_calls(name):
        return
    for scenario, subject in _scenarios_of_call(call):
        if all(step.call != name for step in scenario.calls):
            continue
        number = call.state.next_number(f"calls/{scenario.name}/{name}/{subject}")
        for step in scenario.on_call(name, number):
            known = {"subject": next(iter(call.path.values()), None), "body": call.body}
            arguments = {**step.arguments, **known}
            engine.project.actions[step.do].run(_step(call, arguments), step.arguments)


def explain(request: Request, call: Call, given: Response) -> None:
    """Note what explains the response of a handler."""
    hints = [*given.hints, *call.hints][:_MAX_HINTS]
    if hints:
        request.why["hints"] = [*request.why.get("hints", ()), *hints]
    explain_scenario(request, call, given.data)
    name = call.operation.lifecycle
    machine = None if name is None else call.lifecycle.machines.get(name)
    if machine is not None and isinstance(given.data, dict):
        _explain_step(request, call, machine, given.data)


def _scenarios_of_call(call: Call) -> list[tuple[Scenario, str]]:
    """The request's own scenario, else those of its subjects, else the workspace's; with the id of
    the subject, within whose scenario requests are counted."""
    resolver = call.scenarios
    if resolver.named is not None:
        return [(resolver.named, "")]
    found = []
    for subject in map(str, call.path.values()):
        scenario = resolver.in_force(call.state, subject)[0]
        if scenario is not resolver.default:
            found.append((scenario, subject))
    return found or [(resolver.default, "")]


def _step(call: Call, arguments: Mapping[str, Any]) -> Step:
    return Step(
        state=call.state,
        workspace=call.workspace,
        now=call.now,
        origin=call.origin,
        contract=call.contract,
        lifecycle=call.lifecycle,
        conventions=call.conventions,
        scenarios=call.scenarios,
        emitted=call.emitted,
        arguments=arguments,
    )


def explain_scenario(request: Request, call: Call, data: Any) -> None:
    """Name the scenario of the record that the request or its response is about, if it has one of
    its own. A scenario that the request itself names comes first."""
    if call.scenarios.named is None and call.state.count(SCENARIO_RUNS):
        body = call.body.values() if isinstance(call.body, dict) else ()
        shown = data if isinstance(data, dict) else {}
        about = (*call.path.values(), shown.get("id"), *body, *call.query.values(), *shown.values())
        if (name := call.scenarios.name_among(call.state, about)) is not None:
            request.why["scenario"] = name


def _explain_step(request: Request, call: Call, machine: Machine, data: Mapping[str, Any]) -> None:
    """Explain which step moved the record in the response last, and its next legal triggers."""
    if isinstance(data.get("status"), str):
        request.why["next"] = machine.legal.get(data["status"], ())
    step = call.state.get(LAST_STEPS, str(data.get("id")))
    if step is not None:
        request.why["step"] = step


class ContractViolationError(Exception):
    """The project returned a response that its contract does not allow."""


def checked(endpoint: Endpoint, result: Any) -> Reply:
    """Return a response as JSON, in the envelope of the conventions unless it is bare.

    Raises ContractViolationError.
    """
    operation = endpoint.operation
    if isinstance(result, Raw):
        return _raw(operation, result)
    given = result if isinstance(result, Response) else Response(result)
    status = given.status or int(operation.success)
    if isinstance(given.data, bytes):
        return _raw(operation, Raw(status, given.media_type or "", given.data, given.headers))
    response = _response(operation, status)
    if given.data is None and (not response.content or status in WITHOUT_BODY):
        return Reply(status, headers=given.headers)
    name = _json_type(operation, status, response, given.media_type)
    body = given.data if given.bare else endpoint.conventions.success_body(given.data)
    _check(operation, status, response.content[name], body)
    return Reply(status, jsonio.dumps(body), concrete(name), given.headers)


def _raw(operation: Operation, given: Raw) -> Reply:
    """Return a response that is in no envelope. Raises ContractViolationError."""
    response = operation.response_for(given.status)
    if response is None or given.media_type not in response.content:
        raise undeclared(operation, given.status)
    body = b"" if given.status in {204, 304} else given.body
    return Reply(given.status, body, given.media_type, given.headers, given.stream)


def _response(operation: Operation, status: int) -> DeclaredResponse:
    response = operation.responses.get(str(status)) or operation.response_for(status)
    if response is None:
        raise undeclared(operation, status)
    return response


def _json_type(
    operation: Operation, status: int, response: DeclaredResponse, given: str | None
) -> str:
    """The declared JSON media type of a response, or range such as ``*/*``: for the given one, if
    any. Raises ContractViolationError."""
    name = response.json_type if given is None else given
    found = response.declared_for(name) if name is not None and is_json(name) else None
    if found is None:
        name = name if name is not None and is_json(name) else "JSON"
        raise ContractViolationError(f"{operation.id} {status}: {name} is not declared for it")
    return found


_OF_THE_SERVER: Final = frozenset(
    {"limit_reached", "no_usable_response", "state_full", "unknown_record"}
)
"""Errors about what the server keeps, which operations need not declare."""


def check_error(operation: Operation, error: ApiError) -> None:
    """Raise ContractViolationError for what is not declared, unless it is the server's own."""
    if error.type.name in _OF_THE_SERVER:
        return
    if declared_status(operation, error.status) is None:
        raise undeclared(operation, error.status) from error


def _check(operation: Operation, status: int, checker: Checker | None, body: Any) -> None:
    """Raise ContractViolationError unless the contract allows this body."""
    if checker is not None and not checker.is_valid(body):
        (problem, *_), _ = checker.explain(body)
        raise ContractViolationError(
            f"{operation.id} {status}: {problem.sentence('the body')} ({problem.schema_path})"
        )


def undeclared(operation: Operation, status: int) -> ContractViolationError:
    """Return the error of a status that an operation does not declare."""
    return ContractViolationError(f"{operation.id}: status {status} is not declared")
