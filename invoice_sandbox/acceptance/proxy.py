"""A faulty proxy in front of the API and in front of the webhook receiver of a client."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from http.client import responses
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Event, Lock, Thread
from typing import Any, Final
from urllib.parse import urlsplit

from invoice_sandbox.acceptance.clients import Assignment, Ending, LocalClient, Session
from invoice_sandbox.acceptance.faults import Fault
from invoice_sandbox.base.clock import OperatingSystemClock

Headers = tuple[tuple[str, str], ...]

_SECONDS: Final = 60.0
_CHUNK: Final = 65_536
_HALF: Final = 2
_MADE_UP: Final = b'{"data": {"id": "made-up", "status": "made-up"}}'
_FRESH: Final = count(1)
_HOP: Final = frozenset({"connection", "transfer-encoding", "content-length"})


@dataclass(frozen=True)
class Message:
    """A request or a response: its first line, headers and body. Nothing else is a connection that
    was closed."""

    line: str = ""
    headers: Headers = ()
    body: bytes = b""

    @property
    def status(self) -> str:
        """The status of a response; empty if there is none."""
        return ([*self.line.split(" "), ""])[1]

    def header(self, name: str) -> str | None:
        """The first value of a header."""
        return next((text for other, text in self.headers if other.lower() == name), None)

    def with_header(self, name: str, text: str | None) -> Message:
        """The message with another value of a header that it has, or without it."""
        changed = [
            (other, text if other.lower() == name else old)
            for other, old in self.headers
            if other.lower() != name or text is not None
        ]
        return replace(self, headers=tuple((key, str(value)) for key, value in changed))

    def with_body(self, body: bytes) -> Message:
        """The message with another body."""
        return replace(self, body=body).with_header("content-length", str(len(body)))

    def encoded(self) -> bytes:
        """The message as it is sent."""
        if not self.line:
            return b""
        lines = [self.line, *(f"{name}: {text}" for name, text in self.headers)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + self.body


_CLOSED: Final = Message()


def _message(raw: bytes) -> Message:
    head, separator, body = raw.partition(b"\r\n\r\n")
    if not separator:
        return _CLOSED
    line, *rows = head.decode("latin-1").split("\r\n")
    parts = [row.partition(":") for row in rows]
    return Message(line, tuple((name, text.strip()) for name, _, text in parts), body)


def _response(status: int, body: bytes) -> Message:
    """A response of the proxy itself; 0: none."""
    if status == 0:
        return _CLOSED
    line = f"HTTP/1.1 {status} {responses.get(status, '')}"
    headers = (("Content-Type", "application/json"), ("Connection", "close"))
    return Message(line, (*headers, ("Content-Length", str(len(body)))), body)


@dataclass
class Interference:
    """A fault at work on the messages of one client; ``effects`` counts those that it changed."""

    fault: Fault
    effects: int = 0
    stopped: Event = field(default_factory=Event)
    _lock: Lock = field(default_factory=Lock)
    _met: int = 0
    _responses: dict[object, Message] = field(default_factory=dict)
    _values: dict[str, list[str]] = field(default_factory=dict)

    def exchange(self, request: Message, host: str, port: int) -> Message:
        """Return the response to a request, by the server or by the proxy."""
        fault, identity = self.fault, _identity(request)
        with self._lock:
            earlier = self._responses.get(identity)
            is_meant = self._is_meant(request, identity)
            self._responses.setdefault(identity, _CLOSED)
        if not is_meant:
            return self._kept(identity, _sent(request, host, port))
        if fault.from_memory and earlier:
            return self._counted(earlier)
        if fault.respond is not None:
            body = b"" if fault.is_webhook else _MADE_UP
            return self._counted(_response(fault.respond, body))
        response = self._repeated(request, host, port)
        return self._altered(self._kept(identity, response))

    def _is_meant(self, request: Message, identity: object) -> bool:
        fault, (method, path, *_) = self.fault, request.line.split(" ")
        has = request.header(fault.header[0]) if fault.header else None
        wanted = fault.header[1] if fault.header else None
        is_meant = (
            re.fullmatch(fault.method or ".*", method) is not None
            and re.search(fault.path, path) is not None
            and (not fault.header or (not has if wanted is None else _has(wanted, has)))
            and (not fault.body or _has(fault.body, request.body.decode("latin-1")))
            and (fault.age is None or _is_aged(request, *fault.age))
            and (not fault.again or identity in self._responses)
        )
        self._met += is_meant
        return is_meant and self._met > fault.skip

    def _repeated(self, request: Message, host: str, port: int) -> Message:
        response = _CLOSED
        for number in range(self.fault.times):
            if number:
                self._counted(response)
                self.stopped.wait(self.fault.pause)
            response = _sent(self._changed(request), host, port)
            if self.stopped.is_set() or (self.fault.status and not self._matches(response)):
                break
        return response

    def _matches(self, response: Message) -> bool:
        return re.fullmatch(self.fault.status or ".*", response.status) is not None

    def _changed(self, request: Message) -> Message:
        """The request as the fault has it sent."""
        fault, changed = self.fault, request
        if fault.remove:
            changed = changed.with_header(fault.remove, None)
        for name, text in fault.put.items():
            if changed.header(name) is not None:
                changed = changed.with_header(name, self._value(name, text, request))
        if fault.edit_header:
            name, pattern, text = fault.edit_header
            changed = changed.with_header(
                name, re.sub(pattern, text, changed.header(name) or "") or None
            )
        if fault.edit:
            body = changed.body.decode("latin-1")
            changed = changed.with_body(
                re.sub(*fault.edit, body, flags=re.DOTALL).encode("latin-1")
            )
        if fault.query:
            method, path, version = changed.line.split(" ")
            joint = "&" if "?" in path else "?"
            changed = replace(changed, line=f"{method} {path}{joint}{fault.query} {version}")
        return changed if changed == request else self._counted(changed)

    def _value(self, name: str, text: str, request: Message) -> str:
        """The value that a header gets, by the word for it."""
        own = request.header(name) or ""
        with self._lock:
            seen = self._values.setdefault(name, [])
            if own not in seen:
                seen.append(own)
            before = seen[max(0, seen.index(own) - 1)]
            return {"new": f"fresh-{next(_FRESH)}", "first": seen[0], "previous": before}.get(
                text, text
            )

    def _altered(self, response: Message) -> Message:
        """The response as the fault has it arrive."""
        fault, altered = self.fault, response
        if not response.line or not self._matches(response):
            return response
        if fault.hide:
            altered = altered.with_header(fault.hide, None)
        for name, text in fault.set_headers.items():
            altered = altered.with_header(name, text)
        if fault.cut:
            altered = replace(altered, body=altered.body[: len(altered.body) // _HALF])
        if fault.becomes is not None:
            altered = _response(fault.becomes, altered.body)
        if fault.delay:
            self._counted(altered)
            self.stopped.wait(fault.delay)
        return altered if altered == response else self._counted(altered)

    def _kept(self, identity: object, response: Message) -> Message:
        with self._lock:
            self._responses[identity] = response
        return response

    def _counted(self, message: Message) -> Message:
        with self._lock:
            self.effects += 1
        return message


def _identity(request: Message) -> object:
    """Equal for repetitions of a request, and for copies of a webhook message."""
    return request.header("webhook-id") or (request.line, request.body)


def _has(pattern: str, text: str | None) -> bool:
    return text is not None and re.search(pattern, text) is not None


def _is_aged(request: Message, least: float, most: float) -> bool:
    stamp = request.header("webhook-timestamp")
    if stamp is None or not stamp.isdecimal():
        return False
    return least < OperatingSystemClock().now().timestamp() - int(stamp) < most


def _sent(request: Message, host: str, port: int) -> Message:
    """The response of a server; nothing if there is none. What is cut stays cut."""
    found = bytearray()
    with suppress(OSError), closing(socket.create_connection((host, port), _SECONDS)) as connection:
        connection.sendall(request.encoded())
        while chunk := connection.recv(_CHUNK):
            found += chunk
    return _message(bytes(found))


class Proxy(ThreadingHTTPServer):
    """A proxy on ``port`` of this machine, in front of the server at ``host`` and ``to``."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, host: str, to: int, work: Interference) -> None:
        """Begin to listen. Raises OSError."""
        super().__init__(("127.0.0.1", port), _Handler)
        self.host, self.to, self.work = host, to, work
        Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client or a server that goes away is no error of the proxy."""


class _Handler(BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"

    def _pass_on(self) -> None:
        self.close_connection = True
        body = self._body()
        headers = [(name, text) for name, text in self.headers.items() if name.lower() not in _HOP]
        length = (
            [("Content-Length", str(len(body)))] if body or "content-length" in self.headers else []
        )
        line = f"{self.command} {self.path} HTTP/1.1"
        request = Message(line, (*headers, ("Connection", "close"), *length), body)
        server = self.server
        self.wfile.write(server.work.exchange(request, server.host, server.to).encoded())

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = _pass_on  # noqa: N815

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length", 0)))
        found = bytearray()
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return bytes(found)

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


@dataclass(frozen=True, kw_only=True)
class ProxiedClient(LocalClient):
    """A client with a fault between it and the sandbox; None: the proxy passes everything on.

    ``works`` collects what the fault did in each task.
    """

    client: LocalClient
    fault: Fault | None
    works: list[Interference] = field(default_factory=list)

    @property
    def effects(self) -> int:
        """The number of messages that the fault has changed."""
        return sum(work.effects for work in self.works)

    def start(self, assignment: Assignment) -> ProxiedSession:
        """Have the client do a task behind proxies. Raises OSError."""
        environment, proxies = dict(assignment.environment), []
        address = urlsplit(environment["SANDBOX_API_URL"])
        port = address.port or 80
        proxies.append(Proxy(0, address.hostname or "", port, self._work(is_webhook=False)))
        environment["SANDBOX_API_URL"] = f"http://127.0.0.1:{proxies[0].server_port}"
        inner = None
        if assignment.endpoint is not None and assignment.endpoint.port is not None:
            inner = self.client.endpoint()
            to, outer = inner.port or 0, assignment.endpoint.port
            environment["ACCEPTANCE_WEBHOOK_PORT"] = str(to)
            proxies.append(Proxy(outer, "localhost", to, self._work(is_webhook=True)))
        own = replace(assignment, environment=environment, endpoint=inner)
        return ProxiedSession(self.client.start(own), proxies)

    def _work(self, *, is_webhook: bool) -> Interference:
        fault = self.fault
        if fault is None or fault.is_webhook != is_webhook:
            fault = Fault(name="", that="", times=1)
        self.works.append(work := Interference(fault))
        return work


@dataclass(frozen=True)
class ProxiedSession:
    """A client that does a task, and the proxies around it."""

    session: Session
    proxies: Sequence[Proxy]

    @property
    def has_ended(self) -> bool:
        """True if the client is done."""
        return self.session.has_ended

    def has_begun(self, requests: Any) -> bool:
        """True if the client has begun."""
        return self.session.has_begun(requests)

    def stop(self) -> None:
        """End the client and its proxies."""
        self.session.stop()
        for proxy in self.proxies:
            proxy.work.stopped.set()
            proxy.shutdown()
            proxy.server_close()

    def ending(self, secrets: Sequence[str]) -> Ending:
        """Return how the client ended."""
        return self.session.ending(secrets)
