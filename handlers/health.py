"""Whether the sandbox is up."""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record


def get_health(call: Call) -> Record:
    """The state of the service. Needs no credential."""
    return {
        "status": "ok",
        "service": "invoice-liquidity-sandbox",
        "contractVersion": call.contract.version,
        "time": call.timestamp,
    }
