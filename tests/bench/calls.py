"""The calls of our own code that a request makes, and the files that they are in."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any, Final

from invoice_sandbox.app import create_app
from invoice_sandbox.settings import Settings
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.bench.measure import invoice

_ROOT: Final = Path(__file__).parents[2]
_OURS: Final = tuple(f"{_ROOT / name}/" for name in ("invoice_sandbox", "handlers", "domain"))
_WARM: Final = 50


async def calls_of_post() -> tuple[int, int]:
    """Return how many calls a POST of an invoice makes in how many files, once it is warm.

    Comprehensions are not counted.
    """
    app = await create_app(Settings(seed=7, scenario="manual"), url="http://127.0.0.1:8080")
    files: list[str] = []

    def count(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        is_function = code.co_name == "<lambda>" or not code.co_name.startswith("<")
        if event == "call" and is_function and code.co_filename.startswith(_OURS):
            files.append(code.co_filename)

    for number in range(_WARM):
        await _post(app, number)
    sys.setprofile(count)
    try:
        await _post(app, _WARM)
    finally:
        sys.setprofile(None)
    return len(files), len(set(files))


async def _post(app: Any, number: int) -> None:
    body, statuses = invoice(number), []
    head = {"authorization": f"Bearer {DEMO_KEY}", "content-type": "application/json"}
    head |= {"host": "127.0.0.1:8080", "content-length": str(len(body))}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        statuses.append(message.get("status"))

    scope: dict[str, Any] = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/api/invoices",
        "raw_path": b"/api/invoices",
        "root_path": "",
        "query_string": b"",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
        "extensions": {},
        "headers": [(name.encode(), value.encode()) for name, value in head.items()],
    }
    await app(scope, receive, send)
    if statuses[0] != 201:
        raise ValueError(f"a POST was responded to with {statuses[0]}")
