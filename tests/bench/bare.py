"""The yardstick: an ASGI function that responds at once, on the same HTTP server and event loop."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn

_BODY = b'{"data":[]}'
_HEAD = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_BODY))]


async def respond(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Respond with 200 and a few bytes to every request, once its body has ended."""
    _ = scope
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEAD})
    await send({"type": "http.response.body", "body": _BODY})


if __name__ == "__main__":
    uvicorn.run(
        respond,
        port=int(sys.argv[1]),
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
    )
