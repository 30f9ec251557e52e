"""One request and its response on the wire: uvicorn's, which can also write a response at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import starmap
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9a-z]+")
_LINES: Final = 256
"""Headers that are remembered: most are those of the responses before."""

_NOT_OURS: Final = ""
"""The line of a header that uvicorn has to see: it ends the connection, or is no header."""


_NO_SCOPE: Final[Any] = {}


class Cycle(RequestResponseCycle):
    """The ``Exchange`` of a request that our server received."""

    def whole_body(self) -> bytes | None:
        """The body, if all of it has arrived; None also where the client waits for permission."""
        if self.more_body or self.disconnected or self.waiting_for_100_continue:
            return None
        return bytes(self.body)

    def respond(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> bool:
        """Write the whole response in one piece. False: it must be sent as ASGI messages."""
        if self.response_started or self.disconnected or self.flow.write_paused:
            return False
        lines = list(starmap(_line, headers))
        if _NOT_OURS in lines:
            return False
        parts = [STATUS_LINE[status]]
        for name, value in self.default_headers:
            parts += (name, b": ", value, b"\r\n")
        if not self.keep_alive:
            lines.append("connection: close")
        parts += ("\r\n".join([*lines, "", ""]).encode("latin-1"), body)
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.transport.write(b"".join(parts))
        self.message_event.set()
        self.scope = _NO_SCOPE  # it names this cycle, and both would wait for the garbage collector
        if not self.keep_alive:
            self.transport.close()
        self.on_response()
        return True


@lru_cache(maxsize=_LINES)
def _line(name: str, value: str) -> str:
    small = name.lower()
    is_plain = _NAME.fullmatch(small) is not None and small != "connection"
    return f"{small}: {value}" if is_plain and value.isprintable() else _NOT_OURS
