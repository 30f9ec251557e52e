"""Is the sandbox up?"""

from __future__ import annotations

from invoice_sandbox.project.api import Call, Record


async def get_health(call: Call) -> Record:
    """Answered to anybody, without a credential."""
    return {
        "status": "ok",
        "service": "invoice-liquidity-sandbox",
        "contractVersion": call.contract.version,
        "time": call.timestamp,
    }
