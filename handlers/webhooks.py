"""Webhook endpoints, their deliveries, and signed samples."""

from __future__ import annotations

from typing import Any

from invoice_sandbox.handling import Call, Record
from invoice_sandbox.webhooks.guard import url_problem
from invoice_sandbox.webhooks.signing import placeholder_secret

from ._audit import audit
from ._deliveries import DELIVERIES
from ._webhooks import (
    DEFAULT_KINDS,
    ENABLED,
    ENDPOINTS,
    SAMPLE_SECRET,
    denied_kinds,
    published_endpoint,
    sample_event,
    signed_request,
    signing_secrets,
    unknown_kinds,
)


async def list_webhooks(call: Call) -> Record:
    """The endpoints, without their secrets, and their deliveries; both newest first."""
    endpoints = await call.state.page(ENDPOINTS, limit=1000)
    deliveries = await call.state.page(DELIVERIES, limit=1000)
    return {
        "endpoints": [published_endpoint(record) for record in endpoints.records],
        "deliveries": list(deliveries.records),
    }


async def create_webhook(call: Call) -> Record:
    """Register an endpoint. One that cannot be called is Disabled and says why.

    The secret is a placeholder and shown only here.
    """
    endpoint_id = await call.new_id("whe_sandbox")
    kinds = _texts(call.body.get("events")) or list(DEFAULT_KINDS)
    reason = _disabled_reason(call)
    endpoint: Record = {
        "id": endpoint_id,
        "url": _text(call.body.get("url")),
        "description": _text(call.body.get("description")),
        "events": kinds,
        "unknownEvents": unknown_kinds(call, kinds),
        "deniedEvents": denied_kinds(kinds, call.caller.scopes if call.caller else ()),
        "retryProfile": "fast" if call.body.get("retryProfile") == "fast" else "standard",
        "status": ENABLED if reason is None else "Disabled",
        **({} if reason is None else {"disabledReason": reason}),
        "secret": placeholder_secret(call.workspace.seed, endpoint_id),
        "createdAt": call.timestamp,
    }
    await call.state.put(ENDPOINTS, endpoint_id, endpoint)
    await audit(call, "webhook_endpoint.created", ("webhook_endpoint", endpoint_id))
    return {**endpoint, "secretIsPlaceholder": True}


async def test_webhook(call: Call) -> Record:
    """A delivery-shaped payload with a real signature, for the endpoint named or the newest.

    The answer repeats what is sent, so that a receiver can be tested without being reachable.
    """
    endpoint = await _endpoint(call)
    kind = _text(call.body.get("eventType")) or DEFAULT_KINDS[0]
    event = await sample_event(call, kind, _text(call.body.get("invoiceId")))
    secrets = signing_secrets(call, endpoint) if endpoint else (SAMPLE_SECRET,)
    timestamp = int(call.wall_now.timestamp())
    return {
        "webhookFired": False,
        "simulated": True,
        "endpointId": endpoint["id"] if endpoint else None,
        "delivery": None,
        "request": signed_request(event, secrets, timestamp),
    }


async def _endpoint(call: Call) -> Record | None:
    named = call.body.get("endpointId")
    found = await call.state.get(ENDPOINTS, named) if isinstance(named, str) else None
    if found is not None:
        return found
    page = await call.state.page(ENDPOINTS, limit=1)
    return page.records[0] if page.records else None


def _disabled_reason(call: Call) -> str | None:
    problem = url_problem(call.body.get("url"), local=call.local)
    if problem is None and call.body.get("enabled") is False:
        return "not_enabled"
    return problem


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
