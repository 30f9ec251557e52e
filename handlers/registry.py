"""Fingerprints for duplicate-risk workflows."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.handling import Call, Record

from ._fingerprint import fingerprint
from ._invoices import Match, find_match

_FINANCED: Final = frozenset(
    {"OfferAccepted", "PartiallyFunded", "Funded", "PartiallyPaid", "Overdue", "Paid", "Settled"}
)
_CANCELLED: Final = frozenset({"Withdrawn", "Rejected", "Expired"})


async def generate_fingerprint(call: Call) -> Record:
    """The invoice's SHA-256 under scheme ilf1, and what the registry holds of it already.

    Registers nothing. ``registryState`` is the state in which such an invoice would be registered.
    """
    match = await find_match(call.state, call.body)
    return {
        "fingerprint": fingerprint(call.body),
        "algorithm": "SHA-256",
        "canonicalization": "ilf1 (RFC 8785)",
        "canonicalFields": ["sellerId", "debtorId", "invoiceNumber", "amount", "currency"],
        "duplicateRisk": match.kind if match else "None",
        "registryState": _registry_state(match),
        "matches": [_shown(match)] if match else [],
    }


def _registry_state(match: Match | None) -> str:
    if match is None or match.kind != "Exact":
        return "RegisteredUnique"
    return "DuplicateFinanced" if match.invoice["status"] in _FINANCED else "RegisteredDuplicate"


def _shown(match: Match) -> Record:
    return {
        "matchType": match.kind,
        "registryId": match.invoice["registryId"],
        "ownRegistration": True,
        "matchedState": _matched_state(match.invoice["status"]),
    }


def _matched_state(status: str) -> str:
    if status in _FINANCED:
        return "Financed"
    return "Cancelled" if status in _CANCELLED else "RegisteredUnique"
