"""Webhook endpoints: what they subscribe to, and what a delivery to them looks like."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from invoice_sandbox.handling import (
    Call,
    Context,
    Record,
    dump_json,
    instant_text,
    missing_scope,
    parse_instant,
)
from invoice_sandbox.webhooks.signing import headers, placeholder_secret, sign

from ._audit import audit
from ._invoices import INVOICES, newest_invoice, published

ENDPOINTS: Final = "webhook_endpoints"
ENABLED: Final = "Enabled"
DEFAULT_KINDS: Final = ("invoice.verified", "offer.received")
"""The two kinds that are published; an endpoint that names none gets these and no others."""

_SCOPE_OF: Final = {
    "invoice": "invoices:read",
    "offer": "offers:read",
    "financing_request": "financing:read",
    "webhook_endpoint": "webhooks:read",
}
"""An event tells what a read would, so an endpoint gets only what its creator may read."""

SAMPLE_SECRET: Final = "whsec_c2FuZGJveC1wbGFjZWhvbGRlci1zZWNyZXQtMDAwMSE="  # noqa: S105
"""Signs the sample of a workspace that has no endpoint; a placeholder, and documented."""

BOTH_SIGN: Final = timedelta(hours=24)
"""So much virtual time after a rotation, what is sent is signed with the old secret too."""

_INTERNAL: Final = frozenset({"secret", "previousSecret", "previousSecretUntil", "rotations"})

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


def unknown_kinds(context: Context, kinds: list[str]) -> list[str]:
    """Those of ``kinds`` that no event will ever have; ``*`` and ``invoice.*`` are patterns."""
    known = context.lifecycle.events
    families = {f"{kind.partition('.')[0]}.*" for kind in known}
    return [kind for kind in kinds if kind != "*" and kind not in known and kind not in families]


def denied_kinds(kinds: list[str], scopes: Collection[str]) -> list[str]:
    """Those of ``kinds`` that tell of a resource which ``scopes`` do not allow to read."""
    return [kind for kind in kinds if missing_scope(scopes, _scopes_of(kind)) is not None]


def _scopes_of(kind: str) -> tuple[str, ...]:
    if kind == "*":
        return tuple(_SCOPE_OF.values())
    scope = _SCOPE_OF.get(kind.partition(".")[0])
    return () if scope is None else (scope,)


def published_endpoint(record: Mapping[str, Any]) -> Record:
    """An endpoint as lists show it: without its secrets."""
    return {name: value for name, value in record.items() if name not in _INTERNAL}


def subscribes(endpoint: Record, kind: str) -> bool:
    """Whether an endpoint wants events of that kind, and its creator was allowed to read them."""
    wanted = set(endpoint["events"]) - set(endpoint["deniedEvents"])
    return not wanted.isdisjoint({"*", kind, f"{kind.partition('.')[0]}.*"})


async def rotate_all(context: Context) -> None:
    """Give every endpoint a new placeholder secret; its old one goes on signing for a day.

    One whose old secret still signs is left as it is: three secrets at a time are never in use.
    """
    most = await context.state.count(ENDPOINTS)
    for endpoint in (await context.state.page(ENDPOINTS, limit=most)).records[::-1]:
        if _is_rotating(context, endpoint):
            continue
        await context.state.put(ENDPOINTS, endpoint["id"], _rotated(context, endpoint))
        await audit(
            context, "webhook_endpoint.secret_rotated", ("webhook_endpoint", endpoint["id"])
        )


def _rotated(context: Context, endpoint: Record) -> Record:
    rotations = endpoint.get("rotations", 0) + 1
    drawn_for = f"{endpoint['id']}/{rotations}"
    return {
        **endpoint,
        "secret": placeholder_secret(context.workspace.seed, drawn_for),
        "previousSecret": endpoint["secret"],
        "previousSecretUntil": instant_text(context.now + BOTH_SIGN),
        "rotations": rotations,
    }


def _is_rotating(context: Context, endpoint: Record) -> bool:
    until = endpoint.get("previousSecretUntil")
    return until is not None and context.now < parse_instant(until)


def signing_secrets(context: Context, endpoint: Record) -> tuple[str, ...]:
    """What signs deliveries to an endpoint now: its secret, and for a while the one before it."""
    if _is_rotating(context, endpoint):
        return endpoint["secret"], endpoint["previousSecret"]
    return (endpoint["secret"],)


async def sample_event(call: Call, kind: str, invoice_id: str | None) -> Record:
    """The payload of a delivery: the resource's response envelope with id, type and timestamp."""
    invoice = await call.state.get(INVOICES, invoice_id) if invoice_id is not None else None
    if invoice is None:
        invoice = await newest_invoice(call, *call.lifecycle.machines["invoice"].states)
    return {
        "id": await call.new_id("evt_sandbox"),
        "type": kind,
        "timestamp": call.timestamp,
        "mode": "sandbox_mock",
        "data": published(invoice or _SAMPLE_INVOICE),
    }


def signed_request(event: Record, secrets: Sequence[str], timestamp: int) -> Record:
    """What is sent for ``event``: method, headers, and the exact body that was signed.

    Each of ``secrets`` gives one signature; a receiver is content with any that it can check.
    """
    body = dump_json(event)
    signatures = [sign(secret, event["id"], timestamp, body) for secret in secrets]
    sent = headers(secrets[0], event["id"], timestamp, body)
    return {
        "method": "POST",
        "headers": {**sent, "webhook-signature": " ".join(signatures)},
        "body": body.decode(),
    }
