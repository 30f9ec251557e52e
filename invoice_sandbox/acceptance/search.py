"""A search for a case that a client fails: Hypothesis chooses moves in a situation of the plan."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from threading import Event, Lock
from time import monotonic
from typing import Any, Final

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.errors import NoSuchExample

from invoice_sandbox.acceptance.single_case import Document

_SIDE_BY_SIDE: Final = 4
"""Runs at a time; each waits most of its time."""

_MOST_MOVES: Final = 7
_SHRINKING: Final = 90.0
"""The seconds that shrinking may take."""

_LISTS: Final = ("setup", "during", "rules", "effects")
_PARTS: Final = ("task", "webhooks", "window", "setup", "controls", "rules", "effects")

_SETTINGS: Final = settings(
    max_examples=100_000,
    database=None,
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)


class _TimeIsOverError(BaseException):
    """The time of a search is over. No Exception, which Hypothesis would take for a failure."""


@dataclass(frozen=True)
class Path:
    """A situation of a plan with moves, by their names."""

    situation: Document
    moves: tuple[str, ...]

    def as_case(self) -> dict[str, Any]:
        """Return the document of a case; '#' in the texts of a move is its number."""
        case = {part: self.situation[part] for part in _PARTS if part in self.situation}
        lists = {part: list(case.get(part, ())) for part in _LISTS}
        lists["during"] = list(self.situation.get("start", ()))
        for number, name in enumerate(self.moves, start=1):
            move = _numbered(self.situation["moves"][name], str(number))
            for part in _LISTS:
                lists[part] += move.get(part, ())
        lists["during"] += self.situation.get("during", ())
        filled = {part: items for part, items in lists.items() if items}
        return {"name": "-".join((self.situation["name"], *self.moves)), **case, **filled} | {
            "ends": "steps"
        }


def _numbered(value: Any, number: str) -> Any:
    if isinstance(value, Mapping):
        return {key.replace("#", number): _numbered(item, number) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_numbered(item, number) for item in value]
    return value.replace("#", number) if isinstance(value, str) else value


@dataclass
class Search:
    """Looks for a case that ``fails`` twice, and shrinks it, for ``seconds``.

    ``progress`` is called after each run. ``interrupted`` ends it.
    """

    situations: Sequence[Document]
    fails: Callable[[Path], bool]
    progress: Callable[[Search], None]
    seconds: float
    interrupted: Event
    runs: int = 0
    broken: int = 0
    smallest: Path | None = None
    _known: dict[tuple[str, ...], bool] = field(default_factory=dict)
    began: float = field(default_factory=monotonic)
    _lock: Lock = field(default_factory=Lock)

    def run(self, seed: int) -> Path | None:
        """Return the smallest case that was found, if there is one."""
        with TemporaryDirectory() as folder, ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            set_hypothesis_home_dir(folder)
            try:
                # A text as the seed: neighbouring numbers choose different cases, too.
                searches = [
                    pool.submit(self._look, random.Random(f"{seed}-{part}"))  # noqa: S311
                    for part in range(_SIDE_BY_SIDE)
                ]
                for search in searches:
                    search.result()
            except KeyboardInterrupt:
                self.interrupted.set()
                raise
        if self.smallest is not None:
            self._shrink(self.smallest)
        return self.smallest

    def _look(self, chance: random.Random) -> None:
        while self._is_on():
            with suppress(_TimeIsOverError, NoSuchExample):
                find(self._paths(), self._is_broken, settings=_SETTINGS, random=chance)
                return

    def _paths(self) -> st.SearchStrategy[Path]:
        return st.one_of([_paths_in(situation) for situation in self.situations])

    def _is_on(self) -> bool:
        is_over = self.interrupted.is_set() or self.smallest is not None
        return not is_over and monotonic() < self.began + self.seconds

    def _is_broken(self, path: Path) -> bool:
        """True if the case fails, and fails again; that ends all searches."""
        key = (path.situation["name"], *path.moves)
        if key not in self._known:
            if not self._is_on():
                raise _TimeIsOverError
            self._known[key] = self._fails_twice(path)
        if self._known[key]:
            self.smallest = self.smallest or path
        return self._known[key]

    def _fails_twice(self, path: Path) -> bool:
        return self._run(path) and self._run(path)

    def _shrink(self, path: Path) -> None:
        """Leave out one move after the other, while the case still fails.

        That takes fewer runs than Hypothesis, which also looks for simpler moves.
        """
        self.smallest, place, ends = path, 0, monotonic() + _SHRINKING
        while place < len(self.smallest.moves) and monotonic() < ends:
            moves = self.smallest.moves
            shorter = Path(path.situation, (*moves[:place], *moves[place + 1 :]))
            if self._fails_twice(shorter):
                self.smallest = shorter
            else:
                place += 1

    def _run(self, path: Path) -> bool:
        failed = self.fails(path)
        with self._lock:
            self.runs += 1
            self.broken += failed
            self.progress(self)
        return failed


def _paths_in(situation: Document) -> st.SearchStrategy[Path]:
    names = st.sampled_from([*situation["moves"]])
    short = st.lists(names, max_size=_MOST_MOVES)
    long = st.lists(names, min_size=_MOST_MOVES // 2, max_size=_MOST_MOVES)
    return (short | long).map(lambda moves: Path(situation, _without_second(situation, moves)))


def _without_second(situation: Document, moves: Sequence[str]) -> tuple[str, ...]:
    """Return the moves without the repetitions of what happens at most once."""
    seen, kept = Counter[str](), []
    for name in moves:
        seen[name] += 1
        if seen[name] == 1 or not situation["moves"][name].get("once"):
            kept.append(name)
    return tuple(kept)
