"""Fingerprints for duplicate-risk workflows."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record

from ..domain.fingerprint import SCHEME, registry_keys
from ..domain.invoices import find_matches, public_match, registry_state, seller_of


def generate_fingerprint(call: Call) -> Record:
    """Return the invoice's SHA-256 under scheme ilf1, with the earlier registrations that it
    matches.

    Registers nothing. ``registryState`` is the state in which such an invoice would be registered.
    """
    keys = registry_keys(call.body)
    matches = find_matches(call.state, keys)
    worst = matches[0] if matches else None
    return {
        "fingerprint": keys.fingerprint,
        "algorithm": "SHA-256",
        "canonicalization": f"{SCHEME} (RFC 8785)",
        "canonicalFields": ["sellerId", "debtorId", "invoiceNumber", "amount", "currency"],
        "duplicateRisk": worst.type if worst else "None",
        "registryState": registry_state(worst),
        "matches": [public_match(match, seller_of(call)) for match in matches],
    }
