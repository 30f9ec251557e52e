"""Looks up the addresses of receivers, in a bounded number of threads.

A name server that does not respond holds a thread for as long as the operating system is patient,
also after the delivery was given up. The threads do not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

LOOKUPS: Final = 32
"""Names that are looked up at a time."""

_NOWHERE: Final = frozenset({"example", "invalid"})

LookUp = Callable[[str, int], Sequence[str]]


def look_up(host: str, port: int) -> Sequence[str]:
    """Return the addresses that the operating system has for a host, without duplicates."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class Names:
    """Resolves names for all workspaces."""

    def __init__(self, look_up: LookUp = look_up) -> None:
        self._look_up = look_up
        self._free = asyncio.Semaphore(LOOKUPS)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host, once a thread is free. Raises OSError, UnicodeError.

        Names reserved for documentation (RFC 6761) are not looked up.
        """
        if host.rstrip(".").rpartition(".")[2].lower() in _NOWHERE:
            raise socket.gaierror(socket.EAI_NONAME, "the name is reserved and has no address")
        await self._free.acquire()
        loop = asyncio.get_running_loop()
        result: Future[Sequence[str]] = Future()
        result.set_running_or_notify_cancel()  # a caller that gives up leaves the thread alone

        def run() -> None:
            try:
                result.set_result(self._look_up(host, port))
            except (OSError, UnicodeError) as error:
                result.set_exception(error)
            with suppress(RuntimeError):  # the server has stopped meanwhile
                loop.call_soon_threadsafe(self._free.release)

        threading.Thread(target=run, daemon=True, name="names").start()
        return await asyncio.wrap_future(result)
