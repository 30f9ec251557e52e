"""What was touched, of all that there is."""

from __future__ import annotations

from typing import Any

from invoice_sandbox.coverage.report import report_of
from invoice_sandbox.levers.lever import Lever


async def get_coverage(lever: Lever) -> dict[str, Any]:
    """What the workspace, and those made from it, have touched so far."""
    touched = lever.engine.coverage.of(lever.workspace.id)
    return report_of(lever.engine.project, touched).data()
