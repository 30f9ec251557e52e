"""Webhook endpoints: what they subscribe to, and what a delivery to them looks like."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from invoice_sandbox.handling import Call, Context, Record, dump_json, missing_scope
from invoice_sandbox.webhooks.signing import headers

from ._invoices import INVOICES, newest_invoice, published

ENDPOINTS: Final = "webhook_endpoints"
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
    """An endpoint as lists show it: without its secret."""
    return {name: value for name, value in record.items() if name != "secret"}


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


def signed_request(event: Record, secret: str, timestamp: int) -> Record:
    """What is sent for ``event``: method, headers, and the exact body that was signed."""
    body = dump_json(event)
    return {
        "method": "POST",
        "headers": headers(secret, event["id"], timestamp, body),
        "body": body.decode(),
    }
