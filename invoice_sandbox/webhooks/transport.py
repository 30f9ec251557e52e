"""Connections for deliveries: a name is resolved once, judged, and what was judged is connected to.

A name that was harmless when a webhook was registered may lead elsewhere when it is called, and
elsewhere again a moment later. So the address is judged where the connection is made, and no one
resolves the name after that.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from typing import Final

import httpcore
import httpx

from invoice_sandbox.webhooks.network import (
    HTTPS_PORTS,
    LOOPBACK,
    PUBLIC,
    Address,
    is_loopback,
    kind_of,
    read_address,
    url_problem,
)

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, for a port. Raises OSError when there are none."""

TRIED: Final = 4
"""Addresses of one name that are tried, one after the other."""

PATIENCE: Final = 3.0
"""Seconds that an address gets to take a connection while there is another one to try."""

IDLE: Final = 5.0
"""Seconds that a connection is kept for the next delivery to the same receiver."""

KEPT: Final = 32
"""Connections that are kept at most: the pool looks through all of them for every request."""

_NOWHERE: Final = frozenset({"example", "invalid"})

_SAME_IN_HTTPX: Final[dict[type[Exception], type[httpx.TransportError]]] = {
    httpcore.ConnectTimeout: httpx.ConnectTimeout,
    httpcore.ReadTimeout: httpx.ReadTimeout,
    httpcore.WriteTimeout: httpx.WriteTimeout,
    httpcore.PoolTimeout: httpx.PoolTimeout,
    httpcore.ConnectError: httpx.ConnectError,
    httpcore.ReadError: httpx.ReadError,
    httpcore.WriteError: httpx.WriteError,
    httpcore.LocalProtocolError: httpx.LocalProtocolError,
    httpcore.RemoteProtocolError: httpx.RemoteProtocolError,
    httpcore.UnsupportedProtocol: httpx.UnsupportedProtocol,
    httpcore.TimeoutException: httpx.TimeoutException,
    httpcore.NetworkError: httpx.NetworkError,
    httpcore.ProtocolError: httpx.ProtocolError,
}
"""The special before the general."""


class RefusedAddressError(Exception):
    """A delivery may not go to ``host``, which is, or also leads to, an address of that kind."""

    def __init__(self, host: str, kind: str) -> None:
        super().__init__(f"{host} leads to an address that webhooks do not go to ({kind})")
        self.host = host
        self.kind = kind


async def resolve_by_system(host: str, port: int) -> Sequence[str]:
    """The addresses that the operating system knows for a host, each once, in its order.

    Names for documentation (RFC 6761) lead nowhere, and nobody is asked for them.
    """
    if host.rstrip(".").rpartition(".")[2].lower() in _NOWHERE:
        raise socket.gaierror(socket.EAI_NONAME, "the name is reserved, and leads nowhere")
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def guarded_transport(
    *,
    local: bool,
    resolve: Resolve = resolve_by_system,
    connections: int = 100,
    tls: ssl.SSLContext | None = None,
) -> httpx.AsyncBaseTransport:
    """A transport that refuses what ``guard`` refuses, by the URL and by where it leads.

    It raises ``RefusedAddressError``, or what httpx raises when a request fails. With ``local``,
    loopback is allowed. ``connections`` are open at once, and kept for a while; a kept connection
    still leads to the address that was judged. Certificates are verified, by the authorities that
    httpx trusts unless ``tls`` says otherwise. Proxies of the environment are not used, and
    redirects are answers like any other.
    """
    backend = _JudgingBackend(resolve, local=local)
    return _GuardedTransport(backend, connections, tls, local=local)


