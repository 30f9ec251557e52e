"""The runner of ``make mutants`` changes code in one place, and finds the tests of each area."""

from __future__ import annotations

import pytest

from tests.mutants.__main__ import AREAS, ROOT, _tests_of
from tests.mutants.changes import mutants


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("a == b", ["a != b"]),
        ("a < b", ["a <= b"]),
        ("a in b", ["a not in b"]),
        ("a and b", ["a or b", "b", "a"]),
        ("a + b", ["a - b"]),
        ("not a", ["not not a"]),
        ("x = True", ["x = False"]),
        ("x = 5", ["x = 6"]),
        ("f()", ["None"]),
        ("x = 'text'", []),
        ("x: a | b", []),
        ("@f(a=True)\ndef g(x: a | b) -> a | b:\n    pass", []),
    ],
)
def test_a_mutant_has_one_change(source: str, changed: list[str]) -> None:
    assert [one.source for one in mutants(source)] == changed


def test_a_mutant_names_its_line() -> None:
    found = mutants("def f(a):\n    if a > b:\n        a.b = 'x'\n    g\n")
    assert [(one.line, one.text) for one in found] == [(2, "if not a > b:"), (2, "a >= b")]


def test_every_area_has_files_and_tests() -> None:
    for start in AREAS:
        assert list(ROOT.glob(f"{start}*")), start
        assert all((ROOT / one).exists() for one in _tests_of(start)), start
