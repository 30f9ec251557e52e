"""The health check."""

from __future__ import annotations

from invoice_sandbox.runtime.control_call import PublicControlCall
from invoice_sandbox.state import Record


async def get_sandbox_health(_call: PublicControlCall) -> Record:
    """The status; no credential is needed."""
    return {"status": "ok"}
