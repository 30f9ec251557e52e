"""The server of a test run as a separate process: ``python -m invoice_sandbox.testing.child``.

It serves as long as a client holds a lease, which is a connection to its lease port. The operating
system closes the connections of a process that ends, even if it is killed, so no test run leaves a
server behind. Only the modules ``child`` and ``server`` use leases.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

_SECONDS_TO_START: Final = 60
_SECONDS_TO_CONNECT: Final = 10
HELD: Final = b"held\n"
"""What the lease port sends to a client that got a lease."""


ASKS_LOG: Final = " log"
"""What follows the key where the log is asked for, not a lease."""

_MAX_RECORDS: Final = 100
_MAX_RECORD: Final = 4000


class _Texts(logging.Formatter):
    """Writes what was raised from the code of the project on: the frames before are ours."""

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name of the base class
        """The end of a traceback."""
        from invoice_sandbox.project.code import traceback_in_project

        _, error, _ = ei
        return super().formatException((type(error), error, traceback_in_project(error)))


class _Log(logging.Handler):
    """Keeps the last records of the log, as texts."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.setFormatter(_Texts("%(levelname)s %(message)s"))
        self.records: deque[str] = deque(maxlen=_MAX_RECORDS)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record: of a long one the end, which has what was raised."""
        try:
            text = self.format(record)
        except Exception:  # of a wrong call, which must not fail because of that
            self.handleError(record)
            return
        finally:
            record.exc_text = None  # kept by logging, and short: other handlers write all of it
        first = record.getMessage()[:_MAX_RECORD]
        is_long = len(text) > _MAX_RECORD
        self.records.append(f"{first}\n...{text[-_MAX_RECORD:]}" if is_long else text)


class _Leases:
    """Grants leases to clients with the key, and calls ``stop`` when the last lease ends. ``log``
    returns the log without secrets, which such clients may read."""

    def __init__(
        self, key: str, stop: Callable[[], None], log: Callable[[], Sequence[str]]
    ) -> None:
        self._key = key
        self._stop = stop
        self._log = log
        self._leases = 0
        self._was_used = False
        self._is_over = False
        self._last: asyncio.StreamWriter | None = None

    async def grant(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keep a lease until its connection ends. The connection of the last lease stays half open
        until the process ends, so that its client can wait for that."""
        greeting = await _greeting(reader)
        if greeting == f"{self._key}{ASKS_LOG}\n".encode():
            writer.write(json.dumps(self._log()).encode())
            writer.close()
            return
        if greeting != f"{self._key}\n".encode() or self._is_over:
            writer.close()
            return
        self._leases, self._was_used = self._leases + 1, True
        writer.write(HELD)
        await _ended(reader)
        self._leases -= 1
        if self._leases:
            writer.close()
        else:
            self._is_over, self._last = True, writer
            self._stop()

    def stop_if_unused(self) -> None:
        """Stop when the process that started the server ended before it could take a lease."""
        if not self._was_used:
            self._is_over = True
            self._stop()


async def _greeting(reader: asyncio.StreamReader) -> bytes:
    try:
        async with asyncio.timeout(_SECONDS_TO_CONNECT):
            return await reader.readline()
    except (OSError, ValueError, TimeoutError):
        return b""


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

    log = _Log()
    logging.basicConfig(handlers=[log, logging.StreamHandler()], level=logging.WARNING)
    settings = read_settings(texts)
    with listen(settings) as listener:
        port = listener.getsockname()[1]
        sandbox = await create_app(settings, url=settings.url(port))

        def stop() -> None:
            server.should_exit = True

        def shown() -> list[str]:
            return list(sandbox.engine.journal.redactor.redacted(list(log.records)))

        leases = _Leases(settings.key, stop, shown)
        # The variable keeps it open: a server without references is closed.
        lease_port = await asyncio.start_server(leases.grant, "127.0.0.1", 0)

        def ready() -> None:
            on_ready(
                {
                    "url": settings.local_url(port),
                    "key": settings.key,
                    "lease_port": lease_port.sockets[0].getsockname()[1],
                }
            )
            asyncio.get_running_loop().call_later(_SECONDS_TO_CONNECT, leases.stop_if_unused)

        server = make_server(sandbox, ready)
        await server.serve(sockets=[listener])


def _report(result: dict[str, Any]) -> None:
    """Report to the process that started this one, which reads until stdout is closed."""
    signal.alarm(0)
    os.write(1, json.dumps(result).encode())
    with open(os.devnull, "wb") as null:  # noqa: PTH123 - a descriptor is what is needed
        os.dup2(null.fileno(), 1)


def main() -> None:
    """Read settings from stdin, write the address to stdout when the sandbox is ready, and serve.

    The process detaches from its parent, which does not wait for its end.
    """
    texts = json.loads(sys.stdin.read())
    if os.fork():
        os._exit(0)
    signal.alarm(_SECONDS_TO_START)
    from invoice_sandbox.project.code import ProjectError
    from invoice_sandbox.settings import SettingError

    try:
        asyncio.run(_serve(texts, _report))
    except (SettingError, ProjectError) as error:
        _report({"problem": str(error)})


if __name__ == "__main__":
    main()
