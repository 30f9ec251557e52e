"""Call the handler inside a transaction, hold its answer against the contract, then commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import MODE, ApiError
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.http import JSON, Exchange, Layer, Proceed, Reply
from invoice_sandbox.http.idempotency import IdempotentRequest, alone, idempotent_request
from invoice_sandbox.http.preferring import from_contract
from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.openapi.responses import USUAL
from invoice_sandbox.project.api import Call, DeliverThenRespond, Handler, Origin, Response, Step
from invoice_sandbox.runtime.control_call import ControlCall, ControlFunction, Raw
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.scenarios.library import resolver_of
from invoice_sandbox.scenarios.script import Scenario
from invoice_sandbox.state import Transaction, Workspace, hits
from invoice_sandbox.state.credentials import note_use

LAST_STEPS: Final = "last_steps"
"""The kind under which the last step is kept that moved a thing, by the thing's id."""


class ContractViolationError(Exception):
    """The project answered something that its contract does not allow."""


def call_control_function(engine: Engine, functions: Mapping[str, ControlFunction]) -> Layer:
    """Response the engine's own levers, which work on whole workspaces, not in one transaction."""

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        contract, operation = exchange.routed
        pull = functions.get(operation.id) if contract is engine.project.control else None
        if pull is None:
            return await proceed(exchange)
        try:
            result = await pull(_lever(engine, exchange))
            return _raw(operation, result) if isinstance(result, Raw) else _reply(operation, result)
        except ApiError as refusal:
            _check_refusal(operation, refusal)
            raise

    return layer


def answer(engine: Engine) -> Layer:
    """Response by the operation's handler, or from the contract when it has none.

    What is due is done first, and what the request itself makes due at once. What the handler
    changes is committed after its answer was found valid and before the first byte goes out.
    """

    async def layer(exchange: Exchange, _: Proceed) -> Reply:
        operation = exchange.routed[1]
        workspace = exchange.workspace or await _public_workspace(engine, exchange)
        handler = engine.project.handlers.get(operation.id)
        if handler is None:
            return from_contract(exchange, workspace, USUAL)
        request = idempotent_request(exchange)
        async with alone(engine.store, workspace.id, request):
            await engine.agenda.run_due(workspace)
            outcome = await _carry_out(engine, exchange, workspace.id, handler, request)
            if isinstance(outcome, DeliverThenRespond):
                await engine.agenda.finish(workspace.id, outcome.lane)
                outcome = await _complete(engine, exchange, workspace.id, outcome.then, request)
        await engine.agenda.run_due(workspace)
        await engine.agenda.schedule_wakeup(workspace.id)
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    return layer


def report_forbidden(engine: Engine) -> Layer:
    """Tell the project of every known caller that is refused for lack of authorisation (403)."""

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        try:
            return await proceed(exchange)
        except ApiError as error:
            hook = engine.project.hooks.on_forbidden
            if hook is None or error.status != 403 or exchange.workspace is None:
                raise
            async with engine.store.transaction(exchange.workspace.id) as state:
                await hook(_call(engine, exchange, await state.workspace(), state), error)
            raise

    return layer


async def _carry_out(
    engine: Engine,
    exchange: Exchange,
    workspace_id: str,
    handler: Handler,
    request: IdempotentRequest | None,
) -> Reply | ApiError | DeliverThenRespond:
    """What the handler answers, or what was answered to the same request before."""
    try:
        async with engine.store.transaction(workspace_id) as state:
            workspace = await state.workspace()
            call = _call(engine, exchange, workspace, state)
            if exchange.credential is not None and exchange.credential.type == "api_key":
                await note_use(state, exchange.credential, call.now)
            earlier = None if request is None else await request.earlier(state, call.now)
            if earlier is not None:
                exchange.why["replayed"] = True
                return earlier
            outcome = await _by_handler(_as_told(engine, exchange, handler), call, exchange)
            if request is not None and not isinstance(outcome, DeliverThenRespond):
                await request.keep(state, outcome, call.now)
            engine.coverage.note(workspace, call.touched)
            return outcome
    except _Undone as undone:
        if request is not None:
            async with engine.store.transaction(workspace_id) as state:
                now = (await state.workspace()).clock.now(engine.system_clock)
                await request.keep(state, undone.refusal, now)
        return undone.refusal


