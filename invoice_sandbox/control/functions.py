"""The function of every operation of the control API.

It is named after the operationId: ``getClock`` is ``get_clock``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from invoice_sandbox.control import (
    acceptance,
    clock,
    coverage,
    faults,
    health,
    journal,
    listeners,
    recordings,
    scenarios,
    snapshots,
    webhooks,
    workspaces,
)
from invoice_sandbox.runtime.control_call import ControlFunction, functions_of

CONTROL_FUNCTIONS: Final[Mapping[str, ControlFunction]] = functions_of(
    acceptance,
    clock,
    coverage,
    faults,
    health,
    journal,
    listeners,
    recordings,
    scenarios,
    snapshots,
    webhooks,
    workspaces,
)
"""By operationId."""
