"""What counts as a wrong verdict on a client that is known."""

from __future__ import annotations

import pytest

from invoice_sandbox.acceptance.cases import CaseReport
from invoice_sandbox.acceptance.plan import Case, Check, Plan
from invoice_sandbox.acceptance.runner import CheckReport, RunReport
from invoice_sandbox.acceptance.verdicts import CaseVerdict, Verdict
from tests.acceptance.selftest import KnownClient, problems

CHECKS = tuple(
    Check(name, "must", "It works.", "Errors", (Case({"name": "order"}, ()),))
    for name in ("retries", "waits")
)
PLAN = Plan("plan", "It orders.", CHECKS)


def report(*verdicts: Verdict) -> RunReport:
    """A run with these verdicts on the checks of the plan."""
    cases = [CaseReport("", CaseVerdict(one, f"It is {one.value}.")) for one in verdicts]
    made = [CheckReport(one, [case]) for one, case in zip(CHECKS, cases, strict=True)]
    return RunReport(PLAN, made, is_complete=True)


PASS, FAIL, REVIEW, INCONCLUSIVE = (
    *(Verdict.PASS, Verdict.FAIL, Verdict.REVIEW, Verdict.INCONCLUSIVE),
)


@pytest.mark.parametrize(
    ("caught_by", "verdicts", "wrong"),
    [
        (None, (PASS, Verdict.NOT_APPLICABLE), []),
        (None, (PASS, FAIL), ["x: waits: false FAIL: It is FAIL."]),
        (None, (REVIEW, INCONCLUSIVE), ["x: waits: INCONCLUSIVE: It is INCONCLUSIVE."]),
        ("waits", (INCONCLUSIVE, FAIL), []),
        ("waits", (FAIL, FAIL), ["x: retries: false FAIL: It is FAIL."]),
        ("waits", (PASS, INCONCLUSIVE), ["x: waits: missed: It is INCONCLUSIVE."]),
    ],
)
def test_wrong_verdicts_on_known_clients(
    caught_by: str | None, verdicts: tuple[Verdict, Verdict], wrong: list[str]
) -> None:
    client = KnownClient("x", ["x"], frozenset(), caught_by, may_be_reviewed=True)
    assert [*problems(client, report(*verdicts))] == wrong
