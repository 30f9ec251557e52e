"""Levers on webhooks: record an event, switch an endpoint on or off, give it another secret."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record, reject
from invoice_sandbox.webhooks.endpoints import DISABLED, ENABLED, published_endpoint
from invoice_sandbox.webhooks.network import is_own_address, url_problem
from invoice_sandbox.webhooks.outbox import disable, enable

from ..domain.webhooks import audit_endpoint, named_endpoint, rotate, subject_data


async def trigger_event(call: Call) -> Record:
    """Record an event as if it had happened, and have it delivered; nothing moves. 404."""
    data = await subject_data(call, call.body["type"], call.body.get("invoiceId"))
    return await call.announce(call.body["type"], data)


async def enable_endpoint(call: Call) -> Record:
    """The endpoint, which gets what happens from now on. 404; 409 if its URL is not allowed."""
    endpoint = await named_endpoint(call.state, call.path["id"])
    is_own = is_own_address(endpoint["url"], call.base_url)
    problem = None if is_own else url_problem(endpoint["url"], local=call.local)
    if problem is not None:
        raise reject(
            "conflict",
            problem=f"The endpoint cannot be called: {problem}",
            advice="Register another one.",
        )
    if endpoint["status"] != ENABLED:
        endpoint = await enable(call.state, endpoint)
        await audit_endpoint(call, "enabled", endpoint)
    return published_endpoint(endpoint)


async def disable_endpoint(call: Call) -> Record:
    """The endpoint, which gets nothing more; what was still to be sent is cancelled. 404."""
    endpoint = await named_endpoint(call.state, call.path["id"])
    if endpoint["status"] != DISABLED:
        endpoint = await disable(call.state, endpoint, "switched_off", call.now)
        await audit_endpoint(call, "disabled", endpoint, reason="switched_off")
    return published_endpoint(endpoint)


async def rotate_endpoint_secret(call: Call) -> Record:
    """The endpoint with its new secret, which is shown only here. 404; 409 within a day."""
    endpoint = await rotate(call, await named_endpoint(call.state, call.path["id"]))
    shown = {**published_endpoint(endpoint), "secret": endpoint["secret"]}
    return {**shown, "previousSecretUntil": endpoint["previousSecretUntil"]}
