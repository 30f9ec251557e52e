"""``invoice-sandbox acceptance explore``."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import click

from invoice_sandbox.acceptance.observer import served_vocabulary
from invoice_sandbox.acceptance.process import CommandClient
from invoice_sandbox.acceptance.reports import contract_subject
from invoice_sandbox.acceptance.runner import RunReport, run_plan
from invoice_sandbox.acceptance.runs import BUNDLE, run_parts
from invoice_sandbox.acceptance.single_case import plan_with_case
from invoice_sandbox.acceptance.verdicts import Verdict
from invoice_sandbox.base.errors import UserError
from invoice_sandbox.bundles.archive import write_bundle
from invoice_sandbox.cli.acceptance_run import (
    EXEC,
    INTERRUPTED,
    OPTIONS,
    Chosen,
    declared_of,
    file_of,
    loaded_plan,
    print_check,
    server_of,
    words_of,
    write_reports,
)
from invoice_sandbox.cli.options import FAILED, options
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.openapi.load.yaml_12 import yaml_text

if TYPE_CHECKING:
    from invoice_sandbox.acceptance import search

CASE: Final = "case.yaml"
"""The file of the case that was found, in the report folder."""

_MISSING: Final = (
    "a search needs Hypothesis; install it with: pip install 'invoice-liquidity-sandbox[explore]'"
)
_WORDS: Final = ("--out", "--plan", "--declare declared", "--server", "--key", "--project")
_SEARCH: Final[dict[str, dict[str, Any]]] = {
    "--minutes": {
        "type": click.FloatRange(0, 600, min_open=True),
        "default": 5.0,
        "show_default": True,
        "help": "How long to search. Shrinking what was found takes up to 90 seconds more.",
    },
    "--seed": {
        "type": click.IntRange(0),
        "default": 1,
        "show_default": True,
        "help": "Number that chooses the cases. Another one chooses others.",
    },
}


@click.command()
@options(EXEC | {name: OPTIONS[name] for name in _WORDS} | _SEARCH)
def explore(command: str, minutes: float, seed: int, **given: Any) -> None:
    """Search for a case that the client fails, which no check of the plan names.

    Each run is a new workspace with moves in a new order: events, copies and forgeries of them,
    connections that end before or after the request had its effect, 429 and 503, jumps of the
    clock, rotated secrets, a revoked key, restarts of the client. The invariants of the plan and
    what the sandbox registered judge it. A failure is shrunk to few moves, and written as a case
    with its reports and its bundle.

    Status 1 when a failure was found, 0 when none was found in the time: that proves little.

    \b
    invoice-sandbox acceptance explore --exec ./client --out found --declare webhooks,idempotency
    invoice-sandbox acceptance run --exec ./client --out report --case found/case.yaml \\
      --declare webhooks,idempotency
    """
    if find_spec("hypothesis") is None:
        raise UserError(_MISSING)
    chosen, parts = Chosen(**given, only=(), attests=()), words_of(command)
    with server_of(chosen) as control:
        status = _Exploration(chosen, parts, control, minutes * 60).run(seed)
    sys.exit(status)


class _Exploration:
    """A search with one client on one server."""

    def __init__(
        self, chosen: Chosen, command: list[str], control: ControlClient, seconds: float
    ) -> None:
        """Raises UserError and DocumentError."""
        self._out, self._command, self._control = chosen.out, command, control
        self._seconds, self._shown, self._interrupted = seconds, 0.0, Event()
        file = file_of(chosen)
        plan, self._vocabulary = loaded_plan(file, control), served_vocabulary(control)
        self._plan = file.read_bytes()
        self._declared = frozenset(declared_of(plan, chosen.declared))
        self._situations = [
            situation
            for situation in plan.search
            if situation.get("when") in {None, *self._declared}
        ]
        if not plan.search:
            raise UserError(f"{file} has no situations to search: write them under 'search'")
        if not self._situations:
            needs = ",".join(situation["when"] for situation in plan.search)
            raise UserError(f"nothing can be searched; --declare {needs}, what the client does")

    def run(self, seed: int) -> int:
        """Search. Returns the exit status of the command."""
        from invoice_sandbox.acceptance.search import Search  # needs Hypothesis

        searching = Search(
            self._situations, self._fails, self._show, self._seconds, self._interrupted
        )
        try:
            found = searching.run(seed)
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            return INTERRUPTED
        counts = f"{searching.runs} runs, {searching.broken} broken, seed {seed}"
        if found is None:
            click.echo(f"Nothing found in {_clock(self._seconds)}: {counts}")
            return 0
        self._write(found)
        click.echo(f"{counts}; {len(found.moves)} moves: {', '.join(found.moves) or 'none'}")
        declared = f" --declare {','.join(sorted(self._declared))}" if self._declared else ""
        click.echo(
            f"again: acceptance run --case {self._out / CASE} --exec ... --out DIR{declared}"
        )
        return FAILED

    def _judge(self, path: search.Path, out: Path) -> tuple[RunReport, bytes]:
        """Run the client in a case, with its output in a folder."""
        plan, content = plan_with_case(self._plan, "search", path.as_case(), self._vocabulary)
        client = CommandClient(self._declared, command=self._command, output=out)
        report = run_plan(
            plan, plan.checks, client, self._control, lambda _: None, self._interrupted
        )
        return report, content

    def _fails(self, path: search.Path) -> bool:
        with TemporaryDirectory() as folder:
            report, _ = self._judge(path, Path(folder))
        return report.verdict is Verdict.FAIL

    def _write(self, path: search.Path) -> None:
        """Write the case, and the reports and the bundle of one more run."""
        self._out.mkdir(parents=True, exist_ok=True)
        case = path.as_case()
        (self._out / CASE).write_text(yaml_text(case), encoding="utf-8")
        contract = self._control.whole("GET", "/openapi.json")
        subject = contract_subject(contract, sorted(self._declared))
        report, content = self._judge(path, self._out)
        text = write_reports(self._out, report, subject)
        write_bundle(self._out / BUNDLE, *run_parts(report, subject, {}, content, contract, text))
        print_check(report.checks[0])

    def _show(self, searching: search.Search) -> None:
        """Print how far the search is, at most once in ten seconds."""
        now = monotonic()
        if searching.smallest is None and now < self._shown + 10:
            return
        self._shown = now
        passed = f"{_clock(now - searching.began)} of {_clock(self._seconds)}"
        found = searching.smallest
        shrinking = "" if found is None else f", shrinking: {len(found.moves)} moves"
        click.echo(
            f"{searching.runs} runs, {searching.broken} broken{shrinking}, {passed}", err=True
        )


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
