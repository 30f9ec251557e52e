"""Fingerprints for duplicate-risk workflows."""

from __future__ import annotations

from typing import Final

from invoice_sandbox.project.api import Call, Record

from ..domain.fingerprint import fingerprint
from ..domain.invoices import FINANCED, Match, find_match, registry_state

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
        "registryState": registry_state(match),
        "matches": [_shown(match)] if match else [],
    }


def _shown(match: Match) -> Record:
    if not match.own:
        return {"matchType": match.kind, "ownRegistration": False}
    return {
        "matchType": match.kind,
        "registryId": match.invoice["registryId"],
        "ownRegistration": True,
        "matchedState": _matched_state(match.invoice["status"]),
    }


def _matched_state(status: str) -> str:
    if status in FINANCED:
        return "Financed"
    return "Cancelled" if status in _CANCELLED else "RegisteredUnique"
