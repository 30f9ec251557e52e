"""Stage 1, edge: request id, host and origin, error format and journal.

Everything behind it raises ApiError; the edge turns errors into responses, so that every
response has an id, the same headers, and an entry in the journal of its workspace.

On a loopback address the demo key is public knowledge, so any page in any browser on the machine
could use it. Two rules prevent that: a request must name a host that is really ours (a page that
re-binds its own name to 127.0.0.1 does not), and only pages served from loopback may read.
"""

from __future__ import annotations

import logging
import re
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from http import HTTPStatus
from itertools import chain
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec import structs

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.base.ids import random_request_id
from invoice_sandbox.http.credentials import workspace_of_caller
from invoice_sandbox.http.declared_errors import error_reply
from invoice_sandbox.http.handling import ContractViolationError
from invoice_sandbox.http.pipeline import (
    CONNECTION,
    READING,
    ClientGoneError,
    Head,
    Proceed,
    Reply,
    Request,
    Trace,
    client_address,
    printable,
)
from invoice_sandbox.openapi.load.operations import CONSOLE
from invoice_sandbox.project.code import place_of_error
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.runtime.journal import NO_BODY, Body, Headers, JournalEntry, Why
from invoice_sandbox.state import NoWorkspaceError, Workspace

EXPLAIN: Final = "x-sandbox-explain"
_YES: Final = ("1", "true")
_MAX_EXPLAIN_LENGTH: Final = 4096

MAX_REQUESTS: Final = 1_000
"""Requests that are handled at a time, besides those for the health of the server."""

_HEALTH: Final = frozenset({"/sandbox/health", "/sandbox/health/live"})
_IN_CONSOLE: Final = f"{CONSOLE}/"
_HOST: Final = re.compile(
    r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(:(?P<port>\d{0,5}))?", re.ASCII
)
_MAX_PORT: Final = 65_535
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_HEADER_LIMIT: Final = 16 * 1024
_ALLOWED_HEADERS: Final = (
    "Authorization, Content-Type, X-API-Key, Idempotency-Key, Prefer, X-Sandbox-Scenario, "
    "X-Sandbox-Explain"
)
_EXPOSED_HEADERS: Final = (
    "X-Request-Id, X-Contract-Version, X-Total-Count, Link, RateLimit, RateLimit-Policy, "
    "Retry-After, WWW-Authenticate, Allow, Location, Idempotent-Replayed, Preference-Applied, "
    "X-Sandbox-Explain, X-Sandbox-Error, X-Journal-Dropped"
)

_UNRECORDED: Final = "x-sandbox-journal"
"""``off`` in this header: the request is in no journal, as a tool sent it and not a test."""

_FAILURE: Final = "failure"
"""What the journal has of an internal error, and no response."""

STOPPING: Final = reject("stopping", ("Connection", "close"), ("Retry-After", "1"))
"""The error of a request that comes too late, or does not end soon enough."""

log = logging.getLogger("invoice_sandbox")
REQUESTS: Final = logging.getLogger("invoice_sandbox.requests")
"""Gets a line about each request at the level INFO."""

MEMBERS: Final = "request"
"""The attribute of its records that has the members of the line."""

Note = Callable[[str, int, float], None]
"""Notes an operation (or nothing), the status of its response, and the seconds until then."""


