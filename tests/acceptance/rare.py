"""The reference client with a fault of search.py.

Run it with ``python -m tests.acceptance.rare --fault NAME`` in a checkout.

No check of the plan brings these faults about: each needs events in an order, or a broken
connection at a request, that no case of the plan has.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from tests.acceptance import client
from tests.acceptance.client import Api, Attempt, Messages, RejectedError, Tasks, fault


def has_run_before() -> bool:
    """Whether a client with this key has run on this port."""
    names = ("SANDBOX_API_URL", "SANDBOX_API_KEY", "ACCEPTANCE_WEBHOOK_PORT")
    name = hashlib.sha256("".join(os.environ.get(one, "") for one in names).encode()).hexdigest()
    file = Path(tempfile.gettempdir()) / f"rare-{name[:24]}"
    if file.exists():
        return True
    file.touch()
    return False


class RareAttempt(Attempt):
    """A request that is not always repeated with its key."""

    is_later = False

    def prepare_repetition(self, status: int | None) -> None:
        """Wait longer the next time."""
        super().prepare_repetition(status)
        is_lost = status == 503 and fault("new-key-after-a-503-of-a-later-request")
        is_lost |= status is None and fault("new-key-after-a-reset-of-a-later-request")
        if is_lost and self.is_later:
            self.key = os.urandom(12).hex()


class RareApi(Api):
    """Gives up in some orders of events, and remembers a revoked key."""

    def __init__(self, url: str, keys: list[str]) -> None:
        super().__init__(url, keys)
        self._all_keys, self._has_posted, self._resets = [*keys], False, 0

    def call(self, method: str, path: str, data: dict[str, Any] | None = None) -> Any:
        """The ``data`` of a successful response. Raises RejectedError."""
        found = super().call(method, path, data)
        self._has_posted |= method == "POST"
        return found

    def _try(self, request: Attempt) -> tuple[int | None, Mapping[str, str], Any]:
        found = super()._try(request)
        if request.was_broken and request.method == "GET" and self._has_posted:
            self.has_broken_read = True
        return found

    has_broken_read = False

    def _repetition(
        self, request: Attempt, status: int | None, headers: Mapping[str, str]
    ) -> float | None:
        assert isinstance(request, RareAttempt)
        request.is_later = self._has_posted
        self._resets += status is None and not request.was_broken
        if self._gives_up(request, status):
            return None
        if status == 503 and fault("goes-back-to-the-revoked-key"):
            self._keys = [*self._all_keys]
        return super()._repetition(request, status, headers)

    def _gives_up(self, request: Attempt, status: int | None) -> bool:
        is_read, receives = request.method == "GET", "ACCEPTANCE_WEBHOOK_PORT" in os.environ
        if fault("drops-an-event-whose-read-fails"):
            return receives and is_read and status == 503
        if fault("drops-an-event-when-it-must-wait"):
            return receives and status == 429
        if fault("gives-up-after-a-reset-of-a-later-request"):
            return not is_read and status is None and self._has_posted
        return fault("reads-no-further-after-two-resets") and self._resets > 1 and is_read


class RareTasks(Tasks):
    """Registers an invoice once more."""

    def follow(self) -> None:
        """Register the invoice and read it until its status is that of the task."""
        if not fault("registers-again-after-a-broken-read"):
            super().follow()
            return
        assert isinstance(self._api, RareApi)
        invoice_id = self.register()
        while self._api.call("GET", f"/api/invoices/{invoice_id}")["status"] != "Offered":
            if self._api.has_broken_read:
                self._api.has_broken_read = False
                invoice_id = self.register()
            time.sleep(1)


class RareMessages(Messages):
    """Loses an event, or takes a copy for a new one, in some orders of messages."""

    def __init__(self, tasks: Tasks, secrets: list[str]) -> None:
        super().__init__(tasks, secrets)
        self._seen: dict[str, str] = {}
        self._forged: set[str] = set()
        self._busy = Lock()
        self._has_restarted = has_run_before()

    def status(self, headers: Mapping[str, str], body: bytes) -> int:
        """The status of the response to a message."""
        if not self._is_genuine(headers, body):
            self._forged.add(headers["webhook-id"])
            return 401
        if self._has_restarted and fault("loses-the-first-event-after-a-restart"):
            self._has_restarted = False
            return 200
        event = json.loads(body)
        if self._is_taken_for_new(headers, event):
            self._tasks.act_again(event)
            return 200
        if not fault("loses-an-event-that-comes-during-another"):
            return super().status(headers, body)
        if not self._busy.acquire(blocking=False):
            return 200
        try:
            return super().status(headers, body)
        finally:
            self._busy.release()

    def _is_taken_for_new(self, headers: Mapping[str, str], event: Mapping[str, Any]) -> bool:
        name, signature = headers["webhook-id"], headers["webhook-signature"]
        is_copy = name in self._seen
        self._seen.setdefault(name, event["timestamp"])
        if fault("acts-again-on-a-copy-with-two-signatures"):
            return is_copy and " " in signature
        if fault("acts-again-on-a-copy-after-a-forgery"):
            return is_copy and name in self._forged
        if fault("acts-again-on-a-copy-after-another-event"):
            return is_copy and name != [*self._seen][-1]
        return fault("acts-again-on-a-copy-after-a-restart") and self._has_restarted


if __name__ == "__main__":
    client.Api, client.Attempt = RareApi, RareAttempt  # type: ignore[misc]
    client.Tasks, client.Messages = RareTasks, RareMessages  # type: ignore[misc]
    try:
        client.main()
    except RejectedError as error:
        sys.exit(str(error))
