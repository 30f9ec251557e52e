"""What an invoice is, and how one gets into the registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from invoice_sandbox.handling import Record, Transaction

from ._fingerprint import fingerprint, similarity_keys

INVOICES: Final = "invoices"
_FIRST_REGISTRATIONS: Final = "first_registrations"

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
    """An invoice registered before that equals or resembles the one asked about."""

    kind: Literal["Exact", "Similar"]
    invoice: Record


def published(record: Mapping[str, Any]) -> Record:
    """An invoice as the API shows it: the members of the specification and no others."""
    return {name: record[name] for name in PUBLISHED if name in record}


async def find_match(state: Transaction, fields: Mapping[str, Any]) -> Match | None:
    """The first registration with the same fingerprint, else one that resembles ``fields``."""
    exact = await _first_registration(state, fingerprint(fields))
    if exact is not None:
        return Match("Exact", exact)
    for key in similarity_keys(fields):
        similar = await _first_registration(state, key)
        if similar is not None:
            return Match("Similar", similar)
    return None


async def register(
    state: Transaction,
    fields: Mapping[str, Any],
    *,
    invoice_id: str,
    registry_id: str,
    created_at: str,
) -> Record:
    """Put an invoice into the registry; one that is there already becomes DuplicateSuspected.

    Only an equal fingerprint changes the status; a mere resemblance does not.
    """
    match = await find_match(state, fields)
    duplicate = match is not None and match.kind == "Exact"
    record: Record = {
        "id": invoice_id,
        "registryId": registry_id,
        "status": "DuplicateSuspected" if duplicate else "Registered",
        **{name: fields[name] for name in _MEMBERS_OF_INPUT if name in fields},
        "createdAt": created_at,
    }
    await record_invoice(state, record)
    return record


async def record_invoice(state: Transaction, record: Record) -> None:
    """Store an invoice and remember it under its fingerprint, if it is the first to have it."""
    await state.put(INVOICES, record["id"], record)
    for key in (fingerprint(record), *similarity_keys(record)):
        if await state.get(_FIRST_REGISTRATIONS, key) is None:
            await state.put(_FIRST_REGISTRATIONS, key, {"invoiceId": record["id"]})


async def _first_registration(state: Transaction, key: str) -> Record | None:
    first = await state.get(_FIRST_REGISTRATIONS, key)
    return None if first is None else await state.get(INVOICES, first["invoiceId"])
