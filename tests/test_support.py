"""The tests' own rules: who reaches the store, and what a process of pytest-xdist reports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
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


TESTS_OF_A_WORKER = """
import pytest

@pytest.fixture
def no_setup():
    raise OSError("before")

@pytest.fixture
def no_teardown():
    yield
    raise OSError("after")

def test_one(): pass
def test_two(no_setup): pass
def test_three(no_teardown): pass
@pytest.mark.skip(reason="none")
def test_four(): pass
"""


@pytest.mark.process
@pytest.mark.slow
def test_a_process_reports_what_goes_wrong_before_and_after_a_test(tmp_path: Path) -> None:
    file = tmp_path / "test_toy.py"
    file.write_text(TESTS_OF_A_WORKER)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    command += ["-q", "-n", "2", "--rootdir", str(tmp_path), "-c", "/dev/null", str(file)]
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    for ci, counts in (({}, "2 passed, 1 skipped, 2"), ({"CI": "true"}, "2 passed, 3")):
        done = subprocess.run(
            command,
            cwd=TESTS.parent,
            env=environment | ci,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.stdout.splitlines()[-1].startswith(f"{counts} errors in"), done
        assert done.returncode == 1
