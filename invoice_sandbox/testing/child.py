"""The sandbox of a test run, as a process of its own: ``python -m invoice_sandbox.testing.child``.

It serves for as long as somebody holds a lease, which is a connection to its gate. The operating
system ends the connections of a process that ends, however it ends; so no test run, not even one
that is killed, leaves a server behind. Nothing outside of the two modules ``child`` and ``server``
knows how that is done.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

_SECONDS_TO_START: Final = 60
_SECONDS_TO_COME: Final = 10
HELD: Final = b"held\n"
"""What the gate says to somebody who has a lease now."""


class _Gate:
    """Lets in those who know the key, and calls ``stop`` when the last of them has gone."""

    def __init__(self, key: str, stop: Callable[[], None]) -> None:
        self._greeting = f"{key}\n".encode()
        self._stop = stop
        self._leases = 0
        self._came = False
        self._is_over = False
        self._last: asyncio.StreamWriter | None = None

    async def let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keep a lease until its connection ends. The last one is told when the server has ended,
        by the end of the process, which closes the other half of its connection."""
        if not await self._is_known(reader) or self._is_over:
            writer.close()
            return
        self._leases, self._came = self._leases + 1, True
        writer.write(HELD)
        await _ended(reader)
        self._leases -= 1
        if self._leases:
            writer.close()
        else:
            self._is_over, self._last = True, writer
            self._stop()

    def close_if_nobody_came(self) -> None:
        """Stop when whoever started the server has gone before it could take a lease."""
        if not self._came:
            self._is_over = True
            self._stop()

    async def _is_known(self, reader: asyncio.StreamReader) -> bool:
        try:
            async with asyncio.timeout(_SECONDS_TO_COME):
                return await reader.readline() == self._greeting
        except (OSError, ValueError, TimeoutError):
            return False


async def _ended(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.read(1024):
            pass
    except OSError:
        pass  # reset: its process has ended


async def _serve(texts: dict[str, str | None], on_ready: Callable[[dict[str, Any]], None]) -> None:
    from invoice_sandbox.app import create_app
    from invoice_sandbox.server.serving import listen, make_server
    from invoice_sandbox.settings import read_settings

    settings = read_settings(texts)
    with listen(settings) as listener:
        url = settings.url(listener.getsockname()[1])
        sandbox = await create_app(settings, url=url)

        def stop() -> None:
            server.should_exit = True

        gate = _Gate(settings.key, stop)
        # Kept by its name: a server that nobody refers to is closed.
        door = await asyncio.start_server(gate.let_in, "127.0.0.1", 0)

        def ready() -> None:
            on_ready({"url": url, "key": settings.key, "gate": door.sockets[0].getsockname()[1]})
            asyncio.get_running_loop().call_later(_SECONDS_TO_COME, gate.close_if_nobody_came)

        server = make_server(sandbox, ready)
        await server.serve(sockets=[listener])


def _say(told: dict[str, Any]) -> None:
    """Answer whoever started this process, who reads until nobody can write any more."""
    signal.alarm(0)
    os.write(1, json.dumps(told).encode())
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - a descriptor is what is needed
        os.dup2(nowhere.fileno(), 1)


def main() -> None:
    """Read settings from stdin; say on stdout where the sandbox is once it is ready; serve.

    The process leaves the one that started it, so that nobody has to wait for its end.
    """
    texts = json.loads(sys.stdin.read())
    if os.fork():
        os._exit(0)
    signal.alarm(_SECONDS_TO_START)
    from invoice_sandbox.project.loader import ProjectError
    from invoice_sandbox.settings import SettingError

    try:
        asyncio.run(_serve(texts, _say))
    except (SettingError, ProjectError) as error:
        _say({"problem": str(error)})


if __name__ == "__main__":
    main()
