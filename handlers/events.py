"""Events on request, and the state and secrets of webhook endpoints."""

from __future__ import annotations

from invoice_sandbox.project.api import (
    DISABLED,
    ENABLED,
    Call,
    Record,
    conflict,
    disable,
    enable,
    published_endpoint,
    remove,
)

from ..domain.webhooks import (
    address_problem,
    audit_endpoint,
    event_data,
    load_endpoint,
    rotate_secret,
)


def trigger_event(call: Call) -> Record:
    """Record an event and deliver it, as if it had happened; no status changes. 404."""
    data = event_data(call, call.body["type"], call.body.get("invoiceId"))
    event = call.announce(call.body["type"], data)
    return dict(event["payload"])


def enable_endpoint(call: Call) -> Record:
    """Enable the endpoint for all later events. 404; 409 if its URL is not allowed."""
    endpoint = load_endpoint(call.state, call.path["id"])
    problem = address_problem(call, endpoint["url"])
    if problem is not None:
        raise conflict(
            f"The endpoint cannot be called: {problem}", "Register an endpoint with another URL."
        )
    if endpoint["status"] != ENABLED:
        endpoint = enable(call.state, endpoint)
        audit_endpoint(call, "enabled", endpoint)
    return published_endpoint(endpoint)


def disable_endpoint(call: Call) -> Record:
    """Disable the endpoint and cancel its pending deliveries. 404."""
    endpoint = load_endpoint(call.state, call.path["id"])
    if endpoint["status"] != DISABLED:
        endpoint = disable(call.state, endpoint, "switched_off", call.now)
        audit_endpoint(call, "disabled", endpoint, reason="switched_off")
    return published_endpoint(endpoint)


def remove_endpoint(call: Call) -> Record:
    """Delete the endpoint and cancel its pending deliveries. 404."""
    endpoint = load_endpoint(call.state, call.path["id"])
    remove(call.state, endpoint, call.now)
    audit_endpoint(call, "removed", endpoint)
    return {"id": endpoint["id"], "deleted": True}


def rotate_endpoint_secret(call: Call) -> Record:
    """Give the endpoint a new secret, which is shown only here. 404; 409 within a day."""
    endpoint = rotate_secret(call, load_endpoint(call.state, call.path["id"]))
    shown = {**published_endpoint(endpoint), "secret": endpoint["secret"]}
    return {**shown, "previousSecretUntil": endpoint["previousSecretUntil"]}
