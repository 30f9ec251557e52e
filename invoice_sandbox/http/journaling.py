"""The journal entry of a request, its explanation, and its line in the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from itertools import chain
from typing import Any, Final

from msgspec import structs

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import instant_text
from invoice_sandbox.http.credentials import workspace_of_caller
from invoice_sandbox.http.request import READING, Headers, Reply, Request, ensure_id, printable
from invoice_sandbox.openapi.load.operations import CONSOLE, HELP
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.runtime.journal_entry import NO_BODY, Body, JournalEntry, Why
from invoice_sandbox.state import Workspace

EXPLAIN: Final = "x-sandbox-explain"
_YES: Final = ("1", "true")
_MAX_EXPLAIN_LENGTH: Final = 4096

_IN_CONSOLE: Final = f"{CONSOLE}/"
_UNRECORDED: Final = "x-sandbox-journal"
"""``off`` in this header: the request is in no journal, as a tool sent it and not a test."""

FAILURE: Final = "failure"
"""The entry of the journal for an internal error, and no response."""

REQUESTS: Final = logging.getLogger("invoice_sandbox.requests")
"""Gets a line about each request at the level INFO."""

MEMBERS: Final = "request"
"""The attribute of its records that has the members of the line."""


def recorded(engine: Engine, request: Request, reply: Reply) -> Reply:
    """Return the response with the headers that every one has, once it is in the journal."""
    workspace = request.workspace or workspace_of_caller(engine, request)
    why = _why(engine, request, workspace)
    reply = with_common_headers(engine, request, reply)
    seconds = engine.system_clock.monotonic() - request.started
    _record(engine, request, reply, workspace, why, seconds)
    if REQUESTS.isEnabledFor(logging.INFO) and not request.is_observer:
        line, members = engine.journal.logged(_entry(request, reply, seconds, why))
        REQUESTS.info("%s", line, extra={MEMBERS: members})
    return _explained(engine, request, reply, why)


def with_common_headers(engine: Engine, request: Request, reply: Reply) -> Reply:
    """Return the response with the headers that every response to the request has."""
    names = engine.project.conventions
    ensure_id(request, names.request_id_prefix)
    common: Headers = (
        (names.request_id_header, request.id),
        (names.version_header, engine.project.contract.version),
        *request.headers,
    )
    return structs.replace(reply, headers=(*common, *reply.headers))


def _record(
    engine: Engine,
    request: Request,
    reply: Reply,
    workspace: Workspace | None,
    why: Why,
    seconds: float,
) -> None:
    """Write the journal: requests to the project's API, and changes by the control API, which are
    not listed.

    A request with a rejected credential is in the journal of the default workspace, one with a
    revoked key in that of the key's workspace.
    """
    if request.is_observer or _is_in_console(request):
        return  # the console sends requests of its own
    changes = request.method not in READING
    is_control = _is_control(engine, request)
    is_listed = not is_control and request.head.first.get(_UNRECORDED) != "off"
    if not (is_listed or changes):
        return  # what only looks may be sent by the thousand
    if is_listed and workspace is None and reply.status == HTTPStatus.UNAUTHORIZED:
        workspace = _owner_of_rejected(engine, request)
        clock = workspace.clock
        why = structs.replace(why, clock=clock.mode, at=clock.now(engine.system_clock))
    if is_listed and workspace is not None:
        _count(engine, request, workspace, reply)
    owner = None if workspace is None else workspace.id
    is_of_other = request.served_by not in {None, owner}
    marks = {"is_control": is_control, "is_listed": is_listed, "is_sent_again": not is_of_other}
    entry = _entry(request, reply, seconds, why, **marks)
    if owner is not None and (is_listed or not is_of_other):
        engine.journal.record(owner, entry)
    if is_of_other and changes and request.served_by is not None:
        entry = structs.replace(entry, is_listed=False, is_sent_again=True)
        engine.journal.record(request.served_by, entry)


def _is_control(engine: Engine, request: Request) -> bool:
    if request.endpoint is not None:
        return request.endpoint.is_control
    return request.path.startswith(f"{engine.project.control.base_path}/")


def _is_in_console(request: Request) -> bool:
    return request.path == CONSOLE or request.path.startswith(_IN_CONSOLE)


def _owner_of_rejected(engine: Engine, request: Request) -> Workspace:
    workspace_id = request.revoked_key_of
    owner = None if workspace_id is None else engine.store.workspace(workspace_id)
    return owner or engine.default_workspace()


def _count(engine: Engine, request: Request, owner: Workspace, reply: Reply) -> None:
    """Count the response for the coverage, unless a fault resets the connection."""
    is_reset = request.fault is not None and request.fault.is_reset
    if request.endpoint is not None and not is_reset:
        engine.workspaces.count(owner, request.endpoint.operation.id, reply.status)


def _explained(engine: Engine, request: Request, reply: Reply, why: Why) -> Reply:
    """Return the response with its explanation, if the request asks for it."""
    if request.head.first.get(EXPLAIN, "").lower() not in _YES:
        return reply
    if request.is_observer or _is_in_console(request):
        return reply
    redactor = engine.journal.redactor
    shown = redactor.explanation(why, request.head.headers, _path_secrets(request))
    found = {name: value for name, value in shown.items() if name != FAILURE}
    if request.error:
        found["help"] = f"{engine.public_path}{HELP}/errors.html#{request.error}"
    short = _short(found)
    return structs.replace(reply, headers=(*reply.headers, ("X-Sandbox-Explain", short)))


def _why(engine: Engine, request: Request, workspace: Workspace | None) -> Why:
    """Return what explains a response, at the real end of its request."""
    operation = request.endpoint.operation.id if request.endpoint else None
    if workspace is None:
        return Why(operation, found=request.why)
    scenario = request.scenario.name if request.scenario else workspace.scenario
    clock = workspace.clock
    return Why(operation, scenario, clock.mode, clock.now(engine.system_clock), request.why)


def _entry(request: Request, reply: Reply, seconds: float, why: Why, **marks: bool) -> JournalEntry:
    head, query = request.head, request.scope["query_string"]
    if request.fault is not None and request.fault.is_reset:
        reply = Reply(0, b"", reply.media_type)
    body = NO_BODY
    if request.content:
        body = Body(request.content, head.first.get("content-type", ""), request.is_json)
    return JournalEntry(
        request_id=request.id,
        seconds=seconds,
        method=request.method,
        path=request.path,
        query=query.decode("latin-1") if query else "",
        path_secrets=_path_secrets(request),
        heads_length=head.length + len("".join(chain.from_iterable(reply.headers))),
        request_headers=head.headers,
        request_body=body,
        status=reply.status or None,
        response_headers=reply.headers,
        response_body=Body(b"" if request.method == "HEAD" else reply.body, reply.media_type),
        why=why,
        received=request.received,
        number=request.number,
        client=request.address,
        raw_path=request.url,
        **marks,
    )


def _path_secrets(request: Request) -> tuple[str, ...]:
    if request.endpoint is None or not request.endpoint.secrets:
        return ()
    found = (request.path_texts.get(name, "") for name in request.endpoint.secrets)
    return tuple(text for text in found if text)


def _short(why: Mapping[str, Any]) -> str:
    """The explanation on one line of printable ASCII, ``name=value`` pairs; an object is JSON."""
    text = ", ".join(f"{name}={_quoted(value)}" for name, value in why.items())
    return printable(text)[:_MAX_EXPLAIN_LENGTH]


def _quoted(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        texts = [" ".join(item.values()).strip() for item in value]
        return f'"{"; ".join(texts)}"'
    if isinstance(value, Mapping):
        return jsonio.dumps(value).decode()
    words = value if isinstance(value, str) else " ".join(map(str, value))
    return f'"{words}"'


class JsonLines(logging.Formatter):
    """A JSON object for each record: time, level, message, and what a request had."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        members: dict[str, Any] = {
            "time": instant_text(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname,
            "message": record.getMessage(),
            **getattr(record, MEMBERS, {}),
        }
        if record.exc_info:
            members["exception"] = self.formatException(record.exc_info)
        return jsonio.dumps(members).decode()
