"""The journal: requests, responses, and what explains them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from invoice_sandbox.project.api import Response
from invoice_sandbox.runtime.control_call import ControlCall
from invoice_sandbox.state import Record
from invoice_sandbox.state.credentials import CONTROL, allows

_DEFAULT_LIMIT: Final = 100


async def list_requests(call: ControlCall) -> Response:
    """The entries that match every filter of the query, newest first.

    By its id, who may act also finds a request to the control API.
    """
    query = call.query
    filters = [(_FILTERS[name], query[name]) for name in _FILTERS.keys() & query.keys()]
    found = await call.engine.journal.newest(
        call.workspace.id,
        lambda entry: all(matches(entry, wanted) for matches, wanted in filters),
        query.get("text", ""),
        query.get("limit", _DEFAULT_LIMIT),
        with_control="id" in query and allows(call.credential.scopes, CONTROL),
    )
    headers = (("X-Total-Count", str(found.total)), ("X-Journal-Dropped", str(found.dropped)))
    return Response(found.entries, headers)


_FILTERS: Final[Mapping[str, Callable[[Record, Any], bool]]] = {
    "operation": lambda entry, wanted: entry["operation"] == wanted,
    "method": lambda entry, wanted: entry["method"] == wanted.upper(),
    "status": lambda entry, wanted: entry["status"] == wanted,
    "fault": lambda entry, wanted: ("fault" in entry["why"]) is wanted,
    "id": lambda entry, wanted: entry["requestId"] == wanted,
}
