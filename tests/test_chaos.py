"""What ``make chaos`` does, a few times."""

from __future__ import annotations

import pytest

from tests.chaos import Outcome, run, table

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_sigkill_loses_no_acknowledged_write_and_repeats_no_event() -> None:
    outcome = run(kills=3, writes=150, seed=1)
    assert outcome.problems == []
    assert (outcome.kills, outcome.acknowledged >= 150) == (3, True)


def test_the_table_counts_every_problem() -> None:
    outcome = Outcome(200, 20_000, lost=["a"], duplicated=["b", "c"])
    assert outcome.problems == ["a", "b", "c"]
    assert "| 200 | 20,000 | 1 | 2 | 0 | 0 |" in table(outcome, 1)
