"""Refusals in the words of a document that is served alone, where it declares any.

A client that was generated from the document reads its errors, not ours. So where the operation
declares the status of a refusal as something that our envelope is not, the answer is the one that
the document shows for it, and what is wrong stands in the header ``X-Sandbox-Refusal``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.http import JSON, Exchange, Layer, Proceed, Reply, printable
from invoice_sandbox.http.preferring import from_contract
from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.openapi.responses import Choice
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Record

REFUSAL: Final = "X-Sandbox-Refusal"
_LONGEST: Final = 1024
_INSTEAD: Final = {400: 422}
"""What documents declare for a request that does not fit, besides 400."""


def refuse_in_own_words(engine: Engine, *, alone: bool) -> Layer:
    """Answer refusals as the document declares them, if it is served ``alone``."""

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        try:
            return await proceed(exchange)
        except ApiError as error:
            if not alone or exchange.contract is not engine.project.contract:
                raise
            reply = await _declared(engine, exchange, error)
            if reply is None:
                raise
            return reply

    return layer


async def _declared(engine: Engine, exchange: Exchange, error: ApiError) -> Reply | None:
    _, operation = exchange.routed
    status = _status(operation, error.status)
    if status is None or _is_fine(operation, status, error.envelope(exchange.request_id)):
        return None
    workspace = exchange.workspace or await engine.default_workspace()
    try:
        reply = from_contract(exchange, workspace, Choice(status))
    except ApiError:  # the document declares the status, and shows no answer
        return None
    told = printable(error.message(engine.url))[:_LONGEST]
    return replace(reply, headers=(*reply.headers, *error.headers, (REFUSAL, told)))


def _status(operation: Operation, status: int) -> int | None:
    """The status to reject with, if it is declared, be it by a range or by ``default``."""
    instead = _INSTEAD.get(status)
    exact = (str(status), f"{status // 100}XX")
    if instead is not None and str(instead) in operation.responses:
        return status if any(key in operation.responses for key in exact) else instead
    return status if operation.response_for(status) is not None else None


def _is_fine(operation: Operation, status: int, envelope: Record) -> bool:
    """Whether our own envelope is what the operation declares."""
    response = operation.response_for(status)
    if response is None or JSON not in response.content:
        return False
    checker = response.content[JSON]
    return checker is None or checker.is_valid(envelope)
