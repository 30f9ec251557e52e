"""Where a request carries credentials: by security scheme, whether or not they are valid."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qsl

from invoice_sandbox.http.pipeline import Request
from invoice_sandbox.openapi.security import Scheme

_AUTHORIZATION: Final = "authorization"


def secrets_of(request: Request, scheme: Scheme) -> list[str]:
    """The secrets that a request carries as ``scheme`` says; one may be empty.

    For Basic it is the password, or the user's name when there is no password. A client
    certificate is no secret of a request: it ends where TLS ends.
    """
    extract = _EXTRACTORS.get(scheme.location)
    return [] if extract is None else extract(request, scheme.name)


def _bearer(request: Request, name: str) -> list[str]:
    found = []
    for value in request.header_values(name):
        scheme, _, secret = value.partition(" ")
        found.append(secret.strip() if scheme.lower() == "bearer" else "")
    return found


def _basic(request: Request, name: str) -> list[str]:
    found = []
    for value in request.header_values(name):
        scheme, _, encoded = value.partition(" ")
        user, _, password = _decoded(encoded.strip()).partition(":")
        found.append((password or user) if scheme.lower() == "basic" else "")
    return found


def _decoded(encoded: str) -> str:
    try:
        return base64.b64decode(encoded, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""


def _other(request: Request, name: str) -> list[str]:
    found = []
    for value in request.header_values(_AUTHORIZATION):
        scheme, _, credentials = value.partition(" ")
        found.append(credentials.strip() if scheme.lower() == name else "")
    return found


def _header(request: Request, name: str) -> list[str]:
    return [value.strip() for value in request.header_values(name)]


def _cookie(request: Request, name: str) -> list[str]:
    found = []
    for header in request.header_values("cookie"):
        try:
            cookies = SimpleCookie(header)
        except CookieError:
            continue
        if name in cookies:
            found.append(cookies[name].value)
    return found


def _query(request: Request, name: str) -> list[str]:
    text = request.scope["query_string"].decode("latin-1")
    return [value for key, value in parse_qsl(text, keep_blank_values=True) if key == name]


_EXTRACTORS: Final[Mapping[str, Callable[[Request, str], list[str]]]] = {
    "bearer": _bearer,
    "basic": _basic,
    "http": _other,
    "header": _header,
    "cookie": _cookie,
    "query": _query,
}
