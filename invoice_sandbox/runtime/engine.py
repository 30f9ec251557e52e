"""The collaborators of a running server. ``app`` creates them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from invoice_sandbox.base.clock import SystemClock
from invoice_sandbox.base.rate_limits import RateLimiter
from invoice_sandbox.base.threads import P, T, Threads
from invoice_sandbox.project.loader import Project
from invoice_sandbox.runtime.agenda import Agenda
from invoice_sandbox.runtime.journal import Journal
from invoice_sandbox.runtime.workspaces import Workspaces
from invoice_sandbox.state import Log, NoWorkspaceError, Store, Workspace
from invoice_sandbox.state.passwords import Passwords
from invoice_sandbox.webhooks.listeners import HEARTBEAT, Listeners
from invoice_sandbox.webhooks.network import Network
from invoice_sandbox.webhooks.sender import Sender

STREAMS: Final = 128
STREAMS_OF_A_WORKSPACE: Final = 16
"""Streams of news at a time, in all and of one workspace."""


class TooManyStreamsError(Exception):
    """The server, or the workspace, has as many streams as it may have."""


@dataclass(frozen=True)
class Engine:
    """The collaborators of a request.

    ``first_workspace`` is the workspace of requests without a credential, ``seed`` its seed,
    ``url`` the server's address for clients. ``local``: only this machine can reach the server,
    unless a proxy on it passes requests on. Webhooks may also be sent to ``webhook_networks``.
    Webhook signatures use real time, unless ``virtual_webhook_time``. ``hashing`` hashes passwords,
    ``passwords`` are the random ones of demo users, by e-mail address. ``conditions`` are the
    settings that responses depend on, for recordings. ``lacks_users``: nobody can log in to the
    first workspace until a user is added. ``stopping`` is set when the server stops: endless
    streams end then. ``streams`` counts the streams of each
    workspace, ``bodies_in_flight`` the bytes of bodies by who shares them, ``key_uses`` has
    the last second in which each key was used. ``limiter`` counts
    requests, None: any number is allowed. ``key_given``: a policy that accepts any credential is
    narrowed to the key that the server was started with.
    """

    project: Project
    store: Store
    journal: Journal
    system_clock: SystemClock
    agenda: Agenda
    sender: Sender
    listeners: Listeners
    workspaces: Workspaces
    first_workspace: str
    seed: int
    url: str
    local: bool
    webhook_networks: tuple[Network, ...]
    virtual_webhook_time: bool
    hashing: Passwords
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    lacks_users: bool = False
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    streams: Counter[str] = field(default_factory=Counter)
    limiter: RateLimiter | None = None
    key_given: bool = False
    threads: Threads = field(default_factory=Threads)
    bodies_in_flight: Counter[str] = field(default_factory=Counter)
    key_uses: dict[str, int] = field(default_factory=dict)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what a function returns that uses the store, which may block."""
        return await self.threads.call(function, *args, **kwargs)

    @property
    def public_path(self) -> str:
        """The path that the public URL ends in, such as ``/mock``; mostly empty."""
        return urlsplit(self.url).path

    def end_streams(self) -> None:
        """End what would never end by itself, as the server stops."""
        self.stopping.set()
        self.listeners.remove_all()

    def may_stream(self, workspace_id: str) -> bool:
        """True if a workspace may have another stream of ``news``."""
        is_free = self.streams.total() < STREAMS
        return is_free and self.streams[workspace_id] < STREAMS_OF_A_WORKSPACE

    async def news(
        self, workspace_id: str, after: Mapping[str, int]
    ) -> AsyncGenerator[Mapping[str, Log] | None, None]:
        """Yield the new entries of logs after those with these numbers; None at the beginning and
        after each HEARTBEAT of silence.

        Ends when the server stops, and when the workspace is deleted. Raises TooManyStreamsError
        at the beginning.
        """
        if not self.may_stream(workspace_id):
            raise TooManyStreamsError
        self.streams[workspace_id] += 1
        stopping = asyncio.ensure_future(self.stopping.wait())
        news = asyncio.ensure_future(self.store.tail(workspace_id, after))
        try:
            yield None
            while True:
                first = asyncio.FIRST_COMPLETED
                await asyncio.wait({news, stopping}, timeout=HEARTBEAT, return_when=first)
                if stopping.done():
                    return
                if not news.done():
                    yield None
                    continue
                logs = news.result()
                after = {name: log.last for name, log in logs.items()}
                news = asyncio.ensure_future(self.store.tail(workspace_id, after))
                yield logs
        except NoWorkspaceError:
            return
        finally:
            news.cancel()
            stopping.cancel()
            self.streams[workspace_id] -= 1
            if not self.streams[workspace_id]:
                del self.streams[workspace_id]

    def default_workspace(self) -> Workspace:
        """The workspace of requests without a credential. It is never deleted."""
        workspace = self.store.workspace(self.first_workspace)
        if workspace is None:
            raise RuntimeError("the first workspace was deleted")
        return workspace
