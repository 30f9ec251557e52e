"""Bounded work: an amount that all callers share, of which each may have a part only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


class Budget:
    """``most`` of something, such as bytes, for everybody together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._used = 0
        self._shares: dict[str, int] = {}

    @property
    def used(self) -> int:
        """How much is held now."""
        return self._used

    def hold(self, shares: Mapping[str, int]) -> Held:
        """Begin to hold something; ``shares`` are the most for each of the holder's names."""
        return Held(self, shares)

    def take(self, shares: Mapping[str, int], amount: int) -> bool:
        """Take ``amount`` for a holder. False: that is more than there is, or than its share."""
        if self._used + amount > self._most or any(
            self._shares.get(name, 0) + amount > share for name, share in shares.items()
        ):
            return False
        self.add(shares, amount)
        return True

    def add(self, shares: Mapping[str, int], amount: int) -> None:
        """Count ``amount``, which is negative for what is given back."""
        self._used += amount
        for name in shares:
            self._shares[name] = self._shares.get(name, 0) + amount
            if not self._shares[name]:
                del self._shares[name]


@dataclass
class Held:
    """What one holder has of a budget, until it is released."""

    _budget: Budget
    _shares: Mapping[str, int]
    _amount: int = field(default=0)

    def take(self, amount: int) -> bool:
        """Hold more. False: that is more than the budget or the share of the holder allows."""
        is_taken = self._budget.take(self._shares, amount)
        if is_taken:
            self._amount += amount
        return is_taken

    def release(self) -> None:
        """Give everything back."""
        amount, self._amount = self._amount, 0
        self._budget.add(self._shares, -amount)
