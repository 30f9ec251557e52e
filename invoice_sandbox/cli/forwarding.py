"""Forwards the webhooks of a workspace to a receiver on this machine, for ``listen``.

It creates a listener, registers it as a webhook endpoint, and reads the deliveries from its
stream. Each message is forwarded byte for byte, and the response of the receiver is reported back,
so that the delivery log shows it. After a lost connection it reconnects and replays the deliveries
that failed meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import click
import httpx

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import OperatingSystemClock, SystemClock, instant_text
from invoice_sandbox.base.ids import new_secret
from invoice_sandbox.cli.output import NOTHING, Row, plain
from invoice_sandbox.control.client import ControlClient, SandboxError, path, uses_proxy

_NO_WEBHOOKS: Final[Row] = {"endpoints": [], "deliveries": []}
_LISTENERS: Final = "/sandbox/listeners"
_FIRST_PAUSE: Final = 0.5
_MAX_PAUSE: Final = 5.0
_SECONDS_OF_SILENCE: Final = 30.0
_SECONDS_TO_CONNECT: Final = 5.0
_SECONDS_TO_FINISH: Final = 5.0
_SHARE_OF_TIME: Final = 0.9
"""The share of the time that the server waits for a response which the receiver has."""

_READ_LIMIT: Final = 4096
_MAX_KNOWN: Final = 1000
_MAX_RETRY_AFTER: Final = 100
_STATUSES: Final = range(200, 600)
_THROTTLED: Final = 429
_GONE: Final = 410
_NOT_FOUND: Final = 404
_EVENT_END: Final = b"\n\n"

_Attempt = tuple[str, str]
"""The identity of an attempt: ``webhook-id`` and ``webhook-timestamp``."""


class LostError(Exception):
    """The sandbox does not respond now, but may do so later. ``problem`` is for the user."""

    def __init__(self, problem: SandboxError) -> None:
        super().__init__(str(problem))
        self.problem = problem


class GoneError(Exception):
    """The listener, endpoint or delivery does not exist: 404."""


def checked_target(text: str) -> str:
    """The URL to forward to, from a text such as ``3000`` or ``localhost:3000/hooks``.

    Raises click.BadParameter. Its message does not repeat the text, which may hold a password.
    """
    url = f"localhost:{text}" if text.isascii() and text.isdigit() else text
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise click.BadParameter("use a port, or a URL such as http://localhost:3000/hooks")
    return url


def listen(client: ControlClient, target: str, types: Sequence[str], *, as_json: bool) -> None:
    """Forward until SIGINT or SIGTERM. Raises SandboxError."""
    registration_path(client)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_listen(client, target, types, as_json=as_json))


def registration_path(client: ControlClient) -> str:
    """The path of the operation that registers webhook endpoints. Raises SandboxError."""
    if client.project.register is None:
        raise SandboxError(
            f"the project at {client.url} does not name the operation that registers webhook "
            "endpoints; name it in 'webhooks' of its conventions.yaml"
        )
    return client.project.register


async def _listen(
    client: ControlClient, target: str, types: Sequence[str], *, as_json: bool
) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with _Sandbox(client) as sandbox, _Receiver(target) as receiver:
        printer = _Printer(client.url, target, as_json)
        await _Forwarder(sandbox, receiver, printer, types).run_until(stop)


@dataclass(frozen=True)
class _Message:
    """One event of the stream."""

    number: int
    headers: Mapping[str, str]
    body: str

    @property
    def attempt(self) -> _Attempt:
        return self.id, self.headers.get("webhook-timestamp", "")

    @property
    def id(self) -> str:
        return self.headers.get("webhook-id", "")

    @property
    def type(self) -> str:
        try:
            return str(json.loads(self.body)["type"])
        except (ValueError, TypeError, KeyError):
            return NOTHING


@dataclass(frozen=True)
class _Response:
    """The response of the local receiver, or the error; ``took`` is in real time."""

    status: int | None = None
    error: str | None = None
    body: str = ""
    retry_after: str | None = None
    took: timedelta = timedelta()

    @property
    def milliseconds(self) -> int:
        return self.took // timedelta(milliseconds=1)

    def report(self, message: int) -> Row:
        """The body of the report to the sandbox."""
        if self.status is None:
            return {"message": message, "error": self.error}
        reported = {"message": message, "status": self.status, "body": self.body}
        return reported | ({} if self.retry_after is None else {"retryAfter": self.retry_after})


class _Sandbox:
    """The sandbox whose webhooks are forwarded. It is asked without blocking the stream."""

    def __init__(self, client: ControlClient) -> None:
        self.client = client
        self._http = httpx.AsyncClient(
            base_url=client.url,
            timeout=httpx.Timeout(client.patience, connect=_SECONDS_TO_CONNECT),
            trust_env=uses_proxy(client.url),
        )

    async def __aenter__(self) -> _Sandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def ask(self, method: str, place: str, body: Row | None = None) -> Any:
        """The data of a response. Raises LostError, GoneError and SandboxError."""
        try:
            reply = await self._http.request(
                method,
                place,
                headers=self.client.headers(has_body=body is not None),
                content=None if body is None else json.dumps(body),
            )
        except (httpx.RequestError, httpx.InvalidURL):
            raise self._lost() from None
        return self._data(reply)

    async def register(self, body: Row) -> Any:
        """Register a webhook endpoint. Raises LostError."""
        return await self._operation("POST", registration_path(self.client), body)

    async def webhooks(self) -> Any:
        """Endpoints and deliveries; none where the project does not list them. Raises LostError."""
        place = self.client.project.deliveries
        return await self._operation("GET", place) if place is not None else _NO_WEBHOOKS

    async def _operation(self, method: str, place: str, body: Row | None = None) -> Any:
        """The content of an operation of the API. Raises LostError.

        Unlike control operations, an operation of the API can meet an injected fault, so an error
        may pass.
        """
        try:
            return await self.ask(method, place, body)
        except SandboxError as problem:
            raise LostError(problem) from None
        except GoneError:
            raise LostError(SandboxError(f"{self.client.url} has no webhooks")) from None

    async def stream(self, listener_id: str) -> AsyncGenerator[_Message | None, None]:
        """None at the beginning, then the deliveries. Raises like ``ask``."""
        headers = self.client.headers(has_body=False) | {"Accept": "text/event-stream"}
        place = path(f"{_LISTENERS}/{{id}}/stream", id=listener_id)
        silence = httpx.Timeout(_SECONDS_OF_SILENCE, connect=_SECONDS_TO_CONNECT)
        try:
            async with self._http.stream("GET", place, headers=headers, timeout=silence) as reply:
                if not reply.is_success:
                    await reply.aread()
                    self._data(reply)
                rest = b""
                async for part in reply.aiter_raw():
                    *events, rest = (rest + part).split(_EVENT_END)
                    for event in events:
                        if event == b": listening":
                            yield None
                        elif not event.startswith(b":"):
                            yield _message(event)
        except (httpx.RequestError, httpx.StreamError):
            raise self._lost() from None

    def _lost(self) -> LostError:
        return LostError(self.client.unreachable("the connection failed"))

    def _data(self, reply: httpx.Response) -> Any:
        try:
            return self.client.content_of(reply.status_code, reply.content)
        except SandboxError as problem:
            if reply.status_code == _THROTTLED or reply.is_server_error:
                raise LostError(problem) from None
            if reply.status_code == _NOT_FOUND:
                raise GoneError from None
            raise


def _message(event: bytes) -> _Message:
    data = next(line for line in event.split(b"\n") if line.startswith(b"data: "))
    members = jsonio.loads(data.removeprefix(b"data: "))
    return _Message(members["message"], members["headers"], members["body"])


class _Receiver:
    """The local receiver."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._clock: SystemClock = OperatingSystemClock()
        self._client = httpx.AsyncClient(follow_redirects=False, trust_env=uses_proxy(target))

    async def __aenter__(self) -> _Receiver:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def deliver(self, message: _Message, seconds: float) -> _Response:
        """Its response within that time, or the error."""
        begun = self._clock.monotonic()
        try:
            async with asyncio.timeout(seconds):
                response = await self._exchange(message, seconds)
        except (TimeoutError, httpx.TimeoutException):
            response = _Response(error="timeout")
        except (httpx.ProtocolError, httpx.DecodingError):
            response = _Response(error="no_http")
        except (httpx.RequestError, httpx.InvalidURL, OSError):
            response = _Response(error="no_connection")
        took = timedelta(seconds=self._clock.monotonic() - begun)
        return replace(response, took=took)

    async def _exchange(self, message: _Message, seconds: float) -> _Response:
        async with self._client.stream(
            "POST",
            self._target,
            content=message.body.encode(),
            headers=dict(message.headers),
            timeout=seconds,
        ) as reply:
            body = bytearray()
            async for part in reply.aiter_raw():
                body += part
                if len(body) >= _READ_LIMIT:
                    break
        if reply.status_code not in _STATUSES:
            return _Response(error="no_http")
        retry_after = reply.headers.get("retry-after")
        if retry_after is not None and not (retry_after.isascii() and retry_after.isprintable()):
            retry_after = None
        return _Response(
            reply.status_code,
            None,
            bytes(body[:_READ_LIMIT]).decode(errors="replace"),
            retry_after and retry_after[:_MAX_RETRY_AFTER],
        )


