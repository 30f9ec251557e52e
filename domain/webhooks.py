"""Webhook endpoints: the events they may receive, their secrets, and the data of an event."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final

from invoice_sandbox.project.api import (
    DELIVERIES,
    DISABLED,
    ENABLED,
    ENDPOINTS,
    EVENTS,
    Call,
    Condition,
    Context,
    DeliverThenRespond,
    Record,
    Transaction,
    check_endpoints,
    conflict,
    existing,
    is_own_address,
    is_rotating,
    is_signing_secret,
    missing_scope,
    placeholder_secret,
    plan,
    published_delivery,
    published_endpoint,
    reject,
    retry_profile,
    rotated,
    signed_request,
    signing_secrets,
    suggestion,
    url_problem,
)

from .audit import audit
from .errors import NO_SUBJECT
from .financing import REQUESTS, public_request
from .invoices import INVOICES, load_invoice, newest_invoice, public_invoice
from .offers import OFFERS, public_offer

DEFAULT_EVENTS: Final = ("invoice.verified", "offer.received")
"""The event types that the specification publishes: the default of an endpoint."""

_SCOPE_OF: Final = {
    "invoice": "invoices:read",
    "offer": "offers:read",
    "financing_request": "financing:read",
    "webhook_endpoint": "webhooks:read",
}
"""An event has the data of a read, so its endpoint needs a creator who may read it."""

_SOURCES: Final[Mapping[str, tuple[str, Callable[[Record], Record]]]] = {
    "offer": (OFFERS, public_offer),
    "financing_request": (REQUESTS, public_request),
    "webhook_endpoint": (ENDPOINTS, published_endpoint),
}
"""Collection and public view of every resource but the invoice, which has synthetic ones too."""

OPTIONAL: Final = ("money", "reason")
"""The optional members of events, which an endpoint names in its ``include``."""

_SAMPLE_SECRET: Final = "whsec_c2FuZGJveC1wbGFjZWhvbGRlci1zZWNyZXQtMDAwMSE="  # noqa: S105
"""Signs the sample of a workspace without an endpoint; a documented placeholder."""

_SAMPLE_INVOICE: Final[Record] = {
    "id": "inv_sandbox_0001",
    "registryId": "reg_sandbox_0001",
    "status": "Verified",
    "sellerId": "org_seller_acme",
    "debtorId": "org_debtor_globex",
    "invoiceNumber": "INV-2026-0042",
    "amount": 12500.5,
    "currency": "EUR",
    "issueDate": "2026-10-01",
    "dueDate": "2026-12-30",
}


# Endpoints


def load_endpoint(state: Transaction, endpoint_id: str) -> Record:
    """Return the endpoint of that id. Raises ApiError 404."""
    return existing(state.get(ENDPOINTS, endpoint_id), "webhook endpoint", endpoint_id)


def register_endpoint(call: Call) -> Record:
    """Store a new endpoint, with its secret. Members of the body that are invalid are ignored.

    An endpoint whose URL cannot be called is Disabled and has a ``disabledReason``. Raises ApiError
    429 if there are too many.
    """
    check_endpoints(call.state)
    endpoint_id = call.new_id("whe_sandbox")
    events = _texts(call.body.get("events")) or list(DEFAULT_EVENTS)
    reason = address_problem(call, call.body.get("url"))
    if reason is None and call.body.get("enabled") is False:
        reason = "not_enabled"
    include = [name for name in _texts(call.body.get("include")) if name in OPTIONAL]
    secret = call.body.get("secret")
    if not is_signing_secret(secret):
        secret = placeholder_secret(call.workspace.secret_seed, endpoint_id)
    endpoint: Record = {
        "id": endpoint_id,
        "url": _text(call.body.get("url")),
        "description": _text(call.body.get("description")),
        "events": events,
        "unknownEvents": _unknown_events(call, events),
        "deniedEvents": _denied_events(events, call.caller.scopes if call.caller else ()),
        "retryProfile": retry_profile(call.body.get("retryProfile")),
        **({"include": include} if include else {}),
        "status": ENABLED if reason is None else DISABLED,
        **({} if reason is None else {"disabledReason": reason}),
        "secret": secret,
        "createdAt": call.timestamp,
    }
    call.state.put(ENDPOINTS, endpoint_id, endpoint)
    audit_endpoint(call, "created", endpoint)
    return endpoint


def endpoint_warnings(call: Call, endpoint: Record) -> Iterator[str]:
    """Yield a sentence for whatever in a new endpoint does not have the effect that was meant."""
    for name in endpoint["unknownEvents"]:
        yield f"{_quoted(name)} is no event type; {suggestion(name, call.lifecycle.events)}"
    for name in endpoint["deniedEvents"]:
        yield (
            f"{_quoted(name)} is in deniedEvents: the key that created the endpoint may not read "
            f"the data, for which it needs {' and '.join(_scopes_of(name))}; that is not delivered"
        )
    for name in _texts(call.body.get("include")):
        if name not in OPTIONAL:
            yield f"{_quoted(name)} cannot be included in events; {suggestion(name, OPTIONAL)}"
    url = endpoint["url"]
    if endpoint.get("disabledReason") == "url_missing":
        yield "without a url nothing is delivered"
    elif endpoint.get("disabledReason") == "url_not_allowed":
        urls = (f"{scheme}://{url.rpartition('://')[2]}" for scheme in ("http", "https"))
        meant = next((url for url in urls if address_problem(call, url) is None), "")
        advice = f"did you mean {meant}?" if meant else "see the addresses in docs/webhooks.md"
        yield f"nothing may be delivered to {_quoted(url)}; {advice}"
    yield from call.not_read


def _quoted(text: Any) -> str:
    return f"'{str(text)[:_SHOWN]}'"


_SHOWN: Final = 100


def address_problem(call: Call, url: Any) -> str | None:
    """Return why the server may not call ``url``, or None. The server's own address is allowed."""
    if is_own_address(url, call.base_url):
        return None
    return url_problem(url, local=call.local, opened=call.webhook_networks)