class Edge:
    """The outermost stage.

    ``hosts`` are those that requests may name, None: any.
    """

    def __init__(
        self,
        engine: Engine,
        hosts: frozenset[str] | None,
        note: Note | None = None,
    ) -> None:
        self._engine = engine
        self._note = note
        self._in_flight = 0
        self._hosts = hosts
        self._control_path = f"{engine.project.control.base_path}/"
        self._clock = engine.system_clock
        self._is_persistent = engine.store.is_persistent
        self._conventions = engine.project.conventions
        self._version = (self._conventions.version_header, engine.project.contract.version)

    async def __call__(self, request: Request, proceed: Proceed) -> Reply:
        """Return the response, recorded. Raises ClientGoneError.

        Whatever goes wrong beside the request itself, such as in its recording, is an internal
        error in the format of the project.
        """
        self._in_flight += 1
        try:
            return await self._recorded(request, proceed)
        except ClientGoneError:
            raise
        except Exception as error:
            request.trace.endpoint = None  # what its document shows may be the reason
            reply = self._failed(request, error)
            return structs.replace(reply, headers=(*self._common(request), *reply.headers))
        finally:
            self._in_flight -= 1

    async def _recorded(self, request: Request, proceed: Proceed) -> Reply:
        """Return the response, recorded. Raises ClientGoneError.

        The request id is random until the credential is known, then drawn from the workspace's
        seed.
        """
        trace, clock = request.trace, self._clock
        trace.draw_id, trace.received = self._random_id, clock.now()
        started = clock.monotonic()
        try:
            self._check(request)
            origin = request.head.first.get("origin")
            if origin is None:
                reply = await proceed(request)
            else:
                reply = await self._to_page(origin, request, proceed)
        except ClientGoneError:
            raise
        except (Exception, CancelledError) as error:
            reply = self._failed(request, error)
        workspace = trace.workspace or workspace_of_caller(self._engine, request)
        why = self._why(trace, workspace)
        common = self._common(request)
        headers = (*common, *reply.headers)
        reply = structs.replace(reply, headers=headers)
        self._record(request, reply, workspace, why, clock.monotonic() - started)
        reply = self._explained(request, reply, why)
        if self._is_persistent:
            reply = await self._flushed(request, reply, common)
        if self._note is not None:
            operation = trace.endpoint.operation.id if trace.endpoint else ""
            self._note(operation, reply.status, clock.monotonic() - started)
        if REQUESTS.isEnabledFor(logging.INFO) and not request.is_observer:
            seconds, why = clock.monotonic() - started, self._why(trace, workspace)
            line, members = self._engine.journal.logged(_entry(request, reply, seconds, why))
            REQUESTS.info("%s", line, extra={MEMBERS: members})
        return reply

    def _check(self, request: Request) -> None:
        """Raise ApiError 400, 421, 431, 503."""
        if request.invalid is not None:
            raise request.invalid
        _check_host(self._hosts, request.head)
        if self._in_flight > MAX_REQUESTS and request.path not in _HEALTH:
            raise reject("busy", ("Retry-After", "1"))

    def _common(self, request: Request) -> Headers:
        """Return the headers that every response to the request has."""
        id_header = (self._conventions.request_id_header, request.trace.request_id)
        return (id_header, self._version, *request.trace.headers)

    async def _flushed(self, request: Request, reply: Reply, common: Headers) -> Reply:
        """The response, once everything that it may be about outlives the process; until then an
        error, with the ``common`` headers alone: no cookie of a session that may get lost.

        A GET without a workspace, such as the health check, is about nothing that can change.
        """
        if request.trace.workspace is None and request.method in {"GET", "HEAD"}:
            return reply
        try:
            await self._engine.store.flush()
        except ApiError as error:
            failed = error_reply(self._engine, request, error)
            return structs.replace(failed, headers=(*common, *failed.headers))
        return reply

    def _random_id(self) -> str:
        now, prefix = self._clock.now(), self._conventions.request_id_prefix
        return random_request_id(now, prefix)

    def _failed(self, request: Request, error: Exception | CancelledError) -> Reply:
        """The response to a request that could not be carried out."""
        if isinstance(error, ApiError):
            shown = error
        elif isinstance(error, NoWorkspaceError):  # the workspace was deleted meanwhile
            shown = reject("bad_credential")
        elif isinstance(error, CancelledError):
            if CONNECTION not in request.scope.get("extensions", ()):
                raise error  # of a client within this process, which no longer waits
            shown = STOPPING
        else:
            log.error("%s: no response could be given", request.trace.request_id, exc_info=error)
            request.trace.why[_FAILURE] = _failure(error)
            shown = reject("internal_error")
        return error_reply(self._engine, request, shown)

    async def _to_page(self, origin: str, request: Request, proceed: Proceed) -> Reply:
        """The response to a page of an origin, with the headers that let it read it."""
        request.trace.headers.append(("Vary", "Origin"))
        if not _is_loopback(origin):
            return await proceed(request)
        request.trace.headers += [
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Expose-Headers", _EXPOSED_HEADERS),
        ]
        reply = await proceed(request)
        if request.method == "OPTIONS" and request.header("access-control-request-method"):
            return _preflight(reply)
        return reply

    def _count(self, owner: Workspace, trace: Trace, reply: Reply) -> None:
        """Count the response for the coverage, unless a fault resets the connection."""
        fault = trace.injected_fault
        if trace.endpoint is not None and not (fault is not None and fault.is_reset):
            operation = trace.endpoint.operation.id
            self._engine.workspaces.count(owner, operation, reply.status)

    def _record(
        self, request: Request, reply: Reply, workspace: Workspace | None, why: Why, seconds: float
    ) -> None:
        """Write the journal: requests to the project's API, and changes by the control API, which
        are not listed.

        A request with a rejected credential is in the journal of the default workspace, one with a
        revoked key in that of the key's workspace.
        """
        trace, path = request.trace, request.path
        if request.is_observer or path == CONSOLE or path.startswith(_IN_CONSOLE):
            return  # the console sends requests of its own
        changes = request.method not in READING
        is_control = path.startswith(self._control_path)
        is_listed = not is_control and request.head.first.get(_UNRECORDED) != "off"
        if not (is_listed or changes):
            return  # what only looks may be sent by the thousand
        if is_listed and workspace is None and reply.status == HTTPStatus.UNAUTHORIZED:
            workspace = self._owner_of_rejected(trace.revoked_key_of)
            clock = workspace.clock
            why = structs.replace(why, clock=clock.mode, at=clock.now(self._clock))
        elif workspace is not None and workspace.clock.mode == "live":
            # the journal has the real end of a request
            why = structs.replace(why, at=workspace.clock.now(self._clock))
        if is_listed and workspace is not None:
            self._count(workspace, trace, reply)
        owner = None if workspace is None else workspace.id
        is_of_other = trace.served_by not in {None, owner}
        entry = _entry(request, reply, seconds, why)
        entry = structs.replace(
            entry, is_control=is_control, is_listed=is_listed, is_sent_again=not is_of_other
        )
        if owner is not None and (is_listed or not is_of_other):
            self._engine.journal.record(owner, entry)
        if is_of_other and changes and trace.served_by is not None:
            entry = structs.replace(entry, is_listed=False, is_sent_again=True)
            self._engine.journal.record(trace.served_by, entry)

    def _explained(self, request: Request, reply: Reply, why: Why) -> Reply:
        """The response with its explanation, if the request asks for it."""
        if request.head.first.get(EXPLAIN, "").lower() not in _YES:
            return reply
        if request.is_observer or request.path == CONSOLE or request.path.startswith(_IN_CONSOLE):
            return reply
        redactor = self._engine.journal.redactor
        shown = redactor.explanation(why, request.head.headers, _path_secrets(request.trace))
        short = _short({name: one for name, one in shown.items() if name != _FAILURE})
        return structs.replace(reply, headers=(*reply.headers, ("X-Sandbox-Explain", short)))

    def _owner_of_rejected(self, workspace_id: str | None) -> Workspace:
        owner = None if workspace_id is None else self._engine.store.workspace(workspace_id)
        return owner or self._engine.default_workspace()

    def _why(self, trace: Trace, workspace: Workspace | None) -> Why:
        operation = trace.endpoint.operation.id if trace.endpoint else None
        if workspace is None:
            return Why(operation, found=trace.why)
        scenario = trace.scenario.name if trace.scenario else workspace.scenario
        clock = workspace.clock
        return Why(operation, scenario, clock.mode, clock.now(self._clock), trace.why)


