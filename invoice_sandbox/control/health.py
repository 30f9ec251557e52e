"""Is the server up?"""

from __future__ import annotations

from invoice_sandbox.runtime.control_call import ControlCall
from invoice_sandbox.state import Record


async def get_sandbox_health(_lever: ControlCall) -> Record:
    """Answered to anybody."""
    return {"status": "ok"}
