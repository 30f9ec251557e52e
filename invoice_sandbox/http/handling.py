"""Stage 7 for an operation with a handler: transaction, handler, validation, commit.

The response is validated against the contract, then the changes are committed, then the first byte
is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.http import idempotency
from invoice_sandbox.http.declared_errors import declared_status
from invoice_sandbox.http.pipeline import (
    READING,
    ParsedRequest,
    Reply,
    Trace,
    client_address,
)
from invoice_sandbox.openapi.message.media_types import concrete, is_json
from invoice_sandbox.openapi.operation import DeclaredResponse, Operation
from invoice_sandbox.openapi.responses import WITHOUT_BODY, json_type
from invoice_sandbox.openapi.schema.compile import Checker
from invoice_sandbox.project.api import (
    Call,
    DeliverThenRespond,
    Handler,
    Origin,
    Response,
    Step,
    WorkThenRespond,
)
from invoice_sandbox.project.conventions import Conventions
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.runtime.steps import LAST_STEPS
from invoice_sandbox.scenarios.library import SCENARIO_RUNS, resolver_of
from invoice_sandbox.scenarios.lifecycle import Machine
from invoice_sandbox.scenarios.script import Scenario
from invoice_sandbox.state import Transaction, Workspace
from invoice_sandbox.state.credentials import note_use

_MAX_HINTS: Final = 5
"""How many hints of a handler the journal shows."""


class ContractViolationError(Exception):
    """The project returned a response that its contract does not allow."""


@dataclass(frozen=True)
class HandlerResponse:
    """Responds with what the project's handler returns.

    ``has_scenarios``: steps of scenarios may come before the handler.
    """

    engine: Engine
    operation: Operation
    handler: Handler
    responses: JsonResponses
    has_scenarios: bool

    async def respond(self, parsed: ParsedRequest) -> Reply:
        """The result of the handler, validated and committed.

        What is due is done first, and what the request itself makes due at once afterwards.
        """
        engine = self.engine
        workspace = parsed.workspace
        if workspace is None:
            workspace = public_workspace(engine, parsed)
        key = parsed.idempotency
        if key is None:
            outcome = await self._outcome(parsed, workspace)
        else:
            async with idempotency.single_flight(engine.store, workspace.id, key):
                outcome = await self._outcome(parsed, workspace)
        due = engine.store.next_due(workspace.id)
        if due is not None:
            engine.agenda.settle(workspace, due)
        if isinstance(outcome, ApiError):
            report_forbidden(engine, parsed, outcome)
            raise outcome
        return outcome

    async def _outcome(self, parsed: ParsedRequest, workspace: Workspace) -> Reply | ApiError:
        agenda = self.engine.agenda
        due = self.engine.store.next_due(workspace.id)
        if due is not None:
            agenda.catch_up(workspace, due)
        outcome = self._carry_out(parsed, workspace.id)
        if isinstance(outcome, DeliverThenRespond):
            await agenda.finish(workspace.id, outcome.lane)
            outcome = self._complete(parsed, workspace.id, outcome.then)
        elif isinstance(outcome, WorkThenRespond):
            result = await outcome.work()
            then = partial(_with_result, outcome.then, result)
            outcome = self._complete(parsed, workspace.id, then)
        return outcome

    def _carry_out(self, parsed: ParsedRequest, workspace_id: str) -> Reply | ApiError | _Later:
        """The outcome of the handler, or the kept one of the same request."""
        key = parsed.idempotency
        try:
            with self.engine.store.transaction(workspace_id) as state:
                workspace = state.workspace()
                call = _call(self.engine, parsed, workspace, state)
                request, credential = parsed.request, parsed.credential
                if (
                    credential is not None
                    and credential.type == "api_key"
                    and not request.is_observer
                    and not (parsed.endpoint.is_control and request.method in READING)
                ):
                    note_use(state, credential, call.now)
                earlier = None if key is None else idempotency.kept(state, key, call.now)
                if earlier is not None:
                    parsed.request.trace.why["replayed"] = True
                    return earlier
                if self.has_scenarios and call.scenarios.has_calls(self.operation.id):
                    self._do_steps(call)
                outcome = self._handle(self.handler, call, parsed.request.trace)
                if key is not None and not isinstance(outcome, _Later):
                    self._keep(state, parsed, outcome, call.now)
                return outcome
        except _RolledBackError as rolled_back:
            self._keep_error(parsed, workspace_id, rolled_back.error)
            return rolled_back.error

    def _complete(
        self, parsed: ParsedRequest, workspace_id: str, then: Handler
    ) -> Reply | ApiError:
        """The outcome once what the handler asked for is done: deliveries, or work."""
        try:
            with self.engine.store.transaction(workspace_id) as state:
                call = _call(self.engine, parsed, state.workspace(), state)
                outcome = self._handle(then, call, parsed.request.trace)
                if isinstance(outcome, _Later):
                    raise TypeError("a handler that responds later cannot ask for more")
                self._keep(state, parsed, outcome, call.now)
                return outcome
        except _RolledBackError as rolled_back:
            self._keep_error(parsed, workspace_id, rolled_back.error)
            return rolled_back.error

    def _keep_error(self, parsed: ParsedRequest, workspace_id: str, error: ApiError) -> None:
        """Keep the outcome of a request whose changes were taken back."""
        if parsed.idempotency is not None:
            with self.engine.store.transaction(workspace_id) as state:
                now = state.workspace().clock.now(self.engine.system_clock)
                self._keep(state, parsed, error, now)

    def _keep(
        self, state: Transaction, parsed: ParsedRequest, outcome: Reply | ApiError, now: datetime
    ) -> None:
        if parsed.idempotency is not None:
            secrets = self.operation.secrets
            idempotency.keep(state, parsed.idempotency, outcome, now, secrets)

    def _handle(self, handler: Handler, call: Call, trace: Trace) -> Reply | ApiError | _Later:
        try:
            result = handler(call)
        except ApiError as error:
            check_error(self.operation, error)
            _explain_scenario(trace, call, {})
            if "legal" in error.values:
                trace.why["next"] = error.values["legal"]
            raise _RolledBackError(error) from error
        if isinstance(result, ApiError):
            check_error(self.operation, result)
            return result
        if isinstance(result, _Later):
            return result
        given = result if isinstance(result, Response) else Response(result)
        if given.hints:
            trace.why["hints"] = [*trace.why.get("hints", ()), *given.hints[:_MAX_HINTS]]
        _explain_scenario(trace, call, given.data)
        name = self.operation.lifecycle
        machine = None if name is None else call.lifecycle.machines.get(name)
        if machine is not None and isinstance(given.data, dict):
            _explain(trace, call, machine, given.data)
        return self.responses.reply(given)

    def _do_steps(self, call: Call) -> None:
        """The steps of the scenarios in force that come before this request is carried out."""
        name = self.operation.id
        for scenario, subject in _scenarios_of_call(call):
            if all(step.call != name for step in scenario.calls):
                continue
            number = call.state.next_number(f"calls/{scenario.name}/{name}/{subject}")
            for step in scenario.on_call(name, number):
                known = {"subject": next(iter(call.path.values()), None), "body": call.body}
                arguments = {**step.arguments, **known}
                self.engine.project.actions[step.do].run(_step(call, arguments), step.arguments)


_Later = DeliverThenRespond | WorkThenRespond
"""What a handler returns that responds later."""


def _with_result(then: Callable[[Call, Any], Any], result: Any, call: Call) -> Any:
    return then(call, result)


class _RolledBackError(Exception):
    """The handler raised ``error``, so its changes are taken back."""

    def __init__(self, error: ApiError) -> None:
        super().__init__()
        self.error = error


def report_forbidden(engine: Engine, parsed: ParsedRequest, error: ApiError) -> None:
    hook = engine.project.hooks.on_forbidden
    if hook is None or error.status != HTTPStatus.FORBIDDEN or parsed.workspace is None:
        return
    with engine.store.transaction(parsed.workspace.id) as state:
        hook(_call(engine, parsed, state.workspace(), state), error)


def public_workspace(engine: Engine, parsed: ParsedRequest) -> Workspace:
    """The workspace of a request without a credential: that of a capability in its address, such
    as a signature, otherwise the first."""
    for text in (*parsed.path.values(), *parsed.query.values()):
        found = engine.store.credential(key_digest(str(text)))
        if found is not None and found.type == "capability":
            workspace = engine.store.workspace(found.workspace_id)
            if workspace is not None:
                parsed.request.trace.served_by = workspace.id
                return workspace
    parsed.request.trace.served_by = engine.first_workspace
    return engine.default_workspace()


def origin_of(engine: Engine, parsed: ParsedRequest) -> Origin:
    """Who sent a request."""
    credential, request = parsed.credential, parsed.request
    return Origin(
        actor_type=credential.type if credential else "anonymous",
        actor_id=credential.subject if credential else None,
        request_id=request.trace.request_id,
        ip=client_address(request.scope) or None,
        user_agent=engine.journal.redactor.user_agent(request.head.headers),
    )


def _call(engine: Engine, parsed: ParsedRequest, workspace: Workspace, state: Transaction) -> Call:
    credential, request, now = parsed.credential, parsed.request, workspace.clock.at
    if workspace.clock.mode == "live":
        arrived = workspace.clock.now(engine.system_clock)
        now = engine.agenda.instants.not_before(workspace.id, workspace.clock, arrived)
    return Call(
        state=state,
        workspace=workspace,
        now=now,
        origin=origin_of(engine, parsed),
        contract=engine.project.contract,
        lifecycle=engine.project.lifecycle,
        conventions=engine.project.conventions,
        scenarios=resolver_of(engine.project.scenarios, workspace, parsed.scenario),
        operation=parsed.endpoint.operation,
        url=request.url,
        base_url=engine.url,
        local=engine.local and request.head.forwarding is None,
        webhook_networks=engine.webhook_networks,
        calendar=engine.system_clock.calendar,
        path=parsed.path,
        query=parsed.query,
        body=parsed.body,
        media_type=parsed.media_type,
        accept=request.accept,
        caller=credential,
        passwords=engine.hashing,
    )


def _scenarios_of_call(call: Call) -> list[tuple[Scenario, str]]:
    """The request's own scenario, else those of its subjects, else the workspace's; with the id of
    the subject, within whose scenario requests are counted."""
    resolver = call.scenarios
    if resolver.named is not None:
        return [(resolver.named, "")]
    found = []
    for subject in map(str, call.path.values()):
        scenario = resolver.for_record(call.state, subject)
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


def _explain_scenario(trace: Trace, call: Call, data: Any) -> None:
    """Name the scenario of the record that the request or its response is about, if it has one of
    its own. A scenario that the request itself names comes first."""
    if call.scenarios.named is None and call.state.count(SCENARIO_RUNS):
        body = call.body.values() if isinstance(call.body, dict) else ()
        shown = data if isinstance(data, dict) else {}
        about = (*call.path.values(), shown.get("id"), *body, *call.query.values(), *shown.values())
        if (name := call.scenarios.name_among(call.state, about)) is not None:
            trace.why["scenario"] = name


def _explain(trace: Trace, call: Call, machine: Machine, data: Mapping[str, Any]) -> None:
    """Explain which step moved the record in the response last, and its next legal triggers."""
    if isinstance(data.get("status"), str):
        trace.why["next"] = machine.legal.get(data["status"], ())
    step = call.state.get(LAST_STEPS, str(data.get("id")))
    if step is not None:
        trace.why["step"] = step


class JsonResponses:
    """Writes the responses of one operation as JSON, and validates them."""

    def __init__(self, operation: Operation, conventions: Conventions) -> None:
        self._operation = operation
        self._conventions = conventions

    def reply(self, result: Any) -> Reply:
        """A response, in the envelope of the conventions unless it is bare.

        Raises ContractViolationError.
        """
        given = result if isinstance(result, Response) else Response(result)
        status = given.status or int(self._operation.success)
        response = _response(self._operation, status)
        if given.data is None and (not response.content or status in WITHOUT_BODY):
            return Reply(status, headers=given.headers)
        name = _json_type(self._operation, status, response, given.media_type)
        body = given.data if given.bare else self._conventions.success_body(given.data)
        _check(self._operation, status, response.content[name], body)
        return Reply(status, jsonio.dumps(body), concrete(name), given.headers)


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
    name = json_type(response) if given is None else given
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
    """Raises ContractViolationError for what is not declared, unless it is the server's own."""
    if error.type.name in _OF_THE_SERVER:
        return
    if declared_status(operation, error.status) is None:
        raise undeclared(operation, error.status) from error


def _check(operation: Operation, status: int, checker: Checker | None, body: Any) -> None:
    """Raises ContractViolationError unless the contract allows this body."""
    if checker is not None and not checker.is_valid(body):
        (problem, *_), _ = checker.explain(body)
        raise ContractViolationError(
            f"{operation.id} {status}: {problem.sentence('the body')} ({problem.schema_path})"
        )


def undeclared(operation: Operation, status: int) -> ContractViolationError:
    return ContractViolationError(f"{operation.id}: status {status} is not declared")
