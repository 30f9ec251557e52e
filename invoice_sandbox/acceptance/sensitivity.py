"""The plan's sensitivity to faults: does it fail a client that is right, behind each of them?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, Final

from invoice_sandbox.acceptance.faults import Fault
from invoice_sandbox.acceptance.process import CommandClient
from invoice_sandbox.acceptance.proxy import ProxiedClient
from invoice_sandbox.acceptance.runner import RunReport, run_plan
from invoice_sandbox.acceptance.verdicts import Verdict
from invoice_sandbox.conformance.plan import EVERY, Plan
from invoice_sandbox.control.client import ControlClient

_SIDE_BY_SIDE: Final = 3
"""Plans; each does up to eight cases at a time, and waits for most of it."""

NO_FAULT: Final = Fault(name="no-fault", that="The proxy passes everything on.")


@dataclass(frozen=True)
class Finding:
    """The result of the plan for the client behind a fault: the checks that FAIL because of it, and
    the summary of the first; otherwise the checks that came to no PASS.

    ``missing`` are capabilities that the client does not declare; ``effects`` is how many messages
    the fault changed.
    """

    fault: Fault
    caught_by: Sequence[str] = ()
    summary: str = ""
    others: Sequence[str] = ()
    missing: Sequence[str] = ()
    effects: int = 0

    @property
    def applies(self) -> bool:
        """True if the fault could be shown."""
        return not self.missing and self.effects > 0

    @property
    def is_missed(self) -> bool:
        """True if the plan did not fail the client for a fault that applies."""
        return self.applies and not self.caught_by

    def as_json(self) -> dict[str, Any]:
        """The finding for machines."""
        return {
            "fault": self.fault.name,
            "that": self.fault.that,
            "applies": self.applies,
            "caughtBy": list(self.caught_by),
            "summary": self.summary,
            "missing": list(self.missing),
            "effects": self.effects,
        }


def run_behind(
    fault: Fault | None,
    plan: Plan,
    command: Sequence[str],
    declared: frozenset[str],
    control: ControlClient,
    interrupted: Event | None = None,
) -> tuple[RunReport, int]:
    """Run the plan with a fault between client and sandbox: the report, and how many messages the
    fault changed. Raises KeyboardInterrupt."""
    with TemporaryDirectory() as folder:
        client = CommandClient(declared, command=command, output=Path(folder))
        behind = ProxiedClient(declared, side_by_side=8, client=client, fault=fault)
        report = run_plan(
            plan, plan.checks, behind, control, lambda _: None, interrupted or Event()
        )
    if not report.is_complete:
        raise KeyboardInterrupt
    return report, behind.effects


def findings(
    faults: Sequence[Fault],
    plan: Plan,
    command: Sequence[str],
    declared: frozenset[str],
    control: ControlClient,
    on_finding: Callable[[Finding], None],
) -> Sequence[Finding]:
    """Return what the plan finds behind each fault, and report each when it is known. Raises
    KeyboardInterrupt when every client has stopped."""
    interrupted = Event()

    def find(fault: Fault) -> Finding:
        needs = frozenset(plan.capabilities) if EVERY in fault.needs else fault.needs
        missing = sorted(needs - declared)
        if missing:
            found = Finding(fault, missing=missing)
        else:
            found = _finding(
                fault, *run_behind(fault, plan, command, declared, control, interrupted)
            )
        on_finding(found)
        return found

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        try:
            return [*pool.map(find, faults)]
        except KeyboardInterrupt:
            interrupted.set()
            pool.shutdown(cancel_futures=True)
            raise


def _finding(fault: Fault, report: RunReport, effects: int) -> Finding:
    failed = [check for check in report.checks if check.verdict is Verdict.FAIL]
    fine = {Verdict.PASS, Verdict.NOT_APPLICABLE, Verdict.FAIL}
    others = [check for check in report.checks if check.verdict not in fine]
    return Finding(
        fault,
        [check.check.id for check in failed],
        failed[0].summary if failed else "",
        [f"{check.check.id} {check.verdict.value}" for check in others],
        effects=effects,
    )
