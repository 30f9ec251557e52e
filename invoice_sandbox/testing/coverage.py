"""The coverage of a test run: read from its server at the end, merged from all workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from invoice_sandbox.base.coverage import Report, lines, merged, shortfall
from invoice_sandbox.control.client import ControlClient, SandboxError, path

_MAX_LINES: Final = 12
"""The most missing items that the terminal shows."""


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


class RunCoverage:
    """The coverage of a test run, from all of its processes.

    ``least`` is the lowest percentage with which the run passes.
    """

    def __init__(self, least: float = 0) -> None:
        self._least = least
        self._reports: list[Report] = []
        self._problems: list[str] = []

    def collect(self, control: ControlClient) -> None:
        """Read the coverage before the workspaces are deleted. An error is shown in the report."""
        try:
            self._reports.append(control.ask("GET", "/coverage"))
        except SandboxError as error:
            self._problems.append(str(error))

    def output(self) -> dict[str, Any]:
        """All of it as plain data, for another process."""
        return {"reports": self._reports, "problems": self._problems}

    def add(self, output: Mapping[str, Any]) -> None:
        """Add the output of another process."""
        self._reports += output["reports"]
        self._problems += [
            problem for problem in output["problems"] if problem not in self._problems
        ]

    def lines(self) -> Iterator[str]:
        """The report for the terminal."""
        yield from self._problems
        if self._reports:
            yield from lines(merged(self._reports), _MAX_LINES)
        elif not self._problems:
            yield "No test has used the fixture invoice_sandbox."

    def shortfall(self) -> str:
        """Return the problem of a coverage that is too low or unknown; else an empty text."""
        if not self._least:
            return ""
        if self._problems or not self._reports:
            return f"The coverage is not known, so it may be less than {self._least:g} %."
        return shortfall(merged(self._reports), self._least)
