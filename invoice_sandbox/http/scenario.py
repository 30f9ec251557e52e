"""``X-Sandbox-Scenario``: a scenario for one request."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.http import Exchange, Layer, Proceed, Reply
from invoice_sandbox.runtime.engine import Engine

_HEADER: Final = "x-sandbox-scenario"


def choose_scenario(engine: Engine) -> Layer:
    """Find the scenario that the request names; the levers take none. Raises ApiError 400."""

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        name = exchange.header(_HEADER)
        if name is not None and exchange.contract is engine.project.contract:
            exchange.named = engine.project.scenario(name, "X-Sandbox-Scenario")
        return await proceed(exchange)

    return layer
