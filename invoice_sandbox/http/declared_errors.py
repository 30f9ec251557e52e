"""Errors as a document that is served without a project declares them.

A client that was generated from the document reads its errors, not ours. Where the operation
declares another body than our envelope for the status of an error, the response is the one that
the document shows for it, and the header ``X-Sandbox-Refusal`` says what is wrong.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.http.pipeline import JSON, Reply, Request, printable
from invoice_sandbox.http.prefer import from_contract
from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.openapi.responses import Choice
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Record

ERROR: Final = "X-Sandbox-Refusal"
_LONGEST: Final = 1024
_INSTEAD: Final = {400: 422}
"""What documents declare for an invalid request, besides 400."""


class DeclaredErrors:
    """Finds the declared response for an error of one of the project's operations."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, request: Request, error: ApiError) -> Reply | None:
        """The response that the document shows for the error; None: our envelope will do."""
        trace = request.trace
        endpoint = trace.endpoint
        if endpoint is None or endpoint.is_control:
            return None
        status = _status(endpoint.operation, error.status)
        envelope = error.envelope(trace.request_id)
        if status is None or _is_declared(endpoint.operation, status, envelope):
            return None
        workspace = trace.workspace or await self._engine.default_workspace()
        try:
            reply = from_contract(request, endpoint, workspace, Choice(status))
        except ApiError:  # the document declares the status, and shows no response
            return None
        message = printable(error.message(self._engine.url))[:_LONGEST]
        return replace(reply, headers=(*reply.headers, *error.headers, (ERROR, message)))


def _status(operation: Operation, status: int) -> int | None:
    """The status to respond with, if it is declared, maybe by a range or ``default``."""
    instead = _INSTEAD.get(status)
    exact = (str(status), f"{status // 100}XX")
    if instead is not None and str(instead) in operation.responses:
        return status if any(key in operation.responses for key in exact) else instead
    return status if operation.response_for(status) is not None else None


def _is_declared(operation: Operation, status: int, envelope: Record) -> bool:
    """Whether our own envelope is what the operation declares."""
    response = operation.response_for(status)
    if response is None or JSON not in response.content:
        return False
    checker = response.content[JSON]
    return checker is None or checker.is_valid(envelope)
