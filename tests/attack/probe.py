"""Asks for the health of a server again and again; prints the longest time of a response in ms.

The time that server or client wait for a processor does not count: other processes have it then.
A process of its own, so that the work of the attacker does not count. It ends with its input.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from tests.hostile.wire import Wire

_PAUSE = 0.005


class Stopwatch:
    """Seconds, without those in which the main thread of ``pid`` or this thread could have run, and
    had no processor. Without such statistics of the kernel they count."""

    def __init__(self, pid: int) -> None:
        places = (Path(f"/proc/{pid}/schedstat"), Path("/proc/thread-self/schedstat"))
        self._places = [one for one in places if one.exists()]

    def read(self) -> float:
        """The time of the watch."""
        waited = sum(int(one.read_text().split()[1]) for one in self._places)
        return time.monotonic() - waited / 1e9


def worst(port: int, pid: int, end: threading.Event) -> float:
    """Seconds of the slowest response until ``end``."""
    slowest, watch = 0.0, Stopwatch(pid)
    with Wire(port, 120) as wire:
        while not end.wait(_PAUSE):
            started = watch.read()
            wire.send(b"GET /sandbox/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            wire.response()
            slowest = max(slowest, watch.read() - started)
    return slowest


def until_input_ends() -> threading.Event:
    """Say that this process is ready; the event is set once its input ends."""
    end = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        end.set()

    threading.Thread(target=wait, daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    return end


def main() -> None:
    """Run until the input ends."""
    port, pid = map(int, sys.argv[1:])
    sys.stdout.write(f"{1000 * worst(port, pid, until_input_ends()):.0f}\n")


if __name__ == "__main__":
    main()
