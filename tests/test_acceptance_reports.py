"""Reports of a run: the worst first, with durations, times and links; and its progress."""

from __future__ import annotations

import json
import sys
from xml.etree import ElementTree

import pytest

from invoice_sandbox.acceptance.cases import CaseReport
from invoice_sandbox.acceptance.reports import Subject, as_ctrf, as_junit, report_object
from invoice_sandbox.acceptance.runner import CheckReport, RunReport
from invoice_sandbox.acceptance.verdicts import CaseVerdict, Verdict
from invoice_sandbox.cli.acceptance_progress import ProgressLines
from invoice_sandbox.conformance.plan import Case, Check, Plan
from invoice_sandbox.conformance.rules import Outcome, Result

AT = "2026-11-21T09:30:00.250Z"
EVIDENCE = {"requestId": "req_1", "line": "GET /orders: 429", "at": AT}


def case(name: str, verdict: Verdict, took: float) -> CaseReport:
    """A case with a request that proves its verdict."""
    result = Result({}, Outcome.BROKEN, "a wait", "Retried after 0.30 s", (EVIDENCE,))
    summary = f"It is {verdict.value}."
    return CaseReport(name, CaseVerdict(verdict, summary, result, (result,)), took=took)


def check_of(name: str, *cases: CaseReport) -> CheckReport:
    """A check with these cases."""
    return CheckReport(Check(name, "must", "It works.", "Errors", ()), cases)


RUN = RunReport(
    Plan("plan", "It orders.", ()),
    [
        check_of("first", case("", Verdict.PASS, 0.5)),
        check_of("second", case("a", Verdict.PASS, 1.25), case("b", Verdict.FAIL, 2.0)),
        check_of("third", case("", Verdict.REVIEW, 0.0)),
        check_of("fourth", case("", Verdict.NOT_APPLICABLE, 0.0)),
    ],
    is_complete=True,
    began=1_000_000,
)


def test_reports_show_the_worst_first_with_seconds_times_and_links() -> None:
    checks = report_object(RUN, Subject("0.1.0", "sha256:0", ()))["checks"]
    assert [one["id"] for one in checks] == ["second", "third", "first", "fourth"]
    assert [(one["name"], one["seconds"]) for one in checks[0]["cases"]] == [
        ("b", 2.0),
        ("a", 1.25),
    ]
    assert checks[0]["seconds"] == 3.25
    assert checks[0]["evidence"] == [{**EVIDENCE, "link": "report.html#req_1"}]


def test_junit_has_seconds_and_the_exchanges() -> None:
    suite = ElementTree.fromstring(as_junit(RUN))[0]  # noqa: S314 - our own text
    times = [(one.get("name"), one.get("time")) for one in suite]
    assert (suite.get("time"), times[:2]) == ("3.750", [("second", "3.250"), ("third", "0.000")])
    assert suite[0][0].text == f"{AT} GET /orders: 429 report.html#req_1"


def test_ctrf_has_every_member_that_its_schema_requires() -> None:
    report = json.loads(as_ctrf(RUN))
    assert (report["reportFormat"], report["specVersion"]) == ("CTRF", "0.0.0")
    counts = {"tests": 4, "passed": 1, "failed": 1, "pending": 0, "skipped": 1, "other": 1}
    assert report["results"]["summary"] == {**counts, "start": 1_000_000, "stop": 1_003_750}
    tests = [(one["name"], one["status"], one["duration"]) for one in report["results"]["tests"]]
    assert tests[:3] == [
        ("second", "failed", 3250),
        ("third", "other", 0),
        ("first", "passed", 500),
    ]
    assert report["results"]["tests"][0]["message"] == "It is FAIL."


PLANNED = Case({"name": "order"}, (), name="late")
SUBJECT = Check("retries", "must", "It works.", "Errors", (PLANNED,))


def progress() -> None:
    """Show a case that begins and fails."""
    lines = ProgressLines([SUBJECT])
    lines.begin(SUBJECT, PLANNED)
    lines.end(SUBJECT, case("late", Verdict.FAIL, 1.25))
    lines.close()


def test_a_log_gets_a_line_for_each_case(capsys: pytest.CaptureFixture[str]) -> None:
    progress()
    assert capsys.readouterr().err == "1 case\n1/1 FAIL retries (late) 1.2 s\n"


def test_a_terminal_gets_one_line_that_is_rewritten(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "12")
    progress()
    shown = capsys.readouterr().err.split("\r\x1b[K")
    assert shown == ["", "0/1 retries", "1/1 FAIL retries (late) 1.2 s\n", "1/1 ", ""]
