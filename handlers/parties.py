"""Parties: sellers and debtors, with what reviews found out about them."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record

from ..domain.compliance import set_party as set_known_party
from ..domain.parties import load_party


def get_party(call: Call) -> Record:
    """Return what is known of a party; of one that was never reviewed, nothing."""
    return load_party(call, call.path["id"])


def set_party(call: Call) -> Record:
    """Change what is known of a party, with what follows for its invoices."""
    return set_known_party(call, call.path["id"], **call.body)
