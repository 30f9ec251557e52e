"""Call the handler inside a transaction, hold its answer against the contract, then commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from invoice_sandbox import jsonio
from invoice_sandbox.agenda import Agenda
from invoice_sandbox.clock import Wall
from invoice_sandbox.contract.answers import contract_answer, is_json
from invoice_sandbox.contract.operations import Contract, Operation
from invoice_sandbox.credentials import note_use
from invoice_sandbox.errors import MODE, ApiError
from invoice_sandbox.handling import Answer, Call, Handler, Origin
from invoice_sandbox.ids import key_digest
from invoice_sandbox.pipeline import JSON, Exchange, Layer, Proceed, Reply
from invoice_sandbox.project import Project
from invoice_sandbox.store import Store, Transaction, Workspace


class ContractViolationError(Exception):
    """The project answered something that its contract does not allow."""


@dataclass(frozen=True)
class Surroundings:
    """What answering needs besides the exchange itself."""

    store: Store
    wall: Wall
    agenda: Agenda
    project: Project
    first_workspace: str
    base_url: str
    local: bool


def answer(around: Surroundings) -> Layer:
    """Answer by the operation's handler, or from the contract when it has none.

    What is due is done first. What the handler changes is committed after its answer was found
    valid and before the first byte goes out.
    """

    async def layer(exchange: Exchange, _: Proceed) -> Reply:
        contract, operation = exchange.routed
        workspace = exchange.workspace or await _public_workspace(around, exchange)
        handler = around.project.handlers.get(operation.id)
        if handler is None:
            return _from_contract(contract, operation, workspace)
        await around.agenda.settle(workspace)
        async with around.store.transaction(workspace.id) as state:
            if exchange.credential is not None and exchange.credential.kind == "api_key":
                await note_use(state, exchange.credential, workspace.clock.now(around.wall))
            call = _call(around, exchange, workspace, state)
            outcome = await _by_handler(handler, call, operation)
        await around.agenda.watch(workspace)
        if isinstance(outcome, ApiError):
            raise outcome
        return outcome

    return layer


def note_refusals(around: Surroundings) -> Layer:
    """Tell the project of every known caller that is refused for lack of authorisation (403)."""

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        try:
            return await proceed(exchange)
        except ApiError as error:
            hook = around.project.hooks.note_refusal
            if hook is None or error.status != 403 or exchange.workspace is None:
                raise
            async with around.store.transaction(exchange.workspace.id) as state:
                await hook(_call(around, exchange, exchange.workspace, state), error)
            raise

    return layer


async def _public_workspace(around: Surroundings, exchange: Exchange) -> Workspace:
    """The workspace of a request without a credential: that of a capability in its address, such
    as a signature, else the first."""
    workspace_id = around.first_workspace
    for text in (*exchange.path.values(), *exchange.query.values()):
        found = await around.store.credential(key_digest(str(text)))
        if found is not None and found.kind == "capability":
            workspace_id = found.workspace_id
    workspace = await around.store.workspace(workspace_id)
    if workspace is None:
        raise RuntimeError(f"there is no workspace {workspace_id}")
    return workspace


def _call(
    around: Surroundings, exchange: Exchange, workspace: Workspace, state: Transaction
) -> Call:
    credential = exchange.credential
    client = exchange.scope.get("client")
    return Call(
        state=state,
        workspace=workspace,
        now=workspace.clock.now(around.wall),
        origin=Origin(
            actor_type=credential.kind if credential else "anonymous",
            actor_id=credential.subject if credential else None,
            request_id=exchange.request_id,
            ip=client[0] if client else None,
            user_agent=exchange.header("user-agent"),
        ),
        contract=around.project.contract,
        lifecycle=around.project.lifecycle,
        url=exchange.scope["path"],
        base_url=around.base_url,
        local=around.local,
        wall_now=around.wall.now(),
        path=exchange.path,
        query=exchange.query,
        body=exchange.body,
        media_type=exchange.media_type,
        caller=credential,
    )


async def _by_handler(handler: Handler, call: Call, operation: Operation) -> Reply | ApiError:
    try:
        result = await handler(call)
    except ApiError as refusal:
        _check_refusal(operation, refusal)
        raise
    if isinstance(result, ApiError):
        _check_refusal(operation, result)
        return result
    given = result if isinstance(result, Answer) else Answer(result)
    status = given.status or int(operation.success)
    body = {"data": given.data, "mode": MODE}
    _check(operation, status, body)
    return Reply(status, jsonio.dumps(body), headers=given.headers)


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


def _from_contract(contract: Contract, operation: Operation, workspace: Workspace) -> Reply:
    given = contract_answer(contract, operation, workspace.seed)
    if not given.media_type:
        return Reply(given.status)
    body = jsonio.dumps(given.body) if is_json(given.media_type) else given.body.encode()
    return Reply(given.status, body, given.media_type)
