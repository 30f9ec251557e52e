"""``invoice-sandbox listen``: forward webhooks to a receiver on this machine.

It creates a listener, registers it as a webhook endpoint, and reads the deliveries from its stream.
Each message is forwarded byte for byte, in a thread of its own, and the response of the receiver is
reported back, so that the delivery log shows it. After a lost connection it reconnects and replays
the deliveries that failed meanwhile.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final
from urllib.parse import urlsplit

import click

from invoice_sandbox.base.clock import OperatingSystemClock, SystemClock, instant_text
from invoice_sandbox.base.errors import suggestion
from invoice_sandbox.cli.options import FILE, client, options, wants_json, with_connection
from invoice_sandbox.cli.output import Row, plain
from invoice_sandbox.cli.receiver import (
    Identity,
    Message,
    Receiver,
    Response,
    checked_secret,
    checked_target,
    identity_of,
)
from invoice_sandbox.cli.webhooks import event_type
from invoice_sandbox.control.client import ControlClient, SandboxError, path

_FIRST_PAUSE: Final = 0.5
_MAX_PAUSE: Final = 5.0
_SECONDS_OF_SILENCE: Final = 30.0
_SECONDS_TO_FINISH: Final = 5.0
_SHARE_OF_TIME: Final = 0.9
"""The share of the time that the server waits for a response which the receiver has."""

_MAX_KNOWN: Final = 1000
_ENDS: Final = (signal.SIGINT, signal.SIGTERM)
"""Signals that end it: from the keyboard, and of a supervisor."""

_CLOCK: Final[SystemClock] = OperatingSystemClock()


def _types(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    types = tuple(name.strip() for name in text.split(","))
    if not all(types):
        raise click.BadParameter(f"'{text}': use types of events, separated by commas")
    return types


@click.command()
@options(
    {
        "--forward-to": {
            "metavar": "URL",
            "required": True,
            "callback": lambda _context, _parameter, text: checked_target(text),
            "help": "Your receiver: a URL, or a port of this machine.",
        },
        "--events": {
            "metavar": "TYPE,...",
            "default": "*",
            "callback": _types,
            "help": "Only events of these types. Default: all.",
        },
        "--secret": {
            "metavar": "WHSEC",
            "callback": lambda _context, _parameter, text: (
                None if text is None else checked_secret(text)
            ),
            "help": "Signing secret. Default: one made of the key and the receiver.",
        },
        "--ca": {
            "metavar": "FILE",
            "type": FILE,
            "help": "Certificates in PEM that your receiver is trusted by, besides the system's.",
        },
    }
)
@with_connection
def listen(forward_to: str, events: tuple[str, ...], secret: str | None, ca: Path | None) -> None:
    """Forward webhooks to your own receiver, until stopped.

    It registers a webhook endpoint and prints its signing secret, then a line for each delivery:
    time, type, webhook-id, response of your receiver, duration, and 'retry' if it is one. Headers
    and body are forwarded as they were signed. After a lost connection it catches up on missed
    deliveries. With --json each line is a JSON object.

    The secret is the same each time for the same key and receiver, unless the project chooses it.
    At the end the endpoint is deleted.
    Another 'listen' for the same receiver and key takes over.

    \b
    invoice-sandbox listen --forward-to 3000
    invoice-sandbox listen --forward-to http://localhost:3000/hooks --events invoice.paid,offer.*
    """
    try:
        receiver = Receiver(forward_to, ca)
    except OSError:
        raise click.BadParameter(f"'{ca}' has no certificate in PEM", param_hint="--ca") from None
    with receiver:
        sandbox = client()
        sandbox.registration_path()
        identity = identity_of(forward_to, sandbox.key or "", secret)
        printer = _Printer(sandbox.url, forward_to, wants_json())
        _Forwarder(sandbox, receiver, printer, events, identity).run()


@dataclass(frozen=True)
class _Printer:
    """Prints a line for each delivery on stdout, and what happens to the connection on stderr."""

    url: str
    target: str
    as_json: bool
    shown: dict[str, None] = field(default_factory=dict)
    """The ids of the latest messages of the endpoint: another delivery of one of them is a retry.
    After a reset, and from a server that was started again, other events have the same ids."""
    _lock: Lock = field(default_factory=Lock)

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
        at = instant_text(_CLOCK.now())
        failed = ": ".join(filter(None, (response.error, response.reason)))
        outcome = failed if response.status is None else response.status
        with self._lock:
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
            "reason": response.reason,
            "durationMs": response.milliseconds,
            "retry": is_retry,
        }
        self._print(data, "  ".join(map(plain, texts)))

    def note(self, text: str) -> None:
        """Print something that is not about one delivery."""
        click.echo(text, err=True)

    def _print(self, data: Row, text: str) -> None:
        with self._lock:
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

    sandbox: ControlClient
    receiver: Receiver
    printer: _Printer
    types: Sequence[str]
    identity: Identity
    listener: Row = field(default_factory=dict)
    endpoint: Row = field(default_factory=dict)
    reported: set[tuple[str, str]] = field(default_factory=set)
    _responses: dict[int, Future[Response]] = field(default_factory=dict)
    _threads: list[Thread] = field(default_factory=list)
    _connection: Event = field(default_factory=Event)
    """Is set when the connection that began last is over."""
    _pause: float = _FIRST_PAUSE
    _is_away: bool = False
    _is_new: bool = False
    _is_replaced: bool = False

    def run(self) -> None:
        """Forward until a signal, or until another ``listen`` takes over. Raises SandboxError."""
        before = {name: signal.signal(name, signal.default_int_handler) for name in _ENDS}
        try:
            with suppress(KeyboardInterrupt):
                self._work()
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)
            self._leave()

    def _work(self) -> None:
        self._prepare()
        is_prepared = True
        while not self._is_replaced:
            try:
                if not is_prepared:
                    self._prepare()
                self._follow()
            except SandboxError as error:
                if error.status == HTTPStatus.UNAUTHORIZED:  # the workspace was deleted
                    raise
                if error.status != HTTPStatus.NOT_FOUND:  # else the listener was deleted
                    self._note_loss()
            is_prepared = False
            Event().wait(self._pause)
            self._pause = min(2 * self._pause, _MAX_PAUSE)

    def _prepare(self) -> None:
        """Create the listener and its endpoint, unless they exist. Other endpoints of the listener
        are deleted: they belong to a command that was killed, or that this one replaces."""
        mine = [self.endpoint["id"]] if self.endpoint else []
        self.listener = self.sandbox.ask(
            "POST", "/listeners", {"token": self.identity.token, "endpoints": mine}
        )
        if mine and self.listener["endpoints"] == mine:
            return
        made = self._register()
        self.reported.clear()
        self.endpoint = made
        self._check(made)
        self._is_new = True

    def _register(self) -> Row:
        registration = {
            "url": self.listener["url"],
            "events": list(self.types),
            "secret": self.identity.secret,
        }
        made: Row = self.sandbox.content("POST", self.sandbox.registration_path(), registration)
        return made

    def _check(self, endpoint: Row) -> None:
        for name in endpoint.get("unknownEvents") or ():
            advice = suggestion(name, self.sandbox.event_types(), where=self.sandbox.lists_events)
            raise SandboxError(f"--events: unknown event type '{plain(name)}'; {advice}", _MISUSE)
        if denied := endpoint.get("deniedEvents"):
            text = f"the scopes of the key do not allow events of type {plain(denied)}"
            raise SandboxError(text, _MISUSE)

    def _follow(self) -> None:
        """Read the stream until it ends, and forward each message of it."""
        place = path("/sandbox/listeners/{id}/stream", id=self.listener["id"])
        for event in replace(self.sandbox, patience=_SECONDS_OF_SILENCE).events(place):
            if event.name == "listening":
                self._note_connection()
            elif event.name == "replaced":
                self._is_replaced = True
                self.printer.note("Another 'listen' forwards to this receiver now.")
                return
            elif event.data is not None:
                members = event.data
                self._begin(
                    Message(
                        members["message"], members["headers"], members["body"], event_type(members)
                    )
                )

    def _note_connection(self) -> None:
        self._pause = _FIRST_PAUSE
        if self._is_new:
            self.printer.ready(self.endpoint)
        if self._is_away:
            self.printer.note(f"Reconnected to {self.sandbox.url}.")
        self._is_new = self._is_away = False
        self._connection.set()
        self._connection = Event()
        self._start(self._catch_up, self._connection)

    def _note_loss(self) -> None:
        if not self._is_away:
            self.printer.note(f"Lost the connection to {self.sandbox.url}; trying again.")
        self._is_away = True

    def _catch_up(self, is_over: Event) -> None:
        """Replay the failed deliveries that the receiver has not responded to."""
        pause = _FIRST_PAUSE
        while not is_over.is_set():
            try:
                for row in self.sandbox.deliveries() or ():
                    if row["endpointId"] == self.endpoint["id"] and self._was_missed(row):
                        self._replay(row["id"])
                return
            except SandboxError:  # a rate limit, or an injected fault
                is_over.wait(pause)
                pause = min(2 * pause, _MAX_PAUSE)

    def _replay(self, delivery_id: str) -> None:
        try:
            self.sandbox.ask("POST", path("/deliveries/{id}/replay", id=delivery_id))
        except SandboxError as error:
            if error.status is None or error.status >= HTTPStatus.TOO_MANY_REQUESTS:
                raise  # else the delivery is gone, or the endpoint is disabled

    def _was_missed(self, row: Row) -> bool:
        if row["status"] not in {"Failed", "Exhausted"} or not row["attempts"]:
            return False
        request = row["attempts"][-1]["request"]
        if request is None:  # an injected fault; nothing was sent
            return False
        headers = request["headers"]
        return (headers["webhook-id"], headers.get("webhook-timestamp", "")) not in self.reported

    def _begin(self, message: Message) -> None:
        """Forward a message unless that was done before, and report the response."""
        is_new = message.number not in self._responses
        response = self._responses.setdefault(message.number, Future())
        if len(self._responses) > _MAX_KNOWN:
            self._responses.pop(next(iter(self._responses)))
        self._start(self._handle, message, response, is_new)

    def _handle(self, message: Message, response: Future[Response], is_new: bool) -> None:
        if is_new:
            seconds = float(self.listener["secondsToRespond"]) * _SHARE_OF_TIME
            found = self.receiver.deliver(message, seconds)
            self.printer.forwarded(message, found)
            response.set_result(found)
        place = path("/listeners/{id}/responses", id=self.listener["id"])
        with suppress(SandboxError):  # it comes again, or the listener is gone
            self.sandbox.ask("POST", place, response.result().report(message.number))
            self.reported.add(message.attempt)

    def _start(self, work: Callable[..., None], *arguments: Any) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(Thread(target=work, args=arguments, daemon=True))
        self._threads[-1].start()

    def _leave(self) -> None:
        """Wait for deliveries in progress, then delete the listener with its endpoint."""
        self._connection.set()
        end = _CLOCK.monotonic() + _SECONDS_TO_FINISH
        for thread in self._threads:
            thread.join(max(0.0, end - _CLOCK.monotonic()))
        if self.listener and not self._is_replaced:
            place = path("/listeners/{id}", id=self.listener["id"])
            left = max(1.0, end - _CLOCK.monotonic())
            with suppress(SandboxError):
                replace(self.sandbox, patience=left).ask("DELETE", place)


_MISUSE: Final = int(HTTPStatus.BAD_REQUEST)
