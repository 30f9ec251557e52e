"""The health check."""

from __future__ import annotations

from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.runtime.control_call import PublicControlCall
from invoice_sandbox.state import Record


async def get_sandbox_health(call: PublicControlCall) -> Record:
    """The status of the server and of its store; no credential is needed."""
    try:
        call.engine.store.check()
    except ApiError:
        return {"status": "ok", "store": "unavailable"}
    return {"status": "ok", "store": "ready"}
