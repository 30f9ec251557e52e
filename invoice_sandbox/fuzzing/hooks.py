"""Hooks for Schemathesis: ``SCHEMATHESIS_HOOKS=invoice_sandbox.fuzzing.hooks schemathesis run …``.

Before the run they prepare the workspace as the contract says (``x-fuzz-setup``) and take a
snapshot. Every generated request then meets the workspace in that state; in the stateful phase
every sequence of requests does. So what was found is found again by the same request.

INVOICE_SANDBOX_URL and INVOICE_SANDBOX_KEY say which workspace that is, as for the other commands;
it had better be one that nobody needs. The command ``fuzz`` also has every call written down.
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
from invoice_sandbox.fuzzing.state import Ground
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
    """What the hooks remember from call to call. Schemathesis runs them in one thread."""

    def __init__(self) -> None:
        url = os.environ.get("INVOICE_SANDBOX_URL") or DEFAULT_URL
        record = os.environ.get(RECORD_VARIABLE)
        self.keys = _keys()
        self.ground = Ground([ControlClient(url, key) for key in self.keys])
        self.writer = Writer(Path(record)) if record else None
        self.sequence: Any = None
        self.has_forgotten = False
        self.shown: set[Call] = set()

    def goes_on(self, case: _Case) -> bool:
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

    report_to(_run.writer, at_end=_run.ground.restore)


@schemathesis.hook
def before_load_schema(
    context: schemathesis.HookContext,  # noqa: ARG001 - the hook's signature is Schemathesis's
    raw_schema: dict[str, Any],
) -> None:
    """Prepare the workspaces, and offer what they hold as examples of parameters."""
    _run.ground.prepare(raw_schema)


@schemathesis.hook
def before_call(
    context: schemathesis.HookContext,  # noqa: ARG001 - the hook's signature is Schemathesis's
    case: _Case,
    kwargs: dict[str, Any],  # noqa: ARG001 - the hook's signature is Schemathesis's
) -> None:
    """Put the workspaces back to what was prepared, unless a sequence of requests goes on."""
    if not _run.goes_on(case):
        _run.ground.restore()
        _run.has_forgotten = False
    _run.ground.mark_used()


@schemathesis.hook
def after_call(
    context: schemathesis.HookContext,  # noqa: ARG001 - the hook's signature is Schemathesis's
    case: _Case,
    response: schemathesis.Response,
) -> None:
    """Write the call down; only the first of its kind has its request.

    The probes that the check ``ignored_auth`` sends do not pass here; it judges them itself.
    """
    key = _sent_key(response)
    if key is not None:
        _run.ground.mark_used(key)
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
    """Drop what is no failure: a thing that was made and cannot be found, where no request can
    succeed, for there a 404 need not be about that thing; and a thing that is gone, or is back,
    after an operation that forgets."""
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
