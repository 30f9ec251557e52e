"""What the readers of JSON and of YAML have in common: errors, places, limits and numbers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from invoice_sandbox.base.errors import UserError

MAX_LEVELS: Final = 256

MAX_VALUES: Final = 1_000_000
"""Values of a file, aliases of YAML expanded."""


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
        """One line: place, problem, advice."""
        return f"{self.place}: {self.clause}"

    @property
    def clause(self) -> str:
        """Problem and advice."""
        return self.problem + (f" ({self.advice})" if self.advice else "")


def step_to(line: int, column: int) -> str:
    """The last step to what no name leads to, such as a key that is no text: where it is
    written."""
    return f"? {line}:{column}"


def steps_to(place: str) -> tuple[str, ...]:
    """The same for the end of a place with line and column; no step without them."""
    found = _NUMBERS.search(place)
    return (step_to(int(found[1]), int(found[2])),) if found else ()


def place_of_step(step: str | int) -> str:
    """``:line:column`` that such a step has; nothing for any other."""
    found = _NUMBERS.search(str(step)) if str(step).startswith("? ") else None
    return f":{found[1]}:{found[2]}" if found else ""


_NUMBERS: Final = re.compile(r"[ :](\d+):(\d+)$")


def line_and_column(text: str, offset: int) -> str:
    """``:line:column`` of a place in ``text``."""
    line, start = text.count("\n", 0, offset) + 1, text.rfind("\n", 0, offset) + 1
    return f":{line}:{offset - start + 1}"


def finite(text: str) -> float:
    """A number that JSON can represent. Raises ValueError."""
    number = float(text)  # which reads 'nan' and 'inf', but not with the point of YAML
    if not math.isfinite(number):
        raise ValueError
    return number


def alike(name: object) -> str:
    """The same text for the names that are read as one: in other letters, with blanks around, a
    path without the slash at its beginning, or ``*`` for any media type."""
    return str(name).strip().lower().removeprefix("/").replace("*/*", "*")
