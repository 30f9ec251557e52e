"""Which tests execute which line, and how long they take: recorded once, and kept.

A pytest plugin, ``-p tests.mutants.hits``, records into the folder that the variable names. What a
fixture executes counts for every test that can share it: those of its module, or all.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from coverage import Coverage, CoverageData

VARIABLE: Final = "MUTANTS_HITS"
SOURCES: Final = [
    *(f"invoice_sandbox/{one}" for one in ("http", "webhooks", "state", "runtime", "scenarios")),
    "domain",
    "handlers",
]
"""What is recorded: a mutant of another file has no test."""

OPTIONS: Final = [
    *("-q", "-p", "no:cacheprovider", "-m", "not process"),
    *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),
]
"""Of pytest: a change in this process is not seen by other processes."""

_LINES: Final = "lines.coverage"
_SECONDS: Final = "seconds.json"


class Hits:
    """The tests by line. ``seconds`` is the CPU time of each test, in the order of the run."""

    def __init__(self, folder: Path) -> None:
        self.seconds: dict[str, float] = json.loads((folder / _SECONDS).read_text())
        self._data = CoverageData(str(folder / _LINES))
        self._data.read()

    def files(self) -> list[str]:
        """The test files."""
        return sorted({one.partition("::")[0] for one in self.seconds})

    def executes(self, file: Path) -> bool:
        """Whether a test executes more of a file than its import."""
        return any(map(any, self._data.contexts_by_lineno(str(file)).values()))

    def tests(self, file: Path, lines: range, *, at_import: bool) -> tuple[list[str], list[str]]:
        """The tests that execute one of the lines, and all others if it is executed for all."""
        by_line = self._data.contexts_by_lineno(str(file))
        found = {one for line in lines for one in by_line.get(line, ())}
        modules = {one for one in found if one and "::" not in one}
        own = [one for one in self.seconds if one in found or one.partition("::")[0] in modules]
        others = self.seconds.keys() - own if at_import or "" in found else ()
        return own, list(others)


def recorded(root: Path, tests: Sequence[str]) -> Hits:
    """What these tests execute, recorded if a file has changed since the last time."""
    name = hashlib.sha256(repr(sorted(tests)).encode()).hexdigest()[:16]
    folder, content = root / ".venv" / "mutants" / name, _content(root)
    done = folder / "done"
    if not done.exists() or done.read_text() != content:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        environment = {VARIABLE: str(folder)}
        subprocess.run(
            [sys.executable, "-m", "pytest", "-p", __name__, *OPTIONS, *tests],
            cwd=root,
            env=os.environ | environment,
            check=False,  # tests that fail without a mutant are not used
            stdout=subprocess.DEVNULL,
        )
        done.write_text(content)
    return Hits(folder)


def _content(root: Path) -> str:
    """A hash of all that the tests can depend on."""
    found = hashlib.sha256()
    for folder in ("invoice_sandbox", *SOURCES[-2:], "scenarios", "fixtures", "openapi", "tests"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in {".py", ".yaml"}:
                found.update(file.read_bytes())
    return found.hexdigest()


class _Recorder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        file = str(folder / _LINES)
        self._coverage = Coverage(file, source=SOURCES, config_file=False)
        self._coverage.start()
        self._context = ""
        self._seconds: dict[str, float] = {}

    @contextmanager
    def _recorded_as(self, context: str) -> Iterator[None]:
        before, self._context = self._context, context
        self._coverage.switch_context(context)
        try:
            yield
        finally:
            self._context = before
            self._coverage.switch_context(before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before, failed = time.process_time(), item.session.testsfailed
        with self._recorded_as(item.nodeid):
            result = yield
        if item.session.testsfailed == failed:
            self._seconds[item.nodeid] = round(time.process_time() - before, 4)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
    ) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            return (yield)
        module = request.node.nodeid.split("::")[0]
        with self._recorded_as("" if fixturedef.scope == "session" else module):
            return (yield)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        (self._folder / _SECONDS).write_text(json.dumps(self._seconds))


def pytest_configure(config: pytest.Config) -> None:
    """Record from here on."""
    config.pluginmanager.register(_Recorder(Path(os.environ[VARIABLE])))
