"""The pytest plugin: the fixture ``invoice_sandbox`` and the marker ``scenario``.

Loaded by every pytest run of an environment that has the sandbox installed, so it imports nothing
that pytest has not imported already until a test asks for the fixture.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from invoice_sandbox.control.client import ControlClient
    from invoice_sandbox.testing.coverage import RunCoverage
    from invoice_sandbox.testing.workspace import InvoiceSandbox, Story

_OPTIONS: Final = {
    "url": ("URL", "Use the sandbox that is running there, instead of starting one."),
    "key": ("KEY", "A key of that sandbox; by default the demo key."),
    "project": ("DIR", "Serve this project folder, instead of the one shipped."),
    "scenarios": ("DIR", "Folder with scenarios of your own, besides the project's."),
}
_MARKER: Final = (
    "scenario(name, **conditions): the scenario of the test's invoice_sandbox workspace; "
    "'auto-progress' without it."
)
_FILES: Final = {"json": "as data", "html": "as a page"}
_USED: Final = pytest.StashKey["InvoiceSandbox"]()
_COVERAGE: Final = pytest.StashKey["RunCoverage"]()
_OUTPUT: Final = "invoice_sandbox_coverage"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--sandbox-url`` and others; each is an environment variable too."""
    group = parser.getgroup("invoice-sandbox", "Invoice Liquidity Sandbox")
    for name, (metavar, text) in _OPTIONS.items():
        told = f"{text} Environment: INVOICE_SANDBOX_{name.upper()}."
        group.addoption(f"--sandbox-{name}", metavar=metavar, default=None, help=told)
    told = "Show at the end what the run touched of all that the contract declares."
    group.addoption("--sandbox-coverage", action="store_true", help=told)
    for name, form in _FILES.items():
        told = f"The same, written into a file {form}."
        group.addoption(f"--sandbox-coverage-{name}", metavar="FILE", default=None, help=told)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and count what is touched if that was asked for."""
    config.addinivalue_line("markers", _MARKER)
    wishes = ["--sandbox-coverage", *(f"--sandbox-coverage-{name}" for name in _FILES)]
    if any(config.getoption(one) for one in wishes):
        from invoice_sandbox.testing.coverage import RunCoverage

        config.stash[_COVERAGE] = RunCoverage()


@pytest.fixture(scope="session")
def _invoice_sandbox_server(request: pytest.FixtureRequest) -> Iterator[ControlClient]:
    """The server of the test run. The workers of pytest-xdist share one."""
    from invoice_sandbox.control.client import SandboxError
    from invoice_sandbox.testing.server import options_from, serving

    given = {name: request.config.getoption(f"--sandbox-{name}") for name in _OPTIONS}
    try:
        options = options_from(given, os.environ)
        with (
            serving(options, _shared_folder(request)) as levers,
            _counted(request.config, levers, is_shared=options.url is not None) as counted,
        ):
            yield counted
    except SandboxError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture
def invoice_sandbox(
    request: pytest.FixtureRequest, _invoice_sandbox_server: ControlClient
) -> Iterator[InvoiceSandbox]:
    """A workspace of the Invoice Liquidity Sandbox for this test alone, with a frozen clock.

    Its ids are the same in every run. See invoice_sandbox.testing.InvoiceSandbox.
    """
    from invoice_sandbox.control.client import SandboxError
    from invoice_sandbox.testing.workspace import new_workspace

    seed = _seed(request.node.nodeid)
    try:
        with new_workspace(_invoice_sandbox_server, _story(request), seed=seed) as sandbox:
            request.node.stash[_USED] = sandbox
            yield sandbox
    except SandboxError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    finally:
        if _USED in request.node.stash:
            del request.node.stash[_USED]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the journal of its workspace to a test that has failed."""
    report = yield
    sandbox = item.stash.get(_USED, None)
    if report.failed and sandbox is not None:
        from invoice_sandbox.testing.report import journal

        report.sections.append(("journal of the invoice sandbox", journal(sandbox)))
    return report


def _coverage(config: pytest.Config) -> RunCoverage | None:
    """What is counted; None when nobody asked for it."""
    return config.stash.get(_COVERAGE, None)


@contextmanager
def _counted(
    config: pytest.Config, levers: ControlClient, *, is_shared: bool
) -> Iterator[ControlClient]:
    """The levers from which the workspaces of the tests are made; at the end, what they touched.

    A server that others use too is told apart from them by a workspace of the run's own.
    """
    coverage = _coverage(config)
    if coverage is None:
        yield levers
    elif is_shared:
        from invoice_sandbox.testing.coverage import run_of_its_own

        with run_of_its_own(levers) as own:
            yield own
            coverage.ask(own)
    else:
        yield levers
        coverage.ask(levers)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what a worker of pytest-xdist has put out."""
    coverage = _coverage(node.config)
    output = getattr(node, "workeroutput", {}).get(_OUTPUT)
    if coverage is not None and output is not None:
        coverage.add(output)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the files of the coverage; a worker hands over what it knows instead."""
    coverage = _coverage(session.config)
    if coverage is None:
        return
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_OUTPUT] = coverage.output()
        return
    for name, write in (("json", coverage.write_json), ("html", coverage.write_html)):
        file = session.config.getoption(f"--sandbox-coverage-{name}")
        if file is not None:
            try:
                write(session.config.invocation_params.dir / file)
            except OSError as error:
                coverage.problems.append(f"{file} cannot be written: {error.strerror}")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show the coverage."""
    coverage = _coverage(config)
    if coverage is not None:
        terminalreporter.section("coverage of the invoice sandbox")
        for line in coverage.lines():
            terminalreporter.write_line(line)


def _shared_folder(request: pytest.FixtureRequest) -> Path | None:
    """The folder that the workers of pytest-xdist have in common; without them, None."""
    if not hasattr(request.config, "workerinput"):
        return None
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    return factory.getbasetemp().parent


def _seed(node_id: str) -> int:
    """The same number for the same test, in any order and on any machine."""
    return int.from_bytes(hashlib.sha256(node_id.encode()).digest()[:4])


def _story(request: pytest.FixtureRequest) -> Story:
    from invoice_sandbox.testing.workspace import USUAL_SCENARIO, Story

    marker = request.node.get_closest_marker("scenario")
    own = request.config.getoption("--sandbox-project") or os.environ.get("INVOICE_SANDBOX_PROJECT")
    usual = None if own else USUAL_SCENARIO
    if marker is None:
        return Story(usual=usual)
    return Story(_name(marker.args), dict(marker.kwargs), usual)


def _name(arguments: tuple[Any, ...]) -> str:
    if len(arguments) != 1 or not isinstance(arguments[0], str):
        pytest.fail('the marker looks like @pytest.mark.scenario("kyb-hold")', pytrace=False)
    return arguments[0]
