"""The process of a test server: ``python -m invoice_sandbox.testing.server_process``.

It stops at the end of its input. The operating system closes that when the process that started it
ends, even if it is killed, so no test run leaves a server behind.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import uvicorn

    from invoice_sandbox.runtime.redaction import Redactor
    from invoice_sandbox.settings import Settings

_MAX_RECORD: Final = 4000


class LogLines(logging.Formatter):
    """A JSON text for each record, without secrets. A traceback begins in the code of the project:
    the frames before are ours."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__("%(levelname)s %(message)s")
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """Return one line; of a long record the end, which has what was raised."""
        text = super().format(record)
        if len(text) > _MAX_RECORD:
            text = f"{record.getMessage()[:_MAX_RECORD]}\n...{text[-_MAX_RECORD:]}"
        return json.dumps(self._redactor.redacted(text))

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name of the base class
        """Return the end of a traceback."""
        from invoice_sandbox.project.code import traceback_in_project

        _, error, _ = ei
        return super().formatException((type(error), error, traceback_in_project(error)))


async def _serve(settings: Settings) -> None:
    from invoice_sandbox.app import create_app
    from invoice_sandbox.server.serving import listen, make_server

    with listen(settings) as listener:
        port = listener.getsockname()[1]
        sandbox = await create_app(settings, url=settings.url(port))
        (log,) = logging.getLogger().handlers
        log.setFormatter(LogLines(sandbox.engine.journal.redactor))
        server = make_server(sandbox, lambda: _report({"url": settings.local_url(port)}))
        server.config.timeout_graceful_shutdown = (
            0  # the tests are over: nobody waits for a response
        )
        Thread(target=_stop_at_end_of_input, args=(server,), daemon=True).start()
        await server.serve(sockets=[listener])


def _stop_at_end_of_input(server: uvicorn.Server) -> None:
    while os.read(0, 1024):
        pass
    server.should_exit = True


def _report(result: dict[str, str]) -> None:
    """Report to the process that started this one, on a line of stdout."""
    os.write(1, json.dumps(result).encode() + b"\n")


def main() -> None:
    """Read settings from the first line of stdin, write the address to stdout when the sandbox is
    ready, and serve."""
    from invoice_sandbox.base.errors import UserError
    from invoice_sandbox.settings import read_settings

    logging.basicConfig(level=logging.WARNING)
    try:
        asyncio.run(_serve(read_settings(json.loads(sys.stdin.readline()))))
    except UserError as error:
        _report({"problem": str(error)})


if __name__ == "__main__":
    main()
