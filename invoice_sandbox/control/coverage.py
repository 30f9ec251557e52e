"""Contract coverage of a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from invoice_sandbox.base.coverage import Report, report_of
from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.runtime.control_call import ControlCall

_WRONG_METHOD: Final = "405"
"""Left out: a request with a wrong method has no operation."""


def get_coverage(call: ControlCall) -> Report:
    """The coverage by the workspace and by those created from it."""
    contract = call.engine.project.contract
    counts = call.engine.workspaces.counted(call.workspace)
    return report_of(
        [
            {"route": f"{operation.method} {contract.base_path}{operation.path}"}
            | _covered(operation, counts)
            for operation in contract.operations.values()
        ]
    )


def _covered(operation: Operation, counts: Mapping[tuple[str, int], int]) -> dict[str, Any]:
    """Return the counts of the declared statuses of an operation. A status counts for the response
    that declares it: ``"404"``, else ``"4XX"``, else ``"default"``."""
    declared = {status: 0 for status in sorted(operation.responses) if status != _WRONG_METHOD}
    returned = {status: count for (name, status), count in counts.items() if name == operation.id}
    for status, count in returned.items():
        names = (str(status), f"{status // 100}XX", "default")
        name = next((name for name in names if name in declared), None)
        if name is not None:
            declared[name] += count
    return {"operation": operation.id, "covered": bool(returned), "statuses": declared}
