"""What was asked, what was answered, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from invoice_sandbox.handling import Answer
from invoice_sandbox.levers.lever import Lever
from invoice_sandbox.pipeline.journal import REQUESTS_LOG
from invoice_sandbox.store import Record

_DEFAULT_LIMIT: Final = 100


async def list_requests(lever: Lever) -> Answer:
    """The entries that match every filter of the query, newest first."""
    log = await lever.engine.store.log(lever.workspace.id, REQUESTS_LOG)
    found = [entry for entry in reversed(log.entries) if _matches(entry, lever.query)]
    headers = (("X-Total-Count", str(len(found))), ("X-Journal-Dropped", str(log.dropped)))
    return Answer(found[: lever.query.get("limit", _DEFAULT_LIMIT)], headers)


def _matches(entry: Record, query: Mapping[str, Any]) -> bool:
    return all(_FILTERS[name](entry, query[name]) for name in _FILTERS.keys() & query.keys())


_FILTERS: Final[Mapping[str, Callable[[Record, Any], bool]]] = {
    "operation": lambda entry, wanted: entry["operation"] == wanted,
    "method": lambda entry, wanted: entry["method"] == wanted.upper(),
    "status": lambda entry, wanted: entry["status"] == wanted,
    "fault": lambda entry, wanted: ("fault" in entry["why"]) is wanted,
}
