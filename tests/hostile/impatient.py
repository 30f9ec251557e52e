"""``python -m tests.hostile.impatient``: the sandbox, with seconds of patience made short."""

from __future__ import annotations

import asyncio
from typing import Final

from invoice_sandbox.app import create_app
from invoice_sandbox.http.read import Patience
from invoice_sandbox.server.serving import listen, make_server
from invoice_sandbox.settings import read_settings

PATIENCE: Final = Patience(head=1.0, silence=0.8, body=1.6, response=0.5, whole_response=1.5)


async def main() -> None:
    """Serve until the process is told to end."""
    settings = read_settings({"port": "0", "rate-limit": "off", "scenario": "manual"})
    with listen(settings) as listener:
        url = settings.url(listener.getsockname()[1])
        sandbox = await create_app(settings, url=url)

        def ready() -> None:
            print(f"ready on {url} with patience", flush=True)  # noqa: T201 - its starter waits

        await make_server(sandbox, ready, PATIENCE).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(main())
