"""Which hosts this server answers for, and which web pages may read its answers.

On a loopback address the demo key is public knowledge, so any page in any browser on the machine
could use it. Two rules close that door: a request must name a host that is really ours (a page
that re-binds its own name to 127.0.0.1 does not), and only pages served from loopback may read.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from invoice_sandbox.base.errors import reject
from invoice_sandbox.http import Exchange, Layer, Proceed, Reply

LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_HEADER_LIMIT: Final = 16 * 1024
_ALLOWED_HEADERS: Final = (
    "Authorization, Content-Type, X-API-Key, Idempotency-Key, Prefer, X-Sandbox-Scenario, "
    "X-Sandbox-Explain"
)
_EXPOSED_HEADERS: Final = (
    "X-Request-Id, X-Contract-Version, X-Total-Count, Link, RateLimit, RateLimit-Policy, "
    "Retry-After, WWW-Authenticate, Allow, Location, Idempotent-Replayed, Preference-Applied, "
    "X-Sandbox-Explain, X-Sandbox-Refusal, X-Journal-Dropped"
)


def guard_origin(hosts: frozenset[str] | None) -> Layer:
    """Refuse a ``Host`` outside ``hosts`` (None: any), answer preflights, add CORS headers."""

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        if sum(len(name) + len(value) for name, value in exchange.headers) > _HEADER_LIMIT:
            raise reject("headers_too_large", limit=_HEADER_LIMIT)
        if len(exchange.header_values("host")) > 1:
            raise reject("malformed_http")
        if hosts is not None and _host_name(exchange.header("host") or "") not in hosts:
            raise reject("wrong_host")
        origin = exchange.header("origin")
        if origin is None:
            return await proceed(exchange)
        exchange.reply_headers.append(("Vary", "Origin"))
        if not _is_loopback(origin):
            return await proceed(exchange)
        exchange.reply_headers += [
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Expose-Headers", _EXPOSED_HEADERS),
        ]
        reply = await proceed(exchange)
        if exchange.header("access-control-request-method") and exchange.method == "OPTIONS":
            return _preflight(reply)
        return reply

    return layer


def _preflight(reply: Reply) -> Reply:
    allowed = dict(reply.headers).get("Allow", "")
    preflight = (
        ("Access-Control-Allow-Methods", allowed),
        ("Access-Control-Allow-Headers", _ALLOWED_HEADERS),
        ("Access-Control-Max-Age", "600"),
    )
    return Reply(reply.status, reply.body, reply.media_type, (*reply.headers, *preflight))


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_loopback(origin: str) -> bool:
    try:
        parts = urlsplit(origin)
        return parts.scheme in {"http", "https"} and parts.hostname in LOOPBACK_NAMES
    except ValueError:
        return False
