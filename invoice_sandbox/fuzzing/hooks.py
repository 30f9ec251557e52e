"""Hooks for Schemathesis: ``SCHEMATHESIS_HOOKS=invoice_sandbox.fuzzing.hooks schemathesis run …``.

Before the run they prepare the workspace with ``x-fuzz-setup`` of the contract and take a snapshot.
They restore it before every generated request, or before every sequence in the stateful phase, so
that the same request reproduces a finding.

INVOICE_SANDBOX_URL and INVOICE_SANDBOX_KEY name the workspace, as for the other commands. Use a
workspace whose data you do not need.
"""

from __future__ import annotations

import os
from typing import Any, Final

import schemathesis
from hypothesis.control import current_build_context
from hypothesis.errors import InvalidArgument

from invoice_sandbox.control.client import DEFAULT_URL, ControlClient
from invoice_sandbox.fuzzing.command import KEYS_VARIABLE
from invoice_sandbox.fuzzing.state import FuzzState
from invoice_sandbox.state.credentials import DEMO_KEY

_UNREACHABLE: Final = "x-fuzz-unreachable"
"""On an operation: why no generated request can succeed."""

_FORGETS: Final = "x-fuzz-forgets"
"""On an operation: why it may delete or restore earlier data."""

_STATEFUL: Final = "stateful"
_AVAILABILITY: Final = "ensure_resource_availability"
_MEMORY: Final = frozenset({_AVAILABILITY, "use_after_free"})
_SUCCESSES: Final = range(200, 300)

_Case = schemathesis.Case[Any]


class _Run:
    """State of the hooks between calls. Schemathesis runs them in one thread."""

    def __init__(self) -> None:
        url = os.environ.get("INVOICE_SANDBOX_URL") or DEFAULT_URL
        keys = os.environ.get(KEYS_VARIABLE, "").split()
        keys = keys or [os.environ.get("INVOICE_SANDBOX_KEY") or DEMO_KEY]
        self.state = FuzzState([ControlClient(url, key) for key in keys])
        self.sequence: Any = None
        self.has_forgotten = False

    def continues(self, case: _Case) -> bool:
        """True if the case follows others of one sequence, which share their state."""
        if case.meta is None or case.meta.phase.name.value != _STATEFUL:
            self.sequence = None
            return False
        try:
            sequence = current_build_context()
        except InvalidArgument:
            return False
        before, self.sequence = self.sequence, sequence
        return before is sequence


_run: Final = _Run()


@schemathesis.hook
def before_load_schema(
    context: schemathesis.HookContext,  # noqa: ARG001 - the hook's signature is Schemathesis's
    raw_schema: dict[str, Any],
) -> None:
    """Prepare the workspaces, and add values of their data as examples of parameters."""
    _run.state.prepare(raw_schema)


@schemathesis.hook
def before_call(
    context: schemathesis.HookContext,  # noqa: ARG001 - the hook's signature is Schemathesis's
    case: _Case,
    kwargs: dict[str, Any],  # noqa: ARG001 - the hook's signature is Schemathesis's
) -> None:
    """Restore the prepared workspaces, unless a sequence of requests continues."""
    if not _run.continues(case):
        _run.state.restore()
        _run.has_forgotten = False


@schemathesis.hook
def after_call(
    context: schemathesis.HookContext,  # noqa: ARG001 - the hook's signature is Schemathesis's
    case: _Case,
    response: schemathesis.Response,
) -> None:
    """Note which workspaces the request may have changed, and whether it may delete resources."""
    _run.state.mark_used([_text(value) for value in response.request.headers.values()])
    if response.status_code in _SUCCESSES and _FORGETS in case.operation.definition.raw:
        _run.has_forgotten = True


@schemathesis.hook
def filter_failure(
    context: schemathesis.HookContext,  # noqa: ARG001 - the hook's signature is Schemathesis's
    failure: Any,
    case: _Case,
    response: schemathesis.Response,  # noqa: ARG001 - the hook's signature is Schemathesis's
) -> bool:
    """Drop false failures of the checks that remember resources.

    Where no request can succeed, a 404 need not be about the created resource. After an operation
    with ``x-fuzz-forgets`` a resource may be deleted or restored.
    """
    is_excused = _UNREACHABLE in case.operation.definition.raw and _AVAILABILITY in failure.checks
    is_forgotten = _run.has_forgotten and not _MEMORY.isdisjoint(failure.checks)
    return not (is_excused or is_forgotten)


def _text(header: str | bytes) -> str:
    return header.decode("latin-1") if isinstance(header, bytes) else header
