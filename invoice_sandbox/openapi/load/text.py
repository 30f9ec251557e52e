"""Errors, places and numbers that the readers of JSON and of YAML have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from invoice_sandbox.base.errors import UserError

MAX_VALUES: Final = 1_000_000
"""Values of a YAML file, aliases expanded."""


@dataclass
class DocumentError(UserError):
    """A file that cannot be used: where, what is wrong, and what to do about it.

    ``place`` is ``file``, ``file:line`` or ``file:line:column``, all counted from one.
    """

    place: str
    problem: str
    advice: str = ""

    __hash__ = Exception.__hash__

    def __str__(self) -> str:
        """Return one line: place, problem, advice."""
        return f"{self.place}: {self.clause}"

    @property
    def clause(self) -> str:
        """Return problem and advice."""
        return self.problem + (f" ({self.advice})" if self.advice else "")


@dataclass
class InvalidDocumentError(DocumentError):
    """Everything that is wrong with a file, one line for each place."""

    lines: tuple[str, ...] = ()

    __hash__ = Exception.__hash__

    def __str__(self) -> str:
        """Return the number of errors, and a line for each."""
        return "\n".join((f"{self.place}: {self.problem}", *self.lines))


def reject_all(file: object, errors: Iterable[DocumentError]) -> None:
    """Raise DocumentError with all ``errors`` of a ``file``, unless there are none."""
    found = list({str(error): error for error in errors}.values())
    if len(found) == 1:
        raise found[0]
    if found:
        lines = tuple(line for error in in_order(found) for line in _lines(error))
        raise InvalidDocumentError(str(file), f"{len(lines)} errors", lines=lines)


def _lines(error: DocumentError) -> tuple[str, ...]:
    return error.lines if isinstance(error, InvalidDocumentError) else (str(error),)


def in_order(errors: Iterable[DocumentError]) -> list[DocumentError]:
    """Return the errors by file, line and column."""
    return sorted(errors, key=_position)


def _position(error: DocumentError) -> tuple[str, list[int]]:
    """Return file, line and column, to sort by."""
    file, *numbers = error.place.rsplit(":", 2)
    if all(number.isdigit() for number in numbers):
        return file, [int(number) for number in numbers]
    return error.place, []


def line_and_column(text: str, offset: int) -> str:
    """Return ``:line:column`` of a place in ``text``."""
    line, start = text.count("\n", 0, offset) + 1, text.rfind("\n", 0, offset) + 1
    return f":{line}:{offset - start + 1}"


def finite(text: str) -> float:
    """Return a number that JSON can represent. Raises ValueError."""
    number = float(text)  # which reads 'nan' and 'inf', but not with the point of YAML
    if not math.isfinite(number):
        raise ValueError
    return number
