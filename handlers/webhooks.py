"""Webhook endpoints, their deliveries, and test deliveries."""

from __future__ import annotations

from invoice_sandbox.project.api import (
    DELIVERIES,
    ENDPOINTS,
    Call,
    DeliverThenRespond,
    Record,
    published_delivery,
    published_endpoint,
)

from ..domain.webhooks import endpoint_warnings, register_endpoint, send_test_event


def list_webhooks(call: Call) -> Record:
    """Return the endpoints, without their secrets, and their deliveries; both newest first."""
    endpoints = call.state.page(ENDPOINTS, limit=1000)
    deliveries = call.state.page(DELIVERIES, limit=1000)
    return {
        "endpoints": [published_endpoint(record) for record in endpoints.records],
        "deliveries": [published_delivery(record) for record in deliveries.records],
    }


def create_webhook(call: Call) -> Record:
    """Register an endpoint. Its secret is a placeholder and is shown only here."""
    endpoint = register_endpoint(call)
    warnings = [*endpoint_warnings(call, endpoint)]
    call.hints += [text for text in warnings if "deniedEvents" in text]
    shown = {"warnings": warnings} if warnings else {}
    return {**endpoint, "secretIsPlaceholder": True, **shown}


def test_webhook(call: Call) -> Record | DeliverThenRespond:
    """Send a signed sample to the named endpoint, else the newest, and return its delivery."""
    return send_test_event(call)
