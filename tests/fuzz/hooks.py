"""Loaded by Schemathesis (``SCHEMATHESIS_HOOKS``): writes down every call of a generated case.

The probes that ``ignored_auth`` sends without or with a wrong credential do not pass here. That
check judges them itself: anything but 401 or 403 (a 500, too) is a failure it reports.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import schemathesis

from tests.fuzz.calls import AUTHORIZATION_VARIABLE, RECORD_VARIABLE, Call, Mode, append

_PROBES: Final = frozenset(
    {"unspecified_http_method", "malformed_content_type", "unsupported_content_type"}
)

_shown: Final[set[Call]] = set()


@schemathesis.hook
def after_call(
    context: schemathesis.HookContext,  # noqa: ARG001 - the hook's signature is Schemathesis's
    case: schemathesis.Case[Any],
    response: schemathesis.Response,
) -> None:
    """Append the call to the record; only the first of its kind carries its request."""
    call = _call(case, response)
    first = call not in _shown
    _shown.add(call)
    request = _curl(case, response) if first else ""
    append(
        Path(os.environ[RECORD_VARIABLE]),
        Call(call.operation, call.phase, call.mode, call.status, call.own_key, request),
    )


def _call(case: schemathesis.Case[Any], response: schemathesis.Response) -> Call:
    authorization = response.request.headers.get("Authorization")
    return Call(
        operation=case.operation.definition.raw.get("operationId", case.operation.label),
        phase=case.meta.phase.name.value if case.meta else "unknown",
        mode=_mode(case),
        status=response.status_code,
        own_key=_text(authorization) in os.environ[AUTHORIZATION_VARIABLE].split("\n"),
    )


def _mode(case: schemathesis.Case[Any]) -> Mode:
    if case.meta is None:
        return "positive"
    scenario = getattr(case.meta.phase.data, "scenario", None)
    if scenario is not None and scenario.value in _PROBES:
        return "probe"
    return "negative" if case.meta.generation.mode.is_negative else "positive"


def _curl(case: schemathesis.Case[Any], response: schemathesis.Response) -> str:
    authorization = response.request.headers.get("Authorization")
    headers = {} if authorization is None else {"Authorization": _text(authorization)}
    return case.as_curl_command(headers=headers)


def _text(header: str | bytes | None) -> str | None:
    return header.decode("latin-1") if isinstance(header, bytes) else header
