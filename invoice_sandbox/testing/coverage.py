"""The coverage of a test run: read from its server at the end, merged from all workers."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from invoice_sandbox.control.client import ControlClient, SandboxError, path

MAX_LINES: Final = 12
"""How many missing items of each type the terminal shows."""


@contextmanager
def run_workspace(control: ControlClient) -> Iterator[ControlClient]:
    """A workspace on a shared server, from which those of the tests are created.

    Other requests to that server do not count. The workspace is deleted at the end.
    """
    made = control.ask("POST", "/workspaces", {"clock": "frozen"})
    try:
        yield ControlClient(control.url, made["key"])
    finally:
        control.ask("DELETE", path("/workspaces/{id}", id=made["id"]))


def coverage_of(control: ControlClient) -> dict[str, Any]:
    """The coverage of the workspace of ``control`` and of those created from it.

    Raises SandboxError.
    """
    return dict(control.ask("GET", "/coverage"))


class RunCoverage:
    """The coverage of a test run, from all of its processes; the control API does not count.

    ``types`` are those that count, all by default; ``least`` is the lowest percentage that will do.
    """

    def __init__(self, types: Collection[str] = (), least: float = 0) -> None:
        """Raises ValueError for an unknown type."""
        from invoice_sandbox.base.errors import suggestion
        from invoice_sandbox.state.hits import TYPES

        for one in types:
            if one not in TYPES:
                raise ValueError(f"there is no '{one}'; {suggestion(one, TYPES)}")
        self._types = types or TYPES
        self._least = least
        self._reports: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def collect(self, control: ControlClient) -> None:
        """Read the coverage before the workspaces are deleted. An error is shown in the report."""
        try:
            self._reports.append(coverage_of(control))
        except SandboxError as error:
            self.problems.append(str(error))

    def output(self) -> dict[str, Any]:
        """All of it as plain data, for another process."""
        return {"reports": self._reports, "problems": self.problems}

    def add(self, output: Mapping[str, Any]) -> None:
        """Add the output of another process."""
        self._reports += output["reports"]
        self.problems += [one for one in output["problems"] if one not in self.problems]

    def lines(self) -> Iterator[str]:
        """The report for the terminal."""
        from invoice_sandbox.coverage.text import lines

        yield from self.problems
        if self._reports:
            yield from lines(self._report(), MAX_LINES)
        elif not self.problems:
            yield "No test has used the fixture invoice_sandbox."

    def shortfall(self) -> str:
        """The coverage, if it is less than it must be, or unknown; else nothing."""
        from invoice_sandbox.coverage.text import shortfall

        if self._least and (self.problems or not self._reports):
            return f"The coverage is not known, so it may be less than {self._least:g} %."
        return shortfall(self._report(), self._least)

    def write_json(self, file: Path) -> None:
        """Write the report as JSON. Raises OSError."""
        text = json.dumps(self._report().data(), indent=2, ensure_ascii=False)
        file.write_text(f"{text}\n", encoding="utf-8")

    def write_html(self, file: Path) -> None:
        """Write the report as HTML. Raises OSError."""
        from invoice_sandbox.coverage.page import page

        file.write_text(page(self._report(), "this test run"), encoding="utf-8")

    def _report(self) -> Any:
        from invoice_sandbox.coverage.report import Report, report_from

        report = Report({})
        for one in self._reports:
            report = report.merged(report_from(one))
        return report.only(self._types).without_control_api()
