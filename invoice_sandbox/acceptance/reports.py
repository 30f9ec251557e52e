"""The report of a run for machines: JSON and JUnit XML."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from invoice_sandbox import __version__
from invoice_sandbox.acceptance.cases import CaseReport
from invoice_sandbox.acceptance.plan import listed
from invoice_sandbox.acceptance.rules import Result
from invoice_sandbox.acceptance.runner import CheckReport, RunReport
from invoice_sandbox.acceptance.verdicts import Verdict

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
        "checks": [_check(check, run.plan.pointers) for check in run.checks],
    }


def as_json(report: Mapping[str, Any]) -> str:
    """A report as text, with a final line end."""
    return plain_json(report) + "\n"


def plain_json(value: Any) -> str:
    """A JSON value as text for people."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=float)


def as_junit(run: RunReport) -> str:
    """The run as JUnit XML: one suite, one case for each check."""
    outcomes = [_JUNIT.get(report.verdict, "error") for report in run.checks]
    counts = {"tests": str(len(outcomes))}
    counts |= {word: str(outcomes.count(outcome)) for outcome, word in _COUNTED.items()}
    root = ElementTree.Element("testsuites", {"name": TOOL, **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": run.plan.name, **counts})
    for report, outcome in zip(run.checks, outcomes, strict=True):
        names = {"classname": run.plan.name, "name": report.check.id}
        case = ElementTree.SubElement(suite, "testcase", names)
        if outcome:
            text = f"{report.verdict.value}: {report.summary}"
            message = {"message": _printable(text)}
            ElementTree.SubElement(case, outcome, message).text = _printable(_proof(report))
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _printable(text: str) -> str:
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
        "evidence": [] if decisive is None else list(decisive.evidence),
        "notVisible": list(report.not_visible),
        "cases": [_case(case, pointers) for case in report.cases],
    }


def _case(case: CaseReport, pointers: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": case.name,
        "verdict": case.verdict.verdict.value,
        "summary": case.verdict.summary,
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
        "evidence": list(result.evidence),
    }


def _proof(report: CheckReport) -> str:
    decisive = report.decisive.decisive
    return "" if decisive is None else "\n".join(entry["line"] for entry in decisive.evidence)
