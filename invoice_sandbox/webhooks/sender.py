"""Sends signed requests, with limits on time and response size."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Final

from invoice_sandbox.base.clock import SystemClock
from invoice_sandbox.base.outgoing import failure_of
from invoice_sandbox.webhooks.attempts import NO_HTTP, TIMEOUT, Outcome, Outgoing
from invoice_sandbox.webhooks.network import ForbiddenAddressError, is_own_address
from invoice_sandbox.webhooks.retry import parse_retry_after

if TYPE_CHECKING:
    import httpx2

RECEIVER_SECONDS: Final = 15
"""Real seconds that a receiver has to respond."""

READ_LIMIT: Final = 64 * 1024
"""The most bytes of a response body that are read."""

_TO_CONNECT: Final = 0.4
"""The largest share of the timeout for a connection, and the same again for TLS. httpcore2 closes a
connection when its own timeout ends, but not when it is cancelled while connecting."""

log = logging.getLogger("invoice_sandbox")


class Sender:
    """Sends webhooks over the network, or in process to the server's own addresses.

    The first request imports httpx2: many servers never send one.
    """

    def __init__(
        self,
        system_clock: SystemClock,
        network: Callable[[], httpx2.AsyncBaseTransport],
        inside: Callable[[], httpx2.AsyncBaseTransport],
        own_url: str,
        timeout: float,
    ) -> None:
        """``timeout`` is in real seconds. Requests to ``own_url`` use the transport ``inside``."""
        self._system_clock = system_clock
        self._own_url = own_url
        self._timeout = timeout
        self._transports = network, inside

    async def send(self, request: Outgoing) -> Outcome:
        """The outcome. Never raises for an error of the receiver or the network."""
        import httpx2

        network, inside = self._clients
        client = inside if is_own_address(request.url, self._own_url) else network
        started = self._system_clock.monotonic()
        try:
            async with asyncio.timeout(self._timeout):
                status, body, retry_after = await _exchange(client, request)
        except (TimeoutError, httpx2.TimeoutException):
            return self._failed(TIMEOUT, None, started)
        except (ForbiddenAddressError, httpx2.UnsupportedProtocol, httpx2.InvalidURL):
            return self._failed("address_not_allowed", None, started)
        except httpx2.ProtocolError:
            return self._failed(NO_HTTP, None, started)
        except (httpx2.TransportError, OSError) as error:
            return self._failed(*failure_of(error), started)
        except Exception:  # no receiver may stop its lane
            log.exception("the delivery to %s failed by an internal error", request.url)
            return self._failed("internal_error", None, started)
        waits = parse_retry_after(retry_after, self._system_clock.calendar())
        return Outcome(status, None, self._took(started), body, waits)

    async def close(self) -> None:
        """Close every connection."""
        if "_clients" in vars(self):
            for client in self._clients:
                await client.aclose()

    @cached_property
    def _clients(self) -> tuple[httpx2.AsyncClient, httpx2.AsyncClient]:
        """For the network, and for the server's own addresses."""
        network, inside = (_client(transport(), self._timeout) for transport in self._transports)
        return network, inside

    def _failed(self, error: str, reason: str | None, started: float) -> Outcome:
        return Outcome(None, error, self._took(started), reason=reason)

    def _took(self, started: float) -> timedelta:
        return timedelta(seconds=self._system_clock.monotonic() - started)


async def _exchange(client: httpx2.AsyncClient, request: Outgoing) -> tuple[int, bytes, str | None]:
    body = bytearray()
    async with client.stream(
        "POST", request.url, content=request.body, headers=dict(request.headers)
    ) as response:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) >= READ_LIMIT:
                break
        return response.status_code, bytes(body[:READ_LIMIT]), response.headers.get("retry-after")


def _client(transport: httpx2.AsyncBaseTransport, timeout: float) -> httpx2.AsyncClient:
    import httpx2

    return httpx2.AsyncClient(
        transport=transport,
        follow_redirects=False,
        timeout=httpx2.Timeout(timeout, connect=timeout * _TO_CONNECT),
        trust_env=False,
    )
