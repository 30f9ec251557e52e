"""Invoices: their record, their registration, duplicates, and their moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal

from iso4217 import Currency

from invoice_sandbox.project.api import USERS, Call, Condition, Context, Record, Transaction, reject

from .audit import Target, audit
from .dates import with_date
from .errors import OTHER_SELLER
from .findings import prepare_finding
from .fingerprint import (
    EXACT,
    RegistryKeys,
    canonical_party,
    fingerprint,
    is_blank,
    minor_units,
    registry_keys,
)
from .lifecycle import apply_trigger, is_financed
from .tenor import due_date

INVOICE: Final = "invoice"
"""The machine of the lifecycle."""

INVOICES: Final = "invoices"

CLIENT: Final = "client"
"""The source of a record that a client created. A default never chooses one of the fixtures."""

FOREIGN_REGISTRATIONS: Final = "foreign_registrations"
"""Invoices that other platforms registered and financed, by fingerprint, or by seller if it is
every invoice of the seller. They are never shown."""

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
_CANCELLED: Final = frozenset({"Withdrawn", "Rejected", "Expired"})
_LEVELS: Final = ("Financed", "Registered")
"""The levels of a registration for whoever registers the same invoice, the most serious first."""

_REASONS: Final[Mapping[str, str]] = {
    "s1": "SameNumber",
    "s2": "SameAmountAndDueDate",
    "s3": "OtherSeller",
}
"""By kind of key: why invoices that share it are similar."""

_MAX_MATCHES: Final = 10
_KEY_LENGTH: Final = 32
"""Digits of a SHA-256 that are stored: no two invoices share 116 bits by chance."""


@dataclass(frozen=True)
class Match:
    """An earlier registration with the same fingerprint, or a similar one.

    A registration that is not ``own`` is one of another platform; its record is confidential.
    ``reason`` is why an invoice is similar.
    """

    type: Literal["Exact", "Similar"]
    invoice: Record
    own: bool = True
    reason: str | None = None


def public_invoice(record: Mapping[str, Any]) -> Record:
    """Return an invoice as the API shows it: the members of the specification and no others."""
    return {name: record[name] for name in PUBLIC_MEMBERS if name in record}


def seller_of(context: Context) -> str | None:
    """Return the seller that the caller's session is bound to; None: the caller sees all."""
    caller = context.caller if isinstance(context, Call) else None
    if caller is None or caller.type != "session":
        return None
    user = context.state.get(USERS, caller.subject)
    return None if user is None else user.get("sellerId")


def check_seller(call: Call) -> None:
    """Raise ApiError 403 for an invoice of another seller than that of the caller's session."""
    if seller_of(call) not in {None, call.body["sellerId"]}:
        raise reject(OTHER_SELLER)


def load_invoice(context: Context, invoice_id: str, kind: str = "invoice") -> Record:
    """Return the invoice of that id. Raises ApiError 404, also for one of another seller than that
    of the caller's session. ``kind`` is the noun in the message of the error."""
    invoice = context.state.get(INVOICES, invoice_id)
    if invoice is None or seller_of(context) not in {None, invoice["sellerId"]}:
        raise reject("unknown_resource", kind=kind, member="id", value=invoice_id)
    return invoice


def newest_invoices(context: Context, *statuses: str, limit: int = 100) -> Sequence[Record]:
    """Return the newest invoices of clients in one of ``statuses``, or in any status if none is
    given.

    A session that is bound to a seller gets those of that seller.
    """
    statuses = statuses or context.lifecycle.machines[INVOICE].states
    seller = seller_of(context)
    of_seller = () if seller is None else (Condition("sellerId", "=", seller),)
    where = (Condition("source", "=", CLIENT), Condition("status", "in", statuses), *of_seller)
    return context.state.page(INVOICES, limit=limit, where=where).records


def newest_invoice(context: Context, *statuses: str) -> Record | None:
    """Return the first of ``newest_invoices``, or None."""
    return next(iter(newest_invoices(context, *statuses, limit=1)), None)


