"""From a path and a method to an operation of the contract, or to 404 and 405."""

from __future__ import annotations

from invoice_sandbox.base.errors import reject
from invoice_sandbox.http import Exchange, Layer, Proceed, Reply
from invoice_sandbox.http.connexion_31 import Router


def route(router: Router) -> Layer:
    """Find the operation; answer OPTIONS with the methods that the contract declares."""

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        match = await router.match(exchange.scope)
        if match is None:
            return await _without_operation(router, exchange)
        exchange.contract = match.contract
        exchange.operation = match.operation
        exchange.path_texts = match.path_texts
        return await proceed(exchange)

    return layer


async def _without_operation(router: Router, exchange: Exchange) -> Reply:
    allowed = ", ".join(await router.allowed(exchange.scope))
    if not allowed:
        raise reject("unknown_path")
    if exchange.method == "OPTIONS":
        return Reply(204, headers=(("Allow", allowed),))
    raise reject("method_not_allowed", ("Allow", allowed), method=exchange.method, allowed=allowed)
