"""The progress of a run on stderr: a line for each case, or on a terminal one that is rewritten."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from shutil import get_terminal_size
from threading import Lock
from typing import Final

import click

from invoice_sandbox.acceptance.cases import CaseReport
from invoice_sandbox.acceptance.verdicts import Verdict
from invoice_sandbox.conformance.plan import Case, Check

_ERASED: Final = "\r\x1b[K"


class ProgressLines:
    """Prints which cases run, and what the finished ones came to."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._number = sum(len(check.cases) for check in checks)
        self._done = 0
        self._running: list[str] = []
        self._lock = Lock()
        self._rewrites = sys.stderr.isatty()
        if not self._rewrites:
            click.echo(f"{self._number} case{'s' if self._number > 1 else ''}", err=True)

    def begin(self, check: Check, case: Case) -> None:
        """A case runs now."""
        with self._lock:
            self._running.append(_name(check, case.name))
            self._show()

    def end(self, check: Check, case: CaseReport) -> None:
        """A case is over."""
        with self._lock:
            self._done += 1
            self._running.remove(_name(check, case.name))
            verdict, name = case.verdict.verdict, _name(check, case.name)
            text = f"{self._done}/{self._number} {verdict.value} {name} {case.took:.1f} s"
            if not self._rewrites:
                click.echo(text, err=True)
            elif verdict is Verdict.FAIL:
                click.echo(f"{_ERASED}{text}", err=True)
            self._show()

    def close(self) -> None:
        """Nothing runs any more."""
        if self._rewrites:
            click.echo(_ERASED, nl=False, err=True)

    def _show(self) -> None:
        if self._rewrites:
            text = f"{self._done}/{self._number} {', '.join(self._running)}"
            width = get_terminal_size().columns - 1
            click.echo(f"{_ERASED}{text[:width]}", nl=False, err=True)


def _name(check: Check, case: str) -> str:
    return f"{check.id} ({case})" if case else check.id
