"""Listeners: receivers for clients that no request can reach, such as a laptop.

A message to a listener's address waits until the client on its stream has received it and reported
the response. Listeners are kept in the memory of one process, not in the store: they belong to a
connection, and end with the server. A client that stores the token of its listener gets the same
address again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import SystemClock
from invoice_sandbox.base.ids import key_digest, new_secret
from invoice_sandbox.webhooks.network import listener_url

MAX_WAITING: Final = 1000
"""The most messages of a listener that wait for a response."""

HEARTBEAT: Final = 10.0
"""Seconds without a message after which a comment line keeps the connection open."""

REPLACED: Final = b": replaced\n\n"
"""The end of a stream that another one replaced."""

MAX_LISTENERS: Final = 16
"""Listeners of a workspace."""

MAX_WAITING_BYTES: Final = 16 * 1024 * 1024
"""Size of all messages that wait for the listeners of a workspace."""

_PREFIX: Final = "lsn_sandbox_"
_DIGITS: Final = 16
_CONNECTION_S: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "host", "transfer-encoding"}
)
"""Headers of one connection, which are not forwarded."""


class QueueFullError(Exception):
    """The messages that wait for the listeners of the workspace take too many bytes."""


class NobodyListensError(Exception):
    """No client is connected to the listener, or the listener was closed."""


class InUseError(Exception):
    """The token belongs to another workspace, or every listener of the workspace is in use."""


@dataclass(frozen=True)
class Reported:
    """The report of the client about a message: the status, the beginning of the body and the
    ``Retry-After`` of its own receiver, or an ``error``."""

    status: int | None = None
    error: str | None = None
    body: str = ""
    retry_after: str | None = None


@dataclass(frozen=True)
class _Message:
    """A message that waits for its response; ``type`` is that of its event, if it has one."""

    number: int
    headers: Mapping[str, str]
    body: str
    response: asyncio.Future[Reported]
    type: str | None = None

    def event(self) -> bytes:
        """The message as a server-sent event."""
        data = {"message": self.number, "headers": self.headers, "body": self.body}
        if self.type is not None:
            data["type"] = self.type
        return b"id: %d\nevent: delivery\ndata: %s\n\n" % (self.number, jsonio.dumps(data))


def _size(headers: Mapping[str, str], body: bytes) -> int:
    """The bytes of a message."""
    return len(body) + sum(len(name) + len(text) for name, text in headers.items())


@dataclass
class Listener:
    """An address and, while a client is connected, its stream.

    ``size`` is that of the messages that wait, in bytes.
    """

    id: str
    token: str = field(repr=False)
    workspace_id: str
    last_used: float
    next_number: int
    _loop: asyncio.AbstractEventLoop
    _waiting: dict[int, _Message] = field(default_factory=dict)
    _stream: asyncio.Event | None = None
    size: int = 0

    @property
    def is_connected(self) -> bool:
        """True if a client is connected."""
        return self._stream is not None

    async def hand_over(
        self, headers: Mapping[str, str], body: bytes, event_type: str | None = None
    ) -> Reported:
        """Pass a message to the client and return its report. Raises NobodyListensError."""
        if self._stream is None or len(self._waiting) >= MAX_WAITING:
            raise NobodyListensError
        number, self.next_number = self.next_number, self.next_number + 1
        kept = {name: text for name, text in headers.items() if name not in _CONNECTION_S}
        response: asyncio.Future[Reported] = asyncio.get_running_loop().create_future()
        text = body.decode(errors="replace")
        self._waiting[number] = _Message(number, kept, text, response, event_type)
        self._stream.set()
        size = _size(headers, body)
        self.size += size
        try:
            return await response
        finally:
            self.size -= size
            del self._waiting[number]

    def report(self, number: int, reported: Reported) -> bool:
        """Report the response to a message. False: the message does not wait any more."""
        message = self._waiting.get(number)
        if message is None or message.response.done():
            return False
        self._loop.call_soon_threadsafe(_resolve, message.response, reported)
        return True

    def disconnect(self) -> None:
        """End the stream. Waiting messages stay for the next one."""
        stream, self._stream = self._stream, None
        if stream is not None:
            self._loop.call_soon_threadsafe(stream.set)

    def close(self) -> None:
        """End the stream and all waiting messages."""
        self.disconnect()
        for message in [*self._waiting.values()]:
            self._loop.call_soon_threadsafe(_resolve, message.response, NobodyListensError())

    async def stream(
        self, after: int, idle: timedelta, is_open: Callable[[], Awaitable[bool]]
    ) -> AsyncGenerator[bytes, None]:
        """The messages as server-sent events, starting with those that wait already.

        Waiting messages with numbers up to ``after`` are skipped. The stream replaces an earlier
        one, which ends with the comment ``REPLACED``. It ends after ``idle`` without a message, or
        when ``is_open`` returns False.
        """
        self.disconnect()
        news = self._stream = asyncio.Event()
        sent, silence = after, 0.0
        try:
            yield b": listening\n\n"
            while self._stream is news:
                news.clear()
                for message in [
                    waiting for number, waiting in self._waiting.items() if number > sent
                ]:
                    sent, silence = message.number, 0.0
                    yield message.event()
                left = idle.total_seconds() - silence
                if left <= 0 or not await is_open():
                    return
                try:
                    async with asyncio.timeout(min(left, HEARTBEAT)):
                        await news.wait()
                except TimeoutError:
                    silence += min(left, HEARTBEAT)
                    if silence < idle.total_seconds():
                        yield b": still here\n\n"
            if self._stream is not None:
                yield REPLACED
        finally:
            if self._stream is news:
                self._stream = None


def _resolve(response: asyncio.Future[Reported], found: Reported | NobodyListensError) -> None:
    if response.done():
        return
    if isinstance(found, Reported):
        response.set_result(found)
    else:
        response.set_exception(found)


class Listeners:
    """The listeners of all workspaces. All but ``hand_over`` and streams may come from threads."""

    def __init__(self, system_clock: SystemClock, patience: float) -> None:
        """``patience``: real seconds that the client has to report a response."""
        self._system_clock = system_clock
        self.patience = patience
        self._by_token: dict[str, Listener] = {}
        self._loop = asyncio.get_running_loop()

    def open(self, workspace_id: str, token: str | None = None) -> Listener:
        """A new listener, or the one with this token. Raises InUseError."""
        token = token or new_secret()
        known = self._by_token.get(token)
        if known is not None:
            if known.workspace_id != workspace_id:
                raise InUseError
            known.last_used = self._system_clock.monotonic()
            return known
        self._make_room(workspace_id)
        listener = Listener(
            id=_PREFIX + key_digest(token)[:_DIGITS],
            token=token,
            workspace_id=workspace_id,
            last_used=self._system_clock.monotonic(),
            # Greater than all numbers of an earlier server, so that clients can distinguish them.
            next_number=int(self._system_clock.now().timestamp() * 1000),
            _loop=self._loop,
        )
        self._by_token[token] = listener
        return listener

    async def hand_over(
        self,
        listener: Listener,
        headers: Mapping[str, str],
        body: bytes,
        event_type: str | None = None,
    ) -> Reported:
        """Pass a message to a listener's client. Raises NobodyListensError and QueueFullError."""
        waiting = sum(other.size for other in self._of(listener.workspace_id))
        if waiting + _size(headers, body) > MAX_WAITING_BYTES:
            raise QueueFullError
        return await listener.hand_over(headers, body, event_type)

    def at(self, token: str) -> Listener | None:
        """The listener of that token."""
        return self._by_token.get(token)

    def is_elsewhere(self, own_url: str, address: str) -> bool:
        """True for the address of a listener that this server does not know: another server may."""
        begin = listener_url(own_url)
        return address.startswith(begin) and self.at(address.removeprefix(begin)) is None

    def named(self, workspace_id: str, listener_id: str) -> Listener | None:
        """The listener of that id in a workspace."""
        for listener in self._of(workspace_id):
            if listener.id == listener_id:
                listener.last_used = self._system_clock.monotonic()
                return listener
        return None

    def workspaces(self) -> set[str]:
        """The ids of the workspaces that have listeners."""
        return {listener.workspace_id for listener in list(self._by_token.values())}

    def remove(self, listener: Listener) -> None:
        """Close a listener for good."""
        self._by_token.pop(listener.token, None)
        listener.close()

    def disconnect(self, workspace_id: str) -> None:
        """End the streams of a workspace that was reset or restored. Clients connect again."""
        for listener in self._of(workspace_id):
            listener.disconnect()

    def remove_all(self, workspace_id: str | None = None) -> None:
        """Close the listeners of a workspace, or of every one."""
        every = list(self._by_token.values())
        for listener in every if workspace_id is None else self._of(workspace_id):
            self.remove(listener)

    def _of(self, workspace_id: str) -> list[Listener]:
        listeners = list(self._by_token.values())
        return [listener for listener in listeners if listener.workspace_id == workspace_id]

    def _make_room(self, workspace_id: str) -> None:
        listeners = self._of(workspace_id)
        if len(listeners) < MAX_LISTENERS:
            return
        silent = [listener for listener in listeners if not listener.is_connected]
        if not silent:
            raise InUseError
        self.remove(min(silent, key=lambda listener: listener.last_used))
