"""Recordings of coverage hits: files with one JSON array of strings per line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import orjson

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.errors import UserError
from invoice_sandbox.project.loader import Project
from invoice_sandbox.state.hits import Hit

_DIGITS: Final = 12


class RecordingError(UserError, ValueError):
    """A file that is not a recording of the project; the message names the file and the reason."""


def mark_of(project: Project) -> str:
    """The identity of a project in a recording: a digest of its contract and its lifecycle."""
    lifecycle = project.lifecycle
    moves = [
        [asdict(one) for one in machine.transitions] for machine in lifecycle.machines.values()
    ]
    identity = [project.contract.document, moves, dict(lifecycle.events)]
    return hashlib.sha256(jsonio.dumps(identity)).hexdigest()[:_DIGITS]


def read_recordings(files: Iterable[Path], project: Project) -> frozenset[Hit]:
    """The hits of ``project`` in the files. Raises RecordingError.

    An incomplete last line is left out.
    """
    mark = mark_of(project)
    everything = [line for file in files for line in _lines(file)]
    found = frozenset(tuple(hit) for one, *hit in everything if one == mark)
    if everything and not found:
        raise RecordingError(
            "the recording is of another project; pass that one with --project or --contract"
        )
    return found


def _lines(file: Path) -> list[list[str]]:
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise RecordingError(f"{file}: {error.strerror}") from None
    whole, _, rest = raw.rpartition(b"\n")
    if rest and not rest.startswith(b"["):
        raise RecordingError(f"{file}: not a coverage recording")
    return [_line(file, number, line) for number, line in enumerate(whole.splitlines(), 1)]


def _line(file: Path, number: int, line: bytes) -> list[str]:
    try:
        found: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        found = None
    if (
        not isinstance(found, list)
        or len(found) < 3
        or not all(isinstance(one, str) for one in found)
    ):
        raise RecordingError(f"{file}:{number}: not a line of a coverage recording")
    return found
