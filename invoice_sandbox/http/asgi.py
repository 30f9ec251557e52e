"""The ASGI application behind Connexion: waits for whatever a response needs, and sends it."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from invoice_sandbox.base.errors import ApiError, reject
from invoice_sandbox.base.waiting import Later
from invoice_sandbox.http.declared_errors import error_reply
from invoice_sandbox.http.endpoint import Endpoint
from invoice_sandbox.http.faults import Outcome
from invoice_sandbox.http.journaling import with_common_headers
from invoice_sandbox.http.origins import allow_page, check_host, preflight
from invoice_sandbox.http.read import check_length, forget_body, reject_length
from invoice_sandbox.http.request import (
    CONNECTION,
    ClientGoneError,
    Receive,
    Reply,
    Request,
    Scope,
    Send,
    request_of,
)
from invoice_sandbox.http.respond import admitted, internal_error, respond
from invoice_sandbox.http.routing import Page, Target, Unrouted, texts_of, without_target
from invoice_sandbox.http.send import send_reply
from invoice_sandbox.runtime.engine import Engine

MAX_REQUESTS: Final = 1_000
"""Requests that are handled at a time, besides those for the health of the server."""

_HEALTH: Final = frozenset({"/sandbox/health", "/sandbox/health/live"})

STOPPING: Final = reject("stopping", ("Connection", "close"), ("Retry-After", "1"))
"""The error of a request that comes too late, or does not end soon enough."""

Note = Callable[[str, int, float], None]
"""Notes an operation (or nothing), the status of its response, and the seconds until then."""

log = logging.getLogger("invoice_sandbox")


class Leaf:
    """The function that Connexion calls with the target of a request: an operation, a page, or
    none.

    ``hosts`` are those that requests may name, None: any. Pages of ``origins`` may read.
    """

    def __init__(
        self,
        engine: Engine,
        hosts: frozenset[str] | None,
        origins: Collection[str] = (),
        note: Note | None = None,
    ) -> None:
        self._engine = engine
        self._hosts = hosts
        self._origins = origins
        self._note = note
        self._requests = 0

    async def __call__(self, target: Target, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one ASGI request, unless the client is gone."""
        engine, clock = self._engine, self._engine.system_clock
        request = request_of(scope, receive, clock.now())
        request.started = clock.monotonic()
        self._requests += 1
        try:
            reply = await self._reply(target, request)
        except ClientGoneError:
            return
        finally:
            self._requests -= 1
            forget_body(engine.bodies_in_flight, request)
        if self._note is not None:
            operation = request.endpoint.operation.id if request.endpoint else ""
            seconds = engine.system_clock.monotonic() - request.started
            self._note(operation, reply.status, seconds)
        await send_reply(engine.system_clock, request, reply, send)

    async def _reply(self, target: Target, request: Request) -> Reply:
        """Return the response. Raises ClientGoneError.

        Whatever goes wrong beside the request itself, such as in its recording, is an internal
        error in the format of the project.
        """
        go_on: Callable[[], Outcome] = partial(self._begin, target, request)
        try:
            while True:
                outcome = await self._engine.call(respond, self._engine, request, go_on)
                if isinstance(outcome, Reply):
                    return outcome
                go_on = await self._waited(request, outcome)
        except ClientGoneError:
            raise
        except (Exception, CancelledError) as error:
            shown = _shown(request, error)
            request.endpoint = None  # what its document shows may be the reason
            if not isinstance(shown, ApiError):
                shown = internal_error(self._engine, request, shown)
            reply = error_reply(self._engine, request, shown)
            return with_common_headers(self._engine, request, reply)

    def _begin(self, target: Target, request: Request) -> Outcome:
        """Check what no operation is needed for, then go on with what the request is for."""
        if request.invalid is not None:
            raise request.invalid
        check_host(self._hosts, request.head)
        if self._requests > MAX_REQUESTS and request.path not in _HEALTH:
            raise reject("busy", ("Retry-After", "1"))
        allow_page(self._origins, request)
        asked = preflight(self._origins, request)
        if asked is not None:
            return asked
        if isinstance(target, Page):
            return Later(partial(target.respond, request), _as_it_is)
        if isinstance(target, Unrouted):
            return without_target(request, target)
        return self._to_operation(target, request)

    def _to_operation(self, endpoint: Endpoint, request: Request) -> Outcome:
        request.endpoint = request.target = endpoint
        request.path_texts = request.scope["path_params"]
        request.path_texts = texts_of(request)
        if check_length(request):
            return admitted(self._engine, request)
        return Later(partial(reject_length, request), _as_it_is)

    async def _waited(self, request: Request, later: Later) -> Callable[[], Outcome]:
        """Return what goes on once the work is done. Raises ClientGoneError."""
        try:
            result = await later.work()
        except (Exception, CancelledError) as error:
            if later.undo is not None:
                await self._engine.call(later.undo)
            if isinstance(error, ClientGoneError):
                raise
            return partial(_raise, _shown(request, error))
        return partial(later.then, result)


def _as_it_is(found: Outcome) -> Outcome:
    return found


def _shown(request: Request, error: Exception | CancelledError) -> Exception:
    """Return what a client sees of an error: one whose request is cancelled, that the server stops.

    Raises CancelledError for a client within this process, which no longer waits.
    """
    if not isinstance(error, CancelledError):
        return error
    if CONNECTION not in request.scope.get("extensions", ()):
        raise error
    return STOPPING


def _raise(error: Exception) -> Outcome:
    raise error