def _failure(error: Exception) -> str:
    """Why no response could be given: the part of the contract, or the type of an exception and
    where it was raised. Its message may have values of the request."""
    if isinstance(error, ContractViolationError):
        return f"the response is not what the contract declares: {error}"
    return f"{type(error).__name__} at {place_of_error(error) or 'no place in the project'}"


def _check_host(hosts: frozenset[str] | None, head: Head) -> None:
    """Check the host that a request names. Raises ApiError 400, 421, 431."""
    if head.length > _HEADER_LIMIT:
        raise reject("headers_too_large", limit=_HEADER_LIMIT)
    found = _HOST.fullmatch(head.first.get("host", ""))
    if len(head.values("host")) > 1 or not found or int(found["port"] or 0) > _MAX_PORT:
        raise reject("malformed_host")
    host = found["name"].strip("[]").rstrip(".").lower()
    if hosts is not None and host not in hosts:
        raise reject("wrong_host")


def _preflight(reply: Reply) -> Reply:
    allowed = dict(reply.headers).get("Allow", "")
    preflight = (
        ("Access-Control-Allow-Methods", allowed),
        ("Access-Control-Allow-Headers", _ALLOWED_HEADERS),
        ("Access-Control-Max-Age", "600"),
    )
    return Reply(reply.status, reply.body, reply.media_type, (*reply.headers, *preflight))


