"""Invoices: their record, their registration, duplicates, and their moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from iso4217 import Currency

from invoice_sandbox.project.api import Condition, Context, Record, Transaction, reject

from .audit import audit
from .findings import prepare_finding
from .fingerprint import fingerprint, minor_units, similarity_keys
from .lifecycle import apply_trigger, move_record

INVOICE: Final = "invoice"
"""The machine of the lifecycle."""

INVOICES: Final = "invoices"

CLIENT: Final = "client"
"""The source of a record that a client created. A default never chooses one of the fixtures."""

FOREIGN_REGISTRATIONS: Final = "foreign_registrations"
"""Invoices that other platforms registered and financed, by fingerprint. They are never shown."""

FINANCED: Final = frozenset(
    {"OfferAccepted", "PartiallyFunded", "Funded", "PartiallyPaid", "Overdue", "Paid", "Settled"}
)
"""Statuses in which a partner has financed the invoice, or is about to."""

SYNTHETIC_INVOICE: Final[Record] = {
    "id": "inv_sandbox_synthetic",
    "status": "Registered",
    "sellerId": "org_seller_acme",
    "debtorId": "org_debtor_globex",
    "invoiceNumber": "SYNTHETIC",
    "amount": 10000,
    "currency": "EUR",
}
"""Used where a request names no invoice and the workspace has none. It is never registered."""

PUBLIC_MEMBERS: Final = (
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

_INPUT_MEMBERS: Final = PUBLIC_MEMBERS[3:]
_LARGEST_AMOUNT: Final = Decimal("9999999999999.99")
_CURRENCIES: Final = frozenset(currency.code for currency in Currency)
_MAX_LENGTHS: Final[Mapping[str, int]] = {"sellerId": 128, "debtorId": 128, "invoiceNumber": 64}
_FIRST_REGISTRATIONS: Final = "first_registrations"
_CANCELLED: Final = frozenset({"Withdrawn", "Rejected", "Expired"})


@dataclass(frozen=True)
class Match:
    """An earlier registration with the same fingerprint, or a similar one.

    A registration that is not ``own`` is one of another platform; its record is confidential.
    """

    type: Literal["Exact", "Similar"]
    invoice: Record
    own: bool = True


def public_invoice(record: Mapping[str, Any]) -> Record:
    """An invoice as the API shows it: the members of the specification and no others."""
    return {name: record[name] for name in PUBLIC_MEMBERS if name in record}


async def load_invoice(context: Context, invoice_id: str) -> Record:
    """The invoice of that id. Raises ApiError 404."""
    invoice = await context.state.get(INVOICES, invoice_id)
    if invoice is None:
        raise reject("unknown_resource", kind="invoice", member="id")
    return invoice


async def newest_invoices(context: Context, *statuses: str, limit: int = 100) -> tuple[Record, ...]:
    """The newest invoices of clients in one of ``statuses``, or in any status if none is given."""
    statuses = statuses or context.lifecycle.machines[INVOICE].states
    where = (Condition("source", "=", CLIENT), Condition("status", "in", statuses))
    return (await context.state.page(INVOICES, limit=limit, where=where)).records


async def newest_invoice(context: Context, *statuses: str) -> Record | None:
    """The first of ``newest_invoices``, or None."""
    return next(iter(await newest_invoices(context, *statuses, limit=1)), None)


async def register_invoice(context: Context, fields: Mapping[str, Any]) -> Record:
    """Register an invoice. One whose fingerprint is registered becomes DuplicateSuspected.

    A similar invoice does not change the status.
    """
    machine = context.lifecycle.machines[INVOICE]
    match = await find_match(context.state, fields)
    invoice: Record = {
        "id": await context.new_id("inv_sandbox"),
        "registryId": await context.new_id("reg_sandbox"),
        "status": machine.initial,
        **{name: fields[name] for name in _INPUT_MEMBERS if name in fields},
        "createdAt": context.timestamp,
        "source": CLIENT,
    }
    await store_invoice(context.state, invoice)
    await audit(context, machine.created, ("invoice", invoice["id"]), to=machine.initial)
    await context.emit(machine.created, public_invoice(invoice))
    if match is not None and match.type == "Exact":
        await prepare_duplicate_finding(context, invoice["id"], match)
        return await move_invoice(context, invoice, "suspect-duplicate")
    return invoice


async def store_invoice(state: Transaction, record: Record) -> None:
    """Store an invoice. The first one with a fingerprint or similarity key is found by it."""
    await state.put(INVOICES, record["id"], record)
    for key in (fingerprint(record), *similarity_keys(record)):
        if await state.get(_FIRST_REGISTRATIONS, key) is None:
            await state.put(_FIRST_REGISTRATIONS, key, {"invoiceId": record["id"]})


async def store_foreign_registration(state: Transaction, record: Record) -> None:
    """Store a registration of another platform, by its fingerprint."""
    await state.put(FOREIGN_REGISTRATIONS, fingerprint(record), record)


async def find_match(
    state: Transaction, fields: Mapping[str, Any], exclude: str | None = None
) -> Match | None:
    """The earlier registration that matches ``fields`` best; ``exclude`` is an id to ignore.

    A foreign registration with the same fingerprint comes first, then the first own registration
    with it, then the first similar one.
    """
    digest = fingerprint(fields)
    foreign = await state.get(FOREIGN_REGISTRATIONS, digest)
    if foreign is not None:
        return Match("Exact", foreign, own=False)
    exact = await _first_registration(state, digest)
    if exact is not None and exact["id"] != exclude:
        return Match("Exact", exact)
    for key in similarity_keys(fields):
        similar = await _first_registration(state, key)
        if similar is not None and similar["id"] != exclude:
            return Match("Similar", similar)
    return None


async def prepare_duplicate_finding(context: Context, invoice_id: str, match: Match) -> None:
    """Let the next verification send the invoice to manual review because of ``match``."""
    detail = registry_state(match) if match.type == "Exact" else "RegisteredSimilar"
    await prepare_finding(context, invoice_id, "duplicate_check", "ManualReview", detail)


def registry_state(match: Match | None) -> str:
    """The state in which an invoice with that match would be registered."""
    if match is None or match.type != "Exact":
        return "RegisteredUnique"
    financed = not match.own or match.invoice["status"] in FINANCED
    return "DuplicateFinanced" if financed else "RegisteredDuplicate"


def public_match(match: Match) -> Record:
    """A match as the API shows it; one of another platform shows nothing but its type."""
    if not match.own:
        return {"matchType": match.type, "ownRegistration": False}
    return {
        "matchType": match.type,
        "registryId": match.invoice["registryId"],
        "ownRegistration": True,
        "matchedState": _matched_state(match.invoice["status"]),
    }


def limit_problems(invoice: Mapping[str, Any]) -> Iterator[str]:
    """One clause for each limit of a strict platform that an invoice violates, with the member.

    The contract does not have these limits. Amounts are those of European e-invoices (EN 16931 as
    the European Commission uses it).
    """
    currency = invoice["currency"].upper()
    yield from _amount_problems(Decimal(invoice["amount"]), currency)
    if currency not in _CURRENCIES:
        yield "currency: must be an active code of ISO 4217, such as EUR"
    for name, longest in _MAX_LENGTHS.items():
        if not 1 <= len(invoice[name]) <= longest:
            yield f"{name}: must have 1 to {longest} characters"
    if not invoice["invoiceNumber"].isprintable():
        yield "invoiceNumber: must be printable"
    issued, due = invoice.get("issueDate"), invoice.get("dueDate")
    if issued and due and due < issued:
        yield "dueDate: must not be before issueDate"


async def move_invoice(context: Context, invoice: Record, trigger: str, **metadata: Any) -> Record:
    """Apply ``trigger`` to the invoice and emit its event. Raises ApiError 409."""
    return await move_record(
        context, INVOICE, INVOICES, invoice, trigger, view=public_invoice, **metadata
    )


async def apply_invoice_trigger(
    context: Context, invoice: Record, trigger: str, **metadata: Any
) -> tuple[Record, str | None]:
    """Apply ``trigger`` and return the type of event to emit with ``emit_move``. ApiError 409."""
    return await apply_trigger(context, INVOICE, INVOICES, invoice, trigger, **metadata)


async def emit_move(
    context: Context, event_type: str | None, invoice: Record, **related: Record
) -> None:
    """Emit the event of an invoice's move, if it has one.

    ``related`` are public records by resource. The data of ``offer.accepted`` is
    ``related["offer"]``, or the invoice when it moved without an offer.
    """
    if event_type is not None:
        resource = event_type.partition(".")[0]
        data = related.get(resource, public_invoice(invoice))
        await context.emit(event_type, data, invoice["id"])


async def _first_registration(state: Transaction, key: str) -> Record | None:
    first = await state.get(_FIRST_REGISTRATIONS, key)
    return None if first is None else await state.get(INVOICES, first["invoiceId"])


def _matched_state(status: str) -> str:
    if status in FINANCED:
        return "Financed"
    return "Cancelled" if status in _CANCELLED else "RegisteredUnique"


def _amount_problems(amount: Decimal, currency: str) -> Iterator[str]:
    if amount <= 0:
        yield "amount: must be above 0"
    if amount > _LARGEST_AMOUNT:
        yield f"amount: must be at most {_LARGEST_AMOUNT}"
    digits = minor_units(currency)
    if -int(amount.normalize().as_tuple().exponent) > digits:
        yield f"amount: must have at most {digits} decimals in {currency}"
