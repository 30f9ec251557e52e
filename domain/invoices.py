"""What an invoice is, and how one gets into the registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from invoice_sandbox.project.api import Condition, Context, Record, Transaction, reject

from .audit import audit
from .findings import note_finding
from .fingerprint import fingerprint, similarity_keys
from .lifecycle import move, shift

INVOICES: Final = "invoices"
MACHINE: Final = "invoice"
CLIENT: Final = "client"
"""Where an invoice comes from, unless it is a fixture: only these are chosen by default."""
_FIRST_REGISTRATIONS: Final = "first_registrations"

FOREIGN: Final = "foreign_registrations"
"""Invoices that others have registered and had financed, by fingerprint; never shown."""

FINANCED: Final = frozenset(
    {"OfferAccepted", "PartiallyFunded", "Funded", "PartiallyPaid", "Overdue", "Paid", "Settled"}
)
"""Statuses in which somebody has financed the invoice, or is about to."""

SYNTHETIC: Final[Record] = {
    "id": "inv_sandbox_synthetic",
    "status": "Registered",
    "sellerId": "org_seller_acme",
    "debtorId": "org_debtor_globex",
    "invoiceNumber": "SYNTHETIC",
    "amount": 10000,
    "currency": "EUR",
}
"""Stands in where a client names no invoice and has none; it is registered nowhere."""

PUBLISHED: Final = (
    "id",
    "registryId",
    "status",
    "sellerId",
    "debtorId",
    "invoiceNumber",
    "amount",
    "currency",
    "issueDate",
    "dueDate",
)
"""The members of an Invoice, in the order of the specification (Resources, Invoice)."""

_MEMBERS_OF_INPUT: Final = PUBLISHED[3:]


@dataclass(frozen=True)
class Match:
    """An invoice registered before that equals or resembles the one asked about.

    One that is not the caller's own was financed elsewhere, and says no more of itself.
    """

    kind: Literal["Exact", "Similar"]
    invoice: Record
    own: bool = True


def published(record: Mapping[str, Any]) -> Record:
    """An invoice as the API shows it: the members of the specification and no others."""
    return {name: record[name] for name in PUBLISHED if name in record}


async def find_match(
    state: Transaction, fields: Mapping[str, Any], besides: str | None = None
) -> Match | None:
    """A foreign registration with the same fingerprint, else the caller's own first one with it,
    else one that resembles ``fields``; ``besides`` is the id of one that does not count."""
    foreign = await state.get(FOREIGN, fingerprint(fields))
    if foreign is not None:
        return Match("Exact", foreign, own=False)
    exact = await _first_registration(state, fingerprint(fields))
    if exact is not None and exact["id"] != besides:
        return Match("Exact", exact)
    for key in similarity_keys(fields):
        similar = await _first_registration(state, key)
        if similar is not None and similar["id"] != besides:
            return Match("Similar", similar)
    return None


async def register(context: Context, fields: Mapping[str, Any]) -> Record:
    """Put an invoice into the registry; one that is there already becomes DuplicateSuspected.

    Only an equal fingerprint changes the status; a mere resemblance does not.
    """
    machine = context.lifecycle.machines[MACHINE]
    match = await find_match(context.state, fields)
    invoice: Record = {
        "id": await context.new_id("inv_sandbox"),
        "registryId": await context.new_id("reg_sandbox"),
        "status": machine.initial,
        **{name: fields[name] for name in _MEMBERS_OF_INPUT if name in fields},
        "createdAt": context.timestamp,
        "source": CLIENT,
    }
    await record_invoice(context.state, invoice)
    await audit(context, machine.created, ("invoice", invoice["id"]), to=machine.initial)
    await context.emit(machine.created, published(invoice))
    if match is not None and match.kind == "Exact":
        await note_match(context, invoice["id"], match)
        return await move_invoice(context, invoice, "suspect-duplicate")
    return invoice


async def note_match(context: Context, invoice_id: str, match: Match) -> None:
    """Have a verification tell of the registration that the invoice equals or resembles."""
    detail = registry_state(match) if match.kind == "Exact" else "RegisteredSimilar"
    await note_finding(context, invoice_id, "duplicate_check", "ManualReview", detail)


def registry_state(match: Match | None) -> str:
    """The state in which an invoice with that match would be registered."""
    if match is None or match.kind != "Exact":
        return "RegisteredUnique"
    financed = not match.own or match.invoice["status"] in FINANCED
    return "DuplicateFinanced" if financed else "RegisteredDuplicate"


async def move_invoice(context: Context, invoice: Record, trigger: str, **metadata: Any) -> Record:
    """The invoice after ``trigger``, stored, audited and told. Raises ApiError 409."""
    return await move(context, MACHINE, INVOICES, invoice, trigger, present=published, **metadata)


async def shift_invoice(
    context: Context, invoice: Record, trigger: str, **metadata: Any
) -> tuple[Record, str | None]:
    """The invoice after ``trigger``, stored and audited, and the kind of event that is to be told.

    Raises ApiError 409.
    """
    return await shift(context, MACHINE, INVOICES, invoice, trigger, **metadata)


async def named_invoice(context: Context, invoice_id: str) -> Record:
    """The invoice of that id. Raises ApiError 404."""
    invoice = await context.state.get(INVOICES, invoice_id)
    if invoice is None:
        raise reject("unknown_resource", kind="invoice", member="id")
    return invoice


async def newest_invoice(context: Context, *statuses: str) -> Record | None:
    """The newest invoice that a client registered and that is in one of ``statuses``."""
    found = await newest_invoices(context, *statuses, most=1)
    return found[0] if found else None


async def newest_invoices(context: Context, *statuses: str, most: int = 100) -> tuple[Record, ...]:
    """The newest invoices that clients registered and that are in one of ``statuses``."""
    where = (Condition("source", "=", CLIENT), Condition("status", "in", statuses))
    return (await context.state.page(INVOICES, limit=most, where=where)).records


async def record_invoice(state: Transaction, record: Record) -> None:
    """Store an invoice and remember it under its fingerprint, if it is the first to have it."""
    await state.put(INVOICES, record["id"], record)
    for key in (fingerprint(record), *similarity_keys(record)):
        if await state.get(_FIRST_REGISTRATIONS, key) is None:
            await state.put(_FIRST_REGISTRATIONS, key, {"invoiceId": record["id"]})


async def record_foreign(state: Transaction, record: Record) -> None:
    """Remember that others have registered this invoice, and had it financed."""
    await state.put(FOREIGN, fingerprint(record), record)


async def _first_registration(state: Transaction, key: str) -> Record | None:
    first = await state.get(_FIRST_REGISTRATIONS, key)
    return None if first is None else await state.get(INVOICES, first["invoiceId"])
