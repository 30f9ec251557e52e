"""Call the handler inside a transaction, hold its answer against the contract, then commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from invoice_sandbox import jsonio
from invoice_sandbox.clock import Wall
from invoice_sandbox.contract.answers import contract_answer, is_json
from invoice_sandbox.contract.operations import Contract, Operation
from invoice_sandbox.errors import MODE, ApiError
from invoice_sandbox.handling import Answer, Call, Handler
from invoice_sandbox.pipeline import JSON, Exchange, Layer, Proceed, Reply
from invoice_sandbox.store import Store, Workspace


class ContractViolationError(Exception):
    """The project answered something that its contract does not allow."""


def answer(
    store: Store, wall: Wall, handlers: Mapping[str, Handler], default_workspace: str
) -> Layer:
    """Answer by the operation's handler, or from the contract when it has none.

    What changed is committed after the answer was found valid and before its first byte goes out.
    """

    async def layer(exchange: Exchange, _: Proceed) -> Reply:
        contract, operation = exchange.routed
        workspace = exchange.workspace or await store.workspace(default_workspace)
        if workspace is None:
            raise RuntimeError(f"there is no workspace {default_workspace}")
        handler = handlers.get(operation.id)
        if handler is None:
            return _from_contract(contract, operation, workspace)
        async with store.transaction(workspace.id) as state:
            call = Call(
                state=state,
                workspace=workspace,
                now=workspace.clock.now(wall),
                url=exchange.scope["path"],
                path=exchange.path,
                query=exchange.query,
                body=exchange.body,
                caller=exchange.credential,
                contract_version=contract.version,
            )
            return await _by_handler(handler, call, operation)

    return layer


async def _by_handler(handler: Handler, call: Call, operation: Operation) -> Reply:
    try:
        result = await handler(call)
    except ApiError as refusal:
        if operation.response_for(refusal.status) is None:
            raise _undeclared(operation, refusal.status) from refusal
        raise
    given = result if isinstance(result, Answer) else Answer(result)
    status = given.status or int(operation.success)
    body = {"data": given.data, "mode": MODE}
    _check(operation, status, body)
    return Reply(status, jsonio.dumps(body), headers=given.headers)


def _check(operation: Operation, status: int, body: Any) -> None:
    """Raises ContractViolationError unless the contract allows this answer."""
    response = operation.response_for(status)
    if response is None:
        raise _undeclared(operation, status)
    if JSON not in response.content:
        raise ContractViolationError(f"{operation.id} {status}: JSON is not declared for it")
    checker = response.content[JSON]
    if checker is not None and not checker.is_valid(body):
        problem = checker.problems(body)[0]
        raise ContractViolationError(
            f"{operation.id} {status}: {problem.sentence('the body')} ({problem.schema_path})"
        )


def _undeclared(operation: Operation, status: int) -> ContractViolationError:
    return ContractViolationError(f"{operation.id}: status {status} is not declared")


def _from_contract(contract: Contract, operation: Operation, workspace: Workspace) -> Reply:
    given = contract_answer(contract, operation, workspace.seed)
    if given.body is None:
        return Reply(given.status)
    body = jsonio.dumps(given.body) if is_json(given.media_type) else given.body.encode()
    return Reply(given.status, body, given.media_type)
