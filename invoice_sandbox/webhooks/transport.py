"""Connections for deliveries: resolve a name once, check the addresses, connect to one of them.

A name may resolve to another address at any time (DNS rebinding). So the address is checked when
the connection is made, and the name is not resolved again after the check.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import httpcore2
import httpx2

from invoice_sandbox.base.hosts import is_loopback
from invoice_sandbox.base.outgoing import tls_context
from invoice_sandbox.webhooks.dns import NameResolver
from invoice_sandbox.webhooks.network import (
    HTTPS_PORTS,
    LOOPBACK,
    PUBLIC,
    Address,
    ForbiddenAddressError,
    Network,
    address_type,
    is_opened,
    read_address,
    url_problem,
)

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host, for a port. Raises OSError when there are none."""

Check = Callable[[str, int, Sequence[Address]], None]
"""Raises ForbiddenAddressError unless a host with these addresses may be called on a port."""

TRIED: Final = 4
"""The most addresses of one name that are tried, one after the other."""

CONNECT_TIMEOUT: Final = 3.0
"""Seconds for a connection to one address while there is another one to try."""

IDLE: Final = 2.0
"""Seconds that an idle connection is kept for the next delivery to the same receiver. Many servers
close one after 5 seconds, so that a delivery just then would be reset."""

KEPT: Final = 32
"""The most idle connections: the pool searches all of them for every request."""


def guarded_transport(
    *,
    local: bool,
    opened: Sequence[Network] = (),
    resolve: Resolve | None = None,
    connections: int = 100,
    tls: ssl.SSLContext | None = None,
    proxy: str | None = None,
) -> httpx2.AsyncBaseTransport:
    """A transport that rejects forbidden URLs and addresses, by the rules of ``network``.

    It raises ``ForbiddenAddressError``, or the errors of httpx2. With ``local``, loopback addresses
    are allowed, and so are the ``opened`` networks. ``connections`` limits the open connections of
    each, http and https. An idle connection still leads to the address that was checked.
    Certificates are verified by ``tls``, without it as ``tls_context`` does. What goes
    to a public address, after the check, goes through the ``proxy``, if there is one; proxies of
    the environment are ignored. Redirects are not followed.
    """
    allowed = _Allowed(local, tuple(opened))
    return _GuardedTransport(allowed, resolve or NameResolver().resolve, connections, tls, proxy)


@dataclass(frozen=True)
class _Allowed:
    """The addresses that may be called besides public ones, which may be called with TLS only."""

    local: bool
    opened: tuple[Network, ...]

    def check(self, host: str, port: int, addresses: Sequence[Address], *, tls: bool) -> None:
        """Reject a name unless all of its addresses are public, or all are allowed besides.

        Only ``localhost`` and loopback addresses may be called without TLS and on any port, and
        what is in an opened network; these must resolve to such an address.
        """
        if all(self._is_allowed(address) for address in addresses):
            return
        types = {address_type(address) for address in addresses}
        if types == {PUBLIC} and tls and port in HTTPS_PORTS and not is_loopback(host):
            return
        raise ForbiddenAddressError(host, min(types - {PUBLIC}, default=PUBLIC))

    def _is_allowed(self, address: Address) -> bool:
        is_here = self.local and address_type(address) == LOOPBACK
        return is_here or is_opened(address, self.opened)


class _PoolTransport(httpx2.AsyncHTTPTransport):
    """The transport of httpx2 over a pool with a network backend of ours.

    httpx2 has no parameter for that. Its constructor is not called, so a version that keeps its
    pool elsewhere sends nothing at all.
    """

    def __init__(self, pool: httpcore2.AsyncConnectionPool) -> None:
        self._pool = pool


