"""Outgoing connections: the certificates that they trust, and the reason why one failed."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import certifi

_CHOSEN: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables of the environment that choose the authorities, as for other programs with OpenSSL."""


def tls_context(authorities: Path | None = None) -> ssl.SSLContext:
    """Return the trust of every connection that the sandbox or its commands open.

    It has the authorities of the operating system and of certifi, or those of ``SSL_CERT_FILE`` and
    ``SSL_CERT_DIR``, and those in the PEM file ``authorities``. Loading takes some 20 ms.

    Raises OSError, of which ssl.SSLError is one, for a file that has no certificate.
    """
    context = ssl.create_default_context()
    if not any(os.environ.get(name) for name in _CHOSEN):
        context.load_verify_locations(certifi.where())
    if authorities is not None:
        context.load_verify_locations(authorities)
    return context


class Failure(NamedTuple):
    """The reason why there was no connection: a word, and OpenSSL's sentence about TLS."""

    error: str
    reason: str | None = None


def failure_of(error: BaseException) -> Failure:
    """Return the failure that an exception is, or that it was raised from.

    ``no_connection`` is one that none of the other words names.
    """
    for cause in _causes(error):
        match cause:
            case ssl.SSLCertVerificationError():
                return Failure("tls_failed", cause.verify_message)
            case ssl.SSLError():
                return Failure("tls_failed", (cause.reason or "").replace("_", " ").lower() or None)
            case socket.gaierror():
                return Failure("name_not_found")
            case ConnectionRefusedError():
                return Failure("refused")
            case ConnectionResetError() | BrokenPipeError():
                return Failure("reset")
            case TimeoutError():
                return Failure("timeout")
    return Failure("no_connection")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those that it was raised from, the last of a group first."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in reversed(error.exceptions):
                yield from _causes(inner)
        error = error.__cause__ or error.__context__
