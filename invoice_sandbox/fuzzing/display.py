"""Shows the progress of a run: a live line in a terminal, else a line for each phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from invoice_sandbox.fuzzing.record import Call, Line

_LIVE: Final = "{task.fields[contract]}  {task.fields[phase]}  {task.description}"
_COUNTED: Final = "{task.completed} requests, {task.fields[found]} findings"


class Display(Protocol):
    """Shows the lines of the record as they arrive."""

    def show(self, lines: Iterable[Line]) -> None:
        """Show new lines."""


@contextmanager
def showing(contract: str) -> Iterator[Display]:
    """A display for the fuzzing of one contract, on standard error."""
    console = Console(stderr=True)
    if not console.is_terminal:
        lines = _Lines(console, contract)
        yield lines
        lines.end()
        return
    columns = (SpinnerColumn(), TextColumn(_LIVE), TextColumn(_COUNTED), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        yield _Live(progress, contract)


class _Live:
    def __init__(self, progress: Progress, contract: str) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None, contract=contract, phase="", found=0)
        self._found = 0

    def show(self, lines: Iterable[Line]) -> None:
        for line in lines:
            if isinstance(line, Call):
                self._progress.update(
                    self._task, advance=1, description=line.operation, phase=line.phase
                )
            else:
                self._found += 1
                self._progress.update(self._task, found=self._found)


class _Lines:
    def __init__(self, console: Console, contract: str) -> None:
        self._console = console
        self._contract = contract
        self._phase = ""
        self._sent = self._found = 0

    def show(self, lines: Iterable[Line]) -> None:
        for line in lines:
            if not isinstance(line, Call):
                self._found += 1
                continue
            if line.phase != self._phase:
                self.end()
                self._phase, self._sent, self._found = line.phase, 0, 0
            self._sent += 1

    def end(self) -> None:
        """Print the result of the phase."""
        if self._phase:
            prefix = f"{self._contract:<8} {self._phase:<10}"
            counted = f"{self._sent} requests, {self._found} findings"
            self._console.print(f"{prefix} {counted}", highlight=False, markup=False)
