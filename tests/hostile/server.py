"""``python -m tests.hostile.server patient|impatient``: the sandbox, as patient as that."""

from __future__ import annotations

import asyncio

from invoice_sandbox.app import create_app
from invoice_sandbox.server.serving import listen, make_server
from invoice_sandbox.settings import read_settings
from tests.support import PATIENT


async def main() -> None:
    """Serve until the process is asked to end."""
    settings = read_settings({"port": "0", "rate-limit": "off", "scenario": "manual"})
    with listen(settings) as listener:
        url = settings.url(listener.getsockname()[1])
        sandbox = await create_app(settings, url=url)

        def ready() -> None:
            print(f"ready on {url} with patience", flush=True)  # noqa: T201 - its starter waits

        await make_server(sandbox, ready, PATIENT).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(main())
