"""Listeners: receivers built in for clients that no request can reach, such as a laptop's.

What is delivered to a listener's address waits until the client on its stream has taken it and has
told what it answered. Listeners live in the memory of one process, not in the store: they belong
to a connection, and are gone when the server ends. A client that remembers the token of its
listener gets it back under the same address.
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

MOST: Final = 16
"""Listeners of a workspace. One more takes the place of the one that was silent for longest."""

MOST_WAITING: Final = 1000
"""Messages of a listener that wait for their answer."""

HEARTBEAT: Final = 10.0
"""Seconds without anything to send, after which a comment line tells that all is well."""

_PREFIX: Final = "lsn_sandbox_"
_DIGITS: Final = 16
_CONNECTION_S: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "host", "transfer-encoding"}
)
"""Headers that belong to one connection, and are not handed on."""


class NobodyListensError(Exception):
    """No stream is connected, or the listener was closed."""


class InUseError(Exception):
    """The token is that of another workspace, or every listener of the workspace is in use."""


@dataclass(frozen=True)
class Reported:
    """What the client tells of a message: the status, the beginning of the body and the
    ``Retry-After`` of its own receiver, or the ``error`` that kept these away."""

    status: int | None = None
    error: str | None = None
    body: str = ""
    retry_after: str | None = None


@dataclass(frozen=True)
class _Message:
    """What waits for its answer."""

    number: int
    headers: Mapping[str, str]
    body: str
    answer: asyncio.Future[Reported]

    def event(self) -> bytes:
        """The message as a server-sent event."""
        told = {"message": self.number, "headers": self.headers, "body": self.body}
        return b"id: %d\nevent: delivery\ndata: %s\n\n" % (self.number, jsonio.dumps(told))


@dataclass
class Listener:
    """One address and, while a client is connected, its stream."""

    id: str
    token: str = field(repr=False)
    workspace_id: str
    last_used: float
    first_number: int
    _waiting: dict[int, _Message] = field(default_factory=dict)
    _stream: asyncio.Event | None = None

    @property
    def is_connected(self) -> bool:
        """Whether a client takes what is delivered."""
        return self._stream is not None

    async def hand_over(self, headers: Mapping[str, str], body: bytes) -> Reported:
        """What the client answers to a message. Raises NobodyListensError."""
        if self._stream is None or len(self._waiting) >= MOST_WAITING:
            raise NobodyListensError
        number, self.first_number = self.first_number, self.first_number + 1
        kept = {name: text for name, text in headers.items() if name not in _CONNECTION_S}
        answer: asyncio.Future[Reported] = asyncio.get_running_loop().create_future()
        self._waiting[number] = _Message(number, kept, body.decode(errors="replace"), answer)
        self._stream.set()
        try:
            return await answer
        finally:
            del self._waiting[number]

    def report(self, number: int, reported: Reported) -> bool:
        """Answer a message; False: nobody waits for it any more."""
        message = self._waiting.get(number)
        if message is None or message.answer.done():
            return False
        message.answer.set_result(reported)
        return True

    def disconnect(self) -> None:
        """End the stream; what waits, waits for the next one."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.set()

    def close(self) -> None:
        """End the stream, and whatever waits for an answer."""
        self.disconnect()
        for message in self._waiting.values():
            if not message.answer.done():
                message.answer.set_exception(NobodyListensError())

    async def stream(
        self,
        after: int,
        idle: timedelta,
        is_open: Callable[[], Awaitable[bool]],
    ) -> AsyncGenerator[bytes, None]:
        """What is handed over, as server-sent events, beginning with what waits already.

        Of that, nothing up to number ``after`` is sent. The stream takes the place of an earlier
        one. It ends when there was nothing to send for ``idle``, or ``is_open`` no more.
        """
        self.disconnect()
        news = self._stream = asyncio.Event()
        sent, silence = after, 0.0
        try:
            yield b": listening\n\n"
            while self._stream is news:
                news.clear()
                for message in [one for number, one in self._waiting.items() if number > sent]:
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
        finally:
            if self._stream is news:
                self._stream = None


class Listeners:
    """The listeners of all workspaces; none sees those of another."""

    def __init__(self, system_clock: SystemClock, patience: float) -> None:
        """``patience``: real seconds within which a message must be answered."""
        self._wall = system_clock
        self.patience = patience
        self._by_token: dict[str, Listener] = {}

    def open(self, workspace_id: str, token: str | None = None) -> Listener:
        """A listener, or the one that has this token. Raises InUseError."""
        token = token or new_secret()
        known = self._by_token.get(token)
        if known is not None:
            if known.workspace_id != workspace_id:
                raise InUseError
            known.last_used = self._wall.monotonic()
            return known
        self._make_room(workspace_id)
        listener = Listener(
            id=_PREFIX + key_digest(token)[:_DIGITS],
            token=token,
            workspace_id=workspace_id,
            last_used=self._wall.monotonic(),
            # Never one that a server before this has used, so that clients can tell them apart.
            first_number=int(self._wall.now().timestamp() * 1000),
        )
        self._by_token[token] = listener
        return listener

    def at(self, token: str) -> Listener | None:
        """The listener of that token."""
        return self._by_token.get(token)

    def named(self, workspace_id: str, listener_id: str) -> Listener | None:
        """The listener of that id in a workspace."""
        found = next((one for one in self._of(workspace_id) if one.id == listener_id), None)
        if found is not None:
            found.last_used = self._wall.monotonic()
        return found

    def workspaces(self) -> set[str]:
        """The ids of the workspaces that have listeners."""
        return {one.workspace_id for one in self._by_token.values()}

    def remove(self, listener: Listener) -> None:
        """Close a listener for good."""
        self._by_token.pop(listener.token, None)
        listener.close()

    def disconnect(self, workspace_id: str) -> None:
        """End the streams of a workspace that is not what it was: their clients look anew."""
        for listener in self._of(workspace_id):
            listener.disconnect()

    def remove_all(self, workspace_id: str | None = None) -> None:
        """Close the listeners of a workspace, or of every one."""
        everyone = list(self._by_token.values())
        for listener in everyone if workspace_id is None else self._of(workspace_id):
            self.remove(listener)

    def _of(self, workspace_id: str) -> list[Listener]:
        return [one for one in self._by_token.values() if one.workspace_id == workspace_id]

    def _make_room(self, workspace_id: str) -> None:
        theirs = self._of(workspace_id)
        if len(theirs) < MOST:
            return
        silent = [one for one in theirs if not one.is_connected]
        if not silent:
            raise InUseError
        self.remove(min(silent, key=lambda one: one.last_used))
