"""Tests reach the store through ``tests.support`` only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
STORE = re.compile(r"engine\.store\b|\._spaces\b")
MAY = {TESTS / "support.py", Path(__file__)}


def lines_that_reach_the_store(source: str) -> list[str]:
    return [line.strip() for line in source.splitlines() if STORE.search(line)]


def test_no_test_reaches_into_the_engine_for_the_store() -> None:
    files = set(TESTS.rglob("*.py")) - MAY
    found = {file.name: lines_that_reach_the_store(file.read_text()) for file in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("line", ["log = sandbox.engine.store.log(1)", "[space] = store._spaces"])
def test_a_line_that_does_is_found(line: str) -> None:
    assert lines_that_reach_the_store(f"    {line}\n") == [line]
