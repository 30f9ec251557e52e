"""The control function of the coverage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from invoice_sandbox.coverage.report import report_of
from invoice_sandbox.runtime.control_call import ControlCall, ControlFunction


async def get_coverage(call: ControlCall) -> dict[str, Any]:
    """The coverage of the workspace and of those created from it."""
    hits = call.engine.coverage.of(call.workspace.id)
    return report_of(call.engine.project, hits).data()


COVERAGE_FUNCTIONS: Final[Mapping[str, ControlFunction]] = {"getCoverage": get_coverage}
