"""What the versions of a collection share: their rows, their keys, and hints to positions."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Any, Final, Generic, TypeVar

from rpds import HashTrieMap

T = TypeVar("T")

_BLOCK: Final = 64
_MOST_DIGITS: Final = 10

_NO_BLOCKS: Final[HashTrieMap[int, Any]] = HashTrieMap()


class Rows(Generic[T]):
    """A list as a persistent value, in blocks: another version shares those that did not change."""

    __slots__ = ("_full", "_last", "length")

    def __init__(
        self, full: HashTrieMap[int, tuple[T, ...]] = _NO_BLOCKS, last: tuple[T, ...] = ()
    ) -> None:
        self._full = full
        self._last = last
        self.length = len(full) * _BLOCK + len(last)

    def __getitem__(self, position: int) -> T:
        """The item in a position, which must exist."""
        before_last = position - self.length + len(self._last)
        if before_last >= 0:
            return self._last[before_last]
        return self._full[position // _BLOCK][position % _BLOCK]

    def appended(self, item: T) -> Rows[T]:
        """With one more item."""
        last = (*self._last, item)
        if len(last) < _BLOCK:
            return Rows(self._full, last)
        return Rows(self._full.insert(len(self._full), last))

    def replaced(self, position: int, item: T) -> Rows[T]:
        """With another item in a position."""
        block, at = divmod(position, _BLOCK)
        is_last = block == len(self._full)
        before = self._last if is_last else self._full[block]
        after = (*before[:at], item, *before[at + 1 :])
        if is_last:
            return Rows(self._full, after)
        return Rows(self._full.insert(block, after), self._last)


class Hints:
    """Positions at which a name was found in some version, in the order of their first use.

    They are only added to, so all versions share them; whoever uses one looks whether it is right.
    Several positions of a name are kept as bytes, which take little memory.
    """

    __slots__ = ("_positions",)

    def __init__(self) -> None:
        self._positions: dict[Hashable, int | bytes] = {}

    def of(self, name: Hashable) -> tuple[int, ...]:
        """Where ``name`` may be."""
        found = self._positions.get(name, b"")
        return (found,) if isinstance(found, int) else tuple(memoryview(found).cast("I"))

    def add(self, name: Hashable, position: int) -> tuple[int, ...]:
        """Note another position, and return all of them."""
        before = self.of(name)
        if position in before:
            return before
        after = (*before, position)
        self._positions[name] = array("I", after).tobytes() if before else position
        return after

    def copy(self, length: int) -> Hints:
        """Those of the positions below ``length``."""
        copied = Hints()
        for name in self._positions:
            for position in self.of(name):
                if position < length:
                    copied.add(name, position)
        return copied


class Keys:
    """The key of each position, and where to find a key. They are only added to, like hints.

    Most keys end with a number that is counted like the positions: they need no hint.
    """

    __slots__ = ("_distance", "_hints", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self._hints = Hints()
        self._distance: int | None = None

    def add(self, key: str, position: int) -> None:
        """Note the key of the next position."""
        del self.names[position:]  # what a transaction that failed has left
        self.names.append(key)
        if self._distance is None and (number := _number(key)) is not None:
            self._distance = position - number
        if self.counted(key) != position:
            self._hints.add(key, position)

    def counted(self, key: str) -> int:
        """The position that the number at the end of the key stands for; -1: there is none."""
        number = None if self._distance is None else _number(key)
        return -1 if number is None or self._distance is None else number + self._distance

    def hinted(self, key: str) -> tuple[int, ...]:
        """Where else the key may be."""
        return self._hints.of(key)

    def copy(self, length: int) -> Keys:
        """Those of the positions below ``length``."""
        copied = Keys()
        for position, key in enumerate(self.names[:length]):
            copied.add(key, position)
        return copied


def _number(key: str) -> int | None:
    digits = key.rpartition("_")[2]
    return int(digits) if len(digits) < _MOST_DIGITS and digits.isdecimal() else None
