"""A request with what becomes known of it on its way, and its response."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from invoice_sandbox.base.clock import FIRST
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.base.ids import random_request_id
from invoice_sandbox.http.endpoint import Endpoint
from invoice_sandbox.openapi.message.media_types import JSON as JSON
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
"""The unencoded characters of a path, besides letters, digits and ``-._~`` (RFC 3986, 3.3)."""


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
        """True if the connection ends without a response."""
        return self.kind == "reset"


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
        self.length = len("".join(chain.from_iterable(headers)))
        self.forwarding = _forwarding(self.first)

    def values(self, name: str) -> list[str]:
        """Every header of that name."""
        if name not in self.first:
            return []
        if len(self.first) == len(self.headers):  # there is one of each
            return [self.first[name]]
        return [value for key, value in self.headers if key == name]


def _forwarding(names: Iterable[str]) -> str | None:
    for name in names:
        if name in _FORWARDING or name.startswith("x-forwarded"):
            return name
    return None


def head_of(raw: Iterable[tuple[bytes, bytes]]) -> Head:
    """The head with the headers of an ASGI scope."""
    return Head(tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw]))


@dataclass(frozen=True)
class Inputs:
    """The input of a request, as the contract declares it: its parameters and its body."""

    path: Mapping[str, Any]
    query: Mapping[str, Any]
    body: Any = None
    media_type: str = ""


class Request(Struct, eq=False):
    """A request as it arrives, and what becomes known of it on its way.

    ``invalid`` is the error of bytes that were no valid HTTP. ``is_observer``: the sandbox itself
    sent the request; ``caller`` is the credential of the visitor for whom it did, who has one. No
    client can set extensions.

    ``id`` is empty until the workspace is known, or a request without one needs it. ``number`` is
    that of the request in its workspace, 0: unknown; ``received`` the real instant of its arrival,
    ``begun`` that of its transaction, ``started`` the reading of the monotonic clock. ``target`` is
    its ``endpoint`` once there is one.
    ``workspace`` is that of a known caller, or of any caller where no credential is needed;
    ``served_by`` is the id of the workspace that a public operation belongs to, whoever calls it;
    ``revoked_key_of`` that of the workspace that a revoked key belonged to. ``headers`` are sent
    with every response to the request; ``why`` explains the response, ``error`` is the name of its
    error. ``shares`` are those of the
    bytes in flight that its body takes, ``held`` how many.
    """

    scope: Scope
    receive: Receive
    method: str
    path: str
    head: Head
    received: datetime = FIRST
    invalid: ApiError | None = None
    is_observer: bool = False
    caller: Credential | None = None
    id: str = ""
    number: int = 0
    started: float = 0
    begun: datetime = FIRST
    endpoint: Endpoint | None = None
    target: Endpoint = None  # type: ignore[assignment]  # until it is known
    path_texts: Mapping[str, str] = {}
    content: bytes = b""
    shares: tuple[str, ...] = ()
    held: int = 0
    is_json: bool = False
    credential: Credential | None = None
    workspace: Workspace | None = None
    served_by: str | None = None
    revoked_key_of: str | None = None
    scenario: Scenario | None = None
    fault: InjectedFault | None = None
    headers: list[tuple[str, str]] = []
    is_allowed_page: bool = False
    why: dict[str, Any] = {}
    error: str = ""

    def header(self, name: str) -> str | None:
        """Return the first header of that (lower-case) name."""
        return self.head.first.get(name)

    def header_values(self, name: str) -> list[str]:
        """Return every header of that (lower-case) name."""
        return self.head.values(name)

    @property
    def url(self) -> str:
        """The path as it was sent, percent-encoded."""
        raw: bytes = self.scope.get("raw_path") or b""
        return _quoted(raw) if raw else quote(self.path, safe=_IN_PATH)

    @property
    def accept(self) -> str:
        """The media types that the client wants; empty if it does not say."""
        return ", ".join(self.header_values("accept"))

    @property
    def address(self) -> str:
        """The address of the client; empty if that is unknown, as when it is gone."""
        client = self.scope.get("client")
        return str(client[0]) if client else ""


@lru_cache(maxsize=64)  # a request needs it twice
def _quoted(raw: bytes) -> str:
    return quote(raw, safe=f"{_IN_PATH}%")


def ensure_id(request: Request, prefix: str) -> None:
    """Give a request without a workspace a random id."""
    if not request.id:
        request.id = random_request_id(request.received, prefix)


def request_of(scope: Scope, receive: Receive, received: datetime = FIRST) -> Request:
    """Return a request as it arrives."""
    extensions = scope.get("extensions", _NO_EXTENSIONS)
    return Request(
        scope,
        receive,
        scope["method"],
        scope["path"],
        head_of(scope["headers"]),
        received,
        extensions.get(INVALID),
        OBSERVER in extensions,
        extensions.get(CALLER),
    )
