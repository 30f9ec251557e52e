"""Webhook endpoints: which events they may have, and what an event of each kind tells."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from invoice_sandbox.project.api import (
    Call,
    Condition,
    Context,
    Record,
    Transaction,
    missing_scope,
    reject,
)
from invoice_sandbox.webhooks.endpoints import (
    ENDPOINTS,
    all_endpoints,
    is_rotating,
    published_endpoint,
    rotated,
)

from .audit import audit
from .invoices import INVOICES, named_invoice, newest_invoice
from .invoices import published as published_invoice
from .offers import OFFERS
from .offers import published as published_offer
from .requests import REQUESTS
from .requests import published as published_request

DEFAULT_KINDS: Final = ("invoice.verified", "offer.received")
"""The two kinds that are published; an endpoint that names none gets these and no others."""

_SCOPE_OF: Final = {
    "invoice": "invoices:read",
    "offer": "offers:read",
    "financing_request": "financing:read",
    "webhook_endpoint": "webhooks:read",
}
"""An event tells what a read would, so an endpoint gets only what its creator may read."""

_SOURCES: Final = {
    "offer": (OFFERS, published_offer),
    "financing_request": (REQUESTS, published_request),
    "webhook_endpoint": (ENDPOINTS, published_endpoint),
}

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
    families = {f"{_family(kind)}.*" for kind in known}
    return [kind for kind in kinds if kind != "*" and kind not in known and kind not in families]


def denied_kinds(kinds: list[str], scopes: Collection[str]) -> list[str]:
    """Those of ``kinds`` that tell of a resource which ``scopes`` do not allow to read."""
    return [kind for kind in kinds if missing_scope(scopes, _scopes_of(kind)) is not None]


async def named_endpoint(state: Transaction, endpoint_id: str) -> Record:
    """The endpoint of that id. Raises ApiError 404."""
    endpoint = await state.get(ENDPOINTS, endpoint_id)
    if endpoint is None:
        raise reject("unknown_resource", kind="webhook endpoint", member="id")
    return endpoint


async def rotate_all(context: Context) -> None:
    """Give every endpoint a new placeholder secret; its old one goes on signing for a day.

    One whose old secret still signs is left as it is: three secrets at a time are never in use.
    """
    for endpoint in await all_endpoints(context.state):
        if not is_rotating(endpoint, context.now):
            await rotate(context, endpoint)


async def rotate(context: Context, endpoint: Record) -> Record:
    """The endpoint with a new secret. Raises ApiError 409 while its last one still signs."""
    if is_rotating(endpoint, context.now):
        raise reject(
            "conflict",
            problem=f"Two secrets sign until {endpoint['previousSecretUntil']}",
            advice="Rotate again after that.",
        )
    endpoint = rotated(endpoint, context.workspace.seed, context.now)
    await context.state.put(ENDPOINTS, endpoint["id"], endpoint)
    await audit_endpoint(context, "secret_rotated", endpoint)
    return endpoint


async def audit_endpoint(context: Context, what: str, endpoint: Record, **metadata: Any) -> None:
    """One audit event about an endpoint."""
    target = ("webhook_endpoint", endpoint["id"])
    await audit(context, f"webhook_endpoint.{what}", target, **metadata)


async def subject_data(call: Call, kind: str, invoice_id: str | None) -> Record:
    """What an event of ``kind`` tells: the newest such thing, as the API shows it.

    ``invoice_id`` says of which invoice. Raises ApiError 404 when there is nothing to tell.
    """
    if _family(kind) not in _SOURCES:
        return await _invoice_data(call, invoice_id)
    source, present = _SOURCES[_family(kind)]
    page = await call.state.page(source, limit=1, where=_of_invoice(source, invoice_id))
    if not page.records:
        raise reject("unknown_resource", kind=_family(kind).replace("_", " "), member="invoiceId")
    return present(page.records[0])


def _of_invoice(source: str, invoice_id: str | None) -> tuple[Condition, ...]:
    if invoice_id is None or source == ENDPOINTS:
        return ()
    if source == REQUESTS:
        return (Condition("invoiceIds", "has", invoice_id),)
    return (Condition("invoiceId", "=", invoice_id),)


async def sample_event(call: Call, kind: str, invoice_id: str | None) -> Record:
    """The payload of a delivery that nothing has caused.

    It tells of the newest thing of its family, or of ``invoice_id``; where there is none, of the
    one that the contract shows.
    """
    if _family(kind) in _SOURCES:
        source, present = _SOURCES[_family(kind)]
        page = await call.state.page(source, limit=1, where=_of_invoice(source, invoice_id))
        found = [present(one) for one in page.records]
    else:
        invoice = None if invoice_id is None else await call.state.get(INVOICES, invoice_id)
        invoice = invoice or await newest_invoice(call, *call.lifecycle.machines["invoice"].states)
        found = [published_invoice(invoice)] if invoice else []
    declared = call.contract.webhooks.get(kind)
    shown = declared.example if declared else None
    data = found[0] if found else shown["data"] if shown else _SAMPLE_INVOICE
    return await call.event(kind, data)


async def _invoice_data(call: Call, invoice_id: str | None) -> Record:
    if invoice_id is not None:
        return published_invoice(await named_invoice(call, invoice_id))
    invoice = await newest_invoice(call, *call.lifecycle.machines["invoice"].states)
    if invoice is None:
        raise reject("unknown_resource", kind="invoice", member="invoiceId")
    return published_invoice(invoice)


def _family(kind: str) -> str:
    return kind.partition(".")[0]


def _scopes_of(kind: str) -> tuple[str, ...]:
    if kind == "*":
        return tuple(_SCOPE_OF.values())
    scope = _SCOPE_OF.get(_family(kind))
    return () if scope is None else (scope,)
