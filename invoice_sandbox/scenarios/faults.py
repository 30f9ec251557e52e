"""Fault injection: which fault applies to a request, by order, count and seed; checks of faults."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import parse_duration
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.openapi.responses import (
    SET_BY_SERVER,
    NoResponseError,
    NotOfferedError,
    check_headers,
    given_response,
)
from invoice_sandbox.state import Fault, Record, Workspace

ALTER_RESPONSE: Final = frozenset({"truncate", "malformed", "drip", "content-type", "patch"})
"""Kinds that alter a response, so the request must have been executed."""

REPLACE_RESPONSE: Final = frozenset({"error", "status", "html", "response"})
"""Kinds that replace the response with another one."""

TAKE_TIME: Final = frozenset({"latency", "drip"})
"""Kinds that take time."""

STUB_LIMIT: Final = 64 * 1024
"""The most bytes of body and headers of a ``response``."""

PREFIX: Final = "flt_sandbox"
_MEMBERS: Final = {
    "status": ("error", "status", "html", "response"),
    "retryAfter": ("error", "status", "html"),
    "patch": ("patch",),
    "delay": ("latency", "drip"),
    "upTo": ("latency",),
    "body": ("response",),
    "headers": ("response",),
}
"""Members that only some kinds have."""

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
    order = sorted(enumerate(faults), key=lambda row: not row[1].only_named)
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


def fault_problem(
    operations: Mapping[str, Operation], body: Mapping[str, Any], *, needs_keys: bool = True
) -> str | None:
    """Return why the members of a fault's body, each valid by itself, are invalid together; or
    None.

    Without ``needs_keys``, requests without a key belong to the first workspace.
    """
    kind = body["kind"]
    for member, kinds in _MEMBERS.items():
        if member in body and kind not in kinds:
            return f"A fault of kind '{kind}' cannot have '{member}'; only {_listed(kinds)} can"
    if kind == "patch" and "patch" not in body:
        return "A fault of kind 'patch' needs a 'patch'"
    if kind == "response" and "operation" not in body:
        return "A fault of kind 'response' needs an 'operation'"
    if body.get("when") == "before" and kind in ALTER_RESPONSE:
        return f"A fault of kind '{kind}' alters a response, so 'when' must be 'after'"
    if "upTo" in body and parse_duration(body["upTo"]) < parse_duration(body.get("delay", "PT2S")):
        return "'upTo' must not be shorter than 'delay'"
    name = body.get("operation")
    if needs_keys and name is not None and not operations[name].security.alternatives:
        return f"{name} needs no key, so it belongs to no workspace and cannot have faults"
    if kind == "error":
        return _undeclared(operations, body)
    return None


def _listed(kinds: Sequence[str]) -> str:
    *others, last = (f"'{kind}'" for kind in kinds)
    return f"{', '.join(others)} and {last}" if others else last


def response_problem(contract: Contract, body: Mapping[str, Any]) -> str | None:
    """Return why the contract does not allow the response of a fault ``response``; or None."""
    if body["kind"] != "response":
        return None
    operation, status = contract.operations[body["operation"]], _whole(body.get("status"))
    if status is not None and operation.response_for(status) is None:
        declared = ", ".join(sorted(operation.responses))
        return f"{operation.id} declares no response {status}, only {declared}"
    for name in body.get("headers", {}):
        if name.lower() in SET_BY_SERVER:
            return f"the server sets the header {name} itself"
    stub = _stub(body)
    if stub is not None and len(stub.encode()) > STUB_LIMIT:
        return f"body and headers are longer than {STUB_LIMIT} bytes"
    try:
        headers = body.get("headers", {})
        check_headers(contract, operation, status, headers)
        if "body" in body:
            given_response(contract, operation, "", status, body["body"], headers)
    except NotOfferedError as error:
        return error.problem
    except NoResponseError as error:
        return f"{error}; add it to 'headers'"
    return None


def _undeclared(operations: Mapping[str, Operation], body: Mapping[str, Any]) -> str | None:
    status = int(body.get("status", _STATUS["error"]))
    name = body.get("operation")
    asked = [operations[name]] if name else operations.values()
    if status >= 400 and any(operation.response_for(status) is not None for operation in asked):
        return None
    lack = f"{name} declares no error" if name else "No operation declares an error"
    return f"{lack} {status}; use kind 'status', which can return any"


def fault_of(
    fault_id: str, body: Mapping[str, Any], scenario: str | None = None, *, only_named: bool = False
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
        stub=_stub(body),
    )


def _stub(body: Mapping[str, Any]) -> str | None:
    stub = {name: body[name] for name in ("body", "headers") if name in body}
    return jsonio.dumps(stub).decode() if stub else None


def _whole(value: Any) -> int | None:
    """Return an integer, which JSON Schema also accepts as 503.0."""
    return None if value is None else int(value)


def _seconds(body: Mapping[str, Any], name: str, default: float | None) -> float | None:
    if name not in body:
        return default
    return None if body[name] is None else parse_duration(body[name]).total_seconds()


def shown_fault(fault: Fault) -> Record:
    """Return a fault as the control API shows it."""
    shown: Record = {
        "id": fault.id,
        "operation": fault.operation,
        "kind": fault.kind,
        "when": fault.when,
        "count": fault.left,
        "probability": fault.probability,
        "fired": fault.fired,
    }
    if fault.status is not None:
        shown["status"] = fault.status
    if fault.patch is not None:
        shown["patch"] = dict(fault.patch)
    times = (("delay", fault.delay), ("upTo", fault.up_to), ("retryAfter", fault.retry_after))
    for name, seconds in times:
        if seconds is not None:
            shown[name] = f"PT{seconds:g}S"
    return shown | (jsonio.loads(fault.stub.encode()) if fault.stub else {})