@dataclass(frozen=True)
class _Printer:
    """Prints a line for each delivery on stdout, and what happens to the connection on stderr."""

    url: str
    target: str
    as_json: bool

    def ready(self, endpoint: Row) -> None:
        """The endpoint was created; its secret is shown only once."""
        data = {
            "is": "ready",
            "url": self.url,
            "forwardTo": self._shown_target,
            "endpointId": endpoint["id"],
            "secret": endpoint["secret"],
        }
        self._print(
            data,
            f"Ready: {self.url} -> {self._shown_target}, "
            f"endpoint {endpoint['id']}, signing secret {endpoint['secret']} (shown only once)",
        )

    def forwarded(self, message: _Message, response: _Response) -> None:
        """A message was forwarded, with this response or error."""
        at = instant_text(OperatingSystemClock().now())
        outcome = response.error if response.status is None else response.status
        texts = (at, message.type, message.id, outcome, f"{response.milliseconds} ms")
        data = {
            "is": "delivery",
            "at": at,
            "type": message.type,
            "webhookId": message.id,
            "status": response.status,
            "error": response.error,
            "durationMs": response.milliseconds,
        }
        self._print(data, "  ".join(map(plain, texts)))
        if response.status == _GONE:
            self.note("the receiver responded 410 Gone, so the sandbox has disabled the endpoint")

    def note(self, text: str) -> None:
        """Print something that is not about one delivery."""
        click.echo(text, err=True)

    def _print(self, data: Row, text: str) -> None:
        click.echo(json.dumps(data) if self.as_json else text)

    @property
    def _shown_target(self) -> str:
        """The target without user name and password."""
        parts = urlsplit(self.target)
        return plain(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())


