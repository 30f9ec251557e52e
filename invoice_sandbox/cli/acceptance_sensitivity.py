"""``invoice-sandbox acceptance sensitivity``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from invoice_sandbox.acceptance.faults import FAULTS, Fault
from invoice_sandbox.acceptance.runner import RunReport
from invoice_sandbox.acceptance.sensitivity import Finding, findings, run_behind
from invoice_sandbox.acceptance.verdicts import Verdict
from invoice_sandbox.base.errors import UserError, suggestion
from invoice_sandbox.cli.acceptance_run import (
    OPTIONS,
    Chosen,
    declared_of,
    loaded_plan,
    server_of,
    words_of,
)
from invoice_sandbox.cli.options import FAILED, options
from invoice_sandbox.cli.output import print_json
from invoice_sandbox.conformance.plan import plan_of
from invoice_sandbox.project.loader import default_project

_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "--exec command": {
        "metavar": "CMD",
        "required": True,
        "help": "Command of the client; it runs once for each case, with ACCEPTANCE_TASK.",
    },
    **{name: OPTIONS[name] for name in ("--plan", "--declare declared")},
    "--only": {"metavar": "FAULT", "multiple": True, "help": "Only this fault. Repeatable."},
    "--json is_json": {"is_flag": True, "help": "Print JSON, without progress."},
    **{name: OPTIONS[name] for name in ("--server", "--key", "--project")},
}


@click.command()
@options(_OPTIONS)
def sensitivity(command: str, only: tuple[str, ...], *, is_json: bool, **given: Any) -> None:
    """Measure what the plan notices: run it with faults between a client that is right and the
    sandbox.

    A proxy repeats, drops and changes requests, responses and webhooks, one fault at a time; a
    fault that a check of the plan comes to FAIL for is caught. First the client must pass
    with a proxy that changes nothing. A fault does not apply if the client does not declare what it
    needs, or sends nothing that the fault is about. Status 0 when every fault that applies is
    caught, 1 when one is not or the client fails without a fault. All faults take about ten
    minutes.

    \b
    invoice-sandbox acceptance sensitivity --exec 'python client.py' --declare webhooks,idempotency
    invoice-sandbox acceptance sensitivity --exec ./client --only hides-retry-after --json
    """
    faults, words = _faults(only), words_of(command)
    chosen = Chosen(out=Path(), only=(), attests=(), **given)
    with server_of(chosen) as control:
        file = chosen.plan or plan_of(chosen.project or default_project())
        plan = loaded_plan(file, control)
        declared = frozenset(declared_of(plan, chosen.declared))
        if not is_json:
            click.echo("without a fault: ", nl=False)
        _check_control(run_behind(None, plan, words, declared, control)[0])
        if not is_json:
            click.echo("no check fails")
        shown = (lambda _: None) if is_json else print_finding
        found = findings(faults, plan, words, declared, control, shown)
    if is_json:
        print_json([finding.as_json() for finding in found])
    else:
        click.echo(conclusion_of(found))
    sys.exit(FAILED if any(finding.is_missed for finding in found) else 0)


def _faults(only: Sequence[str]) -> list[Fault]:
    """The faults of those names, all if there are none. Raises UserError."""
    known = [fault.name for fault in FAULTS]
    for name in only:
        if name not in known:
            raise UserError(f"--only: there is no fault '{name}' ({suggestion(name, known)})")
    return [fault for fault in FAULTS if not only or fault.name in only]


def _check_control(report: RunReport) -> None:
    """Raise UserError if the client fails without a fault: then no FAIL would show anything."""
    for check in report.checks:
        if check.verdict in {Verdict.FAIL, Verdict.ERROR}:
            raise UserError(
                f"the client must be right: without a fault it comes to {check.verdict.value} in "
                f"{check.check.id}: {check.summary}"
            )


def print_finding(finding: Finding) -> None:
    """Print a finding on one line."""
    if finding.missing:
        state, text = "not applicable", f"it needs {', '.join(finding.missing)}"
    elif not finding.effects:
        state, text = "not applicable", "the client sends nothing that it is about"
    elif finding.caught_by:
        state, text = "caught", f"by {', '.join(finding.caught_by)}"
    else:
        state, text = "not caught", ", ".join(finding.others) or "every check came to PASS"
    click.echo(f"{state:<14} {finding.fault.name}: {finding.fault.that} ({text})")


def conclusion_of(found: Sequence[Finding]) -> str:
    """The number of faults that apply, and of those that are caught, as a sentence."""
    applying = [finding for finding in found if finding.applies]
    caught = sum(not finding.is_missed for finding in applying)
    others = len(found) - len(applying)
    return f"{caught} of {len(applying)} faults caught; {others} not applicable"