def _is_loopback(origin: str) -> bool:
    try:
        parts = urlsplit(origin)
        return parts.scheme in {"http", "https"} and parts.hostname in LOOPBACK_NAMES
    except ValueError:
        return False


def _entry(request: Request, reply: Reply, seconds: float, why: Why) -> JournalEntry:
    trace, head, query = request.trace, request.head, request.scope["query_string"]
    has_secrets = trace.endpoint is not None and trace.endpoint.secrets
    if trace.injected_fault is not None and trace.injected_fault.is_reset:
        reply = Reply(0, b"", reply.media_type)
    body = NO_BODY
    if trace.content:
        body = Body(trace.content, head.first.get("content-type", ""), trace.is_json)
    return JournalEntry(
        request_id=trace.drawn_id,  # the response has it already
        seconds=seconds,
        method=request.method,
        path=request.path,
        query=query.decode("latin-1") if query else "",
        path_secrets=_path_secrets(trace) if has_secrets else (),
        heads_length=head.length + len("".join(chain.from_iterable(reply.headers))),
        request_headers=head.headers,
        request_body=body,
        status=reply.status or None,
        response_headers=reply.headers,
        response_body=Body(b"" if request.method == "HEAD" else reply.body, reply.media_type),
        why=why,
        received=trace.received,
        number=trace.number,
        client=client_address(request.scope),
        raw_path=request.url,
    )


def _path_secrets(trace: Trace) -> tuple[str, ...]:
    secrets = trace.endpoint.secrets if trace.endpoint is not None else ()
    found = (trace.path_texts.get(name, "") for name in secrets)
    return tuple(text for text in found if text)


def _short(why: Mapping[str, Any]) -> str:
    """The explanation on one line of printable ASCII, ``name=value`` pairs; an object is JSON."""
    text = ", ".join(f"{name}={_quoted(value)}" for name, value in why.items())
    return printable(text)[:_MAX_EXPLAIN_LENGTH]


def _quoted(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return f'"{"; ".join(" ".join(one.values()).strip() for one in value)}"'
    if isinstance(value, Mapping):
        return jsonio.dumps(value).decode()
    words = value if isinstance(value, str) else " ".join(map(str, value))
    return f'"{words}"'
