"""The health of the service."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record


def get_health(call: Call) -> Record:
    """Return the state of the service. Needs no credential."""
    return {
        "status": "ok",
        "service": "invoice-liquidity-sandbox",
        "contractVersion": call.contract.version,
        "time": call.timestamp,
    }
