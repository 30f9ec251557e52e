"""HTTP/1.1 for httpx by the standard library, which takes a quarter of the CPU time."""

from __future__ import annotations

import select
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse

import httpx


class Connections(httpx.BaseTransport):
    """Connections to servers without TLS, kept for whichever client needs one next."""

    def __init__(self) -> None:
        self._idle: defaultdict[tuple[str, int | None], list[HTTPConnection]] = defaultdict(list)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The response, whose body is read from the connection when it is asked for."""
        idle = self._idle[request.url.host, request.url.port]
        connection = _usable(idle) or HTTPConnection(request.url.host, request.url.port)
        connection.timeout = request.extensions["timeout"]["read"]
        if connection.sock is not None:
            connection.sock.settimeout(connection.timeout)
        with _errors_of_httpx(request, connection):
            _send(connection, request)
            response = connection.getresponse()
        headers = [(one.encode(), value.encode("latin-1")) for one, value in response.getheaders()]
        body = _Body(request, response, connection, idle)
        return httpx.Response(response.status, headers=headers, stream=body)

    @contextmanager
    def open(self) -> Iterator[Connections]:
        """Close every connection at the end; a client that is closed leaves them open."""
        try:
            yield self
        finally:
            for idle in self._idle.values():
                while idle:
                    idle.pop().close()


@dataclass(frozen=True)
class _Body(httpx.SyncByteStream):
    request: httpx.Request
    response: HTTPResponse
    connection: HTTPConnection
    idle: list[HTTPConnection]

    def __iter__(self) -> Iterator[bytes]:
        """All of it at once, or what arrives if nobody knows how much it will be."""
        with _errors_of_httpx(self.request, self.connection):
            if self.response.length is not None:
                yield self.response.read()
            while part := self.response.read1(65_536):
                yield part

    def close(self) -> None:
        """Keep the connection if all was read."""
        if self.response.isclosed() and self.connection.sock is not None:
            self.idle.append(self.connection)
        else:
            self.response.close()
            self.connection.close()


def _usable(idle: list[HTTPConnection]) -> HTTPConnection | None:
    """A connection that the server has not closed, if there is one."""
    while idle:
        connection = idle.pop()
        poll = select.poll()
        poll.register(connection.sock, select.POLLIN)
        if not poll.poll(0):
            return connection
        connection.close()
    return None


def _send(connection: HTTPConnection, request: httpx.Request) -> None:
    target = request.extensions.get("target", request.url.raw_path).decode("ascii")
    connection.putrequest(request.method, target, skip_host=True, skip_accept_encoding=True)
    for name, value in request.headers.raw:
        connection.putheader(name, value)
    is_chunked = "transfer-encoding" in request.headers
    assert isinstance(request.stream, httpx.SyncByteStream)
    body = iter(request.stream) if is_chunked else b"".join(request.stream)
    with suppress(BrokenPipeError, ConnectionResetError):  # it may respond before it has read all
        connection.endheaders(body, encode_chunked=is_chunked)


@contextmanager
def _errors_of_httpx(request: httpx.Request, connection: HTTPConnection) -> Iterator[None]:
    try:
        yield
    except (OSError, HTTPException) as error:
        connection.close()
        raise _type_of(error)(str(error), request=request) from error


def _type_of(error: Exception) -> type[httpx.TransportError]:
    if isinstance(error, TimeoutError):
        return httpx.ReadTimeout
    if isinstance(error, ConnectionRefusedError):
        return httpx.ConnectError
    return httpx.RemoteProtocolError if isinstance(error, HTTPException) else httpx.ReadError
