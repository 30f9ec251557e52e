"""Fault injection: which fault applies to a request, by order, count and seed; checks of faults."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from invoice_sandbox.base.clock import parse_duration
from invoice_sandbox.openapi.operation import Operation
from invoice_sandbox.state import Fault, Workspace

ALTER_RESPONSE: Final = frozenset({"truncate", "malformed", "drip", "content-type", "patch"})
"""Kinds that alter a response, so the request must have been executed."""

REPLACE_RESPONSE: Final = frozenset({"error", "status", "html"})
"""Kinds that replace the response with another one."""

TAKE_TIME: Final = frozenset({"latency", "drip"})
"""Kinds that take time."""

PREFIX: Final = "flt_sandbox"
_DELAY: Final = 2.0
_STATUS: Final = {"error": 429, "status": 503, "html": 502}
_RETRY_AFTER: Final = {429: 1.0, 503: 1.0}
"""Seconds in the header ``Retry-After`` of injected responses, by status."""


@dataclass(frozen=True)
class Selection:
    """The fault that applies to a request, if any, and the faults that remain afterwards."""

    fault: Fault | None
    faults: tuple[Fault, ...]


def select_fault(workspace: Workspace, operation: Operation, named: str | None = None) -> Selection:
    """Select the first fault for the operation whose probability takes effect on this request.

    Faults of the scenario that the request has ``named`` come first.
    """
    faults = list(workspace.faults)
    order = sorted(enumerate(faults), key=lambda one: not one[1].only_named)
    for index, fault in order:
        if not _fits(fault, operation):
            continue
        if fault.only_named and fault.scenario != named:
            continue
        seen = replace(fault, seen=fault.seen + 1)
        faults[index] = seen
        if fraction(workspace.seed, fault.id, seen.seen) < fault.probability:
            left = None if fault.left is None else fault.left - 1
            spent = replace(seen, left=left, fired=fault.fired + 1)
            faults[index : index + 1] = [] if left == 0 else [spent]
            return Selection(seen, tuple(faults))
    return Selection(None, tuple(faults))


def _fits(fault: Fault, operation: Operation) -> bool:
    if fault.operation is not None:
        return fault.operation == operation.id
    # An 'error' is always one that the operation declares, even for faults of all operations.
    return fault.kind != "error" or operation.response_for(fault.status or 0) is not None


def delay_seconds(workspace: Workspace, fault: Fault) -> float:
    """The delay of a fault in seconds; between its bounds it is drawn from the seed."""
    low = fault.delay or 0.0
    if fault.up_to is None:
        return low
    share = fraction(workspace.seed, f"{fault.id}/wait", fault.seen)
    return low + share * (fault.up_to - low)


def fraction(seed: int, name: str, number: int) -> float:
    """A pseudo-random number in [0, 1), determined by the arguments."""
    digest = hashlib.sha256(f"faults/{seed}/{name}/{number}".encode()).digest()
    return int.from_bytes(digest[:7]) / 2**56


def fault_problem(operations: Mapping[str, Operation], body: Mapping[str, Any]) -> str | None:
    """Why the members of a fault's body, each valid by itself, are invalid together; or None."""
    kind = body["kind"]
    if "status" in body and kind not in REPLACE_RESPONSE:
        return f"A fault of kind '{kind}' cannot have 'status'; it has no response of its own"
    if "retryAfter" in body and kind not in REPLACE_RESPONSE:
        return f"A fault of kind '{kind}' cannot have 'retryAfter'; it has no response of its own"
    if ("patch" in body) != (kind == "patch"):
        return "A fault has 'patch' if it is of kind 'patch', and only then"
    if "delay" in body and kind not in TAKE_TIME:
        return f"A fault of kind '{kind}' cannot have 'delay'; only 'latency' and 'drip' can"
    if "upTo" in body and kind != "latency":
        return f"A fault of kind '{kind}' cannot have 'upTo'; only 'latency' can"
    if body.get("when") == "before" and kind in ALTER_RESPONSE:
        return f"A fault of kind '{kind}' alters a response, so 'when' must be 'after'"
    if "upTo" in body and parse_duration(body["upTo"]) < parse_duration(body.get("delay", "PT2S")):
        return "'upTo' must not be shorter than 'delay'"
    name = body.get("operation")
    if name is not None and not operations[name].security.alternatives:
        return f"{name} needs no key, so it belongs to no workspace and cannot have faults"
    if kind == "error":
        return _undeclared(operations, body)
    return None


def _undeclared(operations: Mapping[str, Operation], body: Mapping[str, Any]) -> str | None:
    status = int(body.get("status", _STATUS["error"]))
    name = body.get("operation")
    asked = [operations[name]] if name else operations.values()
    if status >= 400 and any(one.response_for(status) is not None for one in asked):
        return None
    lack = f"{name} declares no error" if name else "No operation declares an error"
    return f"{lack} {status}; use kind 'status', which can return any"


def fault_of(
    fault_id: str,
    body: Mapping[str, Any],
    scenario: str | None = None,
    *,
    only_named: bool = False,
) -> Fault:
    """The fault of a request body, with default values for omitted members."""
    kind = body["kind"]
    default_delay = _DELAY if kind in TAKE_TIME else None
    status = _whole(body.get("status", _STATUS.get(kind)))
    return Fault(
        id=fault_id,
        kind=kind,
        operation=body.get("operation"),
        status=status,
        delay=_seconds(body, "delay", default_delay),
        up_to=_seconds(body, "upTo", None),
        when=body.get("when", "after" if kind in ALTER_RESPONSE else "before"),
        left=_whole(body.get("count", 1)),
        probability=float(body.get("probability", 1)),
        scenario=scenario,
        only_named=only_named,
        retry_after=_seconds(body, "retryAfter", _RETRY_AFTER.get(status or 0)),
        patch=body.get("patch"),
    )


def _whole(value: Any) -> int | None:
    """JSON Schema accepts 503.0 as an integer."""
    return None if value is None else int(value)


def _seconds(body: Mapping[str, Any], name: str, default: float | None) -> float | None:
    if name not in body:
        return default
    return None if body[name] is None else parse_duration(body[name]).total_seconds()