def register_invoice(
    context: Context, fields: Mapping[str, Any], *targets: Target, **metadata: Any
) -> Record:
    """Register an invoice. One whose fingerprint is registered becomes DuplicateSuspected.

    A similar invoice does not change the status. The audit event has ``targets`` besides the
    invoice, and ``metadata``.
    """
    machine, keys = context.lifecycle.machines[INVOICE], registry_keys(fields)
    match = find_duplicate(context.state, keys)
    invoice = _with_registry_keys(
        {
            "id": context.new_id("inv_sandbox"),
            "registryId": context.new_id("reg_sandbox"),
            "status": machine.initial,
            **{name: fields[name] for name in _INPUT_MEMBERS if name in fields},
            "createdAt": context.timestamp,
            "source": CLIENT,
        },
        keys,
        "Registered",
    )
    conditions = context.scenarios.for_new(invoice).scenario.conditions
    invoice = with_date(context, invoice, conditions)
    context.state.put(INVOICES, invoice["id"], invoice)
    target, facts = ("invoice", invoice["id"]), {"to": machine.initial, **metadata}
    audit(context, machine.created, target, *targets, **facts)
    record = _with_due_date(context, invoice)
    context.emit(machine.created, public_invoice(invoice), record=record)
    if match is not None:
        prepare_duplicate_finding(context, invoice["id"], match)
        return move_invoice(context, invoice, "suspect-duplicate")
    return invoice


def store_fixture(state: Transaction, record: Record) -> None:
    """Store an invoice that is in the registry from the start."""
    stored = _with_registry_keys(record, registry_keys(record), _level(record))
    state.put(INVOICES, record["id"], stored)


def store_foreign_registration(state: Transaction, record: Record) -> None:
    """Store a registration of another platform, by its fingerprint, or by its seller."""
    key = fingerprint(record) if "invoiceNumber" in record else canonical_party(record["sellerId"])
    state.put(FOREIGN_REGISTRATIONS, key, record)


def find_duplicate(
    state: Transaction, keys: RegistryKeys, exclude: str | None = None
) -> Match | None:
    """Return the most serious registration with that fingerprint; ``exclude`` is an id.

    The order is: financed on another platform, financed here, registered here. A registration that
    was withdrawn, rejected or expired does not count.
    """
    foreign = _find_foreign(state, keys)
    if foreign is not None:
        return foreign
    digest = keys.fingerprint
    key = digest[:_KEY_LENGTH]
    every = Condition("registryKeys", "has", (f"Financed {key}", f"Registered {key}"))
    if not state.count(INVOICES, (every,)):
        return None
    for level in _LEVELS:
        for invoice in _registered(state, level, digest, limit=2):
            if invoice["id"] != exclude:
                return Match("Exact", invoice)
    return None


def find_matches(state: Transaction, keys: RegistryKeys, exclude: str | None = None) -> list[Match]:
    """Return at most ten registrations: those with that fingerprint, then similar ones."""
    foreign = _find_foreign(state, keys)
    matches = {} if foreign is None else {"": foreign}
    exact = [(level, keys.fingerprint) for level in _LEVELS]
    similar = [(level, key) for level in _LEVELS for key in keys.similar]
    for level, key in exact + similar:
        for invoice in _registered(state, level, key, limit=_MAX_MATCHES + 1):
            reason = _REASONS.get(key.partition(":")[0])
            match = Match("Similar" if reason else "Exact", invoice, reason=reason)
            matches.setdefault(invoice["id"], match)
    matches.pop(exclude or "-", None)
    return list(matches.values())[:_MAX_MATCHES]


def prepare_duplicate_finding(context: Context, invoice_id: str, match: Match) -> None:
    """Let the next verification send the invoice to manual review because of ``match``."""
    detail = registry_state(match) if match.type == "Exact" else "RegisteredSimilar"
    prepare_finding(context, invoice_id, "duplicate_check", "ManualReview", detail)


def registry_state(match: Match | None) -> str:
    """Return the state in which an invoice with that match would be registered."""
    if match is None or match.type != "Exact":
        return "RegisteredUnique"
    financed = not match.own or is_financed(match.invoice)
    return "DuplicateFinanced" if financed else "RegisteredDuplicate"


def public_match(match: Match, seller: str | None = None) -> Record:
    """Return a match as the API shows it; of another platform's only the type.

    A session of one ``seller`` sees as little of another seller's, besides the reason.
    """
    reason = {"reason": match.reason} if match.reason else {}
    if not match.own or seller not in {None, match.invoice["sellerId"]}:
        return {"matchType": match.type, "ownRegistration": False, **reason}
    return {
        "matchType": match.type,
        **reason,
        "registryId": match.invoice["registryId"],
        "ownRegistration": True,
        "matchedState": _matched_state(match.invoice),
    }


