"""Receivers of webhooks on real ports, which remember what they get and respond as configured.

``python -m tests.receivers PORT`` is one in a process of its own, to be killed.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx
import httpx2
from standardwebhooks import Webhook

from tests.support import PATIENCE

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True)
class Message:
    """A request that a receiver got."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def second(self) -> int:
        return int(self.headers["webhook-timestamp"])

    @property
    def signatures(self) -> list[str]:
        return self.headers["webhook-signature"].split(" ")

    @property
    def event(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        return str(self.event["type"])

    def verified(self, secret: str) -> Any:
        """The event, if the official library finds it genuine; else it raises."""
        return Webhook(secret).verify(self.body, self.headers)


Manner = Callable[[Message, Streams], Awaitable[None]]
"""The response to one request."""


# Manners


def response(status: int = 200, body: bytes = b"", *, delay: float = 0, **headers: str) -> Manner:
    """Respond with these; an underscore in a header's name stands for a hyphen."""
    given = "".join(f"{name.replace('_', '-')}: {text}\r\n" for name, text in headers.items())
    head = f"HTTP/1.1 {status} Whatever\r\ncontent-length: {len(body)}\r\n{given}\r\n"

    async def manner(_: Message, streams: Streams) -> None:
        await asyncio.sleep(delay)
        streams[1].write(head.encode() + body)
        await streams[1].drain()

    return manner


def raw(data: bytes) -> Manner:
    """Respond with these bytes, whatever they are, and close the connection."""

    async def manner(_: Message, streams: Streams) -> None:
        streams[1].write(data)
        await streams[1].drain()
        streams[1].close()

    return manner


async def hang(_: Message, streams: Streams) -> None:
    """Say nothing until the other side has gone."""
    await streams[0].read()


async def reset(_: Message, streams: Streams) -> None:
    """Break the connection off."""
    linger = struct.pack("ii", 1, 0)
    streams[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    streams[1].transport.abort()


@dataclass
class Endless:
    """A body that goes on until the other side has gone."""

    part: bytes
    pause: float
    written: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)

    async def __call__(self, _: Message, streams: Streams) -> None:
        streams[1].write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                streams[1].write(self.part)
                await streams[1].drain()
                self.written += len(self.part)
                await asyncio.sleep(self.pause)
        finally:
            self.is_over.set()


def calling(function: Callable[[Message], None], then: Manner | None = None) -> Manner:
    """Call ``function`` in a thread of its own, then respond."""

    async def manner(message: Message, streams: Streams) -> None:
        await asyncio.to_thread(function, message)
        await (then or response())(message, streams)

    return manner


def held(gate: threading.Event, then: Manner | None = None) -> Manner:
    """Respond when the test opens the gate."""

    async def manner(message: Message, streams: Streams) -> None:
        while not gate.is_set():  # noqa: ASYNC110  it is set in another thread
            await asyncio.sleep(0.05)
        await (then or response())(message, streams)

    return manner


class Receiver:
    """Responds on ``url``. ``messages`` are those that came, in their order."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.url = ""
        self.port = 0
        self.tls = tls
        self.messages: list[Message] = []
        self._manners: list[Manner] = [response()]
        self._choose: Callable[[Message], Manner] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._transports: set[asyncio.WriteTransport] = set()

    def responses(self, *manners: Manner) -> None:
        """Respond to the next requests so, and all after them like the last one."""
        self._manners = list(manners)

    def responds_by(self, choose: Callable[[Message], Manner]) -> None:
        """Respond to each request as ``choose`` says."""
        self._choose = choose

    def kinds(self) -> list[str]:
        """The kinds of what came."""
        return [message.kind for message in self.messages]

    def ids(self) -> list[str]:
        """The ids of what came."""
        return [message.id for message in self.messages]

    async def serve(self, port: int, ready: Callable[[], None], stop: asyncio.Event) -> None:
        """Respond until ``stop``."""
        server = await asyncio.start_server(
            self._meet, "127.0.0.1", port, backlog=2000, ssl=self.tls
        )
        self.port = server.sockets[0].getsockname()[1]
        self.url = f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"
        ready()
        await stop.wait()
        server.close()
        quiet = 0
        while quiet < 5:  # what was accepted just before begins only now
            quiet = 0 if self._tasks else quiet + 1
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            while self._transports:  # though the other side may not read the rest
                self._transports.pop().abort()
            await asyncio.sleep(0.01)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._transports.add(writer.transport)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while not writer.is_closing():
                    message = await _read(reader)
                    self.messages.append(message)
                    await self._manner(message)(message, (reader, writer))
        finally:
            self._tasks.discard(task)
            writer.close()

    def _manner(self, message: Message) -> Manner:
        if self._choose is not None:
            return self._choose(message)
        return self._manners.pop(0) if len(self._manners) > 1 else self._manners[0]


async def _read(reader: asyncio.StreamReader) -> Message:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    headers = {
        name.lower(): value for name, value in (line.split(": ", maxsplit=1) for line in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Message(first.split(" ")[1], headers, body)


@contextmanager
def receiving(
    *manners: Manner, port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[Receiver]:
    """A receiver in a thread of its own."""
    receiver, ready = Receiver(tls=tls), threading.Event()
    if manners:
        receiver.responses(*manners)
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    serve = receiver.serve(port, ready.set, stop)
    thread = threading.Thread(target=loop.run_until_complete, args=(serve,))
    thread.start()
    try:
        assert ready.wait(PATIENCE), "the receiver did not become ready"
        yield receiver
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE)
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def is_listening(port: int) -> bool:
    """Whether anybody takes connections on this port."""
    try:
        socket.create_connection(("127.0.0.1", port), PATIENCE).close()
    except OSError:
        return False
    return True


# The sandbox's side


def subscribe(client: httpx.Client, url: str, **members: Any) -> Any:
    """A new endpoint, with its secret."""
    return _data(client.post("/api/webhooks", json={"url": url, **members}))


def trigger(client: httpx.Client, kind: str = "invoice.verified", **members: Any) -> Any:
    """An event as if it had happened."""
    return _data(client.post("/sandbox/events", json={"type": kind, **members}))


def deliveries(client: httpx.Client | httpx2.Client) -> list[Any]:
    """The deliveries of the workspace, oldest first."""
    return list(reversed(_data(client.get("/api/webhooks"))["deliveries"]))


def delivery(client: httpx.Client) -> Any:
    """The one delivery of the workspace."""
    (only,) = deliveries(client)
    return only


def endpoint(client: httpx.Client, endpoint_id: str) -> Any:
    """An endpoint as it is listed."""
    listed = _data(client.get("/api/webhooks"))["endpoints"]
    return next(one for one in listed if one["id"] == endpoint_id)


def replay(client: httpx.Client, delivery_id: str) -> Any:
    """A delivery after one more attempt."""
    return _data(client.post(f"/sandbox/deliveries/{delivery_id}/replay"))


def switch(client: httpx.Client, endpoint_id: str, how: str) -> Any:
    """An endpoint after ``enable``, ``disable`` or ``rotate-secret``."""
    return _data(client.post(f"/sandbox/webhooks/{endpoint_id}/{how}"))


def _data(reply: httpx.Response | httpx2.Response) -> Any:
    assert reply.is_success, f"{reply.status_code} {reply.text}"
    return reply.json()["data"]


def main(port: int) -> None:
    """Receive until killed; say on stdout that it is ready, and the id of each message."""

    def report(message: Message) -> Manner:
        print(message.id, flush=True)  # noqa: T201
        return response(204)

    receiver = Receiver()
    receiver.responds_by(report)
    ready = lambda: print("ready", flush=True)  # noqa: E731, T201
    asyncio.run(receiver.serve(port, ready, asyncio.Event()))


if __name__ == "__main__":
    main(int(sys.argv[1]))
