"""The pages of webhooks: endpoints, deliveries and the inbox; one delivery, byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit

from flask import render_template, request

from invoice_sandbox.console.common import client, contents, next_cursor, pages, request_page
from invoice_sandbox.console.timeline import step_page
from invoice_sandbox.console.topics import CHANGES, WEBHOOKS

_PAGE: Final = 50
_STATUSES: Final = ("Failed", "Exhausted", "Pending", "Delivered", "Cancelled")
"""The statuses of deliveries, failures first."""

_FILTERS: Final = ("status", "endpointId", "eventType", "eventId", "subject")
_ACTIONS: Final = ("enableEndpoint", "disableEndpoint", "rotateEndpointSecret", "removeEndpoint")
DELIVERIES: Final = "/sandbox/deliveries"


@pages.get("/webhooks")
def all_webhooks() -> str:
    """Endpoints, the deliveries that the address filters, in pages, and the inbox."""
    addresses = contents().addresses
    filters = {name: request.args[name] for name in _FILTERS if request.args.get(name)}
    place = {"cursor": request.args["cursor"]} if request.args.get("cursor") else {}
    received = client().get(DELIVERIES, {**filters, **place, "limit": _PAGE})
    inbox = client().get("/sandbox/inbox", {"limit": _PAGE})
    endpoints = client().get("/sandbox/webhooks").rows
    return render_template(
        "webhooks.html",
        page="webhooks",
        topics=(WEBHOOKS, CHANGES),
        endpoints=sorted(endpoints, key=lambda endpoint: endpoint["status"] != "Disabled"),
        receivers=receivers(endpoints, inbox.data if inbox.is_success else {}),
        received=received,
        older=next_cursor(received),
        filters=filters,
        statuses=counted({**filters, "status": None}),
        events=sorted(contents().engine.project.lifecycle.events),
        inbox=inbox,
        trigger=addresses.get("triggerEvent"),
        test=addresses.get("testWebhook"),
        actions=[addresses[name] for name in _ACTIONS if name in addresses],
        register=addresses.get(contents().engine.project.conventions.register_operation or ""),
    )


def counted(filters: Mapping[str, Any]) -> dict[str, int]:
    """The number of deliveries by status, failures first, without those that are 0."""
    known = {name: value for name, value in filters.items() if value is not None}
    counts = {
        status: client().get(DELIVERIES, {**known, "status": status, "limit": 1}).total
        for status in _STATUSES
    }
    return {status: count for status, count in counts.items() if count}


def all_receivers() -> dict[str, str]:
    """The names of all receivers, by the id of their endpoint."""
    inbox = client().get("/sandbox/inbox", {"limit": 1})
    return receivers(client().get("/sandbox/webhooks").rows, inbox.data if inbox.is_success else {})


def receivers(endpoints: Sequence[Mapping[str, Any]], inbox: Mapping[str, Any]) -> dict[str, str]:
    """The name of the receiver of each endpoint, by id: its host, or that it is the inbox."""
    return {
        endpoint["id"]: "Inbox"
        if endpoint["url"] == inbox.get("url")
        else urlsplit(endpoint["url"]).netloc
        for endpoint in endpoints
    }


@pages.get("/webhooks/<delivery_id>")
def one_delivery(delivery_id: str) -> str:
    """Show a delivery: its event, endpoint and cause, its attempts, and what each signed."""
    received = client().get(f"{DELIVERIES}/{quote(delivery_id, safe='')}")
    if not received.is_success:
        return render_template("problem.html", page="webhooks", received=received)
    delivery = received.data
    return render_template(
        "delivery.html",
        page="webhooks",
        topics=(delivery_id,),
        delivery=delivery,
        cause=_cause(delivery["event"]),
        faults=_faults(),
        diagnosis=diagnosis(delivery),
        is_altered={
            attempt["attempt"]: _is_altered(attempt, delivery["body"])
            for attempt in delivery["attempts"]
        },
    )


def _cause(event: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """The page of the request or step that recorded an event, and its name; None: not known."""
    if event is None:
        return None
    if event.get("requestId"):
        return request_page(event["requestId"]), f"request {event['requestId']}"
    steps = client().get("/sandbox/agenda", {"subject": event["subjects"], "deliveries": "false"})
    done = steps.data["done"] if steps.is_success else []
    step = next((step for step in done if step["number"] == event.get("stepNumber")), None)
    return None if step is None else (step_page(step), f"step {step['do']}")


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
