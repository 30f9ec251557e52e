"""The tests' own rules: who reaches the store, who waits for responses, and what a process of
pytest-xdist reports."""

from __future__ import annotations

import ast
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


REQUESTS = re.compile(r"httpx\.((Async)?Client|request|stream|get|head|post|put|patch|delete)")


def calls_that_wait_five_seconds(source: str) -> list[str]:
    """Calls of httpx without a timeout, which is five seconds then; a machine may stall longer."""
    if "httpx" not in source:
        return []
    calls = [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Call)]
    return [
        ast.unparse(one)
        for one in calls
        if REQUESTS.fullmatch(ast.unparse(one.func))
        and not any(given.arg in ("timeout", None) for given in one.keywords)
    ]


def test_each_request_of_a_test_has_a_timeout() -> None:
    found = {one.name: calls_that_wait_five_seconds(one.read_text()) for one in TESTS.rglob("*.py")}
    assert {name: calls for name, calls in found.items() if calls} == {}


@pytest.mark.parametrize("call", ["httpx.get('/')", "httpx.AsyncClient(base_url=url)"])
def test_a_call_that_does_not_is_found(call: str) -> None:
    assert calls_that_wait_five_seconds(f"import httpx\nwith {call}: pass") == [call]


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
