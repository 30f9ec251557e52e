"""Which hosts a request may name, and which pages may read responses.

On a loopback address the demo key is public knowledge, so any page in any browser on the machine
could use it. Two rules prevent that: a request must name a host that is really ours (a page that
re-binds its own name to 127.0.0.1 does not), and only pages of this machine, or of an origin that
was allowed, may read.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from invoice_sandbox.base.errors import reject
from invoice_sandbox.base.hosts import is_loopback
from invoice_sandbox.http.request import Head, Reply, Request

_HOST: Final = re.compile(
    r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(:(?P<port>\d{0,5}))?", re.ASCII
)
_MAX_PORT: Final = 65_535
_HEADER_LIMIT: Final = 16 * 1024
_TOKENS: Final = re.compile(
    r"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t]*,[ \t]*[!#$%&'*+.^_`|~0-9A-Za-z-]+)*"
)
_EXPOSED_HEADERS: Final = (
    "X-Request-Id, X-Contract-Version, X-Total-Count, Link, RateLimit, RateLimit-Policy, "
    "Retry-After, WWW-Authenticate, Allow, Location, Idempotent-Replayed, Preference-Applied, "
    "X-Sandbox-Explain, X-Sandbox-Error, X-Journal-Dropped"
)


def check_host(hosts: frozenset[str] | None, head: Head) -> None:
    """Check the host that a request names: this machine or one of ``hosts``; None: any.

    Raises ApiError 400, 421, 431.
    """
    if head.length > _HEADER_LIMIT:
        raise reject("headers_too_large", limit=_HEADER_LIMIT)
    host = _name_of(head.first.get("host", ""))
    if host is None or len(head.values("host")) > 1:
        raise reject("malformed_host")
    if hosts is not None and host not in hosts and not is_loopback(host):
        raise reject("wrong_host")


@lru_cache(maxsize=64)
def _name_of(host: str) -> str | None:
    """Return the name in a ``Host`` header, None: it is malformed."""
    found = _HOST.fullmatch(host)
    if not found or int(found["port"] or 0) > _MAX_PORT:
        return None
    return found["name"].strip("[]").rstrip(".").lower()


def allow_page(origins: Collection[str], request: Request) -> None:
    """Let a page of this machine, or of one of ``origins``, read the response to its request.

    Those may also use the cookies of a session.
    """
    origin = request.head.first.get("origin")
    if origin is None:
        return
    request.headers.append(("Vary", "Origin"))
    if _may_read(origin, origins):
        request.headers += [
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Expose-Headers", _EXPOSED_HEADERS),
        ]
        request.is_allowed_page = origin in origins
        if request.is_allowed_page:
            request.headers.append(("Access-Control-Allow-Credentials", "true"))


def preflight(origins: Collection[str], request: Request) -> Reply | None:
    """Return the response to a preflight: a page that may read may send what it asks for.

    The document has no part in it, for what it declares is found out by the request itself. None
    for any other request.
    """
    method = request.header("access-control-request-method")
    if request.method != "OPTIONS" or not method or not _TOKENS.fullmatch(method):
        return None
    if not _may_read(request.head.first.get("origin", ""), origins):
        return None
    names = ", ".join(request.head.values("access-control-request-headers"))
    asked = (("Access-Control-Allow-Headers", names),) if _TOKENS.fullmatch(names) else ()
    return Reply(
        204,
        headers=(
            ("Access-Control-Allow-Methods", method),
            *asked,
            ("Access-Control-Max-Age", "600"),
            ("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers"),
        ),
    )


def _may_read(origin: str, origins: Collection[str]) -> bool:
    try:
        parts = urlsplit(origin)
        is_here = parts.scheme in {"http", "https"} and is_loopback(parts.hostname or "")
    except ValueError:
        return False
    return is_here or origin in origins
