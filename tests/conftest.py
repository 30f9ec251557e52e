"""Fixtures that several test modules share."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from invoice_sandbox.state import Transaction, Workspace
from tests.certificates import write_certificate
from tests.support import OPTIONAL, Running, serving

# A machine that stalls makes no example wrong.
settings.register_profile(
    "patient", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def shared_server() -> Iterator[Running]:
    """The server of all modules, which take it as ``server``."""
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def server(shared_server: Running) -> Iterator[Running]:
    """One server for all tests that do not change what others see, which each module checks."""
    before = _seen_by_all(shared_server)
    yield shared_server
    assert _seen_by_all(shared_server) == before, "a test of this module has changed it for all"
    shared_server.call(_delete_others, shared_server)


def _delete_others(running: Running) -> None:
    """Delete all workspaces but the first: whoever creates one looks at every other."""
    for workspace, _ in running.store.workspaces():
        if workspace.made_by is not None:
            running.sandbox.engine.workspaces.delete(workspace)


def _seen_by_all(running: Running) -> tuple[object, ...]:
    """What no other workspace protects: the calendar, whether time stands still, and the first
    workspace with its clock, its scenario and its faults."""

    def first_workspace(state: Transaction) -> Workspace:
        return state.workspace()

    system_clock = running.system_clock
    workspace = running.in_transaction(first_workspace)
    return system_clock.instant, system_clock.is_running.is_set(), workspace


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    """A client in a new workspace of its own, holding every scope."""
    with server.client(server.new_workspace()) as client:
        yield client


_YOUNG_OBJECTS: Final = 1_000_000
"""New objects after which cycles are looked for within a module: hardly ever."""


_LONG: Final = frozenset({"process", "slow"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules that take long come first, so that no process is left alone with one at the end."""
    is_long: defaultdict[Path, bool] = defaultdict(bool)
    for item in items:
        is_long[item.path] |= any(mark.name in _LONG for mark in item.iter_markers())
    items.sort(key=lambda item: not is_long[item.path])


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What was collected stays until the end."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """At the end of a module what it left in cycles is found, and complains if it is open still."""
    if nextitem is None or nextitem.path != item.path:
        _clear_up()


def _clear_up() -> None:
    """Collect garbage, and never look again at what is left."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI everything is installed that tests need, so a test that is skipped fails there."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        reason = _reason(report)
        if not reason.startswith(OPTIONAL):
            report.outcome = "failed"
            report.longrepr = f"not in CI: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The last lines: what did not run, and which command brings what it needs."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(_reason(report) for report in skipped)
    for reason, count in reasons.most_common():
        tests = "1 test did" if count == 1 else f"{count} tests did"
        terminalreporter.write_line(
            f"{tests} not run, {reason.removeprefix(OPTIONAL).strip()}", yellow=True
        )
    if terminalreporter.stats.get("passed") and not skipped:
        terminalreporter.write_line("Nothing was left out.")


def _reason(report: pytest.TestReport) -> str:
    """The reason why a test was skipped."""
    *_, reason = report.longrepr if isinstance(report.longrepr, tuple) else (report.longrepr,)
    return str(reason).removeprefix("Skipped: ")


class _Worker:
    """What a process of pytest-xdist reports: the result of each test, and where nothing went
    wrong before and after it no more than that. Half of what is sent is left out."""

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True


def pytest_configure(config: pytest.Config) -> None:
    """Prepare this process and those that tests start."""
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(_Worker())
    gc.set_threshold(_YOUNG_OBJECTS)
    _heed_interrupts()


def _heed_interrupts() -> None:
    """In the background a shell makes its jobs ignore SIGINT, nohup SIGHUP, and their children
    inherit that, but no handler: this process still ignores SIGHUP."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """The certificate of localhost and its key, in one file."""
    return write_certificate(tmp_path)
