"""Tests of one mutant in a process of its own, forked from one that has imported what it can."""

from __future__ import annotations

import gc
import os
import resource
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final
from warnings import catch_warnings

import pytest

from tests import databases
from tests.mutants.changes import Mutant
from tests.mutants.hits import OPTIONS
from tests.mutants.swap import change_imports, changed_code, swap

_LIBRARIES: Final = (
    "connexion",
    "flask",
    "httpx",
    "hypothesis",
    "jsonschema_rs",
    "rich",
    "uvicorn",
)
_IDLE_SECONDS: Final = 20
_IDLE_TICKS: Final = 10
"""A process that uses no more CPU time in so many seconds waits for what never comes."""


@dataclass(frozen=True)
class Job:
    """A change (None: none), the tests that execute it, in their order, and their CPU seconds.

    ``at_import``: the change has its effect only when its module is imported.
    """

    mutant: Mutant | None
    tests: Sequence[str]
    limit: int
    at_import: bool = False


class _Order(Enum):
    TIME = auto()
    END = auto()


class Runner:
    """Runs jobs. Most need no import: a server has collected ``files`` and forks for each.

    All use one PostgreSQL, if any of them ``needs_postgresql``.
    """

    def __init__(self, root: Path, files: Iterable[str], *, needs_postgresql: bool = False) -> None:
        self._root = root
        self._postgresql = databases.started() if needs_postgresql else None
        self._passing = set[str]()
        with catch_warnings(action="ignore"):
            for name in _LIBRARIES:
                import_module(name)
        fork = get_context("fork")
        self._ours, theirs = fork.Pipe()
        self._server = fork.Process(target=_serve, args=(root, sorted(set(files)), theirs))
        self._server.start()
        theirs.close()
        self.cpu_seconds()  # it has collected, and made the schema without a change

    def is_killed(self, job: Job) -> bool:
        """Whether a test fails, or does not end, that passes without the change."""
        if job.at_import:
            failed = _failed(lambda: _import_and_run(self._root, job), job)
        else:
            failed = self._ask(job)
        if not failed or failed in self._passing:
            return bool(failed)
        passes = self._ask(replace(job, mutant=None, tests=(failed,))) is None
        self._passing |= {failed} if passes else set()
        return passes

    def _ask(self, job: Job) -> str | None:
        self._ours.send(job)
        failed: str | None = self._ours.recv()
        return failed

    def cpu_seconds(self) -> float:
        """User and system time so far, of this process and of all it has started."""
        self._ours.send(_Order.TIME)
        return float(self._ours.recv()) + _cpu_seconds()

    def close(self) -> None:
        """End the server."""
        self._ours.send(_Order.END)
        self._server.join()
        if self._postgresql is not None:
            self._postgresql.cleanup()


def _serve(root: Path, files: list[str], jobs: Connection) -> None:
    _be_silent()
    pytest.main([*OPTIONS, *files], plugins=[_Server(root, jobs)])


class _Server:
    def __init__(self, root: Path, jobs: Connection) -> None:
        self._root = root
        self._jobs = jobs

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.collect()
        gc.freeze()
        items = {one.nodeid: one for one in session.items}
        if databases.started.cache_info().currsize:
            databases.server()
        while (job := self._jobs.recv()) is not _Order.END:
            if job is _Order.TIME:
                self._jobs.send(_cpu_seconds())
            else:
                run = partial(
                    self._run, session, job, [items[one] for one in job.tests if one in items]
                )
                self._jobs.send(_failed(run, job))
        return True

    def _run(self, session: pytest.Session, job: Job, items: list[pytest.Item]) -> str | None:
        gc.unfreeze()
        if job.mutant is not None:
            swap(self._root, job.mutant)
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.testsfailed:
                return item.nodeid
        return None


def _import_and_run(root: Path, job: Job) -> str | None:
    assert job.mutant is not None
    change_imports(root / job.mutant.file, changed_code(root, job.mutant))
    files = list(dict.fromkeys(one.partition("::")[0] for one in job.tests))
    only = _Only(job.tests)
    status = pytest.main([*OPTIONS, "-x", *files], plugins=[only])
    return None if status == pytest.ExitCode.OK else only.failed


class _Only:
    """Only the tests of a job, in its order; ``failed`` is the first that did not pass.

    A module that cannot be imported fails the first test.
    """

    def __init__(self, tests: Sequence[str]) -> None:
        self._place = {one: place for place, one in enumerate(tests)}
        self.failed = tests[0]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        chosen = [one for one in items if one.nodeid in self._place]
        items[:] = sorted(chosen, key=lambda one: self._place[one.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid


def _failed(work: Callable[[], str | None], job: Job) -> str | None:
    """The test that fails in a process of its own; if it does not end in time, the first."""
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as folder:
        result = Path(folder, "failed")
        result.write_text(job.tests[0])
        child = os.fork()
        if child == 0:
            try:
                _prepare(Path(folder), job)
                result.write_text(work() or "")
            finally:
                os._exit(0)
        _wait(child)
        if databases.started.cache_info().currsize:
            databases.drop_databases()
        return result.read_text() or None


def _prepare(folder: Path, job: Job) -> None:
    """A process group and temporary files of its own, and no more time than the job's limit."""
    os.setsid()
    _be_silent()
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    used = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + job.limit, used + job.limit))


def _be_silent() -> None:
    with Path(os.devnull).open("r+b", buffering=0) as nothing:
        for one in range(3):
            os.dup2(nothing.fileno(), one)


def _wait(child: int) -> None:
    """Until a child has ended, which is killed when it hangs."""
    used, since = 0, time.monotonic()
    while not os.waitpid(child, os.WNOHANG)[0]:
        time.sleep(0.01)
        if (now := _cpu_ticks(child)) > used + _IDLE_TICKS:
            used, since = now, time.monotonic()
        elif time.monotonic() - since > _IDLE_SECONDS:
            os.killpg(child, signal.SIGKILL)


def _cpu_ticks(process: int) -> int:
    """User and system time of a process, in ticks."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _cpu_seconds() -> float:
    used = [resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