async def _complete(
    engine: Engine,
    exchange: Exchange,
    workspace_id: str,
    then: Handler,
    request: IdempotentRequest | None,
) -> Reply | ApiError:
    """What is answered once that was sent which the handler wanted sent."""
    async with engine.store.transaction(workspace_id) as state:
        call = _call(engine, exchange, await state.workspace(), state)
        outcome = await _by_handler(then, call, exchange)
        if isinstance(outcome, DeliverThenRespond):
            raise TypeError("what is answered after sending cannot send once more")
        if request is not None:
            await request.keep(state, outcome, call.now)
        engine.coverage.note(call.workspace, call.touched)
        return outcome


class _Undone(Exception):  # noqa: N818  the handler refused; nothing went wrong in us
    """The handler raised a refusal, so its changes are taken back."""

    def __init__(self, refusal: ApiError) -> None:
        super().__init__()
        self.refusal = refusal


async def _public_workspace(engine: Engine, exchange: Exchange) -> Workspace:
    """The workspace of a request without a credential: that of a capability in its address, such
    as a signature, else the first."""
    for text in (*exchange.path.values(), *exchange.query.values()):
        found = await engine.store.credential(key_digest(str(text)))
        if found is not None and found.type == "capability":
            workspace = await engine.store.workspace(found.workspace_id)
            if workspace is not None:
                return workspace
    return await engine.default_workspace()


def _lever(engine: Engine, exchange: Exchange) -> ControlCall:
    return ControlCall(
        engine=engine,
        caller=exchange.credential,
        found=exchange.workspace,
        path=exchange.path,
        query=exchange.query,
        headers=dict(exchange.headers),
        body=exchange.body or {},
        raw_body=exchange.raw_body,
    )


def _call(engine: Engine, exchange: Exchange, workspace: Workspace, state: Transaction) -> Call:
    credential = exchange.credential
    client = exchange.scope.get("client")
    return Call(
        state=state,
        workspace=workspace,
        now=workspace.clock.now(engine.system_clock),
        origin=Origin(
            actor_type=credential.type if credential else "anonymous",
            actor_id=credential.subject if credential else None,
            request_id=exchange.request_id,
            ip=client[0] if client else None,
            user_agent=exchange.header("user-agent"),
        ),
        contract=engine.project.contract,
        lifecycle=engine.project.lifecycle,
        scenarios=resolver_of(engine.project.scenarios, workspace, exchange.named),
        url=exchange.scope["path"],
        base_url=engine.url,
        local=engine.local,
        system_now=engine.system_clock.now(),
        path=exchange.path,
        query=exchange.query,
        body=exchange.body,
        media_type=exchange.media_type,
        caller=credential,
    )


async def _by_handler(
    handler: Handler, call: Call, exchange: Exchange
) -> Reply | ApiError | DeliverThenRespond:
    _, operation = exchange.routed
    try:
        result = await handler(call)
    except ApiError as refusal:
        _check_refusal(operation, refusal)
        _explain_refusal(exchange, refusal)
        raise _Undone(refusal) from refusal
    if isinstance(result, ApiError):
        _check_refusal(operation, result)
        return result
    if isinstance(result, DeliverThenRespond):
        return result
    given = result if isinstance(result, Response) else Response(result)
    if operation.lifecycle is not None and isinstance(given.data, Mapping):
        await _explain(exchange, call, operation.lifecycle, given.data)
    return _reply(operation, given)


def _as_told(engine: Engine, exchange: Exchange, handler: Handler) -> Handler:
    """The handler, after what the stories in force let happen first."""

    async def handle(call: Call) -> Any:
        await _do_steps_of_call(engine, exchange, call)
        return await handler(call)

    return handle


