"""The pytest plugin: the fixture ``invoice_sandbox`` and the marker ``scenario``.

Every pytest run in an environment with the sandbox loads this module. It imports only what pytest
has imported already, until a test uses the fixture.
"""

from __future__ import annotations

import hashlib
import os
from argparse import ArgumentTypeError
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from invoice_sandbox.control.client import ControlClient
    from invoice_sandbox.testing.coverage import RunCoverage
    from invoice_sandbox.testing.report import Used
    from invoice_sandbox.testing.workspace import InvoiceSandbox, ScenarioChoice

_OPTIONS: Final = {
    "url": ("URL", "Use the running sandbox at this URL instead of starting one."),
    "key": ("KEY", "API key of that sandbox. Default: the demo key."),
    "project": ("DIR", "Serve this project folder instead of the bundled one."),
    "contract": ("FILE|URL", "Serve this OpenAPI document instead of a project."),
    "scenarios": ("DIR", "Folder with scenarios of your own, in addition to those of the project."),
}
_MARKER: Final = (
    "scenario(name, **conditions): the scenario of the test's invoice_sandbox workspace; "
    "'auto-progress' without it, if the project has that."
)
_USED: Final = pytest.StashKey["Used"]()
_COVERAGE: Final = pytest.StashKey["RunCoverage"]()
_OUTPUT: Final = "invoice_sandbox_coverage"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--sandbox-url`` and others; each is an environment variable too."""
    group = parser.getgroup("invoice-sandbox", "Invoice Liquidity Sandbox")
    for name, (metavar, text) in _OPTIONS.items():
        help_text = f"{text} Environment: INVOICE_SANDBOX_{name.upper()}."
        group.addoption(f"--sandbox-{name}", metavar=metavar, default=None, help=help_text)
    help_text = "Keep what is posted to its collections. Environment: INVOICE_SANDBOX_STATEFUL=on."
    group.addoption("--sandbox-stateful", action="store_const", const="on", help=help_text)
    help_text = "Write the workspace of each failed test to a bundle in this folder."
    group.addoption("--sandbox-bundles", metavar="DIR", default=None, help=help_text)
    help_text = "Show the coverage of the contract at the end."
    group.addoption("--sandbox-coverage", action="store_true", help=help_text)
    help_text = "Fail the run if the coverage is below PERCENT."
    group.addoption(
        "--sandbox-coverage-fail-under", metavar="PERCENT", type=_percentage, help=help_text
    )


def _percentage(text: str) -> float:
    percent = float(text)
    if not 0 <= percent <= 100:
        raise ArgumentTypeError(f"{text} is not in the range 0<=x<=100")
    return percent


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and prepare the coverage if an option asks for it."""
    config.addinivalue_line("markers", _MARKER)
    least = config.getoption("--sandbox-coverage-fail-under")
    if least is not None or config.getoption("--sandbox-coverage"):
        from invoice_sandbox.testing.coverage import RunCoverage

        config.stash[_COVERAGE] = RunCoverage(least or 0)


@pytest.fixture(scope="session")
def _invoice_sandbox_server(
    request: pytest.FixtureRequest,
) -> Iterator[tuple[ControlClient, ControlClient]]:
    """Return the clients of the server of this process, and of the workspace that creates those
    of tests."""
    from invoice_sandbox.control.client import SandboxError
    from invoice_sandbox.testing.server import options_from, serving

    names = (*_OPTIONS, "stateful")
    given = {name: request.config.getoption(f"--sandbox-{name}") for name in names}
    try:
        options = options_from(given, os.environ, "--sandbox-{}")
        with (
            serving(options) as control,
            _covered(request.config, control, is_shared=options.url is not None) as covered,
        ):
            yield control, covered
    except SandboxError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture
def invoice_sandbox(
    request: pytest.FixtureRequest, _invoice_sandbox_server: tuple[ControlClient, ControlClient]
) -> Iterator[InvoiceSandbox]:
    """A workspace of the Invoice Liquidity Sandbox for this test, with a frozen clock.

    Its ids are the same in every run. See invoice_sandbox.testing.InvoiceSandbox.
    """
    from invoice_sandbox.control.client import SandboxError
    from invoice_sandbox.testing.report import Used
    from invoice_sandbox.testing.workspace import new_workspace

    server, parent = _invoice_sandbox_server
    seed = _seed(request.node.nodeid)
    try:
        with new_workspace(parent, _scenario(request), seed=seed) as sandbox:
            request.node.stash[_USED] = Used(sandbox, server)
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
    """Add the journal of its workspace to the report of a failed test, and its bundle."""
    report = yield
    used: Used | None = item.stash.get(_USED, None)
    if report.failed and used is not None:
        from invoice_sandbox.testing.report import bundle, journal, server_log

        folder = item.config.getoption("--sandbox-bundles")
        where = None if folder is None else item.config.invocation_params.dir / folder
        text = f"{journal(used)}\n{bundle(used.sandbox, where, item.nodeid)}"
        report.sections.append(("journal of the invoice sandbox", text))
        log = server_log(used)
        if log:
            report.sections.append(("log of the invoice sandbox", log))
    return report


def _coverage(config: pytest.Config) -> RunCoverage | None:
    """The coverage of the run; None unless an option asks for it."""
    return config.stash.get(_COVERAGE, None)


@contextmanager
def _covered(
    config: pytest.Config, control: ControlClient, *, is_shared: bool
) -> Iterator[ControlClient]:
    """The client that creates the workspaces of the tests; their coverage is collected at the end.

    On a shared server, the run has a workspace of its own, so that only its requests count.
    """
    coverage = _coverage(config)
    if coverage is None:
        yield control
    elif is_shared:
        from invoice_sandbox.testing.coverage import run_workspace

        with run_workspace(control) as own:
            yield own
            coverage.collect(own)
    else:
        yield control
        coverage.collect(control)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the output of a worker of pytest-xdist."""
    coverage = _coverage(node.config)
    output = getattr(node, "workeroutput", {}).get(_OUTPUT)
    if coverage is not None and output is not None:
        coverage.add(output)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run whose coverage is too low; a worker passes its coverage to the main process."""
    coverage = _coverage(session.config)
    if coverage is None:
        return
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_OUTPUT] = coverage.output()
    elif coverage.shortfall() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Show the coverage."""
    coverage = _coverage(config)
    if coverage is not None:
        terminalreporter.section("coverage of the invoice sandbox")
        for line in coverage.lines():
            terminalreporter.write_line(line)
        if coverage.shortfall():
            terminalreporter.write_line(coverage.shortfall(), red=True)


def _seed(node_id: str) -> int:
    """The same number for the same test, in any order and on any machine."""
    return int.from_bytes(hashlib.sha256(node_id.encode()).digest()[:4])


def _scenario(request: pytest.FixtureRequest) -> ScenarioChoice:
    from invoice_sandbox.testing.workspace import ScenarioChoice

    marker = request.node.get_closest_marker("scenario")
    if marker is None:
        return ScenarioChoice()
    if len(marker.args) != 1 or not isinstance(marker.args[0], str):
        pytest.fail('invalid marker; use @pytest.mark.scenario("kyb-hold")', pytrace=False)
    return ScenarioChoice(marker.args[0], dict(marker.kwargs))
