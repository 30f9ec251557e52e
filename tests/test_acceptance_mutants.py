"""The mutants of ``make acceptance-power``: one change each, to a client without its faults."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.acceptance.mutants import mutants, without_faults
from tests.acceptance.mutation import all_mutants
from tests.cases import in_turn

SOURCE = '''"""A client."""
FAULT = "x"

def fault(name: str) -> bool:
    """Whether it is chosen."""
    return name == FAULT

def wait(status: int) -> float:
    """Seconds."""
    if fault("late") or not status:
        return 1.0
    if fault("never"):
        return 2.0
    return 0.5 if status < 500 and not fault("early") else 3.0

wait(429)
'''


def test_a_client_without_its_faults() -> None:
    lines = without_faults(SOURCE).splitlines()
    assert list(filter(None, lines)) == [
        "def wait(status):",
        "    if not status:",
        "        return 1.0",
        "    return 0.5 if status < 500 else 3.0",
        "wait(429)",
    ]


@in_turn(
    ("source", "changed"),
    [
        ("a.b()", "pass"),
        ("if a:\n    b = 1", "if not a:\n    b = 1"),
        ("a = b < c", "a = b <= c"),
        ("a = b and c", "a = b or c"),
        ("a = 1", "a = 2"),
        ("a = 0.5", "a = 1.0"),
        ("a = True", "a = False"),
        ("a = 'key'", "a = 'keyk'"),
        ("a = f(b=c)", "a = f()"),
        ("a = max(b, c)", "a = max(b)"),
        ("a = {b: c, **d}", "a = {**d}"),
        (
            "try:\n    a = b\nexcept C:\n    d = e\nexcept F:\n    g = h",
            "try:\n    a = b\nexcept F:\n    g = h",
        ),
    ],
)
def test_a_kind_of_change(source: str, changed: str) -> None:
    assert changed in {mutant.source for mutant in mutants("a", source)}


def test_what_is_said_to_people_is_left_alone() -> None:
    assert [*mutants("a", "log('words')\nprint(f'{a} x')")] == []


@pytest.mark.slow
def test_every_mutant_is_a_program_of_its_own() -> None:
    made = all_mutants()
    assert Counter(mutant.client for mutant in made).keys() == {"Python", "asyncio"}
    assert len(made) > 300
    for mutant in made:
        ast.parse(mutant.source)
        assert mutant.diff
