"""What was touched, of all that there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from invoice_sandbox.coverage.report import report_of
from invoice_sandbox.runtime.control_call import ControlCall, ControlFunction


async def get_coverage(call: ControlCall) -> dict[str, Any]:
    """What the workspace, and those made from it, have touched so far."""
    touched = call.engine.coverage.of(call.workspace.id)
    return report_of(call.engine.project, touched).data()


COVERAGE_FUNCTIONS: Final[Mapping[str, ControlFunction]] = {"getCoverage": get_coverage}
