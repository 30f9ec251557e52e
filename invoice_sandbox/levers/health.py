"""Is the server up?"""

from __future__ import annotations

from invoice_sandbox.levers.lever import Lever
from invoice_sandbox.store import Record


async def get_sandbox_health(_lever: Lever) -> Record:
    """Answered to anybody."""
    return {"status": "ok"}
