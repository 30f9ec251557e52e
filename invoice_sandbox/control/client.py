"""Asks the levers of a sandbox that is running.

Done with the standard library alone, so that a test which replaces its HTTP client's transport
(respx, pytest-httpx) does not take the levers away from itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlsplit

DEFAULT_URL: Final = "http://127.0.0.1:8080"
_PATIENCE: Final = 60
_UNCOUNTED: Final = "X-Sandbox-Coverage"
"""What is asked here is no request of the code that is tested."""

START_IT: Final = "Start one with 'invoice-sandbox serve', or leave the address out."


class SandboxError(Exception):
    """A sandbox that did not do what it was asked, with its own words.

    ``status`` and ``code`` are those of its answer, or None when none came.
    """

    def __init__(self, message: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def checked_url(url: str) -> str:
    """The address of a server, without a final slash. Raises SandboxError."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise SandboxError("the address of a sandbox looks like http://127.0.0.1:8080")
    return f"{parts.scheme}://{parts.netloc}"


def needs_no_proxy(url: str) -> bool:
    """Whether the server is on this machine, where no proxy of the environment leads to."""
    from invoice_sandbox.settings import is_loopback

    return is_loopback(urlsplit(url).hostname or "")


def path(template: str, **names: str) -> str:
    """A path with identifiers put in, whatever they hold."""
    return template.format(**{name: quote(text, "") for name, text in names.items()})


@dataclass(frozen=True)
class ControlClient:
    """The server at ``url``, asked with ``key``; None asks what is open to all."""

    url: str
    key: str | None = field(repr=False)

    def ask(self, method: str, lever: str, body: Any = None, *, below: str = "/sandbox") -> Any:
        """The ``data`` of the answer of a lever, or of an operation ``below`` another path.

        Raises SandboxError with the message of the API, or when no sandbox answers.
        """
        __tracebackhide__ = True
        return self.answer(method, f"{below}{lever}", body).get("data")

    def answer(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """The whole answer to a request. Raises SandboxError like ``ask``."""
        __tracebackhide__ = True
        from http.client import HTTPException
        from urllib.error import HTTPError
        from urllib.request import ProxyHandler, Request, build_opener

        headers = {"Content-Type": "application/json", _UNCOUNTED: "off"}
        if self.key is not None:
            headers["Authorization"] = f"Bearer {self.key}"
        request = Request(  # noqa: S310 - checked_url lets http and https through only
            f"{self.url}{path}",
            method=method,
            headers=headers,
            data=None if body is None else json.dumps(body).encode(),
        )
        opener = build_opener(*([ProxyHandler({})] if needs_no_proxy(self.url) else []))
        try:
            with opener.open(request, timeout=_PATIENCE) as reply:
                return _object(reply.read(), self.url)
        except HTTPError as refusal:
            with refusal:
                raise _refused(refusal.code, refusal.read(), self.url) from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise SandboxError(f"no sandbox answers on {self.url} ({reason}). {START_IT}") from None


def _object(body: bytes, url: str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise SandboxError(f"what answers on {url} is no sandbox")
    return found


def _refused(status: int, body: bytes, url: str) -> SandboxError:
    error = _object(body, url).get("error")
    if not isinstance(error, dict):
        raise SandboxError(f"what answers on {url} is no sandbox", status)
    return SandboxError(str(error.get("message")), status, error.get("code"))
