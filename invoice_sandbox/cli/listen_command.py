"""``invoice-sandbox listen``: forward what a workspace delivers to a receiver on this machine.

It makes a listener, registers it as a webhook endpoint, and takes what is delivered from its
stream. Each message is forwarded byte for byte, and what the receiver answers is reported back, so
that the delivery log shows it. When the connection is lost it is made again, and what was
delivered to nobody meanwhile is replayed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import click
import httpx

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import OperatingSystemClock, SystemClock, instant_text
from invoice_sandbox.base.ids import new_secret
from invoice_sandbox.cli.control_output import (
    NOTHING,
    Connection,
    Data,
    Row,
    data_of,
    headers_of,
    may_need_proxy,
    nobody,
    path,
    plain,
)

EVERY_KIND: Final = ("*",)
"""What is listened to unless kinds are named."""

_WEBHOOKS: Final = "/api/webhooks"
_LISTENERS: Final = "/sandbox/listeners"
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 5.0
_SECONDS_OF_SILENCE: Final = 30.0
_SECONDS_TO_CONNECT: Final = 5.0
_SECONDS_TO_FINISH: Final = 5.0
_SHARE_OF_TIME: Final = 0.9
"""Of the time that the server waits for an answer, so much is the receiver's."""

_READ_LIMIT: Final = 4096
_MOST_KNOWN: Final = 1000
_MOST_RETRY_AFTER: Final = 100
_STATUSES: Final = range(200, 600)
_THROTTLED: Final = 429
_GONE: Final = 410
_NOT_FOUND: Final = 404
_EVENT_END: Final = b"\n\n"

_Attempt = tuple[str, str]
"""What tells an attempt from others: ``webhook-id`` and ``webhook-timestamp``."""


class LostError(Exception):
    """The sandbox does not answer now; it may later. ``problem`` says so to the user."""

    def __init__(self, problem: click.ClickException) -> None:
        super().__init__(problem.message)
        self.problem = problem


class GoneError(Exception):
    """What is asked for is not there: 404."""


def checked_target(text: str) -> str:
    """Where to forward to, as a URL: ``3000`` and ``localhost:3000/hooks`` will do.

    Raises click.BadParameter, which does not repeat the address: it may hold a password.
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
        raise click.BadParameter("a port, or an address such as http://localhost:3000/hooks")
    return url


def listen(connection: Connection, target: str, kinds: Sequence[str]) -> None:
    """Forward until SIGINT or SIGTERM. Raises click.ClickException."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_listen(connection, target, kinds))


async def _listen(connection: Connection, target: str, kinds: Sequence[str]) -> None:
    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with _Sandbox(connection) as sandbox, _Receiver(target) as receiver:
        forwarder = _Forwarder(sandbox, receiver, _Printer(connection, target), kinds)
        await forwarder.run_until(stop)


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
    def kind(self) -> str:
        try:
            return str(json.loads(self.body)["type"])
        except (ValueError, TypeError, KeyError):
            return NOTHING


@dataclass(frozen=True)
class _Answer:
    """What the local receiver answered, or why it did not; ``took`` is in real time."""

    status: int | None = None
    error: str | None = None
    body: str = ""
    retry_after: str | None = None
    took: timedelta = timedelta()

    @property
    def milliseconds(self) -> int:
        return self.took // timedelta(milliseconds=1)

    def report(self, message: int) -> Row:
        """As the sandbox is told of it."""
        if self.status is None:
            return {"message": message, "error": self.error}
        told = {"message": message, "status": self.status, "body": self.body}
        return told if self.retry_after is None else told | {"retryAfter": self.retry_after}


