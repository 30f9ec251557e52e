"""The pages of webhooks: endpoints, deliveries and the inbox; one delivery, byte for byte."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from flask import render_template, request

from invoice_sandbox.console.common import client, contents, pages, webhooks
from invoice_sandbox.console.topics import CHANGES, WEBHOOKS

_SHOWN: Final = 100
_ACTIONS: Final = ("enableEndpoint", "disableEndpoint", "rotateEndpointSecret", "removeEndpoint")


@pages.get("/webhooks")
def all_webhooks() -> str:
    """Endpoints, deliveries of any or of one ``status``, and the inbox."""
    found, addresses = webhooks(), contents().addresses
    deliveries, wanted = found.get("deliveries", []), request.args.get("status", "")
    chosen = [delivery for delivery in deliveries if wanted in {"", delivery["status"]}]
    return render_template(
        "webhooks.html",
        page="webhooks",
        topics=(WEBHOOKS, CHANGES),
        endpoints=found.get("endpoints", []),
        deliveries=chosen[:_SHOWN],
        count=len(chosen),
        statuses=Counter(delivery["status"] for delivery in deliveries),
        wanted=wanted,
        inbox=client().get("/sandbox/inbox"),
        trigger=addresses.get("triggerEvent"),
        test=addresses.get("testWebhook"),
        actions=[addresses[name] for name in _ACTIONS if name in addresses],
        register=addresses.get(contents().engine.project.conventions.register_operation or ""),
    )


@pages.get("/webhooks/<delivery_id>")
def one_delivery(delivery_id: str) -> str:
    """Show a delivery: its attempts, and what each of them signed."""
    received = client().get(f"/sandbox/deliveries/{quote(delivery_id, safe='')}")
    if not received.is_success:
        return render_template("problem.html", page="webhooks", received=received)
    endpoints = webhooks().get("endpoints", [])
    delivery = received.data
    return render_template(
        "delivery.html",
        page="webhooks",
        topics=(delivery_id,),
        delivery=delivery,
        endpoint=next(
            (endpoint for endpoint in endpoints if endpoint["id"] == delivery["endpointId"]), None
        ),
        faults=_faults(),
        diagnosis=diagnosis(delivery),
        is_altered={
            attempt["attempt"]: _is_altered(attempt, delivery["body"])
            for attempt in delivery["attempts"]
        },
    )


def _faults() -> list[str]:
    schemas = contents().engine.project.control.document["components"]["schemas"]
    faults: list[str] = schemas["Replay"]["properties"]["fault"]["enum"]
    return faults


def _is_altered(attempt: Mapping[str, Any], body: str | None) -> bool:
    """True if other bytes were sent than those of the event."""
    if body is None or not attempt["request"]:
        return False
    digest = hashlib.sha256(body.encode()).hexdigest()
    return bool(attempt["request"]["bodyDigest"] != f"sha256:{digest}")


def diagnosis(delivery: Mapping[str, Any]) -> str:
    """In a sentence, what became of a delivery and what to do."""
    if not delivery["attempts"]:
        return "Nothing was sent yet."
    last = delivery["attempts"][-1]
    if delivery["status"] == "Delivered":
        return "Your receiver accepted it."
    if delivery["status"] == "Pending":
        return "It waits until it is sent again."
    status = last["responseStatus"]
    if last["variation"] is not None:
        return f"Modified by you: {last['variation']}. {_result(status, last)}"
    return _result(status, last)


def _result(status: int | None, last: Mapping[str, Any]) -> str:
    if status is None:
        url = (last.get("request") or {}).get("url", "its URL")
        return f"No response: {last['error']}. Is your receiver running at {url}?"
    if status in {401, 403}:
        return f"Your receiver returned {status}. Compare its signature check with the bytes below."
    if status >= 500:
        return f"Your receiver failed with {status}. See its own log for the reason."
    if status >= 300:
        return f"Your receiver returned {status}. Only 2xx counts as delivered."
    return f"Your receiver returned {status}."