class _GuardedTransport(httpx2.AsyncBaseTransport):
    """Checks the URL of a request, and lets its connection be checked."""

    def __init__(
        self,
        allowed: _Allowed,
        resolve: Resolve,
        connections: int,
        tls: ssl.SSLContext | None,
        proxy: str | None,
    ) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._connections = connections
        self._tls = tls
        self._proxy = proxy

    @cached_property
    def _transports(self) -> Mapping[str, _PoolTransport]:
        """By the scheme of the URL, which a network backend does not know; and the proxy's."""
        # Loading certificates is slow, and most servers never send anything.
        tls = self._tls or tls_context()
        limits: dict[str, Any] = {
            "ssl_context": tls,
            "max_connections": self._connections,
            "max_keepalive_connections": KEPT,
            "keepalive_expiry": IDLE,
        }
        pools = {
            scheme: httpcore2.AsyncConnectionPool(network_backend=self._backend(scheme), **limits)
            for scheme in ("http", "https")
        }
        if self._proxy is not None:
            pools[_PROXY] = _proxied(self._proxy, limits)
        return {name: _PoolTransport(pool) for name, pool in pools.items()}

    def _backend(self, scheme: str) -> _CheckingBackend:
        return _CheckingBackend(self._resolve, partial(self._allowed.check, tls=scheme == "https"))

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        allowed = self._allowed
        if url_problem(str(request.url), local=allowed.local, opened=allowed.opened) is not None:
            raise ForbiddenAddressError(request.url.host, "url_not_allowed")
        # Other extensions change the target or the name in TLS.
        request.extensions = {"timeout": request.extensions.get("timeout", {})}
        name = _PROXY if await self._needs_proxy(request.url) else request.url.scheme
        return await self._transports[name].handle_async_request(request)

    async def _needs_proxy(self, url: httpx2.URL) -> bool:
        """True if there is a proxy and the host has public addresses. Raises as a connection does.

        The proxy looks the name up again, and is trusted to find the same.
        """
        if self._proxy is None:
            return False
        try:
            addresses = await self._backend(url.scheme).allowed(url.host, url.port or 443)
        except httpcore2.ConnectError as problem:
            raise httpx2.ConnectError(str(problem)) from problem
        return all(address_type(address) == PUBLIC for address in addresses)

    async def aclose(self) -> None:
        if "_transports" in vars(self):
            for transport in self._transports.values():
                await transport.aclose()


_PROXY: Final = "proxy"


def _proxied(proxy: str, limits: Mapping[str, Any]) -> httpcore2.AsyncHTTPProxy:
    """The pool of connections through a proxy, whose URL may have a user name and a password."""
    url = httpx2.URL(proxy)
    return httpcore2.AsyncHTTPProxy(
        proxy_url=str(url.copy_with(userinfo=b"")),
        proxy_auth=(url.username, url.password) if url.username else None,
        **limits,
    )


class _CheckingBackend(httpcore2.AsyncNetworkBackend):
    """Connects to checked addresses, with the same backend as httpx2 under asyncio."""

    def __init__(self, resolve: Resolve, check: Check) -> None:
        self._resolve = resolve
        self._check = check
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        reach = partial(
            self._network.connect_tcp,
            port=port,
            local_address=local_address,
            socket_options=socket_options,
        )
        try:
            async with asyncio.timeout(timeout):
                addresses = await self.allowed(host, port)
                return await _first_reached(addresses[:TRIED], reach)
        except TimeoutError as problem:
            raise httpcore2.ConnectTimeout(f"no connection to {host} in time") from problem

    async def allowed(self, host: str, port: int) -> list[Address]:
        """The addresses of a host. Raises ForbiddenAddressError, and httpcore2.ConnectError."""
        addresses = await self._addresses(host, port)
        self._check(host, port, addresses)
        return addresses

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)

    async def _addresses(self, host: str, port: int) -> list[Address]:
        literal = read_address(host)
        if literal is not None:
            return [literal]
        try:
            texts = await self._resolve("localhost" if is_loopback(host) else host, port)
        except (OSError, UnicodeError) as problem:
            raise httpcore2.ConnectError(f"{host} has no address") from problem
        if not texts:
            raise httpcore2.ConnectError(f"{host} has no address")
        return [_readable(host, text) for text in texts]


def _readable(host: str, text: str) -> Address:
    address = read_address(text)
    if address is None:
        raise ForbiddenAddressError(host, "link-local or unreadable")
    return address


async def _first_reached(
    addresses: Sequence[Address], reach: Callable[..., Awaitable[httpcore2.AsyncNetworkStream]]
) -> httpcore2.AsyncNetworkStream:
    *others, last = map(str, addresses)
    for address in others:
        with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
            return await reach(address, timeout=CONNECT_TIMEOUT)
    return await reach(last, timeout=None)
