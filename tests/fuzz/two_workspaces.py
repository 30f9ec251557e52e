"""The sandbox with two workspaces, so that a fuzzer can try to read one with the other's key."""

from __future__ import annotations

import asyncio

from invoice_sandbox.app import create_app
from invoice_sandbox.clock import ClockState
from invoice_sandbox.ids import new_key
from invoice_sandbox.server import listen, make_server
from invoice_sandbox.settings import Settings
from invoice_sandbox.workspaces import Wish


async def serve() -> None:
    """Serve on a free port until stopped; the ready line names both keys."""
    settings = Settings(port=0, seed=7, clock=ClockState("frozen"), rate_limit=None)
    with listen(settings) as listener:
        url = settings.url(listener.getsockname()[1])
        sandbox = await create_app(settings, url=url)
        other = new_key()
        await sandbox.engine.workspaces.create(other, Wish(seed=8))
        ready = f"ready on {url} with keys {settings.key} {other}"
        await make_server(sandbox, lambda: print(ready, flush=True)).serve(sockets=[listener])  # noqa: T201


if __name__ == "__main__":
    asyncio.run(serve())