class _Sandbox:
    """The sandbox that is listened to."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._client = httpx.AsyncClient(
            base_url=connection.url,
            timeout=httpx.Timeout(connection.patience, connect=_SECONDS_TO_CONNECT),
            trust_env=may_need_proxy(connection.url),
        )

    async def __aenter__(self) -> _Sandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def ask(self, method: str, place: str, body: Row | None = None) -> Data:
        """The data of an answer. Raises LostError, GoneError, and click.ClickException."""
        try:
            reply = await self._client.request(
                method,
                place,
                headers=headers_of(self.connection, body),
                content=None if body is None else json.dumps(body),
            )
        except (httpx.RequestError, httpx.InvalidURL):
            raise LostError(nobody(self.connection)) from None
        return self._data(reply)

    async def webhooks(self, method: str, body: Row | None = None) -> Data:
        """Endpoints and deliveries. Raises LostError.

        Unlike levers, operations of the API may meet a fault that somebody has injected, so no
        refusal of theirs is the last word.
        """
        try:
            return await self.ask(method, _WEBHOOKS, body)
        except click.ClickException as problem:
            raise LostError(problem) from None
        except GoneError:
            raise LostError(click.ClickException("there are no webhooks here")) from None

    async def stream(self, listener_id: str) -> AsyncGenerator[_Message | None, None]:
        """None at the beginning, then what is delivered. Raises as ``ask`` does."""
        headers = headers_of(self.connection, None) | {"Accept": "text/event-stream"}
        place = path(f"{_LISTENERS}/{{id}}/stream", id=listener_id)
        silence = httpx.Timeout(_SECONDS_OF_SILENCE, connect=_SECONDS_TO_CONNECT)
        try:
            async with self._client.stream("GET", place, headers=headers, timeout=silence) as reply:
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
            raise LostError(nobody(self.connection)) from None

    def _data(self, reply: httpx.Response) -> Data:
        try:
            return data_of(self.connection, reply.is_success, reply.content)
        except click.ClickException as problem:
            if reply.status_code == _THROTTLED or reply.is_server_error:
                raise LostError(problem) from None
            if reply.status_code == _NOT_FOUND:
                raise GoneError from None
            raise


def _message(event: bytes) -> _Message:
    data = next(line for line in event.split(b"\n") if line.startswith(b"data: "))
    told = jsonio.loads(data.removeprefix(b"data: "))
    return _Message(told["message"], told["headers"], told["body"])


class _Receiver:
    """The receiver that is forwarded to."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._wall: SystemClock = OperatingSystemClock()
        self._client = httpx.AsyncClient(follow_redirects=False, trust_env=may_need_proxy(target))

    async def __aenter__(self) -> _Receiver:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def answer(self, message: _Message, seconds: float) -> _Answer:
        """What it answers within that time. Never raises for anything that it does."""
        begun = self._wall.monotonic()
        try:
            async with asyncio.timeout(seconds):
                answer = await self._exchange(message, seconds)
        except (TimeoutError, httpx.TimeoutException):
            answer = _Answer(error="timeout")
        except (httpx.ProtocolError, httpx.DecodingError):
            answer = _Answer(error="no_http")
        except (httpx.RequestError, httpx.InvalidURL, OSError):
            answer = _Answer(error="no_connection")
        took = timedelta(seconds=self._wall.monotonic() - begun)
        return _Answer(answer.status, answer.error, answer.body, answer.retry_after, took)

    async def _exchange(self, message: _Message, seconds: float) -> _Answer:
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
            return _Answer(error="no_http")
        asked = reply.headers.get("retry-after")
        if asked is not None and not (asked.isascii() and asked.isprintable()):
            asked = None
        return _Answer(
            reply.status_code,
            None,
            bytes(body[:_READ_LIMIT]).decode(errors="replace"),
            asked and asked[:_MOST_RETRY_AFTER],
        )


@dataclass(frozen=True)
class _Printer:
    """Tells what happens, a line each: deliveries on stdout, the connection on stderr."""

    connection: Connection
    target: str

    def ready(self, endpoint: Row) -> None:
        """There is an endpoint, with a secret that is shown only here."""
        told = {
            "forwardTo": self._shown_target,
            "endpointId": endpoint["id"],
            "secret": endpoint["secret"],
        }
        self._say(
            {"is": "ready", "url": self.connection.url, **told},
            f"Ready: {self.connection.url} -> {self._shown_target}, "
            f"endpoint {endpoint['id']}, signing secret {endpoint['secret']} (shown only here)",
        )

    def forwarded(self, message: _Message, answer: _Answer) -> None:
        """A message was forwarded, whatever came of it."""
        at = instant_text(OperatingSystemClock().now())
        outcome = answer.error if answer.status is None else answer.status
        words = (at, message.kind, message.id, outcome, f"{answer.milliseconds} ms")
        told = {
            "at": at,
            "type": message.kind,
            "webhookId": message.id,
            "status": answer.status,
            "error": answer.error,
            "durationMs": answer.milliseconds,
        }
        self._say({"is": "delivery", **told}, "  ".join(map(plain, words)))
        if answer.status == _GONE:
            self.note("the receiver answered 410 Gone, so the sandbox has disabled the endpoint")

    def note(self, text: str) -> None:
        """What is not about one delivery."""
        click.echo(text, err=True)

    def _say(self, data: Row, text: str) -> None:
        click.echo(json.dumps(data) if self.connection.as_json else text)

    @property
    def _shown_target(self) -> str:
        """Without user name and password."""
        parts = urlsplit(self.target)
        return plain(parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl())


