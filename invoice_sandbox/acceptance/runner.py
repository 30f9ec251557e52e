"""Runs the checks of a plan side by side, and collects their verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from threading import Event
from time import monotonic
from typing import Final

from invoice_sandbox.acceptance.cases import CaseReport, InterruptedRunError, run_case
from invoice_sandbox.acceptance.clients import Client
from invoice_sandbox.acceptance.verdicts import CaseVerdict, Verdict, rank, worst
from invoice_sandbox.conformance.plan import Case, Check, Plan
from invoice_sandbox.control.client import ControlClient

_NOBODY: Final[Mapping[str, str]] = {}
NOTHING: Final = CaseReport("", CaseVerdict(Verdict.NOT_APPLICABLE, ""))
"""A case of which nothing is known."""


@dataclass(frozen=True)
class CheckReport:
    """A check with the reports of its cases; the worst verdict counts."""

    check: Check
    cases: Sequence[CaseReport]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the cases that apply; NOT_APPLICABLE if none does."""
        return worst(case.verdict.verdict for case in self.cases)

    @property
    def summary(self) -> str:
        """The summary of that verdict, and the capabilities without which cases did not run."""
        needs = {case.name: case.when for case in self.check.cases}
        missing = [
            needs[case.name]
            for case in self.cases
            if case.verdict.verdict is Verdict.NOT_APPLICABLE and needs.get(case.name)
        ]
        ran = sum(case.verdict.verdict is not Verdict.NOT_APPLICABLE for case in self.cases)
        if not ran or not missing:
            return self.decisive.summary
        names = ", ".join(dict.fromkeys(filter(None, missing)))
        shown = f"({ran} of {ran + len(missing)} cases; {names} not declared)"
        return f"{self.decisive.summary.removesuffix('.')} {shown}."

    @property
    def worst_first(self) -> Sequence[CaseReport]:
        """The cases, those with the worst verdict first, else in the order of the plan."""
        return sorted(self.cases, key=lambda case: rank(case.verdict.verdict))

    @property
    def took(self) -> float:
        """The seconds of all its cases."""
        return round(sum(case.took for case in self.cases), 3)

    @property
    def decisive(self) -> CaseVerdict:
        """The first case with that verdict."""
        return next(case.verdict for case in self.cases if case.verdict.verdict is self.verdict)


@dataclass(frozen=True)
class RunReport:
    """The result of a run. ``is_complete``: it was not interrupted. ``others`` has what a recording
    shows beside what the checks show. ``began`` is the instant in milliseconds since 1970, 0 for a
    recording that is no run."""

    plan: Plan
    checks: Sequence[CheckReport]
    is_complete: bool
    others: CaseReport = NOTHING
    began: int = 0

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all checks."""
        return worst(check.verdict for check in self.checks)

    @property
    def worst_first(self) -> Sequence[CheckReport]:
        """The checks, those with the worst verdict first, else in the order of the plan."""
        return sorted(self.checks, key=lambda check: rank(check.verdict))

    @property
    def counts(self) -> Mapping[Verdict, int]:
        """The number of checks with each verdict, worst first."""
        counter = Counter(check.verdict for check in self.checks)
        return {verdict: counter[verdict] for verdict in Verdict if verdict in counter}


def attested(report: CheckReport, text: str | None) -> CheckReport:
    """The report with PASS for REVIEW, if somebody attests the check: ``text`` is who, and why."""
    if text is None:
        return report
    verdict = CaseVerdict(Verdict.PASS, f"Every rule was kept. Attested by {text}")
    cases = [
        replace(case, verdict=replace(verdict, results=case.verdict.results))
        if case.verdict.verdict is Verdict.REVIEW
        else case
        for case in report.cases
    ]
    return replace(report, cases=cases)


def run_plan(
    plan: Plan,
    checks: Sequence[Check],
    client: Client,
    control: ControlClient,
    on_result: Callable[[CheckReport], None],
    interrupted: Event,
    attests: Mapping[str, str] = _NOBODY,
    on_start: Callable[[Check, Case], None] = lambda *_: None,
    on_end: Callable[[Check, CaseReport], None] = lambda *_: None,
) -> RunReport:
    """Run these checks of a plan. ``on_start`` gets each case that begins, in a
    thread of the case, and ``on_end`` each that is over; ``on_result`` gets each check when it is
    finished.

    ``attests`` says by the id of a check who attests what the sandbox cannot see, and why.

    A run that is interrupted returns what is finished, and stops every client.
    """

    def run(check: Check, case: Case) -> CaseReport:
        on_start(check, case)
        began = monotonic()
        report = run_case(plan, check, case, client, control, interrupted)
        return replace(report, took=round(monotonic() - began, 3))

    began = int(datetime.now(UTC).timestamp() * 1000)
    finished: dict[str, CheckReport] = {}
    with ThreadPoolExecutor(client.side_by_side) as pool:
        running: dict[Future[CaseReport], Check] = {
            pool.submit(run, check, case): check for check in checks for case in check.cases
        }
        cases: dict[Future[CaseReport], CaseReport] = {}
        try:
            for future in as_completed(running):
                cases[future] = future.result()
                check = running[future]
                own = [cases.get(future) for future, other in running.items() if other is check]
                done = [report for report in own if report is not None]
                if len(done) == len(own):
                    made = attested(CheckReport(check, done), attests.get(check.id))
                    finished[check.id] = made
                    on_result(finished[check.id])
                on_end(check, cases[future])
        except (KeyboardInterrupt, InterruptedRunError):
            interrupted.set()
            pool.shutdown(cancel_futures=True)
    ordered = [finished[check.id] for check in checks if check.id in finished]
    return RunReport(plan, ordered, len(ordered) == len(checks), began=began)
