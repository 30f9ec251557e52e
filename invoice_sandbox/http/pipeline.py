"""The request pipeline: seven stages, and what is known of a request after each of them.

Routing makes a RoutedRequest of a Request, admission an AdmittedRequest of that, and reading a
ParsedRequest. A function that needs the caller takes a type that has one.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    MutableMapping,
)
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.openapi.message.media_types import JSON as JSON
from invoice_sandbox.openapi.operation import Contract, Operation
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.scenarios.script import Scenario
from invoice_sandbox.state import Credential, Workspace

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = tuple[tuple[str, str], ...]


class ClientGoneError(Exception):
    """The client closed the connection before its request was complete."""


PREFER: Final = "prefer"
"""The header of a client that prefers a response."""

SCENARIO: Final = "x-sandbox-scenario"
"""The header that names the scenario of a request."""

CONNECTION: Final = "invoice_sandbox.connection"
"""The extension of the ASGI scope with the transport of the connection, which a fault may end. A
client within this process has none."""

INVALID: Final = "invoice_sandbox.invalid"
"""The extension with the error that stands for a request, where the bytes were no valid HTTP."""

READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods of the control API that change nothing, and are in no journal."""

OBSERVER: Final = "invoice_sandbox.observer"
"""The extension of the ASGI scope of a request by which the sandbox reads its own state. Such a
request is in no journal, covers nothing, and meets neither rate limits nor faults."""

CALLER: Final = "invoice_sandbox.caller"
"""The extension with the credential of a visitor in whose name the sandbox sends a request."""

_NO_EXTENSIONS: Final[Mapping[str, Any]] = {}

_IN_PATH: Final = "/:@!$&'()*+,;="
"""What a path has as it is, besides letters, digits and ``-._~`` (RFC 3986, section 3.3)."""

_INERT: Final = (
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "sandbox; default-src 'none'"),
)
"""Headers of every response that is not a page of ours: a browser runs nothing of what a client
stored, even where an injected fault declares it as HTML."""

_SECONDS_TO_FINISH: Final = 3
"""Time for deliveries under way when the server is stopped."""


def printable(text: str) -> str:
    """``text`` as a header can carry it: a question mark replaces what is no printable ASCII."""
    return re.sub(r"[^\x20-\x7e]", "?", text)


class Reply(Struct, frozen=True):
    """A response: its status, its body as bytes, and its headers besides the common ones.

    With a ``stream`` the body consists of its parts, until it ends or the client is gone. A page of
    ours (``is_page``) has a policy of its own for what may run in it.
    """

    status: int
    body: bytes = b""
    media_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    stream: AsyncGenerator[bytes, None] | None = None
    is_page: bool = False


@dataclass(frozen=True)
class InjectedFault:
    """A fault of the connection or of the bytes; ``seconds`` is the time that it takes."""

    kind: str
    seconds: float

    @property
    def is_reset(self) -> bool:
        """Whether the connection ends without a response."""
        return self.kind == "reset"


def _unnamed() -> str:
    return ""


class Trace(Struct, eq=False):
    """What is known of a request when its response is sent, for the journal and the coverage.

    ``drawn_id`` is the request id once it is known; ``draw_id`` draws that of a request without a
    workspace, once it is needed. ``number`` is that of the request in its workspace, 0: unknown,
    ``received`` the real instant of its arrival.
    ``served_by`` is the id of the workspace that a
    public operation belongs to, whoever calls it. ``headers`` are sent with every response to the
    request; ``why`` explains the response. ``release`` gives back what the request holds of a
    budget. ``revoked_key_of`` is the id of the workspace that a revoked key belonged to.
    """

    drawn_id: str = ""
    number: int = 0
    received: datetime | None = None
    served_by: str | None = None
    draw_id: Callable[[], str] = _unnamed
    endpoint: Endpoint | None = None
    path_texts: Mapping[str, str] = {}
    content: bytes = b""
    release: Callable[[], None] | None = None
    is_json: bool = False
    workspace: Workspace | None = None
    revoked_key_of: str | None = None
    scenario: Scenario | None = None
    injected_fault: InjectedFault | None = None
    headers: list[tuple[str, str]] = []
    why: dict[str, Any] = {}

    @property
    def request_id(self) -> str:
        """The id of the request, the same in its response, its errors and its journal entry."""
        if not self.drawn_id:
            self.drawn_id = self.draw_id()
        return self.drawn_id


_FORWARDING: Final = frozenset(
    {
        "forwarded",
        "via",
        "x-real-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-envoy-external-address",
        "x-original-host",
        "true-client-ip",
        "cf-connecting-ip",
        "fastly-client-ip",
    }
)
"""Headers of proxies (RFC 9110, RFC 7239, and those in use), besides ``X-Forwarded-...``."""


