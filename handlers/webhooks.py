"""Webhook endpoints, their deliveries, and test deliveries."""

from __future__ import annotations

from functools import partial
from typing import Any

from invoice_sandbox.project.api import Call, DeliverThenRespond, Record
from invoice_sandbox.webhooks.attempts import signed_request
from invoice_sandbox.webhooks.endpoints import (
    DISABLED,
    ENABLED,
    ENDPOINTS,
    published_endpoint,
    signing_secrets,
)
from invoice_sandbox.webhooks.network import is_own_address, url_problem
from invoice_sandbox.webhooks.outbox import DELIVERIES, EVENTS, plan, published_delivery
from invoice_sandbox.webhooks.signing import placeholder_secret

from ..domain.webhooks import (
    DEFAULT_KINDS,
    SAMPLE_SECRET,
    audit_endpoint,
    denied_kinds,
    sample_event,
    unknown_kinds,
)


async def list_webhooks(call: Call) -> Record:
    """The endpoints, without their secrets, and their deliveries; both newest first."""
    endpoints = await call.state.page(ENDPOINTS, limit=1000)
    deliveries = await call.state.page(DELIVERIES, limit=1000)
    return {
        "endpoints": [published_endpoint(record) for record in endpoints.records],
        "deliveries": [published_delivery(record) for record in deliveries.records],
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
        "status": ENABLED if reason is None else DISABLED,
        **({} if reason is None else {"disabledReason": reason}),
        "secret": placeholder_secret(call.workspace.seed, endpoint_id),
        "createdAt": call.timestamp,
    }
    await call.state.put(ENDPOINTS, endpoint_id, endpoint)
    await audit_endpoint(call, "created", endpoint)
    return {**endpoint, "secretIsPlaceholder": True}


async def test_webhook(call: Call) -> Record | DeliverThenRespond:
    """Send a signed sample to the endpoint named, or to the newest, and tell what came back.

    Without an endpoint that can be called nothing is sent, but what would be sent is shown.
    """
    endpoint = await _endpoint(call)
    kind = _text(call.body.get("eventType")) or DEFAULT_KINDS[0]
    event = await sample_event(call, kind, _text(call.body.get("invoiceId")))
    if endpoint is None or endpoint["status"] != ENABLED or call.body.get("deliver") is False:
        return _sample(call, event, endpoint)
    await call.state.put(EVENTS, event["id"], event)
    delivery = await plan(call.state, endpoint, event, call.now, alone=True)
    return DeliverThenRespond(
        delivery["lane"], partial(_sent, event=event, delivery_id=delivery["id"])
    )


async def _sent(call: Call, event: Record, delivery_id: str) -> Record:
    delivery = await call.state.get(DELIVERIES, delivery_id) or {}
    attempts = delivery.get("attempts")
    if not attempts:  # the workspace was restored meanwhile, or the endpoint disabled
        return _sample(call, event, await _endpoint(call))
    headers = attempts[-1]["request"]["headers"]
    endpoint = await call.state.get(ENDPOINTS, delivery["endpointId"]) or {"secret": SAMPLE_SECRET}
    second = int(headers["webhook-timestamp"])
    request = signed_request(event, signing_secrets(endpoint, call.now), second)
    return {
        "webhookFired": True,
        "simulated": True,
        "endpointId": delivery["endpointId"],
        "delivery": published_delivery(delivery),
        "request": {**request, "headers": headers},
    }


def _sample(call: Call, event: Record, endpoint: Record | None) -> Record:
    secrets = signing_secrets(endpoint, call.now) if endpoint else (SAMPLE_SECRET,)
    return {
        "webhookFired": False,
        "simulated": True,
        "endpointId": endpoint["id"] if endpoint else None,
        "delivery": None,
        "request": signed_request(event, secrets, int(call.system_now.timestamp())),
    }


async def _endpoint(call: Call) -> Record | None:
    named = call.body.get("endpointId")
    found = await call.state.get(ENDPOINTS, named) if isinstance(named, str) else None
    if found is not None:
        return found
    page = await call.state.page(ENDPOINTS, limit=1)
    return page.records[0] if page.records else None


def _disabled_reason(call: Call) -> str | None:
    url = call.body.get("url")
    is_own = is_own_address(url, call.base_url)
    problem = None if is_own else url_problem(url, local=call.local)
    if problem is None and call.body.get("enabled") is False:
        return "not_enabled"
    return problem


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> list[str]:
    texts = [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
    return list(dict.fromkeys(texts))
