"""Asks for the health of a server again and again; prints the longest time of a response in ms.

A process of its own, so that the work of the attacker does not count. It ends with its input.
"""

from __future__ import annotations

import sys
import threading
import time

from tests.hostile.wire import Wire

_PAUSE = 0.005


def worst(port: int, end: threading.Event) -> float:
    """Seconds of the slowest response until ``end``."""
    slowest = 0.0
    with Wire(port, 120) as wire:
        while not end.wait(_PAUSE):
            started = time.monotonic()
            wire.send(b"GET /sandbox/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            wire.response()
            slowest = max(slowest, time.monotonic() - started)
    return slowest


def main() -> None:
    """Run until the input ends."""
    end = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        end.set()

    threading.Thread(target=wait, daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdout.write(f"{1000 * worst(int(sys.argv[1]), end):.0f}\n")


if __name__ == "__main__":
    main()