def limit_problems(invoice: Mapping[str, Any]) -> Iterator[str]:
    """Yield a clause with the member for each limit of a strict platform that is violated.

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
        elif is_blank(invoice[name]):
            yield f"{name}: must not be blank"
    if not invoice["invoiceNumber"].isprintable():
        yield "invoiceNumber: must be printable"
    issued, due = invoice.get("issueDate"), invoice.get("dueDate")
    if issued and due and due < issued:
        yield "dueDate: must not be before issueDate"


def move_invoice(context: Context, invoice: Record, trigger: str, **metadata: Any) -> Record:
    """Apply ``trigger`` to the invoice and emit its event. Raises ApiError 409."""
    moved, event_type = apply_invoice_trigger(context, invoice, trigger, **metadata)
    emit_move(context, event_type, moved)
    return moved


def apply_invoice_trigger(
    context: Context, invoice: Record, trigger: str, **metadata: Any
) -> tuple[Record, str | None]:
    """Apply ``trigger`` and return the type of event to emit with ``emit_move``. ApiError 409."""

    def derive(moved: Record) -> Record:
        return with_date(context, _with_level(moved))

    return apply_trigger(context, INVOICE, INVOICES, invoice, trigger, derive=derive, **metadata)


def emit_move(
    context: Context,
    event_type: str | None,
    invoice: Record,
    *,
    optional: Record | None = None,
    **related: Record,
) -> None:
    """Emit the event of an invoice's move, if it has one.

    ``optional`` are its optional members. ``related`` are public records by resource. The data of
    ``offer.accepted`` is ``related["offer"]``, or the invoice when it moved without an offer.
    """
    if event_type is not None:
        resource = event_type.partition(".")[0]
        data = related.get(resource, public_invoice(invoice))
        record = _with_due_date(context, invoice)
        context.emit(event_type, data, invoice["id"], record=record, optional=optional)


def _with_due_date(context: Context, invoice: Record) -> Record:
    """Return the invoice as the steps of a scenario count from it."""
    due = invoice.get("dueDate")
    return {**invoice, "dueDate": due or due_date(invoice, context.now.date())}


def _find_foreign(state: Transaction, keys: RegistryKeys) -> Match | None:
    """Return the registration of another platform: of the invoice, else of the whole seller."""
    for key in (keys.fingerprint, keys.seller):
        foreign = state.get(FOREIGN_REGISTRATIONS, key)
        if foreign is not None:
            return Match("Exact", foreign, own=False)
    return None


def _registered(state: Transaction, level: str, key: str, limit: int) -> Sequence[Record]:
    where = (Condition("registryKeys", "has", f"{level} {key[:_KEY_LENGTH]}"),)
    return state.page(INVOICES, limit=limit, where=where).records


def _with_registry_keys(record: Record, keys: RegistryKeys, level: str) -> Record:
    """Return the record with the keys by which the registry finds it: the level, then the beginning
    of each key, which is long enough."""
    every = (keys.fingerprint, *keys.similar)
    found_by = [f"{level} {key[:_KEY_LENGTH]}" for key in every] if level else []
    return {**record, "registryKeys": found_by}


def _with_level(record: Record) -> Record:
    """Return the record after a move, which may have changed its level."""
    level, before = _level(record), record.get("registryKeys", [])
    if before and before[0].startswith(f"{level} "):
        return record
    keys = [f"{level} {key.partition(' ')[2]}" for key in before] if level else []
    return {**record, "registryKeys": keys}


def _level(record: Record) -> str:
    if record["status"] in _CANCELLED:
        return ""
    return "Financed" if is_financed(record) else "Registered"


def _matched_state(invoice: Record) -> str:
    if is_financed(invoice):
        return "Financed"
    suspected = invoice["status"] == "DuplicateSuspected"
    return "RegisteredDuplicate" if suspected else "RegisteredUnique"


def _amount_problems(amount: Decimal, currency: str) -> Iterator[str]:
    if amount <= 0:
        yield "amount: must be above 0"
    if amount > _LARGEST_AMOUNT:
        yield f"amount: must be at most {_LARGEST_AMOUNT}"
    digits = minor_units(currency)
    if -int(EXACT.normalize(amount).as_tuple().exponent) > digits:
        yield f"amount: must have at most {digits} decimals in {currency}"