@dataclass
class _Forwarder:
    """Keeps the connection and forwards messages.

    ``reported`` are the attempts whose response the sandbox has received.
    """

    sandbox: _Sandbox
    receiver: _Receiver
    printer: _Printer
    types: Sequence[str]
    token: str = field(default_factory=new_secret, repr=False)
    listener: Row = field(default_factory=dict)
    endpoint: Row = field(default_factory=dict)
    reported: set[_Attempt] = field(default_factory=set)
    _responses: dict[int, asyncio.Task[_Response]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _failed: asyncio.Event = field(default_factory=asyncio.Event)
    _catching_up: asyncio.Task[None] | None = None
    _is_away: bool = False
    _is_new: bool = False

    async def run_until(self, stop: asyncio.Event) -> None:
        """Forward until ``stop``, then clean up. Raises SandboxError."""
        work = asyncio.create_task(self._work())
        ends = [asyncio.create_task(event.wait()) for event in (stop, self._failed)]
        try:
            await asyncio.wait({work, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            for task in (work, *ends):
                task.cancel()
            await asyncio.wait({work, *ends})
            await self._leave()

    async def _work(self) -> None:
        try:
            await self._prepare()
        except LostError as lost:
            raise lost.problem from None
        except GoneError:
            raise SandboxError(f"{self.sandbox.client.url} has no listeners") from None
        pause, is_prepared = _FIRST_PAUSE, True
        while True:
            try:
                if not is_prepared:
                    await self._prepare()
                async with contextlib.aclosing(self.sandbox.stream(self.listener["id"])) as stream:
                    async for message in stream:
                        if message is None:
                            pause = _FIRST_PAUSE
                            self._note_connection()
                        else:
                            self._begin(self._handle(message))
            except LostError:
                self._note_loss()
            except GoneError:
                pass  # the listener was deleted; create another one
            is_prepared = False
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)

    async def _prepare(self) -> None:
        """Create the listener and its endpoint, unless they exist."""
        wanted = {"token": self.token}
        self.listener = await self.sandbox.ask("POST", _LISTENERS, wanted)
        if await self._is_registered():
            return
        url, events = self.listener["url"], list(self.types)
        made = await self.sandbox.register({"url": url, "events": events})
        self.endpoint = made
        self._check(made)
        self._is_new = True

    async def _is_registered(self) -> bool:
        if not self.endpoint:
            return False
        known = (await self.sandbox.webhooks())["endpoints"]
        mine = (self.endpoint["id"], self.listener["url"])
        return mine in {(one["id"], one["url"]) for one in known}

    def _check(self, endpoint: Row) -> None:
        for member, problem in (
            ("unknownEvents", "unknown event type"),
            ("deniedEvents", "the scopes of the key do not allow events of type"),
        ):
            if endpoint.get(member):
                raise SandboxError(f"{problem} {plain(endpoint[member])}")

    def _note_connection(self) -> None:
        if self._is_new:
            self.printer.ready(self.endpoint)
        if self._is_away:
            self.printer.note(f"Reconnected to {self.sandbox.client.url}.")
        self._is_new = self._is_away = False
        self._stop_catching_up()
        self._catching_up = self._begin(self._catch_up())

    def _note_loss(self) -> None:
        if not self._is_away:
            self.printer.note(f"Lost the connection to {self.sandbox.client.url}; trying again.")
        self._is_away = True

    async def _catch_up(self) -> None:
        """Replay the failed deliveries that the receiver has not responded to."""
        pause = _FIRST_PAUSE
        while True:
            try:
                for row in reversed((await self.sandbox.webhooks())["deliveries"]):
                    if row["endpointId"] == self.endpoint["id"] and self._was_missed(row):
                        await self._replay(row["id"])
                return
            except LostError:  # a rate limit, or an injected fault
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE)

    async def _replay(self, delivery_id: str) -> None:
        place = path("/sandbox/deliveries/{id}/replay", id=delivery_id)
        with contextlib.suppress(GoneError, SandboxError):  # the endpoint is disabled
            await self.sandbox.ask("POST", place)

    def _stop_catching_up(self) -> None:
        if self._catching_up is not None:
            self._catching_up.cancel()

    def _was_missed(self, row: Row) -> bool:
        if row["status"] not in {"Failed", "Exhausted"} or not row["attempts"]:
            return False
        request = row["attempts"][-1]["request"]
        if request is None:  # an injected fault; nothing was sent
            return False
        headers = request["headers"]
        return (headers["webhook-id"], headers["webhook-timestamp"]) not in self.reported

    async def _handle(self, message: _Message) -> None:
        """Forward a message unless that was done before, and report the response."""
        known = self._responses.get(message.number)
        if known is None:
            known = asyncio.create_task(self._forward(message))
            self._responses[message.number] = known
            while len(self._responses) > _MAX_KNOWN:
                self._responses.pop(next(iter(self._responses)))
        response = await known
        place = path(f"{_LISTENERS}/{{id}}/answers", id=self.listener["id"])
        with contextlib.suppress(LostError, GoneError):  # it comes again, or the listener is gone
            await self.sandbox.ask("POST", place, response.report(message.number))
            self.reported.add(message.attempt)

    async def _forward(self, message: _Message) -> _Response:
        seconds = float(self.listener["secondsToAnswer"]) * _SHARE_OF_TIME
        response = await self.receiver.deliver(message, seconds)
        self.printer.forwarded(message, response)
        return response

    def _begin(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._note_end)
        return task

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)
        else:
            self._failed.set()

    async def _leave(self) -> None:
        """Wait for deliveries in progress, then disable the endpoint."""
        self._stop_catching_up()
        problems = [
            task.exception() for task in self._tasks if task.done() and not task.cancelled()
        ]
        under_way = [task for task in self._tasks if not task.done()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_FINISH):
                if under_way:
                    await asyncio.wait(under_way)
                await self._clear()
        for task in (*self._tasks, *self._responses.values()):
            task.cancel()
        for problem in problems:
            if problem is not None:
                raise problem

    async def _clear(self) -> None:
        with contextlib.suppress(LostError, GoneError, SandboxError):
            if self.endpoint:
                place = path("/sandbox/webhooks/{id}/disable", id=self.endpoint["id"])
                with contextlib.suppress(GoneError):
                    await self.sandbox.ask("POST", place)
            if self.listener:
                place = path(f"{_LISTENERS}/{{id}}", id=self.listener["id"])
                await self.sandbox.ask("DELETE", place)
