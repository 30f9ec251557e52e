"""The client of the console: requests to the sandbox itself, from a thread that renders a page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from invoice_sandbox.base import jsonio
from invoice_sandbox.console.visitor import NOBODY, Identity
from invoice_sandbox.http.pages import ASGIApplication, ask
from invoice_sandbox.http.request import CALLER, OBSERVER, Request

FROM_CONSOLE: Final = "invoice_sandbox.console"
"""The extension of the ASGI scope of every request that the console sends."""

CLIENT: Final = "invoice_sandbox.console.client"
VISITOR: Final = "invoice_sandbox.console.visitor"
POSITION: Final = "invoice_sandbox.console.position"
"""Members of the ASGI scope that a page finds its client and its visitor in, and the position from
which the stream reports what has changed since."""

_PATIENCE: Final = 120
"""Seconds that a request of the console may take, such as an advance over many days."""


_OF_CONNECTION: Final = re.compile(
    r"host|connection|keep-alive|content-length|transfer-encoding|accept-encoding|te|trailer"
    r"|upgrade|expect|user-agent|authorization|cookie|origin|referer|forwarded"
    r"|(proxy|sec|x-forwarded|x-real|access-control)-.*",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_TEXT: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


def is_repeated(name: str, text: str) -> bool:
    """True if a header belongs to a request that is sent again, not to its connection or sender."""
    is_header = _NAME.fullmatch(name) is not None and _TEXT.fullmatch(text) is not None
    return is_header and not _OF_CONNECTION.fullmatch(name)


@dataclass(frozen=True)
class Received:
    """A response of the sandbox to its console."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def is_success(self) -> bool:
        """True if the request was carried out."""
        return self.status < 300

    @cached_property
    def body(self) -> Any:
        """The body as JSON; None if there is none."""
        try:
            return jsonio.loads(self.content)
        except ValueError:
            return None

    @property
    def data(self) -> Any:
        """The content of the envelope, or the whole body where there is no envelope."""
        if isinstance(self.body, Mapping) and "data" in self.body:
            return self.body["data"]
        return self.body

    @property
    def total(self) -> int:
        """The number of all that match a list, of which this is a page."""
        return int(self.headers.get("x-total-count", len(self.rows)))

    @property
    def rows(self) -> list[Any]:
        """The data of a list; empty for anything else."""
        return list(self.data) if self.is_success and isinstance(self.data, list) else []

    @property
    def problem(self) -> str:
        """The message of an error."""
        body = self.body
        if isinstance(body, Mapping):
            error = body.get("error")
            if isinstance(error, Mapping):
                return str(error.get("message", ""))
            return str(body.get("detail", ""))
        return ""


@dataclass(frozen=True)
class Client:
    """Sends requests with the identity of a visitor; ``headers`` are those of all requests,
    ``address`` is that of the visitor."""

    app: ASGIApplication
    loop: asyncio.AbstractEventLoop
    headers: tuple[tuple[str, str], ...]
    address: Any
    identity: Identity

    @classmethod
    def of(cls, app: ASGIApplication, request: Request, identity: Identity) -> Client:
        """The client of who sent ``request``."""
        headers = [("host", request.header("host") or "localhost")]
        forwarded = request.head.forwarding
        if forwarded is not None:  # so that the demo key opens nothing here either
            headers.append((forwarded, request.header(forwarded) or ""))
        if identity.type in {"key", "demo"}:
            headers.append(("authorization", f"Bearer {identity.secret}"))
        loop = asyncio.get_running_loop()
        return cls(app, loop, tuple(headers), request.scope.get("client"), identity)

    def as_nobody(self) -> Client:
        """The client without the identity."""
        headers = tuple(header for header in self.headers if header[0] != "authorization")
        return replace(self, headers=headers, identity=NOBODY)

    def with_identity(self, identity: Identity) -> Client:
        """The client of the same visitor with another identity."""
        nobody = self.as_nobody()
        key = (("authorization", f"Bearer {identity.secret}"),)
        headers = (*nobody.headers, *(key if identity.type in {"key", "demo"} else ()))
        return replace(nobody, headers=headers, identity=identity)

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Received:
        """Read something. The sandbox does not record that."""
        return self._send("GET", path, urlencode(query or {}, doseq=True), b"", observes=True)

    def send(self, method: str, path: str, body: bytes) -> Received:
        """Send a request as any client would; ``path`` may have a query."""
        path, _, query = path.partition("?")
        return self._send(method, path, query, body, observes=False)

    def preview(self, path: str, body: Mapping[str, Any]) -> Received:
        """Send a request that changes nothing. The sandbox does not record it."""
        return self._send("POST", path, "", jsonio.dumps(body), observes=True)

    def with_headers(self, headers: Mapping[str, str]) -> Client:
        """The client with more headers. A body is JSON unless they say otherwise."""
        given = tuple((name.lower(), text) for name, text in headers.items())
        return replace(self, headers=(*self.headers, *given))

    def _send(
        self, method: str, path: str, query: str, content: bytes, *, observes: bool
    ) -> Received:
        asked = self.ask(method, path, query, content, observes=observes)
        return asyncio.run_coroutine_threadsafe(asked, self.loop).result(_PATIENCE)

    async def ask(
        self, method: str, path: str, query: str = "", content: bytes = b"", *, observes: bool
    ) -> Received:
        """The response, for a coroutine. ``observes``: the sandbox does not record the request."""
        headers = [*self.headers]
        if content:
            headers.append(("content-length", str(len(content))))
            if "content-type" not in dict(headers):
                headers.append(("content-type", "application/json"))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": quote(path, safe="/%:@!$&'()*+,;=~").encode(),
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers],
            "client": self.address,
            "extensions": self._extensions(observes=observes),
        }
        reply = await ask(self.app, scope, content)
        return Received(reply.status, dict(reply.headers), reply.body)

    def _extensions(self, *, observes: bool) -> dict[str, Any]:
        extensions: dict[str, Any] = {FROM_CONSOLE: {}}
        if observes:
            extensions[OBSERVER] = {}
        if self.identity.type == "session" and self.identity.credential is not None:
            extensions[CALLER] = self.identity.credential
        return extensions
