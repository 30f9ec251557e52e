"""The runner of ``make mutants`` changes code in one place, and finds the tests of each area."""

from __future__ import annotations

import ast
import sys
from importlib import import_module, reload
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

from tests.mutants.__main__ import AREAS, ROOT, _tests_of, equivalent
from tests.mutants.changes import changed_tree, mutants
from tests.mutants.swap import is_swappable, swap

pytestmark = pytest.mark.slow


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
    assert [ast.unparse(changed_tree(source, one)) for one in mutants("x.py", source)] == changed


def test_a_mutant_names_its_line() -> None:
    found = mutants("x.py", "def f(a):\n    if a > b:\n        a.b = 'x'\n    g\n")
    assert [str(one) for one in found] == [
        "x.py:2  if a > b:  ->  if not a > b:",
        "x.py:2  if a > b:  ->  a >= b",
    ]


SOURCE = "LEAST = 1\ndef f(a, b=0):\n    return a <= b\n"


def test_only_bodies_of_functions_are_changed_in_place(tmp_path: Path) -> None:
    """Constants and defaults of parameters are made at import."""
    (tmp_path / "x.py").write_text(SOURCE)
    found = {one.text: is_swappable(tmp_path, one) for one in mutants("x.py", SOURCE)}
    assert found == {"2": False, "1": False, "return None": True, "a < b": True}


def test_functions_that_others_have_imported_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SourceFileLoader, "get_code", SourceFileLoader.get_code)
    file = tmp_path / "module_of_a_mutant.py"
    file.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    name = file.stem
    function = import_module(name).f
    change = next(one for one in mutants(file.name, SOURCE) if one.text == "a < b")
    assert function(0)
    swap(tmp_path, change)
    assert not function(0)
    assert not reload(sys.modules[name]).f(0)


def test_every_listed_equivalent_is_a_mutant() -> None:
    files = {file for file, _, _ in equivalent()}
    found = {
        (one.file, one.source, one.text)
        for file in files
        for one in mutants(file, (ROOT / file).read_text())
    }
    assert equivalent().keys() - found == set()


def test_every_area_has_files_and_tests() -> None:
    for start in AREAS:
        assert list(ROOT.glob(f"{start}*")), start
        assert all((ROOT / one).exists() for one in _tests_of([start])), start
