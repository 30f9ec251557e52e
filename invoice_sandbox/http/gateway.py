"""Before the pipeline, if processes share a store: the one that runs the workspace responds.

A request belongs to the workspace of the first credential that it carries anywhere, without one to
the first workspace. If another process runs it, the request is sent there, and the response is
passed on part by part. The other process trusts what this one says of the client, because it has
signed that with the secret of their database. The secret itself is never sent: whoever listens at
the address of a process that has ended does not get it.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, unquote

from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.base.ids import key_digest
from invoice_sandbox.http.pipeline import (
    CONNECTION,
    ClientGoneError,
    Pipeline,
    Receive,
    Scope,
    Send,
    client_address,
)
from invoice_sandbox.http.send import reset
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state.writer import unavailable

if TYPE_CHECKING:
    import httpcore

    from invoice_sandbox.state.postgresql import Claim
    from invoice_sandbox.state.shared import SharedStore

_FORWARDED: Final = b"x-sandbox-replica"
"""The header of a request that another process sends: a signature, then the client's address."""

_SHORTEST_SECRET: Final = 16
_LONGEST_SECRET: Final = 512
_MAX_SECRETS: Final = 64
"""Of a request, the texts that are looked up as credentials, and how many characters each has."""

_SECONDS_TO_CONNECT: Final = 5.0
_CONNECTIONS: Final = 512
_HOP_BY_HOP: Final = frozenset(
    {b"connection", b"expect", b"keep-alive", b"proxy-connection", b"te", b"upgrade"}
)
_FRAMING: Final = frozenset({b"connection", b"keep-alive", b"transfer-encoding"})


