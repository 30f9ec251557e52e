"""Files in which servers have noted what was touched: JSON arrays of texts, one a line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import orjson

from invoice_sandbox.base import jsonio
from invoice_sandbox.project.loader import Project
from invoice_sandbox.state.hits import Hit

_DIGITS: Final = 12


class RecordingError(ValueError):
    """A file that holds no recording, or none of the project; the message says which and why."""


def mark_of(project: Project) -> str:
    """What marks touches of a project: two with one contract and one lifecycle share it."""
    lifecycle = project.lifecycle
    moves = [
        [asdict(one) for one in machine.transitions] for machine in lifecycle.machines.values()
    ]
    told = [project.contract.document, moves, dict(lifecycle.events)]
    return hashlib.sha256(jsonio.dumps(told)).hexdigest()[:_DIGITS]


def read_recordings(files: Iterable[Path], project: Project) -> frozenset[Hit]:
    """What the files hold of ``project``. Raises RecordingError.

    A last line that was not written to its end is left out.
    """
    mark = mark_of(project)
    everything = [line for file in files for line in _lines(file)]
    found = frozenset(tuple(touch) for one, *touch in everything if one == mark)
    if everything and not found:
        raise RecordingError(
            "what was recorded is about another project; name it with --project or --contract"
        )
    return found


def _lines(file: Path) -> list[list[str]]:
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise RecordingError(f"{file}: {error.strerror}") from None
    whole, _, _ = raw.rpartition(b"\n")
    return [_line(file, number, line) for number, line in enumerate(whole.splitlines(), 1)]


def _line(file: Path, number: int, line: bytes) -> list[str]:
    try:
        told: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        told = None
    if not isinstance(told, list) or len(told) < 3 or not all(isinstance(one, str) for one in told):
        raise RecordingError(f"{file}:{number}: this is no line of a coverage recording")
    return told
