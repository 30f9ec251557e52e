"""Notes which operations were asked for, and which of their declared answers were given."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from invoice_sandbox.http import Exchange, Layer, Proceed, Reply
from invoice_sandbox.http.access import owner
from invoice_sandbox.http.connexion_31 import Router
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.scenarios.faults import REPLACE_RESPONSE
from invoice_sandbox.state import Workspace, hits
from invoice_sandbox.state.hits import API, SANDBOX, Hit

_UNCOUNTED: Final = "x-sandbox-coverage"
"""``off`` in this header: the request does not count, as it is none of who tests."""


_PREFERRED: Final = "Preference-Applied"
"""The header of an answer that the client chose with ``Prefer``."""


def cover(engine: Engine, router: Router) -> Layer:
    """Note what the request touches, in its workspace; without one, in the first."""

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        reply = await proceed(exchange)
        touched: list[Hit] = []
        if exchange.header(_UNCOUNTED) != "off":
            touched += _by_operation(engine, exchange, reply)
            touched += await _by_method(engine, router, exchange, reply)
        if touched or exchange.workspace is not None:
            engine.coverage.note(await _workspace(engine, exchange), touched)
        if engine.coverage.is_full:
            living = await engine.store.workspaces()
            engine.coverage.keep(workspace.id for workspace, _ in living)
        return reply

    return layer


def _by_operation(engine: Engine, exchange: Exchange, reply: Reply) -> Iterator[Hit]:
    contract, operation = exchange.contract, exchange.operation
    if contract is None or operation is None:
        return
    part = _part(engine, contract)
    yield hits.operation(part, operation.id)
    key = _declared(operation, reply.status)
    if key is not None and not _is_lost(exchange):
        yield hits.status(part, operation.id, key, injected=_is_injected(exchange, reply))


async def _by_method(engine: Engine, router: Router, exchange: Exchange, reply: Reply) -> list[Hit]:
    """A method that a path does not have touches the 405 of every operation that it has."""
    if exchange.operation is not None or reply.status != HTTPStatus.METHOD_NOT_ALLOWED:
        return []
    methods = await router.allowed(exchange.scope)
    found = [await router.match({**exchange.scope, "method": method}) for method in methods]
    return [
        hits.status(_part(engine, match.contract), match.operation.id, str(reply.status))
        for match in found
        if match is not None
    ]


def _part(engine: Engine, contract: Contract) -> str:
    return SANDBOX if contract is engine.project.control else API


def _declared(operation: Operation, status: int) -> str | None:
    """The key under which the operation declares an answer of that status."""
    keys = (str(status), f"{status // 100}XX", "default")
    return next((key for key in keys if key in operation.responses), None)


def _is_injected(exchange: Exchange, reply: Reply) -> bool:
    """Whether the answer was ordered: by a fault, or by what the client prefers."""
    fault = str(exchange.why.get("fault", "")).rpartition(" ")[2]
    return fault in REPLACE_RESPONSE or _PREFERRED in dict(reply.headers)


def _is_lost(exchange: Exchange) -> bool:
    """Whether nothing of the answer goes out."""
    return exchange.spoilt_by is not None and exchange.spoilt_by.kind == "reset"


async def _workspace(engine: Engine, exchange: Exchange) -> Workspace:
    found = exchange.workspace or await owner(engine, exchange)
    return found or await engine.default_workspace()
