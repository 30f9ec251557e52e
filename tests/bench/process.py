"""CPU time and memory of a process and its children, as Linux reports them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_RUN_TIME: Final = 2
"""The clock of a process that ``clock_getcpuclockid`` of Linux returns."""

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Return the user and system time so far, to the nanosecond."""
    return sum(time.clock_gettime(~member << 3 | _RUN_TIME) for member in _family(pid))


def memory_mib(pid: int) -> float:
    """Resident memory."""
    pages = sum(int((_PROC / str(one) / "statm").read_text().split()[1]) for one in _family(pid))
    return pages * _PAGE / 2**20


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in (_PROC / str(pid) / "task").glob("*/children"):
        for child in children.read_text().split():
            yield from _family(int(child))
