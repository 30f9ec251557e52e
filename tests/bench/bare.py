"""The yardstick: an ASGI function that answers at once, on the same server, ``python -m``."""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn

_BODY = b'{"data":[]}'
_HEAD = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_BODY))]


async def answer(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """200 and a few bytes, whatever is asked; the body is read to its end."""
    _ = scope
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEAD})
    await send({"type": "http.response.body", "body": _BODY})


class _Server(uvicorn.Server):
    async def startup(self, sockets: Any = None) -> None:
        """Say where it answers, as the sandbox does."""
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"ready on http://127.0.0.1:{port}", flush=True)  # noqa: T201


if __name__ == "__main__":
    config = uvicorn.Config(answer, port=0, lifespan="off", log_config=None, access_log=False)
    asyncio.run(_Server(config).serve())
