"""Hooks for Schemathesis: ``SCHEMATHESIS_HOOKS=invoice_sandbox.fuzzing.hooks schemathesis run …``.

Before the run they prepare the workspace with ``x-fuzz-setup`` of the contract and take a snapshot.
They restore it before every generated request, or before every sequence in the stateful phase, so
that the same request reproduces a finding.

INVOICE_SANDBOX_URL and INVOICE_SANDBOX_KEY name the workspace, as for the other commands. Use a
workspace whose data you do not need. The command ``fuzz`` also records every call.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import schemathesis
from hypothesis.control import current_build_context
from hypothesis.errors import InvalidArgument

from invoice_sandbox.control.client import DEFAULT_URL, ControlClient
from invoice_sandbox.fuzzing.contract import FORGETS, UNREACHABLE
from invoice_sandbox.fuzzing.record import KEYS_VARIABLE, RECORD_VARIABLE, Call, Mode, Writer
from invoice_sandbox.fuzzing.state import FuzzState
from invoice_sandbox.state.credentials import DEMO_KEY

_PROBES: Final = frozenset(
    {"unspecified_http_method", "malformed_content_type", "unsupported_content_type"}
)
_STATEFUL: Final = "stateful"
_AVAILABILITY: Final = "ensure_resource_availability"
_MEMORY: Final = frozenset({_AVAILABILITY, "use_after_free"})
_SUCCESSES: Final = range(200, 300)

_Case = schemathesis.Case[Any]


def _keys() -> list[str]:
    several = os.environ.get(KEYS_VARIABLE, "").split()
    return several or [os.environ.get("INVOICE_SANDBOX_KEY") or DEMO_KEY]


class _Run:
    """State of the hooks between calls. Schemathesis runs them in one thread."""

    def __init__(self) -> None:
        url = os.environ.get("INVOICE_SANDBOX_URL") or DEFAULT_URL
        record = os.environ.get(RECORD_VARIABLE)
        self.keys = _keys()
        self.state = FuzzState([ControlClient(url, key) for key in self.keys])
        self.writer = Writer(Path(record)) if record else None
        self.sequence: Any = None
        self.has_forgotten = False
        self.shown: set[Call] = set()

    def continues(self, case: _Case) -> bool:
        """Whether the case follows others of one sequence, which share their state."""
        if _phase(case) != _STATEFUL:
            self.sequence = None
            return False
        try:
            sequence = current_build_context()
        except InvalidArgument:
            return False
        before, self.sequence = self.sequence, sequence
        return before is sequence


_run: Final = _Run()

if _run.writer is not None:
    from invoice_sandbox.fuzzing.listening import report_to

    report_to(_run.writer, at_end=_run.state.restore)


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
    _run.state.mark_used()


@schemathesis.hook
def after_call(
    context: schemathesis.HookContext,  # noqa: ARG001 - the hook's signature is Schemathesis's
    case: _Case,
    response: schemathesis.Response,
) -> None:
    """Record the call; only the first of its type has its request.

    The requests of the check ``ignored_auth`` do not pass here; it judges them itself.
    """
    key = _sent_key(response)
    if key is not None:
        _run.state.mark_used(key)
    if response.status_code in _SUCCESSES and FORGETS in case.operation.definition.raw:
        _run.has_forgotten = True
    if _run.writer is None:
        return
    call = Call(
        operation=case.operation.definition.raw.get("operationId", case.operation.label),
        phase=_phase(case),
        mode=_mode(case),
        status=response.status_code,
        own_key=key is not None,
    )
    if call not in _run.shown:
        _run.shown.add(call)
        call = _with_request(call, case, response)
    _run.writer.write(call)


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
    is_excused = UNREACHABLE in case.operation.definition.raw and _AVAILABILITY in failure.checks
    is_forgotten = _run.has_forgotten and not _MEMORY.isdisjoint(failure.checks)
    return not (is_excused or is_forgotten)


def _phase(case: _Case) -> str:
    return case.meta.phase.name.value if case.meta else "unknown"


def _mode(case: _Case) -> Mode:
    if case.meta is None:
        return "positive"
    scenario = getattr(case.meta.phase.data, "scenario", None)
    if scenario is not None and scenario.value in _PROBES:
        return "probe"
    return "negative" if case.meta.generation.mode.is_negative else "positive"


def _sent_key(response: schemathesis.Response) -> str | None:
    """Which of our keys the request carried, in whatever header."""
    sent = [_text(value) for value in response.request.headers.values()]
    return next((key for key in _run.keys if any(key in text for text in sent)), None)


def _with_request(call: Call, case: _Case, response: schemathesis.Response) -> Call:
    headers = {
        name: _text(value)
        for name, value in response.request.headers.items()
        if any(key in _text(value) for key in _run.keys)
    }
    return Call(**{**vars(call), "request": case.as_curl_command(headers=headers)})


def _text(header: str | bytes) -> str:
    return header.decode("latin-1") if isinstance(header, bytes) else header