class Gateway:
    """The entry of all requests of a process."""

    def __init__(self, pipeline: Pipeline, engine: Engine, store: SharedStore, secret: str) -> None:
        """``secret`` is known to all processes of the store, and to nobody else."""
        self._pipeline = pipeline
        self._engine = engine
        self._store = store
        self._secret = secret.encode()
        health = f"{engine.project.control.base_path}/health"
        self._own = {health, f"{health}/live", "/metrics"}
        self._listening = f"{engine.project.control.base_path}/listening"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to one ASGI request, or let the process respond that runs its workspace."""
        self._store.begin_request()
        is_forwarded = self._is_forwarded(scope)
        if scope["path"] in self._own or self._is_for_listener(scope["path"]):
            await self._pipeline(scope, receive, send)
            return
        try:
            claim = await self._locate(scope)
            if claim is not None and is_forwarded:
                raise unavailable()  # the workspace has moved meanwhile
        except ApiError as error:
            await self._pipeline.reject(error, scope, receive, send)
            return
        if claim is None:
            await self._pipeline(scope, receive, send)
        else:
            await self._forward(claim, scope, receive, send)

    async def close(self) -> None:
        """Close the connections to other processes."""
        if "_network" in vars(self):
            await self._network.aclose()

    async def _locate(self, scope: Scope) -> Claim | None:
        return await self._store.locate([key_digest(one) for one in _secrets(scope)])

    def _is_for_listener(self, path: str) -> bool:
        """Whether a webhook is for a listener that is connected to this process."""
        address, _, token = path.rpartition("/")
        return address == self._listening and self._engine.listeners.at(token) is not None

    def _is_forwarded(self, scope: Scope) -> bool:
        """Whether another process sent the request; then its client is the one that is named."""
        given = [value for name, value in scope["headers"] if name == _FORWARDED]
        if not given:
            return False
        scope["headers"] = [one for one in scope["headers"] if one[0] != _FORWARDED]
        client = given[0].partition(b" ")[2]
        is_genuine = hmac.compare_digest(given[0], self._signed(scope, client))
        if is_genuine:
            scope["client"] = (client.decode("latin-1"), 0)
        return is_genuine

    def _signed(self, scope: Scope, client: bytes) -> bytes:
        """What the header contains if a process of the store has sent the request on."""
        of_request = (scope["method"].encode(), scope["raw_path"], scope["query_string"], client)
        signature = hmac.digest(self._secret, b"\n".join(of_request), "sha256")
        return signature.hex().encode() + b" " + client

    async def _forward(self, claim: Claim, scope: Scope, receive: Receive, send: Send) -> None:
        import httpcore

        exchange = _Exchange(scope, receive, send)
        try:
            await exchange.run(self._network, claim.address, self._header(scope))
        except httpcore.ConnectError:
            if _is_of_this_machine(claim.address):
                with suppress(ApiError):
                    await self._store.lost(claim)
            await self._pipeline.reject(unavailable(), scope, receive, send)
        except (httpcore.ConnectTimeout, httpcore.PoolTimeout):
            await self._pipeline.reject(unavailable(), scope, receive, send)
        except ClientGoneError:
            exchange.cut()
        except (httpcore.NetworkError, httpcore.ProtocolError):
            if exchange.has_begun or not await self._has_ended(claim, scope):
                exchange.cut()  # as the other process did on purpose, or in the middle
            elif scope["method"] in {"GET", "HEAD"} and not exchange.has_body:
                await self(scope, receive, send)
            else:  # it may have been carried out
                await self._pipeline.reject(unavailable(), scope, receive, send)

    async def _has_ended(self, claim: Claim, scope: Scope) -> bool:
        """Whether another process, or this one, runs the workspace instead of the one claimed."""
        try:
            return await self._locate(scope) != claim
        except ApiError:
            return True

    def _header(self, scope: Scope) -> tuple[bytes, bytes]:
        client = client_address(scope).encode("latin-1", "replace")
        return _FORWARDED, self._signed(scope, client)

    @cached_property
    def _network(self) -> httpcore.AsyncConnectionPool:
        import httpcore

        return httpcore.AsyncConnectionPool(
            max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS
        )


class _Exchange:
    """A request that is sent on, and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._is_sent = asyncio.Event()
        names = {name for name, _ in scope["headers"]}
        self.has_body = not names.isdisjoint({b"content-length", b"transfer-encoding"})
        self.has_begun = False

    async def run(
        self, network: httpcore.AsyncConnectionPool, address: str, header: tuple[bytes, bytes]
    ) -> None:
        """Pass everything on until the response has ended, or the client is gone."""
        passing = asyncio.ensure_future(self._pass_on(network, address, header))
        gone = asyncio.ensure_future(self._wait_for_end())
        try:
            await asyncio.wait({passing, gone}, return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                passing.result()
        finally:
            for task in (passing, gone):
                task.cancel()
            await asyncio.gather(passing, gone, return_exceptions=True)

    def cut(self) -> None:
        """End the client's connection, as the other process has ended this one's."""
        connection = self._scope.get("extensions", {}).get(CONNECTION)
        if connection is not None:
            reset(connection)

    async def _pass_on(
        self, network: httpcore.AsyncConnectionPool, address: str, header: tuple[bytes, bytes]
    ) -> None:
        scope = self._scope
        sent = [one for one in scope["headers"] if one[0] not in _HOP_BY_HOP]
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        if not self.has_body:
            self._is_sent.set()
        async with network.stream(
            scope["method"].encode(),
            address,
            headers=[*sent, header],
            content=self._body() if self.has_body else None,
            extensions={
                "target": scope["raw_path"] + query,
                "timeout": {"connect": _SECONDS_TO_CONNECT, "pool": _SECONDS_TO_CONNECT},
            },
        ) as response:
            got = [(k.lower(), v) for k, v in response.headers if k.lower() not in _FRAMING]
            self.has_begun = True
            start = {"type": "http.response.start", "status": response.status, "headers": got}
            await self._send(start)
            async for part in response.aiter_stream():
                await self._send({"type": "http.response.body", "body": part, "more_body": True})
            await self._send({"type": "http.response.body", "body": b""})

    async def _body(self) -> AsyncGenerator[bytes, None]:
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            yield message.get("body", b"")
            more = message.get("more_body", False)
        self._is_sent.set()

    async def _wait_for_end(self) -> None:
        await self._is_sent.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _secrets(scope: Scope) -> list[str]:
    """What may be a credential in a request: in its path, its query and its headers."""
    found = [*scope["path"].split("/"), *_query(scope)]
    for name, value in scope["headers"]:
        found += _in_header(name, value.decode("latin-1"))
    secrets = [one for one in found if _SHORTEST_SECRET <= len(one) <= _LONGEST_SECRET]
    return secrets[:_MAX_SECRETS]


def _query(scope: Scope) -> Iterator[str]:
    text = scope["query_string"].decode("latin-1")
    return (value for _, value in parse_qsl(text)) if text else iter(())


def _in_header(name: bytes, value: str) -> list[str]:
    if name == b"authorization":
        scheme, _, secret = value.strip().rpartition(" ")
        return _basic(secret) if scheme.lower() == "basic" else [secret]
    if name == b"cookie":
        return [unquote(one) for one in re.split(r'[;=\s"]+', value)]
    return [value.strip()]


def _basic(encoded: str) -> list[str]:
    with suppress(binascii.Error, ValueError):
        return base64.b64decode(encoded, validate=True).decode("utf-8", "replace").split(":", 1)
    return []


def _is_of_this_machine(address: str) -> bool:
    """Whether it is a loopback address: if nobody listens there, the process has ended."""
    found = re.match(r"http://\[?([^\]/]+?)\]?:\d+$", address)
    with suppress(ValueError):
        return found is not None and ipaddress.ip_address(found[1]).is_loopback
    return False
