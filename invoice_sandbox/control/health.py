"""The health checks."""

from __future__ import annotations

from http import HTTPStatus

from invoice_sandbox.project.api import Response
from invoice_sandbox.runtime.control_call import PublicControlCall
from invoice_sandbox.state import Record


async def get_sandbox_health(call: PublicControlCall) -> Response:
    """Whether the server is ready for requests: 503 unless everything that they need works."""
    parts = call.engine.readiness()
    shown = {name: "ready" if works else "unavailable" for name, works in parts.items()}
    if all(parts.values()):
        return Response({"status": "ok", **shown})
    status = HTTPStatus.SERVICE_UNAVAILABLE
    return Response({"status": "unavailable", **shown}, (("Retry-After", "1"),), status)


async def get_sandbox_liveness(_call: PublicControlCall) -> Record:
    """That the process responds, whatever the state of its store."""
    return {"status": "ok"}