class _GuardedTransport(httpx.AsyncBaseTransport):
    """What ``httpx.AsyncHTTPTransport`` does, over a pool whose network backend is ours.

    httpx has no public way to hand it one, httpcore has.
    """

    def __init__(
        self,
        backend: httpcore.AsyncNetworkBackend,
        connections: int,
        tls: ssl.SSLContext | None,
        *,
        local: bool,
    ) -> None:
        self._backend = backend
        self._connections = connections
        self._tls = tls
        self._local = local

    @cached_property
    def _pool(self) -> httpcore.AsyncConnectionPool:
        # Certificates take a while to load; most sandboxes never send anything.
        return httpcore.AsyncConnectionPool(
            ssl_context=self._tls or httpcore.default_ssl_context(),
            max_connections=self._connections,
            max_keepalive_connections=KEPT,
            keepalive_expiry=IDLE,
            network_backend=self._backend,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if url_problem(str(request.url), local=self._local) is not None:
            raise RefusedAddressError(request.url.host, "url_not_allowed")
        sent = _for_httpcore(request, await request.aread())
        with _errors_of_httpx():
            answer = await self._pool.handle_async_request(sent)
        return httpx.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(answer),
            extensions=dict(answer.extensions),
        )

    async def aclose(self) -> None:
        if "_pool" in vars(self):
            await self._pool.aclose()


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of_httpx():
            async for part in self._answer.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


class _JudgingBackend(httpcore.AsyncNetworkBackend):
    """Connects to addresses that it has judged, by the means that httpx uses under asyncio."""

    def __init__(self, resolve: Resolve, *, local: bool) -> None:
        self._resolve = resolve
        self._local = local
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        reach = partial(
            self._network.connect_tcp,
            port=port,
            local_address=local_address,
            socket_options=socket_options,
        )
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._addresses(host, port)
                _judge(host, port, addresses, local=self._local)
                return await _first_reached(addresses[:TRIED], reach)
        except TimeoutError as problem:
            raise httpcore.ConnectTimeout(f"no connection to {host} in time") from problem

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)

    async def _addresses(self, host: str, port: int) -> list[Address]:
        literal = read_address(host)
        if literal is not None:
            return [literal]
        try:
            texts = await self._resolve(host, port)
        except (OSError, UnicodeError) as problem:
            raise httpcore.ConnectError(f"{host} has no address") from problem
        if not texts:
            raise httpcore.ConnectError(f"{host} has no address")
        return [_readable(host, text) for text in texts]


def _readable(host: str, text: str) -> Address:
    address = read_address(text)
    if address is None:
        raise RefusedAddressError(host, "link-local or unreadable")
    return address


def _judge(host: str, port: int, addresses: Sequence[Address], *, local: bool) -> None:
    """Refuse a name unless all of its addresses are public, or all are loopback and that may be.

    Only ``localhost`` and loopback addresses may be called without TLS and on any port, so those
    have to lead to loopback, whatever the resolver says.
    """
    kinds = {kind_of(address) for address in addresses}
    if kinds == {LOOPBACK} and local:
        return
    if kinds == {PUBLIC} and port in HTTPS_PORTS and not is_loopback(host):
        return
    raise RefusedAddressError(host, min(kinds - {PUBLIC}, default=PUBLIC))


async def _first_reached(
    addresses: Sequence[Address], reach: Callable[..., Awaitable[httpcore.AsyncNetworkStream]]
) -> httpcore.AsyncNetworkStream:
    *others, last = map(str, addresses)
    for address in others:
        with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
            return await reach(address, timeout=PATIENCE)
    return await reach(last, timeout=None)


def _for_httpcore(request: httpx.Request, body: bytes) -> httpcore.Request:
    # Of the extensions only the timeouts go on: others change the target or the name in TLS.
    return httpcore.Request(
        request.method,
        httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        ),
        headers=request.headers.raw,
        content=body,
        extensions={"timeout": request.extensions.get("timeout", {})},
    )


@contextmanager
def _errors_of_httpx() -> Iterator[None]:
    try:
        yield
    except tuple(_SAME_IN_HTTPX) as problem:
        same = next(new for old, new in _SAME_IN_HTTPX.items() if isinstance(problem, old))
        raise same(str(problem)) from problem
