"""The coverage of a test run: asked of its server at the end, put together from all workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.control.client import ControlClient, SandboxError, path

MOST_LINES: Final = 12
"""What the terminal shows of each kind that is missing."""


@contextmanager
def run_of_its_own(levers: ControlClient) -> Iterator[ControlClient]:
    """A workspace on a server of somebody else, from which those of the tests are made.

    What others do on that server does not count. It is deleted at the end.
    """
    made = levers.ask("POST", "/workspaces", {"clock": "frozen"})
    try:
        yield ControlClient(levers.url, made["key"])
    finally:
        levers.ask("DELETE", path("/workspaces/{id}", id=made["id"]))


def touched(levers: ControlClient) -> dict[str, Any]:
    """What the workspace of ``levers``, and those made from it, touched. Raises SandboxError."""
    return dict(levers.ask("GET", "/coverage"))


class RunCoverage:
    """What a test run touched, as its processes tell it; levers are left out."""

    def __init__(self) -> None:
        self._told: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def ask(self, levers: ControlClient) -> None:
        """Ask now, before the workspaces are gone. What goes wrong is a problem to be told."""
        try:
            self._told.append(touched(levers))
        except SandboxError as error:
            self.problems.append(str(error))

    def output(self) -> dict[str, Any]:
        """All of it as plain data, to be handed to another process."""
        return {"told": self._told, "problems": self.problems}

    def add(self, output: Mapping[str, Any]) -> None:
        """What another process has put out."""
        self._told += output["told"]
        self.problems += [one for one in output["problems"] if one not in self.problems]

    def lines(self) -> Iterator[str]:
        """The report for the terminal."""
        from invoice_sandbox.coverage.text import lines

        yield from self.problems
        if self._told:
            yield from lines(self._report(), MOST_LINES)
        elif not self.problems:
            yield "No test has used the fixture invoice_sandbox."

    def write_json(self, file: Path) -> None:
        """Write the report as data. Raises OSError."""
        from invoice_sandbox.base import jsonio

        file.write_bytes(jsonio.dumps_pretty(self._report().data()))

    def write_html(self, file: Path) -> None:
        """Write the report as a page. Raises OSError."""
        from invoice_sandbox.coverage.page import page

        file.write_text(page(self._report(), "this test run"), encoding="utf-8")

    def _report(self) -> Any:
        from invoice_sandbox.coverage.report import Report, report_from

        report = Report({})
        for one in self._told:
            report = report.merged(report_from(one))
        return report.without_levers()
