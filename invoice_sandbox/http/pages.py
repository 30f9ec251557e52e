"""Pages beside the API: whatever is below a path is answered by an ASGI application of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Final

from invoice_sandbox.base.errors import reject
from invoice_sandbox.http import Exchange, Layer, Message, Proceed, Receive, Reply, Scope, Send

ASGIApplication = Callable[[Scope, Receive, Send], Awaitable[None]]

_METHODS: Final = ("GET", "HEAD", "OPTIONS")
_NOT_PASSED_ON: Final = frozenset({"content-type", "content-length", "date"})


def serve_pages(prefix: str, make_app: Callable[[], ASGIApplication]) -> Layer:
    """Let an application, made when first asked for, answer ``prefix`` and what is below it."""
    app = cache(make_app)

    async def layer(exchange: Exchange, proceed: Proceed) -> Reply:
        if not f"{exchange.scope['path']}/".startswith(f"{prefix}/"):
            return await proceed(exchange)
        options = allowed_methods(exchange)
        if exchange.method == "OPTIONS":
            return options
        reply = await _ask(app(), exchange.scope)
        if reply.status == 404:
            raise reject("unknown_path")
        return reply

    return layer


def allowed_methods(exchange: Exchange) -> Reply:
    """The answer to OPTIONS on what can only be read. Raises ApiError 405 for other methods."""
    allowed = ", ".join(_METHODS)
    if exchange.method not in _METHODS:
        raise reject(
            "method_not_allowed", ("Allow", allowed), method=exchange.method, allowed=allowed
        )
    return Reply(204, headers=(("Allow", allowed),))


async def _ask(app: ASGIApplication, scope: Scope) -> Reply:
    """What ``app`` answers to a GET without a body, as one reply."""
    answer: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        answer.append(message)

    await app({**scope, "method": "GET"}, receive, send)
    start, *parts = answer
    headers = [(name.decode("latin-1"), text.decode("latin-1")) for name, text in start["headers"]]
    return Reply(
        start["status"],
        b"".join(part.get("body", b"") for part in parts),
        dict(headers).get("content-type", "application/octet-stream"),
        tuple(header for header in headers if header[0].lower() not in _NOT_PASSED_ON),
    )
