"""The ASGI side of the console: who the visitor is, the stream of changes, and the pages.

A visitor signs in with API keys or as a user of the API, which a cookie for ``/console`` keeps.
Where the demo key is valid, no sign-in is needed. A change must come from the console's own pages
(``check_site``), and no page of another origin reads one (``check_reader``). The pages see and do
what the visitor's credential may see and do, because they send requests to the API and the control
API with it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Set
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, cast
from urllib.parse import parse_qsl

from invoice_sandbox.base.errors import reject
from invoice_sandbox.console.client import CLIENT, FROM_CONSOLE, POSITION, VISITOR, Client
from invoice_sandbox.console.records import Contents
from invoice_sandbox.console.topics import BAR, concerns, topics_of
from invoice_sandbox.console.visitor import visitor_of
from invoice_sandbox.http.admit import check_reader, check_site
from invoice_sandbox.http.pages import ASGIApplication, respond_with
from invoice_sandbox.http.request import Reply, Request
from invoice_sandbox.http.routing import Page
from invoice_sandbox.openapi.load.operations import CONSOLE
from invoice_sandbox.runtime.agenda import ATTEMPTS_LOG
from invoice_sandbox.runtime.engine import Engine, TooManyStreamsError
from invoice_sandbox.runtime.journal import REQUESTS_LOG
from invoice_sandbox.state import STEPS_LOG, Log
from invoice_sandbox.webhooks.inbox import INBOX_LOG

_MAX_FORM: Final = 256 * 1024
_THREADS: Final = 4
_SECONDS_BETWEEN_CHANGES: Final = 0.5
"""A stream reports changes no more often than this."""

LOGS: Final = (REQUESTS_LOG, STEPS_LOG, ATTEMPTS_LOG, INBOX_LOG)
"""Logs of which one gets an entry whenever something has changed."""

_ALIVE: Final = b": connected\n\n"
_POSITION: Final = re.compile(r"\.".join([r"\d{1,15}"] * len(LOGS)), re.ASCII)
_LATER: Final = b"retry: 30000\n: too many streams\n\n"
"""Makes a browser come back in 30 seconds; after an error response it never would."""

_EVENTS: Final = f"{CONSOLE}/events"
_LOOKED_AT: Final = "/sandbox/clock"
"""A path that everybody who may look at a workspace may read."""


@dataclass(frozen=True)
class Console:
    """The console of an engine. ``inside`` is the sandbox as an ASGI application, ``demo_key`` the
    demo key for a request that may use it."""

    engine: Engine
    inside: ASGIApplication
    demo_key: Callable[[Request], str | None]
    contents: Contents

    @classmethod
    def of(
        cls,
        engine: Engine,
        inside: ASGIApplication,
        demo_key: Callable[[Request], str | None],
    ) -> Console:
        """The console of an engine. Raises ProjectError for what its project says of it."""
        return cls(engine, inside, demo_key, Contents.of(engine))

    def pages(self) -> list[Page]:
        """Return the stream of changes, and the pages."""
        pages = Page(CONSOLE, self._respond, ("GET", "POST"), below=True)
        return [Page(_EVENTS, self._stream), pages]

    @cached_property
    def _application(self) -> ASGIApplication:
        from a2wsgi import WSGIMiddleware

        from invoice_sandbox.console.views import flask_app

        app: Any = flask_app(self.contents)
        served: Any = WSGIMiddleware(app, workers=_THREADS)  # declares its own ASGI types
        return cast("ASGIApplication", served)

    async def _respond(self, request: Request) -> Reply:
        if FROM_CONSOLE in request.scope.get("extensions", {}):
            # a page that asks for a page would wait for itself
            raise reject("unknown_path", meant="")
        check_site(request, self.engine.url)
        client = request.scope[CLIENT] = await self._client(request)
        position = await self.engine.call(self._position, client.identity.workspace)
        request.scope[POSITION] = _text(position)
        content = await _content(request) if request.method == "POST" else b""
        return await respond_with(self._application, request, content, has_own_404=True)

    async def _client(self, request: Request) -> Client:
        """The client of the visitor. Raises ApiError 403 for a page of another origin."""
        check_reader(request, self.engine.url)
        visitor = await self.engine.call(visitor_of, self.engine, request, self.demo_key(request))
        request.scope[VISITOR] = visitor
        return Client.of(self.inside, request, visitor.current)

    async def _stream(self, request: Request) -> Reply:
        """An event ``change`` whenever something with one of the ``topics`` of a page has changed,
        at most twice a second; without ``topics``, whenever anything has. An event ``bar`` if that
        concerns only the bar of every page."""
        client = await self._client(request)
        seen = await client.ask("GET", _LOOKED_AT, observes=True)
        workspace = client.identity.workspace
        if not seen.is_success or workspace is None:
            raise reject("bad_credential")
        query = dict(parse_qsl(request.scope["query_string"].decode("latin-1")))
        given = request.header("last-event-id") or query.get("after", "")
        changes = self._changes(workspace, given, topics_of(query.get("topics", "")))
        return Reply(200, b"", "text/event-stream", (("Cache-Control", "no-store"),), changes)

    def _position(self, workspace_id: str | None) -> dict[str, int]:
        """Return the number of entries that each log has had; nothing without a workspace."""
        if workspace_id is None or self.engine.store.workspace(workspace_id) is None:
            return {}
        count = self.engine.store.count_logged
        return {name: count(workspace_id, name) for name in LOGS}

    def _event(self, workspace_id: str, found: Mapping[str, Log], topics: Set[str]) -> bytes | None:
        """The name of the event that reports new entries: ``bar`` if they concern no more."""
        with self.engine.store.transaction(workspace_id) as state:
            if concerns(state, found, topics):
                return b"change"
            return b"bar" if concerns(state, found, BAR) else None

    async def _changes(
        self, workspace_id: str, given: str, topics: Set[str]
    ) -> AsyncGenerator[bytes, None]:
        """Changes after the position that a page was ``given``, or from now on. A number beyond
        the last one is that of an earlier process."""
        now = after = await self.engine.call(self._position, workspace_id)
        if now and _POSITION.fullmatch(given):
            seen = zip(now.items(), map(int, given.split(".")), strict=True)
            after = {name: (number if number <= last else 0) for (name, last), number in seen}
        try:
            async with aclosing(self.engine.news(workspace_id, after)) as news:
                async for found in news:
                    if found is None:
                        yield _ALIVE
                        continue
                    after = {name: seen.last for name, seen in found.items()}
                    name = await self.engine.call(self._event, workspace_id, found, topics)
                    if name is not None:
                        yield b"id: %s\nevent: %s\ndata: {}\n\n" % (_text(after).encode(), name)
                    await asyncio.sleep(_SECONDS_BETWEEN_CHANGES)
        except TooManyStreamsError:
            yield _LATER


def _text(position: Mapping[str, int]) -> str:
    """A position in an address, and as the id of an event."""
    return ".".join(map(str, position.values()))


async def _content(request: Request) -> bytes:
    """The body of a form. Raises ApiError 413."""
    content, more = b"", True
    while more:
        message = await request.receive()
        content += message.get("body", b"")
        if len(content) > _MAX_FORM:
            raise reject("too_large", limit=_MAX_FORM)
        more = message.get("more_body", False)
    return content
