"""A sandbox in the process of the tests, and its requests without a network."""

from __future__ import annotations

from itertools import count
from typing import Any

import orjson

from invoice_sandbox.app import Sandbox
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.scenario_run import DATED


class Client:
    """Requests to a sandbox in this process, with the demo key."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self._numbers = count()

    async def request(self, method: str, target: str, body: bytes = b"") -> Any:
        """Send a request and return the value of its body. Raises ValueError for an error."""
        path, _, query = target.partition("?")
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.sandbox(_scope(method, path, query, body), receive, send)
        if sent[0]["status"] >= 400:
            raise ValueError(sent[1]["body"])
        return orjson.loads(sent[1]["body"])

    async def create(self) -> Any:
        """Create an invoice like no other."""
        return await self.request("POST", "/api/invoices", _invoice(next(self._numbers)))


def _scope(method: str, path: str, query: str, body: bytes) -> dict[str, Any]:
    headers = {
        "host": "127.0.0.1:8080",
        "content-type": "application/json",
        "content-length": str(len(body)),
        "authorization": f"Bearer {DEMO_KEY}",
    }
    return {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }


def _invoice(number: int) -> bytes:
    return orjson.dumps({**DATED, "invoiceNumber": f"GROWTH-{number}"})