async def _do_steps_of_call(engine: Engine, exchange: Exchange, call: Call) -> None:
    """What the stories in force have done with this request, before it is carried out."""
    contract, operation = exchange.routed
    if contract is not engine.project.contract:
        return
    for story, subject in await _stories_of_call(call):
        if not any(step.call == operation.id for step in story.calls):
            continue
        number = await call.state.next_number(f"calls/{story.name}/{operation.id}/{subject}")
        for step in story.on_call(operation.id, number):
            told = {"subject": next(iter(call.path.values()), None), "body": call.body}
            arguments = {**step.arguments, **told}
            engine.coverage.note(call.workspace, [hits.step(story.name, step.index)])
            await engine.project.actions[step.do].do(_step(call, arguments), step.arguments)


async def _stories_of_call(call: Call) -> list[tuple[Scenario, str]]:
    """The request's own story, else those of the things that it is about, else the workspace's;
    with the id of the thing, within whose story requests are counted."""
    resolver = call.scenarios
    if resolver.named is not None:
        return [(resolver.named, "")]
    subjects = [str(one) for one in call.path.values()]
    found = [(await resolver.for_record(call.state, subject), subject) for subject in subjects]
    return [one for one in found if one[0] is not resolver.default] or [(resolver.default, "")]


def _step(call: Call, arguments: Mapping[str, Any]) -> Step:
    return Step(
        state=call.state,
        workspace=call.workspace,
        now=call.now,
        origin=call.origin,
        contract=call.contract,
        lifecycle=call.lifecycle,
        scenarios=call.scenarios,
        emitted=call.emitted,
        touched=call.touched,
        arguments=arguments,
    )


async def _explain(
    exchange: Exchange, call: Call, machine_name: str, data: Mapping[str, Any]
) -> None:
    """What moved the thing in the answer last, and where it can go from here."""
    machine = call.lifecycle.machines.get(machine_name)
    if machine is not None and isinstance(data.get("status"), str):
        exchange.why["next"] = list(machine.legal.get(data["status"], ()))
    step = await call.state.get(LAST_STEPS, str(data.get("id")))
    if step is not None:
        exchange.why["step"] = step


def _explain_refusal(exchange: Exchange, refusal: ApiError) -> None:
    if "legal" in refusal.values:
        exchange.why["next"] = list(refusal.values["legal"])


def _reply(operation: Operation, result: Any) -> Reply:
    """An answer, in the success envelope unless it is bare. Raises ContractViolationError."""
    given = result if isinstance(result, Response) else Response(result)
    status = given.status or int(operation.success)
    body = given.data if given.bare else {"data": given.data, "mode": MODE}
    _check(operation, status, body)
    return Reply(status, jsonio.dumps(body), headers=given.headers)


def _raw(operation: Operation, given: Raw) -> Reply:
    """An answer that is in no envelope. Raises ContractViolationError."""
    response = operation.response_for(given.status)
    if response is None or given.media_type not in response.content:
        raise _undeclared(operation, given.status)
    body = b"" if given.status in {204, 304} else given.body
    return Reply(given.status, body, given.media_type, given.headers, given.stream)


def _check_refusal(operation: Operation, refusal: ApiError) -> None:
    if operation.response_for(refusal.status) is None:
        raise _undeclared(operation, refusal.status) from refusal


def _check(operation: Operation, status: int, body: Any) -> None:
    """Raises ContractViolationError unless the contract allows this answer."""
    response = operation.response_for(status)
    if response is None:
        raise _undeclared(operation, status)
    if JSON not in response.content:
        raise ContractViolationError(f"{operation.id} {status}: JSON is not declared for it")
    checker = response.content[JSON]
    if checker is not None and not checker.is_valid(body):
        problem, _ = checker.first_problem(body)
        raise ContractViolationError(
            f"{operation.id} {status}: {problem.sentence('the body')} ({problem.schema_path})"
        )


def _undeclared(operation: Operation, status: int) -> ContractViolationError:
    return ContractViolationError(f"{operation.id}: status {status} is not declared")
