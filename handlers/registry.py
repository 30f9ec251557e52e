"""Fingerprints for duplicate-risk workflows."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record

from ..domain.fingerprint import fingerprint
from ..domain.invoices import find_match, public_match, registry_state


async def generate_fingerprint(call: Call) -> Record:
    """The invoice's SHA-256 under scheme ilf1, with the earlier registration that it matches.

    Registers nothing. ``registryState`` is the state in which such an invoice would be registered.
    """
    match = await find_match(call.state, call.body)
    return {
        "fingerprint": fingerprint(call.body),
        "algorithm": "SHA-256",
        "canonicalization": "ilf1 (RFC 8785)",
        "canonicalFields": ["sellerId", "debtorId", "invoiceNumber", "amount", "currency"],
        "duplicateRisk": match.type if match else "None",
        "registryState": registry_state(match),
        "matches": [public_match(match)] if match else [],
    }
