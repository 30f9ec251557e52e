"""Resolver of receivers' names, with a bounded number of threads.

A name server that does not respond holds a thread for as long as the operating system is patient,
also after the delivery was given up. So each workspace has only a share of the threads, and they
do not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final
from weakref import WeakValueDictionary

LOOKUPS: Final = 32
"""Names that are looked up at a time."""

LOOKUPS_OF_A_WORKSPACE: Final = 4

WORKSPACE: Final = ContextVar("WORKSPACE", default="")
"""The workspace whose delivery is being made."""

_NOWHERE: Final = frozenset({"example", "invalid"})

LookUp = Callable[[str, int], Sequence[str]]


def look_up(host: str, port: int) -> Sequence[str]:
    """The addresses that the operating system returns for a host, without duplicates."""
    rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in rows))


class NameResolver:
    """Resolves names for all workspaces."""

    def __init__(self, look_up: LookUp = look_up) -> None:
        self._look_up = look_up
        self._all = asyncio.Semaphore(LOOKUPS)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a host, once the workspace has a thread. Raises OSError, UnicodeError.

        Names reserved for documentation (RFC 6761) are not looked up.
        """
        if host.rstrip(".").rpartition(".")[2].lower() in _NOWHERE:
            raise socket.gaierror(socket.EAI_NONAME, "the name is reserved and has no address")
        share = self._shares.setdefault(WORKSPACE.get(), asyncio.Semaphore(LOOKUPS_OF_A_WORKSPACE))
        await share.acquire()
        try:
            await self._all.acquire()
        except BaseException:
            share.release()
            raise
        return await self._in_thread(host, port, (share, self._all))

    def _in_thread(
        self, host: str, port: int, held: Sequence[asyncio.Semaphore]
    ) -> asyncio.Future[Sequence[str]]:
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Sequence[str]] = loop.create_future()

        def end(set_result: Callable[[Any], None], value: Any) -> None:
            for semaphore in held:
                semaphore.release()
            if not result.done():
                set_result(value)

        def run() -> None:
            outcome: tuple[Callable[[Any], None], Any]
            try:
                outcome = result.set_result, self._look_up(host, port)
            except (OSError, UnicodeError) as error:
                outcome = result.set_exception, error
            with suppress(RuntimeError):  # the server has stopped meanwhile
                loop.call_soon_threadsafe(end, *outcome)

        threading.Thread(target=run, daemon=True, name="names").start()
        return result