class Head:
    """The ``headers`` in their order, with lower-case names; ``first`` has the first of each.

    ``length`` counts the characters of all names and values. ``forwarding`` is the name of a header
    that shows that a proxy passed the request on; None: there is none.
    """

    __slots__ = ("first", "forwarding", "headers", "length")

    def __init__(self, headers: Headers = ()) -> None:
        self.headers = headers
        self.first = dict(reversed(headers))
        self.length = sum(len(name) + len(value) for name, value in headers)
        shown = (one for one in self.first if one in _FORWARDING or one.startswith("x-forwarded"))
        self.forwarding = next(shown, None)

    def values(self, name: str) -> list[str]:
        """Every header of that name."""
        if name not in self.first:
            return []
        return [value for key, value in self.headers if key == name]


def head_of(raw: Iterable[tuple[bytes, bytes]]) -> Head:
    """The head with the headers of an ASGI scope."""
    return Head(tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in raw))


class Request(Struct, eq=False):
    """A request as it arrives: its head, and a way to receive its body.

    ``invalid`` is the error of bytes that were no valid HTTP. ``is_observer``: the sandbox itself
    sent the request; ``caller`` is the credential of the visitor for whom it did, who has one. No
    client can set extensions.
    """

    scope: Scope
    receive: Receive
    method: str
    path: str
    head: Head
    trace: Trace
    invalid: ApiError | None = None
    is_observer: bool = False
    caller: Credential | None = None

    def header(self, name: str) -> str | None:
        """The first header of that (lower-case) name."""
        return self.head.first.get(name)

    def header_values(self, name: str) -> list[str]:
        """Every header of that (lower-case) name."""
        return self.head.values(name)

    @property
    def url(self) -> str:
        """The path as it was sent, percent-encoded."""
        raw: bytes = self.scope.get("raw_path") or b""
        return quote(raw, safe=f"{_IN_PATH}%") if raw else quote(self.path, safe=_IN_PATH)

    @property
    def accept(self) -> str:
        """The media types that the client wants; empty if it does not say."""
        return ", ".join(self.header_values("accept"))


class RoutedRequest(Struct, eq=False):
    """A request whose operation is known. ``path_texts`` are the path parameters as text."""

    request: Request
    endpoint: Endpoint
    path_texts: Mapping[str, str]

    @property
    def content(self) -> bytes:
        """The body; empty before admission, and if the operation declares none."""
        return self.request.trace.content


class AdmittedRequest(RoutedRequest, eq=False):
    """A request that may be carried out.

    A request to a public operation has neither ``credential`` nor ``workspace``. Where any caller
    is admitted, the workspace is known without a credential.
    """

    credential: Credential | None
    workspace: Workspace | None


class ParsedRequest(AdmittedRequest, eq=False):
    """A request that the contract allows.

    ``scenario`` is the one that it names, ``path`` and ``query`` are its declared parameters;
    ``idempotency`` identifies it among those that are carried out once.
    """

    scenario: Scenario | None
    path: Mapping[str, Any]
    query: Mapping[str, Any]
    body: Any
    media_type: str
    idempotency: IdempotencyKey | None


@dataclass(frozen=True)
class IdempotencyKey:
    """``name`` stands for caller, method, path and key, ``content`` is a digest of the request."""

    name: str
    content: str


Proceed = Callable[[Request], Awaitable[Reply]]
Admit = Callable[[RoutedRequest], AdmittedRequest]
Read = Callable[[AdmittedRequest, Scenario | None], ParsedRequest]
Respond = Callable[[ParsedRequest], Awaitable[Reply]]
CarryOut = Callable[[AdmittedRequest, Scenario | None], Awaitable[Reply]]


@dataclass(frozen=True)
class OperationStages:
    """What compiles the stages of an operation: admit, read and respond."""

    admit: Callable[[Contract, Operation], Admit]
    read: Callable[[Operation], Read]
    respond: Callable[[Contract, Operation, Any], Respond]

    def endpoint(
        self, contract: Contract, operation: Operation, function: Any, *, is_control: bool
    ) -> Endpoint:
        """Return the endpoint of an operation that ``function`` carries out."""
        declared = operation.parameters
        return Endpoint(
            contract,
            operation,
            is_control,
            raw_parameters=frozenset(one.name for one in declared if one.in_raw_path),
            secrets=frozenset(
                one.name for one in declared if one.secret and one.location == "path"
            ),
            admit=self.admit(contract, operation),
            read=self.read(operation),
            respond=self.respond(contract, operation, function),
        )


