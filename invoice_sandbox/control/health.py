"""The health checks."""

from __future__ import annotations

from http import HTTPStatus

from invoice_sandbox.project.api import Response
from invoice_sandbox.runtime.control_call import PublicControlCall
from invoice_sandbox.state import Record


async def get_sandbox_health(call: PublicControlCall) -> Response:
    """Whether the server is ready for requests: 503 if its store does not work, or it stops.

    Requests do not need the job engine; another server takes the jobs then.
    """
    parts = call.engine.store.readiness()
    shown = {name: "ready" if works else "unavailable" for name, works in parts.items()}
    is_stopping = call.engine.stopping.is_set()
    if parts["store"] and not is_stopping:
        return Response({"status": "ok", **shown})
    state = "stopping" if is_stopping else "unavailable"
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return Response({"status": state, **shown}, (("Retry-After", "1"),), status)


async def get_sandbox_liveness(_call: PublicControlCall) -> Record:
    """That the process responds, whatever the state of its store."""
    return {"status": "ok"}
