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
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import click

from invoice_sandbox.base.clock import OperatingSystemClock, instant_text
from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.cli.output import Row, plain
from invoice_sandbox.cli.receiver import Identity, Receiver, Response
from invoice_sandbox.cli.stream import (
    LISTENERS,
    Attempt,
    GoneError,
    LostError,
    Message,
    ReplacedError,
    Sandbox,
)
from invoice_sandbox.control.client import ControlClient, SandboxError, path

_FIRST_PAUSE: Final = 0.5
_MAX_PAUSE: Final = 5.0
_SECONDS_TO_FINISH: Final = 5.0
_SHARE_OF_TIME: Final = 0.9
"""The share of the time that the server waits for a response which the receiver has."""

_MAX_KNOWN: Final = 1000
_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP)
"""Signals that end it: from the keyboard, of a supervisor, and when the terminal is closed."""

_GONE: Final = 410


def listen(
    client: ControlClient,
    target: str,
    types: Sequence[str],
    identity: Identity,
    *,
    as_json: bool,
) -> None:
    """Forward until a signal of _ENDS, or until another ``listen`` takes over. Raises SandboxError.

    A signal that this process was started to ignore, as by ``nohup``, does not end it.
    """
    client.registration_path()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_listen(client, target, types, identity, as_json=as_json))


async def _listen(
    client: ControlClient,
    target: str,
    types: Sequence[str],
    identity: Identity,
    *,
    as_json: bool,
) -> None:
    stop = asyncio.Event()
    for name in _ENDS:
        if name != signal.SIGHUP or signal.getsignal(name) != signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with Sandbox(client) as sandbox, Receiver(target) as receiver:
        printer = _Printer(client.url, target, as_json)
        await _Forwarder(sandbox, receiver, printer, types, identity).run_until(stop)


@dataclass(frozen=True)
class _Printer:
    """Prints a line for each delivery on stdout, and what happens to the connection on stderr."""

    url: str
    target: str
    as_json: bool
    shown: dict[str, None] = field(default_factory=dict)
    """The ids of the latest messages of the endpoint: another delivery of one of them is a retry.
    After a reset, and from a server that was started again, other events have the same ids."""

    def ready(self, endpoint: Row) -> None:
        """The endpoint was created: it has had no message yet."""
        self.shown.clear()
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
            f"endpoint {endpoint['id']}, signing secret {endpoint['secret']}",
        )

    def forwarded(self, message: Message, response: Response) -> None:
        """A message was forwarded, with this response or error."""
        at = instant_text(OperatingSystemClock().now())
        outcome = response.error if response.status is None else response.status
        is_retry = message.id in self.shown
        self.shown[message.id] = None
        if len(self.shown) > _MAX_KNOWN:
            self.shown.pop(next(iter(self.shown)))
        texts = [at, message.type, message.id, outcome, f"{response.milliseconds} ms"]
        texts += ["retry"] if is_retry else []
        data = {
            "is": "delivery",
            "at": at,
            "type": message.type,
            "webhookId": message.id,
            "status": response.status,
            "error": response.error,
            "durationMs": response.milliseconds,
            "retry": is_retry,
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

    ``reported`` are the attempts of the endpoint whose response the sandbox has received.
    """

    sandbox: Sandbox
    receiver: Receiver
    printer: _Printer
    types: Sequence[str]
    identity: Identity
    listener: Row = field(default_factory=dict)
    endpoint: Row = field(default_factory=dict)
    reported: set[Attempt] = field(default_factory=set)
    _responses: dict[int, asyncio.Task[Response]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _failed: asyncio.Event = field(default_factory=asyncio.Event)
    _catching_up: asyncio.Task[None] | None = None
    _is_away: bool = False
    _is_new: bool = False
    _is_replaced: bool = False

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
            except ReplacedError:
                self._is_replaced = True
                self.printer.note("Another 'listen' forwards to this receiver now.")
                return
            except GoneError:
                pass  # the listener was deleted; create another one
            is_prepared = False
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE)

    async def _prepare(self) -> None:
        """Create the listener and its endpoint, unless they exist. Other endpoints of the listener
        are deleted: they belong to a command that was killed, or that this one replaces."""
        mine = [self.endpoint["id"]] if self.endpoint else []
        token = self.identity.token(self.sandbox.client.key or "")
        wanted = {"token": token, "endpoints": mine}
        self.listener = await self.sandbox.ask("POST", LISTENERS, wanted)
        if mine and self.listener["endpoints"] == mine:
            return
        registration: Row = {
            "url": self.listener["url"],
            "events": list(self.types),
            "secret": self.identity.secret,
        }
        made = await self.sandbox.register(registration)
        self.reported.clear()
        if made["secret"] != self.identity.secret:
            self.printer.note(
                "This project chooses the signing secret itself: it may differ each time."
            )
        self.endpoint = made
        self._check(made)
        self._is_new = True

    def _check(self, endpoint: Row) -> None:
        for name in endpoint.get("unknownEvents") or ():
            client = self.sandbox.client
            advice = suggestion(name, client.event_types(), where=client.lists_events)
            raise SandboxError(f"--events: unknown event type '{plain(name)}'; {advice}")
        if denied := endpoint.get("deniedEvents"):
            raise SandboxError(f"the scopes of the key do not allow events of type {plain(denied)}")

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
                for row in reversed(await self.sandbox.deliveries()):
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

    async def _handle(self, message: Message) -> None:
        """Forward a message unless that was done before, and report the response."""
        known = self._responses.get(message.number)
        if known is None:
            known = asyncio.create_task(self._forward(message))
            self._responses[message.number] = known
            while len(self._responses) > _MAX_KNOWN:
                self._responses.pop(next(iter(self._responses)))
        response = await known
        place = path(f"{LISTENERS}/{{id}}/answers", id=self.listener["id"])
        with contextlib.suppress(LostError, GoneError):  # it comes again, or the listener is gone
            await self.sandbox.ask("POST", place, response.report(message.number))
            self.reported.add(message.attempt)

    async def _forward(self, message: Message) -> Response:
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
        """Wait for deliveries in progress, then delete the listener with its endpoint."""
        self._stop_catching_up()
        problems = [
            task.exception() for task in self._tasks if task.done() and not task.cancelled()
        ]
        under_way = [task for task in self._tasks if not task.done()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_FINISH):
                if under_way:
                    await asyncio.wait(under_way)
                if not self._is_replaced:
                    await self._clear()
        for task in (*self._tasks, *self._responses.values()):
            task.cancel()
        for problem in problems:
            if problem is not None:
                raise problem

    async def _clear(self) -> None:
        with contextlib.suppress(LostError, GoneError, SandboxError):
            if self.listener:
                place = path(f"{LISTENERS}/{{id}}", id=self.listener["id"])
                await self.sandbox.ask("DELETE", place)
