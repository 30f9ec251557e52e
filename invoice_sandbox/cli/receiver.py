"""The receiver on this machine that ``listen`` forwards webhooks to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

import click
import httpx

from invoice_sandbox.base.clock import OperatingSystemClock, SystemClock
from invoice_sandbox.cli.output import Row
from invoice_sandbox.cli.stream import Message
from invoice_sandbox.control.client import uses_proxy

_READ_LIMIT: Final = 4096
_MAX_RETRY_AFTER: Final = 100
_STATUSES: Final = range(200, 600)


def checked_target(text: str) -> str:
    """The URL to forward to, from a text such as ``3000`` or ``localhost:3000/hooks``.

    Raises click.BadParameter. Its message does not repeat the text, which may hold a password.
    """
    url = f"localhost:{text}" if text.isascii() and text.isdigit() else text
    url = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        usable = usable and not str(parts.hostname).isdigit()  # 3000/hooks
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        usable = False
    if not usable or not url.isprintable() or " " in url:
        raise click.BadParameter("use a port, or a URL such as http://localhost:3000/hooks")
    return url


@dataclass(frozen=True)
class Response:
    """The response of the local receiver, or the error; ``took`` is in real time."""

    status: int | None = None
    error: str | None = None
    body: str = ""
    retry_after: str | None = None
    took: timedelta = timedelta()

    @property
    def milliseconds(self) -> int:
        return self.took // timedelta(milliseconds=1)

    def report(self, message: int) -> Row:
        """The body of the report to the sandbox."""
        if self.status is None:
            return {"message": message, "error": self.error}
        reported = {"message": message, "status": self.status, "body": self.body}
        return reported | ({} if self.retry_after is None else {"retryAfter": self.retry_after})


class Receiver:
    """The local receiver."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._clock: SystemClock = OperatingSystemClock()
        self._client = httpx.AsyncClient(follow_redirects=False, trust_env=uses_proxy(target))

    async def __aenter__(self) -> Receiver:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def deliver(self, message: Message, seconds: float) -> Response:
        """Its response within that time, or the error."""
        begun = self._clock.monotonic()
        try:
            async with asyncio.timeout(seconds):
                response = await self._exchange(message, seconds)
        except (TimeoutError, httpx.TimeoutException):
            response = Response(error="timeout")
        except (httpx.ProtocolError, httpx.DecodingError):
            response = Response(error="no_http")
        except (httpx.RequestError, httpx.InvalidURL, OSError):
            response = Response(error="no_connection")
        took = timedelta(seconds=self._clock.monotonic() - begun)
        return replace(response, took=took)

    async def _exchange(self, message: Message, seconds: float) -> Response:
        async with self._client.stream(
            "POST",
            self._target,
            content=message.body.encode(),
            headers=dict(message.headers),
            timeout=seconds,
        ) as reply:
            body = bytearray()
            async for part in reply.aiter_raw():
                body += part
                if len(body) >= _READ_LIMIT:
                    break
        if reply.status_code not in _STATUSES:
            return Response(error="no_http")
        retry_after = reply.headers.get("retry-after")
        if retry_after is not None and not (retry_after.isascii() and retry_after.isprintable()):
            retry_after = None
        return Response(
            reply.status_code,
            None,
            bytes(body[:_READ_LIMIT]).decode(errors="replace"),
            retry_after and retry_after[:_MAX_RETRY_AFTER],
        )
