"""Requests as fast as they are answered, over connections that stay open."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

CONNECTIONS: Final = 16
_LENGTH: Final = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


@dataclass(frozen=True)
class Request:
    """``body`` gives that of the nth request, so that no two need be the same."""

    method: str
    path: str
    status: int = 200
    body: Callable[[int], bytes] = lambda _: b""

    def to_bytes(self, number: int, key: str) -> bytes:
        """The request as it goes over the wire."""
        body = self.body(number)
        head = (
            f"{self.method} {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


async def requests_a_second(port: int, key: str, request: Request, seconds: float) -> float:
    """How many are answered a second, once the server is warm. Raises ValueError at a refusal."""
    numbers = iter(range(10**9))

    async def go_on(until: float) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        done = 0
        while time.perf_counter() < until:
            writer.write(request.to_bytes(next(numbers), key))
            status, body = await _answer(reader)
            if status != request.status:
                raise ValueError(f"{request.method} {request.path}: {status} {body[:200]!r}")
            done += 1
        writer.close()
        await writer.wait_closed()
        return done

    async def round_of(length: float) -> float:
        start = time.perf_counter()
        until = start + length
        done = sum(await asyncio.gather(*(go_on(until) for _ in range(CONNECTIONS))))
        return done / (time.perf_counter() - start)

    await round_of(seconds / 4)
    return await round_of(seconds)


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    body = await reader.readexactly(int(length.group(1))) if length else b""
    return int(head[9:12]), body
