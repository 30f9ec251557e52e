"""Send one signed request, and say what came back, within limits."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import Final

import httpx

from invoice_sandbox.base.clock import SystemClock
from invoice_sandbox.webhooks.attempts import Outcome, Outgoing
from invoice_sandbox.webhooks.network import is_own_address
from invoice_sandbox.webhooks.retry import parse_retry_after
from invoice_sandbox.webhooks.transport import RefusedAddressError

READ_LIMIT: Final = 64 * 1024
"""Bytes of an answer that are read; the rest is not waited for."""

_TO_CONNECT: Final = 0.4
"""Part of the time that goes at most to a connection, and as much to TLS. Those who make one close
it when their own time is over, but not when they are cancelled in the middle of it."""

log = logging.getLogger("invoice_sandbox")


class Sender:
    """Sends webhooks over the network, or in process to the server's own addresses."""

    def __init__(
        self,
        system_clock: SystemClock,
        network: httpx.AsyncBaseTransport,
        inside: httpx.AsyncBaseTransport,
        own_url: str,
        timeout: float,
    ) -> None:
        """``timeout`` is in real seconds; ``own_url`` the server's, which is reached ``inside``."""
        self._wall = system_clock
        self._own_url = own_url
        self._timeout = timeout
        self._network = _client(network, timeout)
        self._inside = _client(inside, timeout)

    async def send(self, request: Outgoing) -> Outcome:
        """What came of it. Never raises for anything that the receiver or the network does."""
        begun = self._wall.monotonic()
        try:
            async with asyncio.timeout(self._timeout):
                status, body, retry_after = await self._exchange(request)
        except (TimeoutError, httpx.TimeoutException):
            return self._failed("timeout", begun)
        except (RefusedAddressError, httpx.UnsupportedProtocol, httpx.InvalidURL):
            return self._failed("address_not_allowed", begun)
        except httpx.ProtocolError:
            return self._failed("no_http", begun)
        except (httpx.TransportError, OSError):
            return self._failed("no_connection", begun)
        except Exception:  # a receiver must never be able to stop its lane
            log.exception("a delivery to %s ended in an error of our own", request.url)
            return self._failed("no_connection", begun)
        waits = parse_retry_after(retry_after, self._wall.now())
        return Outcome(status, None, self._took(begun), body, waits)

    async def close(self) -> None:
        """Close every connection."""
        await self._network.aclose()
        await self._inside.aclose()

    async def _exchange(self, request: Outgoing) -> tuple[int, bytes, str | None]:
        client = self._inside if is_own_address(request.url, self._own_url) else self._network
        body = bytearray()
        async with client.stream(
            "POST", request.url, content=request.body, headers=dict(request.headers)
        ) as response:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) >= READ_LIMIT:
                    break
            return (
                response.status_code,
                bytes(body[:READ_LIMIT]),
                response.headers.get("retry-after"),
            )

    def _failed(self, error: str, begun: float) -> Outcome:
        return Outcome(None, error, self._took(begun))

    def _took(self, begun: float) -> timedelta:
        return timedelta(seconds=self._wall.monotonic() - begun)


def _client(transport: httpx.AsyncBaseTransport, timeout: float) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=transport,
        follow_redirects=False,
        timeout=httpx.Timeout(timeout, connect=timeout * _TO_CONNECT),
        trust_env=False,
    )
