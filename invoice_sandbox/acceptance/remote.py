"""A client on another machine: it reads its tasks from the control API, or a person does them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from invoice_sandbox.acceptance.clients import Assignment, Client, Ending, Endpoint
from invoice_sandbox.acceptance.progress import Progress
from invoice_sandbox.control.client import ControlClient, SandboxError

Response = tuple[int, Mapping[str, str], bytes]

_POLL: Final = 0.3
_PATIENCE: Final = 60.0


@dataclass(frozen=True)
class PatientClient(ControlClient):
    """Sends what may be sent twice again, while the server cannot be reached for a minute."""

    def _exchange(self, method: str, path: str, body: Any) -> Response:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return super()._exchange(method, path, body)
            except SandboxError:
                if method == "POST" or time.monotonic() > deadline:
                    raise
            time.sleep(_POLL)


@dataclass(frozen=True, kw_only=True)
class RemoteClient(Client):
    """A client somewhere else.

    It reaches the server at ``server`` and receives webhooks at ``webhooks``. ``on_wait`` gets
    what the run waits for.
    """

    progress: Progress
    on_wait: Callable[[Mapping[str, Any]], None]
    server: str
    webhooks: str = ""

    def endpoint(self) -> Endpoint:
        """The URL that the client has given."""
        return Endpoint(self.webhooks)

    def start(self, assignment: Assignment) -> RemoteSession:
        """Publish the task. Raises SandboxError."""
        until = datetime.now(UTC) + timedelta(seconds=self.patience)
        given = {**assignment.environment, "SANDBOX_API_URL": self.server}
        if assignment.endpoint is not None:
            given["ACCEPTANCE_WEBHOOK_URL"] = assignment.endpoint.url
        waiting = self.progress.wait_for(
            {
                "check": assignment.check,
                "text": assignment.text,
                "deadline": until.isoformat(timespec="seconds").replace("+00:00", "Z"),
                "webhooks": assignment.endpoint is not None,
                "environment": given,
            }
        )
        self.on_wait(waiting)
        return RemoteSession(self.progress, waiting["task"], assignment.endpoint is not None)


class RemoteSession:
    """A task that a client does somewhere else, and what it has reported about it."""

    def __init__(self, progress: Progress, task: int, receives: bool) -> None:
        self._progress, self._task, self._receives = progress, task, receives
        self._reported: str | None = None
        self._asked = 0.0

    @property
    def has_ended(self) -> bool:
        """True if the client has reported that it is done."""
        return self._state() == "done"

    def has_begun(self, requests: Callable[[], int]) -> bool:
        """True if it has sent a request, or reported that it receives webhooks."""
        return self._state() is not None or (not self._receives and requests() > 0)

    def stop(self) -> None:
        """Wait for nothing any more."""
        self._progress.wait_for(None)

    def ending(self, secrets: Sequence[str]) -> Ending:  # noqa: ARG002 - it prints nothing here
        """Return what the client has reported; nobody knows its exit status."""
        return Ending(reported=self._reported)

    def _state(self) -> str | None:
        if self._reported != "done" and time.monotonic() - self._asked > _POLL:
            self._asked = time.monotonic()
            with suppress(SandboxError):
                self._reported = self._progress.reported(self._task) or self._reported
        return self._reported