@dataclass
class _Forwarder:
    """Keeps the connection, and forwards what comes. ``heard`` are the attempts of which the
    sandbox knows what the receiver answered."""

    sandbox: _Sandbox
    receiver: _Receiver
    printer: _Printer
    kinds: Sequence[str]
    token: str = field(default_factory=new_secret, repr=False)
    listener: Row = field(default_factory=dict)
    endpoint: Row = field(default_factory=dict)
    heard: set[_Attempt] = field(default_factory=set)
    _answers: dict[int, asyncio.Task[_Answer]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _failed: asyncio.Event = field(default_factory=asyncio.Event)
    _catching_up: asyncio.Task[None] | None = None
    _is_away: bool = False
    _is_new: bool = False

    async def run_until(self, stop: asyncio.Event) -> None:
        """Forward until ``stop``, then leave nothing behind. Raises click.ClickException."""
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
            raise click.ClickException(f"{self.sandbox.connection.url} has no listeners") from None
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
                pass  # the listener was deleted, so make another
            is_prepared = False
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _prepare(self) -> None:
        """Have the listener and its endpoint; they may be there from before."""
        wanted = {"token": self.token}
        self.listener = await self.sandbox.ask("POST", _LISTENERS, wanted)
        if await self._is_registered():
            return
        url, events = self.listener["url"], list(self.kinds)
        made = await self.sandbox.webhooks("POST", {"url": url, "events": events})
        self.endpoint = made
        self._check(made)
        self._is_new = True

    async def _is_registered(self) -> bool:
        if not self.endpoint:
            return False
        known = (await self.sandbox.webhooks("GET"))["endpoints"]
        mine = (self.endpoint["id"], self.listener["url"])
        return mine in {(one["id"], one["url"]) for one in known}

    def _check(self, endpoint: Row) -> None:
        for member, problem in (
            ("unknownEvents", "there are no events of kind"),
            ("deniedEvents", "this key may not read what is told by events of kind"),
        ):
            if endpoint.get(member):
                raise click.ClickException(f"{problem} {plain(endpoint[member])}")

    def _note_connection(self) -> None:
        if self._is_new:
            self.printer.ready(self.endpoint)
        if self._is_away:
            self.printer.note(f"Back on {self.sandbox.connection.url}.")
        self._is_new = self._is_away = False
        self._stop_catching_up()
        self._catching_up = self._begin(self._catch_up())

    def _note_loss(self) -> None:
        if not self._is_away:
            self.printer.note(f"Lost {self.sandbox.connection.url}; trying again.")
        self._is_away = True

    async def _catch_up(self) -> None:
        """Have those deliveries made again that failed, and that the receiver never answered."""
        pause = _FIRST_PAUSE
        while True:
            try:
                for row in reversed((await self.sandbox.webhooks("GET"))["deliveries"]):
                    if row["endpointId"] == self.endpoint["id"] and self._was_missed(row):
                        await self._replay(row["id"])
                return
            except LostError:  # a limit, or a fault that was injected
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _replay(self, delivery_id: str) -> None:
        place = path("/sandbox/deliveries/{id}/replay", id=delivery_id)
        with contextlib.suppress(GoneError, click.ClickException):  # the endpoint is disabled
            await self.sandbox.ask("POST", place)

    def _stop_catching_up(self) -> None:
        if self._catching_up is not None:
            self._catching_up.cancel()

    def _was_missed(self, row: Row) -> bool:
        if row["status"] not in {"Failed", "Exhausted"} or not row["attempts"]:
            return False
        request = row["attempts"][-1]["request"]
        if request is None:  # a story let it fail; nothing was sent
            return False
        headers = request["headers"]
        return (headers["webhook-id"], headers["webhook-timestamp"]) not in self.heard

    async def _handle(self, message: _Message) -> None:
        """Forward a message, unless that was done before, and report what came of it."""
        known = self._answers.get(message.number)
        if known is None:
            known = asyncio.create_task(self._forward(message))
            self._answers[message.number] = known
            while len(self._answers) > _MOST_KNOWN:
                self._answers.pop(next(iter(self._answers)))
        answer = await known
        place = path(f"{_LISTENERS}/{{id}}/answers", id=self.listener["id"])
        with contextlib.suppress(LostError, GoneError):  # it comes again, or is over
            await self.sandbox.ask("POST", place, answer.report(message.number))
            self.heard.add(message.attempt)

    async def _forward(self, message: _Message) -> _Answer:
        seconds = float(self.listener["secondsToAnswer"]) * _SHARE_OF_TIME
        answer = await self.receiver.answer(message, seconds)
        self.printer.forwarded(message, answer)
        return answer

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
        """Let what is under way come to its end, then disable the endpoint and go."""
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
        for task in (*self._tasks, *self._answers.values()):
            task.cancel()
        for problem in problems:
            if problem is not None:
                raise problem

    async def _clear(self) -> None:
        with contextlib.suppress(LostError, GoneError, click.ClickException):
            if self.endpoint:
                place = path("/sandbox/webhooks/{id}/disable", id=self.endpoint["id"])
                with contextlib.suppress(GoneError):
                    await self.sandbox.ask("POST", place)
            if self.listener:
                place = path(f"{_LISTENERS}/{{id}}", id=self.listener["id"])
                await self.sandbox.ask("DELETE", place)
