"""The client of the control API: the command line, the pytest plugin and the fuzzer use it.

It needs the standard library only, so that a test which replaces the transport of its HTTP client
(respx, pytest-httpx) can still use the control API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from invoice_sandbox.base.errors import ERRORS
from invoice_sandbox.base.hosts import is_loopback
from invoice_sandbox.base.outgoing import tls_context
from invoice_sandbox.openapi.security import Carried, Scheme, carried

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import OpenerDirector

DEFAULT_URL: Final = "http://127.0.0.1:8080"
__tracebackhide__ = True  # a failed test shows the line that it is about

_PATIENCE: Final = 60.0
_SECONDS_TO_CONNECT: Final = 5.0
_CONTROL: Final = ("/sandbox/", "/openapi.json")
"""Beginnings of paths of the control API, and of pages that its credentials open."""

_ERRORS: Final = 400
_LONGEST_SHOWN: Final = 100


class SandboxError(Exception):
    """A sandbox rejected a request, or none responded; the message says what to do.

    ``status`` and ``code`` are those of the error response, or None when there is none. A key is
    never part of the message.
    """

    def __init__(self, message: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Reply(NamedTuple):
    """A successful response: its ``data``, and its headers by names in lower case."""

    data: Any
    headers: Mapping[str, str]


class ServerEvent(NamedTuple):
    """An event of a stream: its name and its data; or a comment of the stream, without data."""

    name: str
    data: Any


@dataclass(frozen=True)
class ServedProject:
    """The project of a server, as far as tools need to know it.

    ``register`` and ``deliveries`` are the paths of the operations that register a webhook endpoint
    and list deliveries; ``subject`` is the member that names the subject of a scenario or event.
    None: the project has no such thing, or ``conventions.yaml`` does not name it. ``scenarios`` are
    the names of its scenarios. ``credentials`` are the schemes by which a request carries a key to
    its operations.
    """

    register: str | None = None
    deliveries: str | None = None
    subject: str | None = None
    scenarios: tuple[str, ...] = ()
    credentials: tuple[Scheme, ...] = ()


def checked_url(url: str) -> str:
    """The URL of a server, maybe with a path that everything is below, without a final slash.

    Raises SandboxError. Its message does not repeat a URL that may hold a password.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not url.isprintable() or " " in url:
        typed = "" if "@" in url else f" {url[:_LONGEST_SHOWN]!r}"
        raise SandboxError(f"invalid URL of a sandbox{typed}; use one such as {DEFAULT_URL}")
    if "@" in parts.netloc:
        raise SandboxError("the URL must not contain a user name or password; pass the key instead")
    if parts.query or parts.fragment:
        raise SandboxError(f"the URL must have no query and no fragment, as in {DEFAULT_URL}")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def checked_key(key: str) -> str:
    """A key that fits into a header. Raises SandboxError, which does not repeat the key."""
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise SandboxError("invalid key; a key holds letters, digits and underscores only")
    return key


def uses_proxy(url: str) -> bool:
    """True if requests to ``url`` go through the proxy of the environment, if there is one.

    Plain requests to this machine do not: no proxy can reach it.
    """
    return not is_loopback(urlsplit(url).hostname or "")


def path(template: str, **names: str) -> str:
    """A path with its parameters filled in and percent-encoded."""
    return template.format(**{key: quote(name, "", None, "replace") for key, name in names.items()})