@dataclass(frozen=True, eq=False)
class Endpoint:
    """An operation with those of its stages that are compiled at start.

    ``raw_parameters`` are the path parameters that are read from the path as it was sent,
    ``secrets`` those of the path that are declared as secrets.
    """

    contract: Contract
    operation: Operation
    is_control: bool
    raw_parameters: frozenset[str]
    secrets: frozenset[str]
    admit: Admit
    read: Read
    respond: Respond


@dataclass(frozen=True)
class Pipeline:
    """The stages in order. Connexion calls it with what a request is for: an operation with its
    stages (Endpoint), a page, or nothing.

    ``send_reply`` sends streams and what an injected fault alters.
    """

    edge: Callable[[Request, Proceed], Awaitable[Reply]]
    route: Callable[[Any, Request], Awaitable[RoutedRequest | Reply]]
    receive: Callable[[AdmittedRequest], Awaitable[None]]
    inject: Callable[[AdmittedRequest, CarryOut], Awaitable[Reply]]
    prefer: Callable[[ParsedRequest], Reply | None]
    send_reply: Callable[[Request, Reply, Send], Awaitable[None]]

    async def __call__(self, target: Any, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one ASGI request for a target, unless the client is gone."""
        request = request_of(scope, receive)
        try:
            reply = await self.edge(request, partial(self._inside, target))
        except ClientGoneError:
            return
        finally:
            if request.trace.release is not None:
                request.trace.release()
        if reply.stream is None and request.trace.injected_fault is None:
            await send_whole(request, reply, send)
        else:
            await self.send_reply(request, reply, send)

    async def _inside(self, target: Any, request: Request) -> Reply:
        routed = await self.route(target, request)
        if isinstance(routed, Reply):  # a document, a page, or the methods of a path
            return routed
        admitted = routed.endpoint.admit(routed)
        endpoint, workspace = admitted.endpoint, admitted.workspace
        if endpoint.operation.body is not None:
            await self.receive(admitted)
        if endpoint.is_control or request.is_observer:  # without scenarios and faults
            return await self._carry_out(admitted, None)
        if SCENARIO in request.head.first or (workspace is not None and workspace.faults):
            return await self.inject(admitted, self._carry_out)
        return await self._carry_out(admitted, None)

    async def _carry_out(self, admitted: AdmittedRequest, scenario: Scenario | None) -> Reply:
        parsed = admitted.endpoint.read(admitted, scenario)
        if PREFER in parsed.request.head.first:
            preferred = self.prefer(parsed)
            if preferred is not None:
                return preferred
        return await parsed.endpoint.respond(parsed)


@dataclass(frozen=True)
class Sandbox:
    """A sandbox ready to be served: an ASGI application, and the engine that it works with."""

    routing: Callable[[Scope, Receive, Send], Awaitable[None]]
    engine: Engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry: HTTP requests, and the server's start and stop."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self.routing(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            try:
                message = await receive()
            except asyncio.CancelledError:  # a second signal: the server ends without it
                return
            if message["type"] == "lifespan.shutdown":
                self.engine.end_streams()
                await asyncio.gather(*self.engine.beside)
                await self.engine.agenda.close(_SECONDS_TO_FINISH)
                await self.engine.sender.close()
                await self.engine.store.close()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return


def client_address(scope: Scope) -> str:
    """Where a request comes from; empty if that is unknown, as when the client is gone."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def request_of(scope: Scope, receive: Receive) -> Request:
    """A request as it arrives."""
    extensions = scope.get("extensions", _NO_EXTENSIONS)
    return Request(
        scope,
        receive,
        scope["method"],
        scope["path"],
        head_of(scope["headers"]),
        Trace(),
        extensions.get(INVALID),
        OBSERVER in extensions,
        extensions.get(CALLER),
    )


async def send_whole(request: Request, reply: Reply, send: Send) -> None:
    """Send a response in one piece."""
    body = b"" if request.method == "HEAD" else reply.body
    await send(response_start(reply))
    await send({"type": "http.response.body", "body": body})


def response_start(reply: Reply) -> Message:
    """Return the ASGI message with status and headers."""
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in _headers(reply)]
    return {"type": "http.response.start", "status": reply.status, "headers": headers}


def _headers(reply: Reply) -> list[tuple[str, str]]:
    headers = list(reply.headers)
    if not reply.is_page:
        headers += _INERT
    if reply.body or reply.stream is not None:
        headers.append(("content-type", reply.media_type))
    if reply.stream is None and reply.status not in {204, 304}:
        headers.append(("content-length", str(len(reply.body))))
    return headers
