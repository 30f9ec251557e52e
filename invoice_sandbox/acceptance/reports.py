"""The report of a run for machines: JSON and JUnit XML."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from invoice_sandbox import __version__
from invoice_sandbox.acceptance.cases import CaseReport
from invoice_sandbox.acceptance.runner import CheckReport, RunReport
from invoice_sandbox.acceptance.verdicts import Verdict
from invoice_sandbox.conformance.plan import listed
from invoice_sandbox.conformance.rules import Result

SCHEMA: Final = Path(__file__).with_name("report.schema.json")
"""The JSON Schema of ``report.json``."""

TOOL: Final = "invoice-liquidity-sandbox"

_COUNTED: Final = {"failure": "failures", "error": "errors", "skipped": "skipped"}
_NOT_IN_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_STATES: Final = {True: "finished", False: "interrupted"}
_JUNIT: Final = {
    Verdict.PASS: "",
    Verdict.WARN: "",
    Verdict.FAIL: "failure",
    Verdict.NOT_APPLICABLE: "skipped",
}
"""Outcomes of JUnit; others are ``error``."""


_CTRF: Final = {
    Verdict.PASS: "passed",
    Verdict.WARN: "passed",
    Verdict.FAIL: "failed",
    Verdict.NOT_APPLICABLE: "skipped",
}
"""Statuses of CTRF; others are ``other``."""


@dataclass(frozen=True)
class Subject:
    """The contract's version and digest, and the capabilities that the client declares."""

    contract_version: str
    contract_digest: str
    declared: Sequence[str]


def contract_subject(contract: Mapping[str, Any], declared: Sequence[str]) -> Subject:
    """The subject of a run against a contract. Its servers, which name a port, do not count."""
    text = json.dumps(
        {name: contract[name] for name in contract.keys() - {"servers"}}, sort_keys=True
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Subject(contract["info"]["version"], f"sha256:{digest}", declared)


def report_object(run: RunReport, subject: Subject) -> dict[str, Any]:
    """The content of ``report.json``; report.schema.json describes it."""
    return {
        "tool": {"name": TOOL, "version": __version__},
        "plan": {"name": run.plan.name, "digest": run.plan.digest},
        "contract": {"version": subject.contract_version, "digest": subject.contract_digest},
        "declared": sorted(subject.declared),
        "state": _STATES[run.is_complete],
        "verdict": run.verdict.value,
        "checks": [_check(check, run.plan.pointers) for check in run.worst_first],
    }


def as_json(report: Mapping[str, Any]) -> str:
    """A report as text, with a final line end."""
    return plain_json(report) + "\n"


def plain_json(value: Any) -> str:
    """A JSON value as text for people."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=float)


def as_junit(run: RunReport) -> str:
    """The run as JUnit XML: one suite, one case for each check."""
    outcomes = [_JUNIT.get(report.verdict, "error") for report in run.worst_first]
    counts = {"tests": str(len(outcomes))}
    counts |= {word: str(outcomes.count(outcome)) for outcome, word in _COUNTED.items()}
    counts["time"] = f"{sum(report.took for report in run.checks):.3f}"
    root = ElementTree.Element("testsuites", {"name": TOOL, **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": run.plan.name, **counts})
    for report, outcome in zip(run.worst_first, outcomes, strict=True):
        names = {"classname": run.plan.name, "name": report.check.id, "time": f"{report.took:.3f}"}
        case = ElementTree.SubElement(suite, "testcase", names)
        if outcome:
            text = f"{report.verdict.value}: {report.summary}"
            message = {"message": printable(text)}
            ElementTree.SubElement(case, outcome, message).text = printable(_proof(report))
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def as_ctrf(run: RunReport) -> str:
    """The run in the Common Test Report Format (ctrf.io), with one test for each check.

    ``duration``, ``start`` and ``stop`` are in milliseconds; checks run side by side, and ``stop``
    is as if they did not.
    """
    tests = [_ctrf_test(report) for report in run.worst_first]
    statuses = Counter(test["status"] for test in tests)
    counts = {name: statuses[name] for name in ("passed", "failed", "pending", "skipped", "other")}
    times = {"start": run.began, "stop": run.began + sum(test["duration"] for test in tests)}
    summary = {"tests": len(tests), **counts, **times}
    tool = {"name": TOOL, "version": __version__}
    results = {"tool": tool, "summary": summary, "tests": tests}
    return as_json({"reportFormat": "CTRF", "specVersion": "0.0.0", "results": results})


def _ctrf_test(report: CheckReport) -> dict[str, Any]:
    return {
        "name": report.check.id,
        "status": _CTRF.get(report.verdict, "other"),
        "rawStatus": report.verdict.value,
        "duration": round(report.took * 1000),
        "message": report.summary,
        "trace": _proof(report),
    }


def printable(text: str) -> str:
    return _NOT_IN_XML.sub(lambda match: ascii(match.group())[1:-1], text)


def contract_pointers(result: Result, pointers: Mapping[str, str]) -> list[str]:
    """The places in the contract that a rule is about: its operations or event types, or those of
    its evidence if it is about all of them."""
    named = [*listed(result.rule.get("request", [])), result.rule.get("delivery")]
    shown = [str(entry.get("operation") or entry.get("eventType")) for entry in result.evidence]
    found = [pointers[name] for name in named if name in pointers]
    return found or list(dict.fromkeys(pointers[name] for name in shown if name in pointers))


def _check(report: CheckReport, pointers: Mapping[str, str]) -> dict[str, Any]:
    decisive = report.decisive.decisive
    return {
        "id": report.check.id,
        "level": report.check.level,
        "verdict": report.verdict.value,
        "summary": report.summary,
        "proves": report.check.proves,
        "specification": report.check.specification,
        "pointer": report.check.pointer,
        "expected": None if decisive is None else decisive.expected,
        "actual": None if decisive is None else decisive.actual,
        "contract": [] if decisive is None else contract_pointers(decisive, pointers),
        "evidence": [] if decisive is None else _evidence(decisive),
        "seconds": report.took,
        "cases": [_case(case, pointers) for case in report.worst_first],
    }


def _case(case: CaseReport, pointers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": case.name,
        "verdict": case.verdict.verdict.value,
        "summary": case.verdict.summary,
        "seconds": case.took,
        "task": case.task,
        "rules": [_rule(result, pointers) for result in case.verdict.results],
        "client": {
            "exitStatus": case.ending.exit_status,
            "reported": case.ending.reported,
            "output": case.ending.output,
        },
    }


def _rule(result: Result, pointers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "that": result.rule.get("that"),
        "outcome": result.outcome.value,
        "expected": result.expected,
        "actual": result.actual,
        "contract": contract_pointers(result, pointers),
        "evidence": _evidence(result),
    }


def entry_id(evidence: Mapping[str, Any]) -> str:
    """The id of the entry that a piece of evidence names, in the timeline of report.html."""
    if "requestId" in evidence:
        return str(evidence["requestId"])
    return f"{evidence['deliveryId']}-{evidence['attempt']}"


def _evidence(result: Result) -> list[Mapping[str, Any]]:
    return [{**entry, "link": f"report.html#{entry_id(entry)}"} for entry in result.evidence]


def _proof(report: CheckReport) -> str:
    """Return the exchanges that prove the verdict on a check, with their times and links."""
    decisive = report.decisive.decisive
    entries = [] if decisive is None else _evidence(decisive)
    return "\n".join(f"{entry['at']} {entry['line']} {entry['link']}" for entry in entries)