@dataclass(frozen=True)
class ControlClient:
    """Sends requests to the sandbox at ``url``, with ``key``; None sends no credential.

    ``patience`` is how many seconds to wait for a response, ``loads`` reads its JSON and ``dumps``
    writes that of a request; ``known`` is the project of the server, if it is known.
    """

    url: str
    key: str | None = field(repr=False)
    patience: float = _PATIENCE
    loads: Callable[[bytes], Any] = field(default=json.loads, repr=False)
    dumps: Callable[[Any], str | bytes] = field(default=json.dumps, repr=False)
    known: ServedProject | None = field(default=None, repr=False)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the ``data`` of the response of a control operation.

        A body of bytes is a zip archive; any other is sent as JSON.

        Raises SandboxError with the message of the error response, or when no sandbox responds.
        """
        return self.send(method, f"/sandbox{path}", body).data

    def send(self, method: str, path: str, body: Any = None) -> Reply:
        """The data and the headers of the response. Raises SandboxError like ``ask``."""
        status, headers, content = self._exchange(method, path, body)
        return Reply(self._data_of(status, content, f"{method} {path}"), headers)

    def content(self, method: str, path: str, body: Any = None) -> Any:
        """Return the data of an operation of the API, or its whole body. Raises SandboxError."""
        status, _, content = self._exchange(method, path, body)
        document = self._object(content)
        if _is_success(status) and document and "data" not in document:
            return document
        return self._data_of(status, content, f"{method} {path}")

    def deliveries(self) -> list[Any] | None:
        """Return the webhook deliveries, oldest first; None if the project does not list them.

        Raises SandboxError like ``ask``.
        """
        place = self.project.deliveries
        return None if place is None else self.content("GET", place)["deliveries"][::-1]

    def whole(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """The JSON object of a response that need not have our envelope: a contract, for example.

        Raises SandboxError like ``ask``.
        """
        status, _, content = self._exchange(method, path, body)
        document = self._object(content)
        if _is_success(status) and document:
            return document
        if "mode" in document:
            raise self._error(status, document, f"{method} {path}")
        raise SandboxError(f"{method} {path} returned {status} at {self.url}", status)

    def events(self, path: str) -> Iterator[ServerEvent]:
        """The server-sent events of a control operation, until the server ends the stream.

        Raises SandboxError like ``ask``, also when nothing more comes.
        """
        with self._opened("GET", path, None, accept="text/event-stream") as reply:
            if not _is_success(reply.status):
                self._data_of(reply.status, reply.read(), f"GET {path}")
            name = ""
            for line in reply:
                field, _, text = line.decode(errors="replace").rstrip("\n").partition(": ")
                if field == "event":
                    name = text
                elif field == "data":
                    yield ServerEvent(name, self.loads(text.encode()))
                elif not field and text:
                    yield ServerEvent(text, None)

    @cached_property
    def project(self) -> ServedProject:
        """The project of the server. Raises SandboxError like ``ask``."""
        if self.known is not None:
            return self.known
        document = self.whole("GET", "/sandbox/openapi.json")
        match document:
            case {"components": {"schemas": {"ScenarioName": {"enum": [*names]}}}}:
                scenarios = tuple(names)
            case _:
                scenarios = ()
        named = document.get("x-project", {})
        rows = named.get("credentials", ())
        return ServedProject(
            **named.get("webhooks", {}),
            subject=named.get("subject"),
            scenarios=scenarios,
            credentials=tuple(Scheme(row["in"], row["name"]) for row in rows),
        )

    def event_types(self) -> list[str]:
        """The types of the webhook events of the contract. Raises SandboxError like ``ask``."""
        return sorted(self.whole("GET", "/openapi.json").get("webhooks", {}))

    @property
    def lists_events(self) -> str:
        """The place where the types of the webhook events are listed."""
        return f"{self.url}/openapi.json lists all of them, under 'webhooks'"

    def registration_path(self) -> str:
        """The path of the operation that registers webhook endpoints. Raises SandboxError."""
        if self.project.register is None:
            raise SandboxError(
                f"the project at {self.url} does not name the operation that registers webhook "
                "endpoints; name it in 'webhooks' of its conventions.yaml"
            )
        return self.project.register

    @property
    def credentials(self) -> Carried:
        """The headers and query that carry the key to an operation. Raises SandboxError."""
        return carried(self.project.credentials, self.key or "")

    def _target(self, path: str) -> tuple[str, dict[str, str]]:
        """Return the path of a request with its query, and its headers. Requests of this client
        are not in the journal. Raises SandboxError."""
        headers = {"X-Sandbox-Journal": "off"}
        if self.key is None:
            return path, headers
        credentials = carried((), self.key) if path.startswith(_CONTROL) else self.credentials
        if credentials.query:
            path += ("&" if "?" in path else "?") + urlencode(credentials.query)
        return path, {**headers, **credentials.headers}

    def _data_of(self, status: int, content: bytes, request: str) -> Any:
        envelope = self._object(content)
        if _is_success(status) and {"data", "mode"} <= envelope.keys():
            return envelope["data"]
        raise self._error(status, envelope, request)

    def _error(self, status: int, envelope: Mapping[str, Any], request: str) -> SandboxError:
        match envelope:
            case {"mode": _, "error": {"message": str(text), "code": str(code)} as error} if (
                status >= _ERRORS
            ):
                if text.startswith(ERRORS["unknown_path"].text.partition("{")[0]):
                    text = f"{request[:_LONGEST_SHOWN]}: {text}"
                text = text.replace(self.key, "[key]") if self.key else text
                if status == HTTPStatus.INTERNAL_SERVER_ERROR and "requestId" in error:
                    text = f"{text} Request id: {error['requestId']}"
                if status == HTTPStatus.UNAUTHORIZED:
                    text = f"{self.url}: {text}"
                return SandboxError(text, status, code)
        return SandboxError(f"the server at {self.url} is not an invoice sandbox; {_ADVICE}")

    def _object(self, content: bytes) -> dict[str, Any]:
        """The JSON object that ``content`` is, or an empty one."""
        try:
            value = self.loads(content)
        except (ValueError, RecursionError):
            return {}
        return value if isinstance(value, dict) else {}

    def _exchange(self, method: str, path: str, body: Any) -> tuple[int, Mapping[str, str], bytes]:
        with self._opened(method, path, body) as reply:
            headers = {name.lower(): value for name, value in reply.headers.items()}
            return reply.status, headers, reply.read()

    @contextmanager
    def _opened(
        self, method: str, path: str, body: Any, accept: str = "application/json"
    ) -> Iterator[HTTPResponse]:
        """A response, also one with an error, to be read. Raises SandboxError."""
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import Request

        path, headers = self._target(path)
        headers["Accept"] = accept
        if isinstance(body, bytes):
            headers["Content-Type"] = "application/octet-stream"
        elif body is not None:
            headers["Content-Type"] = "application/json"
            text = self.dumps(body)
            body = text if isinstance(text, bytes) else text.encode()
        url = f"{self.url}{path}"
        request = Request(url, body, headers, method=method.upper())  # noqa: S310 - a checked URL
        try:
            try:
                reply = _opener(self.url).open(request, timeout=self.patience)
            except HTTPError as error:
                reply = error
            with reply:
                yield reply
        except (OSError, HTTPException) as error:
            reason = _reason(error, self.patience)
            text = f"no sandbox responds at {self.url} ({reason}); {_ADVICE}"
            raise SandboxError(text) from None


_ADVICE: Final = (
    "start one with 'invoice-sandbox serve', or correct the URL (or INVOICE_SANDBOX_URL)"
)


def _opener(url: str) -> OpenerDirector:
    """Return what opens requests: it gives up early on a server that cannot be reached, and follows
    no redirect, because the key must stay with the sandbox."""
    from http.client import HTTPConnection, HTTPSConnection
    from urllib import request

    class Connection(HTTPConnection):
        def connect(self) -> None:
            patience, self.timeout = self.timeout, _SECONDS_TO_CONNECT
            try:
                super().connect()
            except TimeoutError:
                raise OSError(f"no connection within {self.timeout:g} seconds") from None
            self.sock.settimeout(patience)

    class SecureConnection(Connection, HTTPSConnection):
        pass

    class Handler(request.HTTPSHandler, request.HTTPHandler, request.HTTPRedirectHandler):
        def http_open(self, req: request.Request) -> HTTPResponse:
            return self.do_open(Connection, req)

        def https_open(self, req: request.Request) -> HTTPResponse:
            return self.do_open(SecureConnection, req, context=tls_context())

        def redirect_request(self, *_: Any) -> None:
            """Return no request to follow."""

    proxies = request.ProxyHandler(None if uses_proxy(url) else {})
    return request.build_opener(Handler, proxies)


def _reason(error: Exception, patience: float) -> str:
    cause = getattr(error, "reason", error)
    if isinstance(cause, TimeoutError):
        return f"no response within {patience:g} seconds"
    return str(getattr(cause, "strerror", None) or cause).lower() or "the connection was closed"


def _is_success(status: int) -> bool:
    return status // 100 == 2
