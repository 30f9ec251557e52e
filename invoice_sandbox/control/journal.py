"""Control functions of the journal and of recordings, which bundles are made of."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Final

from invoice_sandbox import __version__
from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.base.errors import conflict
from invoice_sandbox.control.acceptance import BUNDLES
from invoice_sandbox.project.api import Response
from invoice_sandbox.runtime.agenda import finished
from invoice_sandbox.runtime.control_call import STREAM, ControlCall, Raw
from invoice_sandbox.runtime.engine import STREAMS_OF_A_WORKSPACE, Engine
from invoice_sandbox.runtime.journal import REQUESTS_LOG
from invoice_sandbox.runtime.journal_entry import JournalEntry
from invoice_sandbox.runtime.named_secrets import NamedSecrets, named_secrets
from invoice_sandbox.runtime.workspaces import BEGINNING
from invoice_sandbox.scenarios.faults import shown_fault
from invoice_sandbox.state import OUTCOMES_LOG, USERS, Contents, Log, Record, Snapshot, Workspace
from invoice_sandbox.state.credentials import CONTROL, allows
from invoice_sandbox.webhooks.outbox import DELIVERIES, published_delivery

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
        older_than=query.get("cursor"),
        with_messages=query.get("messages", True),
        with_control="id" in query and allows(call.credential.scopes, CONTROL),
    )
    headers = [("X-Total-Count", str(page.total)), ("X-Journal-Dropped", str(page.dropped))]
    if page.has_more:
        headers.append(call.link_to_next("/sandbox/requests", page.entries[-1]["requestId"]))
    return Response(page.entries, tuple(headers))


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
        raise conflict(
            f"The workspace has {STREAMS_OF_A_WORKSPACE} streams already",
            "Close a console, or another stream.",
        )
    return _streamed(_coming(call, after))


def _streamed(parts: AsyncGenerator[bytes, None]) -> Raw:
    return Raw(200, STREAM, headers=(("Cache-Control", "no-store"),), stream=parts)


async def _present(call: ControlCall, after: int) -> AsyncGenerator[bytes, None]:
    log = await call.engine.call(call.engine.store.log, call.workspace.id, REQUESTS_LOG)
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
    "failed": lambda entry, wanted: ((entry["status"] or 599) >= 400) is wanted,
    "fault": lambda entry, wanted: ("fault" in entry["why"]) is wanted,
    "id": lambda entry, wanted: entry["requestId"] == wanted,
}


_INTERNAL: Final = frozenset({USERS, "api_key_digests", "inbox", BUNDLES})
"""Collections that hold nothing but what is secret, in the project, or a bundle itself."""


def get_recording(call: ControlCall) -> Record:
    """The journal, steps and content of the workspace, with a name for each secret."""
    engine, workspace = call.engine, call.workspace
    secrets = named_secrets(engine, workspace)
    log = engine.store.log(workspace.id, REQUESTS_LOG)
    outcomes = engine.store.log(workspace.id, OUTCOMES_LOG)
    journal = [secrets.recorded(entry) for entry in log.entries]
    is_whole = all(isinstance(entry, JournalEntry) for entry in log.entries)
    taken = _beginning(engine, workspace)
    start = engine.store.contents(workspace.id, BEGINNING)
    end = engine.store.contents(workspace.id)
    deliveries = (end.records or {}).get(DELIVERIES, ())
    recording = {
        "version": __version__,
        "url": engine.url,
        "local": engine.local,
        "workspace": {"id": workspace.id, "seed": workspace.seed},
        "settings": dict(engine.conditions),
        "createdAt": (taken.taken_at - taken.clock.shift).isoformat(),
        "isComplete": is_whole and not (log.dropped or outcomes.dropped),
        "dropped": log.dropped,
        "start": _shown(start, taken.clock, secrets),
        "end": _shown(end, end.workspace.clock, secrets),
        "scenarios": _scenarios(engine, end),
        "journal": journal,
        "steps": [secrets.redacted(entry) for entry in finished(engine.store, workspace.id)],
        "deliveries": [secrets.redacted(published_delivery(delivery)) for delivery in deliveries],
        "outcomes": [secrets.redacted(entry) for entry in outcomes.entries],
    }
    masked: Record = jsonio.loads(secrets.masked(jsonio.dumps(recording).decode()).encode())
    return masked


def _beginning(engine: Engine, workspace: Workspace) -> Snapshot:
    snapshots = engine.store.snapshots(workspace.id)
    return next(snapshot for snapshot in snapshots if snapshot.id == BEGINNING)


def _shown(contents: Contents, clock: ClockState, secrets: NamedSecrets) -> Record:
    """Return the content of a workspace, without secrets. ``records`` None: they are too many."""
    return {
        "scenario": contents.workspace.scenario,
        "faults": [secrets.redacted(shown_fault(fault)) for fault in contents.workspace.faults],
        "clock": {
            "mode": clock.mode,
            "at": clock.at.isoformat(),
            "shift": clock.shift.total_seconds(),
        },
        "records": None
        if contents.records is None
        else {
            name: secrets.redacted(records)
            for name, records in contents.records.items()
            if records and name not in _INTERNAL
        },
    }


def _scenarios(engine: Engine, end: Contents) -> dict[str, Any]:
    """The files of the scenarios in use, as they were read."""
    names = {end.workspace.scenario, *end.workspace.named, engine.workspaces.scenario}
    known = engine.project.scenarios
    return {name: known[name].document for name in sorted(names) if name in known}
