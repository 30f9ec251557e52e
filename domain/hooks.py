"""Hooks: what the engine asks this project to do for fixtures, errors and webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from invoice_sandbox.project.api import (
    ApiError,
    Context,
    Record,
    Step,
    Transaction,
    published_endpoint,
)

from .audit import audit
from .erp import PROCESS_ITEMS, audit_failure
from .financing import REQUESTS
from .invoices import FOREIGN_REGISTRATIONS, INVOICES, store_fixture, store_foreign_registration
from .tenor import due_date
from .transitions import suspend_step
from .webhooks import audit_endpoint

_LONGEST: Final = 256
"""Characters of a text that a rejected request brought into the audit log."""


def record_fixture(state: Transaction, collection: str, record: Mapping[str, Any]) -> None:
    """Store a fixture record. Invoices and foreign registrations get their fingerprints."""
    if collection == INVOICES:
        store_fixture(state, dict(record))
    elif collection == FOREIGN_REGISTRATIONS:
        store_foreign_registration(state, dict(record))
    elif collection == REQUESTS:
        stored = {**record, "openInvoiceIds": record["invoiceIds"]}
        state.put(collection, record["id"], stored)
    else:
        state.put(collection, record["id"], record)


def find_subject(state: Transaction, subject: str) -> Record | None:
    """Return the invoice of that id, with the due date that its scenario counts from."""
    invoice = state.get(INVOICES, subject)
    return invoice and {**invoice, "dueDate": due_date(invoice, date.min)}


def on_forbidden(context: Context, error: ApiError) -> None:
    """Audit that an authenticated caller lacked the authorisation for a request."""
    values = {name: str(value)[:_LONGEST] for name, value in error.values.items()}
    audit(context, "authorization.rejected", outcome="Failure", code=error.code, **values)


def on_endpoint_disabled(context: Context, endpoint: Record) -> None:
    """Audit that a webhook endpoint was disabled and notify the other endpoints."""
    audit_endpoint(context, "disabled", endpoint, reason=endpoint["disabledReason"])
    context.announce("webhook_endpoint.disabled", published_endpoint(endpoint))


def on_endpoint_removed(context: Context, endpoint: Record) -> None:
    """Audit that a webhook endpoint was deleted with its listener."""
    audit_endpoint(context, "removed", endpoint)


def on_step_failed(step: Step, action: str, reason: str) -> None:
    """Audit a step that failed: pushed items as rejected, any other under its invoice."""
    if action == PROCESS_ITEMS:
        audit_failure(step, reason)
    elif "subject" in step.arguments:
        target = ("invoice", step.subject)
        audit(step, "scenario_step.failed", target, outcome="Failure", do=action)


def on_step_skipped(step: Step, action: str, _reason: str) -> None:
    """Keep a step that falls due in a dispute for the end of the dispute."""
    suspend_step(step, action)
