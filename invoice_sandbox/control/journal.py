"""The journal: requests, responses, and what explains them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from invoice_sandbox.project.api import Response
from invoice_sandbox.runtime.control_call import ControlCall
from invoice_sandbox.state import Record

_DEFAULT_LIMIT: Final = 100


async def list_requests(call: ControlCall) -> Response:
    """The entries that match every filter of the query, newest first."""
    log = await call.engine.journal.entries(call.workspace.id)
    found = [entry for entry in reversed(log.entries) if _matches(entry, call.query)]
    headers = (("X-Total-Count", str(len(found))), ("X-Journal-Dropped", str(log.dropped)))
    return Response(found[: call.query.get("limit", _DEFAULT_LIMIT)], headers)


def _matches(entry: Record, query: Mapping[str, Any]) -> bool:
    return all(_FILTERS[name](entry, query[name]) for name in _FILTERS.keys() & query.keys())


_FILTERS: Final[Mapping[str, Callable[[Record, Any], bool]]] = {
    "operation": lambda entry, wanted: entry["operation"] == wanted,
    "method": lambda entry, wanted: entry["method"] == wanted.upper(),
    "status": lambda entry, wanted: entry["status"] == wanted,
    "fault": lambda entry, wanted: ("fault" in entry["why"]) is wanted,
}
