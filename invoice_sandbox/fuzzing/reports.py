"""The result of a run for people and for machines: text, JSON and JUnit XML.

The reports of Schemathesis (4.32) cannot stand for it. Each is about one contract, and is written
before the verdict, so it lacks an operation that never succeeded, a rejected valid request and a
traceback of the server. Its NDJSON leaves out the requests that reproduce a failure (``steps`` and
``code_sample``), and has all contents of all requests instead.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from invoice_sandbox.base.junit import Case, junit_xml
from invoice_sandbox.fuzzing.contract import Contract
from invoice_sandbox.fuzzing.record import Call, Finding
from invoice_sandbox.fuzzing.verdict import counts

WHOLE_RUN: Final = "the run"
"""Replaces the operation for findings about the whole run."""

_SHOWN: Final = 1_500
_STATEFUL: Final = "stateful"


@dataclass(frozen=True)
class Result:
    """The result for one contract. ``again`` and the ``chosen`` operations are the command that
    repeats it; none means all."""

    contract: str
    operations: Contract
    calls: Sequence[Call]
    findings: Sequence[Finding]
    again: Sequence[str]
    chosen: Sequence[str] = ()

    def again_for(self, finding: Finding) -> str:
        """The command that reproduces it: with this operation only, unless it needs others or has
        no operationId."""
        is_named = finding.operation in self.operations and " " not in str(finding.operation)
        alone = is_named and finding.phase not in ("", _STATEFUL)
        names = [finding.operation] if alone else self.chosen
        return shlex.join([*self.again, *(f"--operation={name}" for name in names)])


def as_text(result: Result) -> str:
    """The verdict, and every finding with its requests and the command that reproduces it."""
    sent = f"{len(result.calls)} requests to {len(result.operations)} operations"
    if not result.findings:
        return f"PASSED  {result.contract}: {sent}"
    count = len(result.findings)
    found = "1 finding" if count == 1 else f"{count} findings"
    blocks = [f"FAILED  {result.contract}: {found}, {sent}"]
    blocks += [_block(result, finding) for finding in result.findings]
    return "\n\n".join(blocks)


def as_json(results: Sequence[Result], *, seed: int, max_examples: int) -> str:
    """All results as a JSON document, with a final line end."""
    return (
        json.dumps(
            {
                "passed": not any(result.findings for result in results),
                "seed": seed,
                "maxExamples": max_examples,
                "contracts": [_object(result) for result in results],
            },
            indent=2,
        )
        + "\n"
    )


def as_junit(results: Sequence[Result]) -> str:
    """All results as JUnit XML: a suite for each contract, a case for each operation."""
    return junit_xml("invoice-sandbox fuzz", {one.contract: _cases(one) for one in results})


def _cases(result: Result) -> list[Case]:
    wrong: dict[str, list[Finding]] = {}
    for finding in result.findings:
        wrong.setdefault(finding.operation or WHOLE_RUN, []).append(finding)
    names = dict.fromkeys([*result.operations, WHOLE_RUN, *wrong])
    return [_case(result, name, wrong.get(name, ())) for name in names]


def _case(result: Result, name: str, found: Sequence[Finding]) -> Case:
    titles = "; ".join(one.title for one in found)
    text = "\n\n".join(_block(result, one) for one in found)
    return Case(name, "failure", titles, text) if found else Case(name)


def _block(result: Result, finding: Finding) -> str:
    phase = f" ({finding.phase})" if finding.phase else ""
    lines = [f"{finding.operation or WHOLE_RUN}{phase}: {finding.title}"]
    text = "\n".join(line for line in finding.text.splitlines() if line.strip())
    # The end of a log matters most.
    lines += (text if len(text) <= _SHOWN else f"…{text[-_SHOWN:]}").splitlines()
    lines += finding.requests
    lines.append(f"reproduce: {result.again_for(finding)}")
    return "\n    ".join(lines)


def _object(result: Result) -> dict[str, Any]:
    numbers = counts(result.calls)
    return {
        "contract": result.contract,
        "passed": not result.findings,
        "requests": len(result.calls),
        "operations": {
            name: numbers.get(name, {}) for name in dict.fromkeys([*result.operations, *numbers])
        },
        "findings": [
            {**asdict(finding), "again": result.again_for(finding)} for finding in result.findings
        ],
    }
