"""What happens in Schemathesis as lines of JSON: written inside of it, read by the command."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final, Literal

RECORD_VARIABLE: Final = "INVOICE_SANDBOX_FUZZ_RECORD"
"""Environment variable with the file that the hooks append to."""

KEYS_VARIABLE: Final = "INVOICE_SANDBOX_FUZZ_KEYS"
"""Environment variable with the keys of the workspaces, with spaces between them."""

Mode = Literal["positive", "negative", "probe"]
"""Schema-valid; schema-violating; or invalid in its method or content type."""


@dataclass(frozen=True)
class Call:
    """A generated request and the status that came back.

    ``own_key`` is whether it carried one of our keys, ``request`` is a ``curl`` command, which only
    the first call of its type has.
    """

    operation: str
    phase: str
    mode: Mode
    status: int
    own_key: bool
    request: str = ""


@dataclass(frozen=True)
class Finding:
    """A failure of an operation, or of the whole run (then it is None).

    ``requests`` are ``curl`` commands that show it when they are sent one after another.
    """

    operation: str | None
    title: str
    text: str = ""
    phase: str = ""
    requests: tuple[str, ...] = ()


Line = Call | Finding


class Writer:
    """Appends to a record that another process reads meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, line: Line) -> None:
        """Add a line to the end."""
        name = type(line).__name__.lower()
        with self._path.open("a", encoding="utf-8") as record:
            record.write(json.dumps({name: asdict(line)}) + "\n")


class Reader:
    """Reads a record that may still grow; a missing one is empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None
        self._rest = ""

    def new(self) -> list[Line]:
        """The complete lines that are new since the last call."""
        if self._file is None:
            if not self._path.exists():
                return []
            self._file = self._path.open(encoding="utf-8")
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        return [_line(text) for text in lines]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _line(text: str) -> Line:
    match json.loads(text):
        case {"call": members}:
            return Call(**members)
        case {"finding": members}:
            return Finding(**{**members, "requests": tuple(members["requests"])})
    raise ValueError(f"not a line of a record: {text}")