def rotate_secret(context: Context, endpoint: Record) -> Record:
    """Give the endpoint a new secret. Raises ApiError 409 while the previous one still signs."""
    if is_rotating(endpoint, context.now):
        raise conflict(
            f"The previous secret signs until {endpoint['previousSecretUntil']}",
            "Rotate the secret after that.",
        )
    endpoint = rotated(endpoint, context.workspace.secret_seed, context.now)
    context.state.put(ENDPOINTS, endpoint["id"], endpoint)
    audit_endpoint(context, "secret_rotated", endpoint)
    return endpoint


def audit_endpoint(context: Context, change: str, endpoint: Record, **metadata: Any) -> None:
    """Append one audit event about an endpoint."""
    target = ("webhook_endpoint", endpoint["id"])
    audit(context, f"webhook_endpoint.{change}", target, **metadata)


def _unknown_events(context: Context, events: list[str]) -> list[str]:
    """Return the entries that match no event type; ``*`` and ``invoice.*`` are patterns."""
    known = context.lifecycle.events
    patterns = {"*", *(f"{_resource(event_type)}.*" for event_type in known)}
    return [name for name in events if name not in known and name not in patterns]


def _denied_events(events: list[str], scopes: Collection[str]) -> list[str]:
    """Return the entries for a resource that ``scopes`` do not allow to read."""
    return [name for name in events if missing_scope(scopes, _scopes_of(name)) is not None]


def _scopes_of(event_type: str) -> tuple[str, ...]:
    if event_type == "*":
        return tuple(_SCOPE_OF.values())
    scope = _SCOPE_OF.get(_resource(event_type))
    return () if scope is None else (scope,)


# Events


def event_data(call: Call, event_type: str, subject: str | None) -> Record:
    """Return the data of an event of this type: the newest such resource, as the API shows it.

    Invoices of clients come before those of the fixtures. ``subject`` is the id of the resource, or
    of the invoice that it belongs to. Raises ApiError 404 when there is none.
    """
    resource = _resource(event_type)
    if resource not in _SOURCES:
        return _invoice_data(call, subject)
    collection, view = _SOURCES[resource]
    kind = resource.replace("_", " ")
    if subject is not None:
        named = call.state.get(collection, subject)
        if named is not None:
            return view(named)
        load_invoice(call, subject, kind=f"{kind} or invoice")
        kind = f"{kind} of {subject}"
    data = _newest_data(call, event_type, subject)
    if data is None:
        raise reject(NO_SUBJECT, kind=kind)
    return data


