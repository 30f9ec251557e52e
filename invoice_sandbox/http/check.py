"""The result of the project as a response that its contract allows."""

from __future__ import annotations

from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.http.declared_errors import declared_status
from invoice_sandbox.http.endpoint import Endpoint
from invoice_sandbox.http.request import Reply
from invoice_sandbox.openapi.message.media_types import concrete, is_json
from invoice_sandbox.openapi.operation import DeclaredResponse, Operation
from invoice_sandbox.openapi.responses import WITHOUT_BODY
from invoice_sandbox.openapi.schema.compile import Checker
from invoice_sandbox.project.response import Response
from invoice_sandbox.runtime.control_call import Raw


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
