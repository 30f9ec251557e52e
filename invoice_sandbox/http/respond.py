"""Stage 7, respond: a control function, a handler, or the contract itself, decided at start."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.http.handling import (
    HandlerResponse,
    JsonResponses,
    check_error,
    origin_of,
    public_workspace,
    report_forbidden,
    undeclared,
)
from invoice_sandbox.http.pipeline import (
    AdmittedRequest,
    ParsedRequest,
    Reply,
    Respond,
)
from invoice_sandbox.http.prefer import from_contract
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.responses import USUAL
from invoice_sandbox.runtime.control_call import (
    ControlCall,
    ControlFunction,
    PublicControlCall,
    Raw,
)
from invoice_sandbox.runtime.engine import Engine


class Responses:
    """Makes the last stage of each operation: a control function, a handler, or the contract.

    ``functions`` carry out the operations of the control API that every project has. They work on
    whole workspaces and not in one transaction.
    """

    def __init__(self, engine: Engine, functions: Mapping[str, ControlFunction]) -> None:
        self._engine = engine
        self._functions = functions

    def function_of(self, contract: Contract, operation_id: str) -> Callable[..., Any]:
        """Return what carries out an operation: a control function, a handler of the project, or
        the responder from the contract."""
        if contract is self._engine.project.control and operation_id in self._functions:
            return self._functions[operation_id]
        return self._engine.project.handlers.get(operation_id, self._from_contract)

    def compile(self, contract: Contract, operation: Operation, function: Any) -> Respond:
        """Return what responds to the requests of one operation with its function."""
        engine = self._engine
        if function == self._from_contract:
            return self._from_contract
        responses = JsonResponses(operation, engine.project.conventions_of(contract))
        if contract is engine.project.control and operation.id in self._functions:
            return _ControlResponse(engine, operation, function, responses).respond
        has_scenarios = contract is engine.project.contract
        return HandlerResponse(engine, operation, function, responses, has_scenarios).respond

    async def _from_contract(self, parsed: ParsedRequest) -> Reply:
        workspace = parsed.workspace or public_workspace(self._engine, parsed)
        return from_contract(parsed.request, parsed.endpoint, workspace, USUAL)

    def report_forbidden(self, admitted: AdmittedRequest, error: ApiError) -> None:
        """Call the project's hook for a known caller that may not do what it asks for (403)."""
        unread = ParsedRequest(
            request=admitted.request,
            endpoint=admitted.endpoint,
            path_texts=admitted.path_texts,
            credential=admitted.credential,
            workspace=admitted.workspace,
            scenario=None,
            path={},
            query={},
            body=None,
            media_type="",
            idempotency=None,
        )
        report_forbidden(self._engine, unread, error)


@dataclass(frozen=True)
class _ControlResponse:
    """Responds with what a control function returns."""

    engine: Engine
    operation: Operation
    function: ControlFunction
    responses: JsonResponses

    async def respond(self, parsed: ParsedRequest) -> Reply:
        """The result of the function, validated."""
        try:
            result = await self._result(parsed)
        except ApiError as error:
            check_error(self.operation, error)
            report_forbidden(self.engine, parsed, error)
            raise
        if isinstance(result, Raw):
            return _raw(self.operation, result)
        return self.responses.reply(result)

    async def _result(self, parsed: ParsedRequest) -> Any:
        headers, body = dict(parsed.request.head.headers), parsed.body or {}
        call = PublicControlCall(
            self.engine, parsed.path, parsed.query, headers, body, parsed.content
        )
        if self.operation.security.requirements:
            if parsed.credential is None or parsed.workspace is None:
                raise reject("no_credential")
            call = ControlCall(
                **vars(call),
                credential=parsed.credential,
                workspace=parsed.workspace,
                origin=origin_of(self.engine, parsed),
            )
        result = self.function(call)
        return await result if isawaitable(result) else result


def _raw(operation: Operation, given: Raw) -> Reply:
    """A response that is in no envelope. Raises ContractViolationError."""
    response = operation.response_for(given.status)
    if response is None or given.media_type not in response.content:
        raise undeclared(operation, given.status)
    body = b"" if given.status in {204, 304} else given.body
    return Reply(given.status, body, given.media_type, given.headers, given.stream)