def _invoice_data(call: Call, invoice_id: str | None) -> Record:
    if invoice_id is not None:
        return public_invoice(load_invoice(call, invoice_id))
    invoice = newest_invoice(call) or _newest(call, INVOICES)
    if invoice is None:
        raise reject(NO_SUBJECT, kind="invoice")
    return public_invoice(invoice)


def send_test_event(call: Call) -> Record | DeliverThenRespond:
    """Send a signed sample to the named endpoint, else the newest, and return its delivery.

    If no endpoint can be called, or ``deliver`` is false, return the request without sending it.
    """
    endpoint = _endpoint_to_test(call)
    event_type = _text(call.body.get("eventType")) or DEFAULT_EVENTS[0]
    event = _sample_event(call, event_type, _text(call.body.get("invoiceId")))
    if endpoint is None or endpoint["status"] != ENABLED or call.body.get("deliver") is False:
        return _unsent(call, event, endpoint)
    call.state.put(EVENTS, event["id"], event)
    delivery = plan(call.state, endpoint, event, call.now, single_attempt=True)
    report = partial(_report_delivery, event=event, delivery_id=delivery["id"])
    return DeliverThenRespond(delivery["lane"], report)


def _endpoint_to_test(call: Call) -> Record | None:
    endpoint_id = _text(call.body.get("endpointId"))
    named = None if endpoint_id is None else call.state.get(ENDPOINTS, endpoint_id)
    return named or _newest(call, ENDPOINTS)


def _sample_event(call: Call, event_type: str, invoice_id: str | None) -> Record:
    """Return an event without a cause, with the newest data, else the example of the contract."""
    data = _newest_data(call, event_type, invoice_id)
    if data is None:
        declared = call.contract.webhooks.get(event_type)
        example = declared.example if declared else None
        data = example["data"] if example else _SAMPLE_INVOICE
    return call.event(event_type, data)


def _newest_data(call: Call, event_type: str, invoice_id: str | None) -> Record | None:
    resource = _resource(event_type)
    if resource in _SOURCES:
        collection, view = _SOURCES[resource]
        newest = _newest(call, collection, _of_invoice(collection, invoice_id))
        return newest and view(newest)
    invoice = None if invoice_id is None else call.state.get(INVOICES, invoice_id)
    invoice = invoice or newest_invoice(call)
    return public_invoice(invoice) if invoice else None


def _newest(call: Call, collection: str, where: tuple[Condition, ...] = ()) -> Record | None:
    return next(iter(call.state.page(collection, limit=1, where=where).records), None)


def _report_delivery(call: Call, event: Record, delivery_id: str) -> Record:
    delivery = call.state.get(DELIVERIES, delivery_id) or {}
    attempts = delivery.get("attempts")
    if not attempts:  # the workspace was restored meanwhile, or the endpoint was disabled
        return _unsent(call, event, _endpoint_to_test(call))
    headers = attempts[-1]["request"]["headers"]
    endpoint = call.state.get(ENDPOINTS, delivery["endpointId"]) or {"secret": _SAMPLE_SECRET}
    second = int(headers["webhook-timestamp"])
    request = signed_request(event, signing_secrets(endpoint, call.now), second)
    return {
        "webhookFired": True,
        "simulated": True,
        "endpointId": delivery["endpointId"],
        "delivery": published_delivery(delivery),
        "request": {**request, "headers": headers},
    }


def _unsent(call: Call, event: Record, endpoint: Record | None) -> Record:
    secrets = signing_secrets(endpoint, call.now) if endpoint else (_SAMPLE_SECRET,)
    return {
        "webhookFired": False,
        "simulated": True,
        "endpointId": endpoint["id"] if endpoint else None,
        "delivery": None,
        "request": signed_request(event, secrets, int(call.system_now.timestamp())),
    }


def _of_invoice(collection: str, invoice_id: str | None) -> tuple[Condition, ...]:
    if invoice_id is None or collection == ENDPOINTS:
        return ()
    if collection == REQUESTS:
        return (Condition("invoiceIds", "has", invoice_id),)
    return (Condition("invoiceId", "=", invoice_id),)


def _resource(event_type: str) -> str:
    return event_type.partition(".")[0]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> list[str]:
    items = value if isinstance(value, list) else []
    return list(dict.fromkeys(item for item in items if isinstance(item, str)))
