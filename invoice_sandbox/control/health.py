"""The health checks."""

from __future__ import annotations

from http import HTTPStatus

from invoice_sandbox.project.api import Response
from invoice_sandbox.runtime.control_call import PublicControlCall
from invoice_sandbox.state import Record


def get_sandbox_health(call: PublicControlCall) -> Response:
    """Return 200 if the server is ready; 503 if its store does not work, or it stops."""
    is_ready = call.engine.store.is_ready()
    store = "ready" if is_ready else "unavailable"
    is_stopping = call.engine.stopping.is_set()
    if is_ready and not is_stopping:
        return Response({"status": "ok", "store": store})
    state = "stopping" if is_stopping else "unavailable"
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return Response({"status": state, "store": store}, (("Retry-After", "1"),), status)


def get_sandbox_liveness(_call: PublicControlCall) -> Record:
    """Return that the process responds, whatever the state of its store."""
    return {"status": "ok"}
