"""The journal: requests, responses, and what explains them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import reject
from invoice_sandbox.project.api import Response
from invoice_sandbox.runtime.control_call import STREAM, ControlCall, Raw
from invoice_sandbox.runtime.engine import STREAMS_OF_A_WORKSPACE
from invoice_sandbox.runtime.journal import REQUESTS_LOG
from invoice_sandbox.state import Log, Record
from invoice_sandbox.state.credentials import CONTROL, allows

_DEFAULT_LIMIT: Final = 100


def list_requests(call: ControlCall) -> Response:
    """Return the entries that match every filter of the query, newest first.

    By its id, who may act also finds a request to the control API.
    """
    query = call.query
    page = call.engine.journal.newest(
        call.workspace.id,
        partial(_matches, query),
        query.get("text", ""),
        query.get("limit", _DEFAULT_LIMIT),
        with_control="id" in query and allows(call.credential.scopes, CONTROL),
    )
    headers = (("X-Total-Count", str(page.total)), ("X-Journal-Dropped", str(page.dropped)))
    return Response(page.entries, headers)


def stream_requests(call: ControlCall) -> Raw:
    """Stream the entries that match every filter, as they come. Raises ApiError 409.

    A client that does not accept a stream gets only those that are there after ``Last-Event-ID``.
    """
    engine, workspace_id = call.engine, call.workspace.id
    last = engine.store.count_logged(workspace_id, REQUESTS_LOG)
    wanted = call.last_event if "last-event-id" in call.headers else last
    after = wanted if wanted <= last else 0  # a number of an earlier process
    if not call.wants_stream:
        return _streamed(_present(call, after))
    if not engine.may_stream(workspace_id):
        raise reject(
            "conflict",
            problem=f"The workspace has {STREAMS_OF_A_WORKSPACE} streams already",
            advice="Close a console, or another stream.",
        )
    return _streamed(_coming(call, after))


def _streamed(parts: AsyncGenerator[bytes, None]) -> Raw:
    return Raw(200, STREAM, headers=(("Cache-Control", "no-store"),), stream=parts)


async def _present(call: ControlCall, after: int) -> AsyncGenerator[bytes, None]:
    log = call.engine.store.log(call.workspace.id, REQUESTS_LOG)
    for part in _events(call, log, after):
        yield part


async def _coming(call: ControlCall, after: int) -> AsyncGenerator[bytes, None]:
    async with aclosing(call.engine.news(call.workspace.id, {REQUESTS_LOG: after})) as news:
        async for found in news:
            if found is None:
                yield b": connected\n\n"
                continue
            log = found[REQUESTS_LOG]
            for part in _events(call, log, after):
                yield part
            after = log.last


def _events(call: ControlCall, log: Log, after: int) -> Iterator[bytes]:
    """Entries of a log after the one with a number, as server-sent events."""
    if log.dropped > after:
        yield b'event: dropped\ndata: {"count": %d}\n\n' % (log.dropped - after)
    journal, matches = call.engine.journal, partial(_matches, call.query)
    for number, entry in enumerate(log.entries, log.dropped + 1):
        shown = journal.shown(entry, matches, call.query.get("text", ""))
        if number > after and shown is not None:
            yield b"id: %d\nevent: request\ndata: %s\n\n" % (number, jsonio.dumps(shown))


def _matches(query: Mapping[str, Any], entry: Record) -> bool:
    """True if an entry matches every filter of a query."""
    return all(_FILTERS[name](entry, query[name]) for name in _FILTERS.keys() & query.keys())


_FILTERS: Final[Mapping[str, Callable[[Record, Any], bool]]] = {
    "operation": lambda entry, wanted: entry["operation"] == wanted,
    "method": lambda entry, wanted: entry["method"] == wanted.upper(),
    "status": lambda entry, wanted: entry["status"] == wanted,
    "fault": lambda entry, wanted: ("fault" in entry["why"]) is wanted,
    "id": lambda entry, wanted: entry["requestId"] == wanted,
}
