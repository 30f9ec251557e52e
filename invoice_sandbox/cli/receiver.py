"""The receiver on this machine that ``listen`` forwards webhooks to."""

from __future__ import annotations

import base64
import hmac
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import click
import httpx2

from invoice_sandbox.base.clock import OperatingSystemClock, SystemClock
from invoice_sandbox.base.hosts import is_loopback
from invoice_sandbox.base.outgoing import failure_of, tls_context
from invoice_sandbox.cli.output import Row
from invoice_sandbox.control.client import uses_proxy
from invoice_sandbox.webhooks.signing import SECRET_BYTES, SECRET_PREFIX, is_signing_secret

_TOKEN: Final = 64
_READ_LIMIT: Final = 4096
_MAX_RETRY_AFTER: Final = 100
_STATUSES: Final = range(200, 600)
_LONGEST_SHOWN: Final = 100


def checked_target(text: str) -> str:
    """Return the URL to forward to, from a text such as ``3000`` or ``localhost:3000/hooks``: the
    same for other spellings of it.

    Raises click.BadParameter. Its message does not repeat a text that may hold a password.
    """
    url = f"localhost:{text}" if text.isascii() and text.isdigit() else text
    try:
        target = httpx2.URL(url if "://" in url else f"http://{url}")
    except httpx2.InvalidURL:
        target = httpx2.URL()
    host, port = target.host, target.port
    names_host = "://" in url or "." in host or port is not None or is_loopback(host)
    is_usable = host and not host.isdigit() and (port is None or port in range(1, 2**16))
    is_plain = url.isprintable() and " " not in url and target.scheme in {"http", "https"}
    if not (names_host and is_usable and is_plain):
        typed = "" if "@" in text else f"{text[:_LONGEST_SHOWN]!r}: "
        raise click.BadParameter(f"{typed}use a port, or a URL such as http://localhost:3000/hooks")
    return str(target).removesuffix("/") if target.raw_path == b"/" else str(target)


def checked_secret(text: str) -> str:
    """A signing secret as it was typed. Raises click.BadParameter, which does not repeat it."""
    if not is_signing_secret(text):
        raise click.BadParameter(f"use {SECRET_PREFIX} and the base64 of 24 to 64 bytes")
    return text


@dataclass(frozen=True)
class Identity:
    """The signing secret and the token of the listener of one receiver: they are made of the key,
    the URL of the receiver and the name of this machine, so they are the same each time."""

    secret: str = field(repr=False)
    token: str = field(repr=False)


def identity_of(target: str, key: str, secret: str | None = None) -> Identity:
    """Return the identity of a receiver; ``secret`` replaces the one that is made."""

    def made(purpose: str) -> bytes:
        text = f"{purpose} {platform.node()} {target}"
        return hmac.digest(key.encode(), text.encode(), "sha512")

    usual = SECRET_PREFIX + base64.b64encode(made("secret")[:SECRET_BYTES]).decode()
    return Identity(secret or usual, made("token").hex()[:_TOKEN])


@dataclass(frozen=True)
class Message:
    """A delivery that the sandbox passes on."""

    number: int
    headers: Mapping[str, str]
    body: str
    type: str | None

    @property
    def id(self) -> str:
        return self.headers.get("webhook-id", "")

    @property
    def attempt(self) -> tuple[str, str]:
        """The identity of the attempt: ``webhook-id`` and ``webhook-timestamp``."""
        return self.id, self.headers.get("webhook-timestamp", "")


@dataclass(frozen=True)
class Response:
    """The response of the local receiver, or the error; ``took`` is in real time."""

    status: int | None = None
    error: str | None = None
    reason: str | None = None
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
    """The local receiver, which several threads may use."""

    def __init__(self, target: str, authorities: Path | None = None) -> None:
        """``authorities`` is a PEM file of certificates to trust besides. Raises OSError for it."""
        self._target = target
        self._clock: SystemClock = OperatingSystemClock()
        self._client = httpx2.Client(
            follow_redirects=False, trust_env=uses_proxy(target), verify=tls_context(authorities)
        )

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def deliver(self, message: Message, seconds: float) -> Response:
        """Its response within that time, or the error."""
        begun = self._clock.monotonic()
        try:
            response = self._exchange(message, begun, seconds)
        except (TimeoutError, httpx2.TimeoutException):
            response = Response(error="timeout")
        except (httpx2.ProtocolError, httpx2.DecodingError):
            response = Response(error="no_http")
        except (httpx2.RequestError, httpx2.InvalidURL, OSError) as problem:
            failure = failure_of(problem)
            response = Response(error=failure.error, reason=failure.reason)
        took = timedelta(seconds=self._clock.monotonic() - begun)
        return replace(response, took=took)

    def _exchange(self, message: Message, begun: float, seconds: float) -> Response:
        with self._client.stream(
            "POST",
            self._target,
            content=message.body.encode(),
            headers=dict(message.headers),
            timeout=seconds,
        ) as reply:
            body = bytearray()
            for part in reply.iter_raw():
                body += part
                if len(body) >= _READ_LIMIT:
                    break
                if self._clock.monotonic() - begun > seconds:
                    raise TimeoutError
        if reply.status_code not in _STATUSES:
            return Response(error="no_http")
        retry_after = reply.headers.get("retry-after")
        if retry_after is not None and not (retry_after.isascii() and retry_after.isprintable()):
            retry_after = None
        return Response(
            reply.status_code,
            None,
            None,
            bytes(body[:_READ_LIMIT]).decode(errors="replace"),
            retry_after and retry_after[:_MAX_RETRY_AFTER],
        )
