"""CPU time and memory of a process and its children, as Linux reports them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICK: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """User and system time so far."""
    return sum(sum(map(int, _stat(one)[11:13])) for one in _family(pid)) / _TICK


def memory_mib(pid: int) -> float:
    """Resident memory."""
    pages = sum(int((_PROC / str(one) / "statm").read_text().split()[1]) for one in _family(pid))
    return pages * _PAGE / 2**20


def _family(pid: int) -> Iterator[int]:
    yield pid
    for children in (_PROC / str(pid) / "task").glob("*/children"):
        for child in children.read_text().split():
            yield from _family(int(child))


def _stat(pid: int) -> list[str]:
    """The fields behind the name of the process, which may contain anything."""
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
