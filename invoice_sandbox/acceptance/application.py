"""A client that is a running application: it gets its tasks at an HTTP endpoint of its own."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from threading import Thread
from typing import Final
from urllib.parse import quote

import httpx2

from invoice_sandbox.acceptance.clients import (
    Assignment,
    Client,
    Ending,
    Endpoint,
    without_secrets,
)
from invoice_sandbox.base.errors import UserError

_TASK: Final = "{task}"
"""Stands for the number of the task in the URL for webhooks."""

_SECONDS_TO_CONNECT: Final = 5.0
_SECONDS_TO_STOP: Final = 3.0
_LONGEST_TASK: Final = 600.0
_SHOWN: Final = 4_000
_RECEIVES: Final = "ACCEPTANCE_WEBHOOK_URL"


def checked_endpoint(url: str) -> str:
    """Return the URL of an application that accepts connections. Raises UserError."""
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL:
        parts = httpx2.URL()
    if parts.scheme not in {"http", "https"} or not parts.host or parts.query or parts.userinfo:
        raise UserError("invalid URL of a client; use one such as http://localhost:5000/acceptance")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.host, port), _SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError) as error:
        raise UserError(f"no client at {parts.host}:{port}: {error}") from None
    return url.rstrip("/")


@dataclass(frozen=True, kw_only=True)
class ApplicationClient(Client):
    """An application that does what is posted to ``url``, and receives webhooks at ``webhooks``."""

    url: str
    webhooks: str = ""
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def endpoint(self) -> Endpoint:
        """The URL for webhooks, with the number of the task if it has a place for it."""
        return Endpoint(self.webhooks.replace(_TASK, str(next(self._numbers))))

    def start(self, assignment: Assignment) -> ApplicationSession:
        """Post the task. Its response comes later."""
        return ApplicationSession(self.url, assignment)


class ApplicationSession:
    """A task of an application. It is done when it responds; one with webhooks has begun then."""

    def __init__(self, url: str, assignment: Assignment) -> None:
        self._url, self._assignment = url, assignment
        self._receives = assignment.endpoint is not None
        self._status: int | None = None
        self._output = ""
        self._thread = Thread(target=self._post, daemon=True)
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        """True if it has responded that it is done, or cannot do the task."""
        return self._has_responded and not (self._receives and self._is_fine)

    def has_begun(self, requests: Callable[[], int]) -> bool:  # noqa: ARG002 - it responds
        """True if it receives webhooks, or need not."""
        return not self._receives or self._has_responded

    def stop(self) -> None:
        """Have it stop; what it responds does not matter."""
        if self._receives or not self._has_responded:
            place = f"{self._url}/{quote(self._assignment.name, safe='')}"
            with suppress(httpx2.HTTPError):
                httpx2.delete(place, timeout=_SECONDS_TO_STOP)
            self._thread.join(_SECONDS_TO_STOP)

    def ending(self, secrets: Sequence[str]) -> Ending:
        """Exit status 0 for a response with 2xx and 1 for any other, and the end of its body."""
        output = without_secrets(self._output, secrets)[-_SHOWN:]
        if self._status is None:
            return Ending(output=output)
        return Ending(0 if self._is_fine else 1, output=output)

    @property
    def _has_responded(self) -> bool:
        return not self._thread.is_alive()

    @property
    def _is_fine(self) -> bool:
        return self._status is not None and self._status // 100 == 2

    def _post(self) -> None:
        assignment, environment = self._assignment, dict(self._assignment.environment)
        if assignment.endpoint is not None:
            environment[_RECEIVES] = assignment.endpoint.url
        task = json.loads(environment["ACCEPTANCE_TASK"])
        body = {"id": assignment.name, "task": task, "environment": environment}
        timeout = httpx2.Timeout(_LONGEST_TASK, connect=_SECONDS_TO_CONNECT)
        try:
            response = httpx2.post(self._url, json=body, timeout=timeout)
        except httpx2.HTTPError as error:
            self._output = f"No response from {self._url}: {error}"
            return
        self._status, text = response.status_code, response.text
        self._output = text if self._is_fine else f"HTTP {response.status_code}: {text}"
