"""Which injected fault a request meets, by the order of their making, their count and the seed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Final

from invoice_sandbox.contract.operations import Operation
from invoice_sandbox.store import Fault, Workspace

NEEDS_ANSWER: Final = frozenset({"truncate", "malformed", "drip", "content-type"})
"""Kinds that spoil an answer, so that the request must have been carried out."""

ANSWERS: Final = frozenset({"error", "status"})
"""Kinds that put another answer in the place of the real one."""

WAITS: Final = frozenset({"latency", "drip"})
"""Kinds that take time."""


@dataclass(frozen=True)
class Drawn:
    """The fault that a request meets, if any, and the faults in force afterwards."""

    fault: Fault | None
    faults: tuple[Fault, ...]


def draw(workspace: Workspace, operation: Operation) -> Drawn:
    """The first fault for the operation that the seed lets take effect on this request."""
    faults = list(workspace.faults)
    for index, fault in enumerate(faults):
        if not _fits(fault, operation):
            continue
        seen = replace(fault, seen=fault.seen + 1)
        faults[index] = seen
        if chance(workspace.seed, fault.id, seen.seen) < fault.probability:
            left = None if fault.left is None else fault.left - 1
            spent = replace(seen, left=left, fired=fault.fired + 1)
            faults[index : index + 1] = [] if left == 0 else [spent]
            return Drawn(seen, tuple(faults))
    return Drawn(None, tuple(faults))


def _fits(fault: Fault, operation: Operation) -> bool:
    if fault.operation is not None:
        return fault.operation == operation.id
    # An 'error' is one that the operation declares, also when it is meant for all of them.
    return fault.kind != "error" or operation.response_for(fault.status or 0) is not None


def wait(workspace: Workspace, fault: Fault) -> float:
    """Seconds that the fault lets pass this time."""
    low = fault.delay or 0.0
    if fault.up_to is None:
        return low
    share = chance(workspace.seed, f"{fault.id}/wait", fault.seen)
    return low + share * (fault.up_to - low)


def chance(seed: int, name: str, number: int) -> float:
    """A number from 0 up to 1, the same for the same seed, name and number."""
    digest = hashlib.sha256(f"faults/{seed}/{name}/{number}".encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56
