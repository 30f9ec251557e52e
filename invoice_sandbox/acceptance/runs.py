"""An acceptance run as a bundle, and the verdicts that follow from one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from invoice_sandbox import __version__
from invoice_sandbox.acceptance.cases import CaseRecord, CaseReport, case_report, with_probe
from invoice_sandbox.acceptance.clients import Ending
from invoice_sandbox.acceptance.recordings import recording_report
from invoice_sandbox.acceptance.reports import Subject, contract_subject
from invoice_sandbox.acceptance.runner import CheckReport, RunReport, attested
from invoice_sandbox.acceptance.verdicts import CaseVerdict, Verdict
from invoice_sandbox.bundles.archive import CASES, Bundle, as_json
from invoice_sandbox.bundles.saving import (
    CONTRACT,
    DELIVERIES,
    END,
    JOURNAL,
    about,
    contract_part,
    parts_of,
)
from invoice_sandbox.conformance.plan import Case, Check, Plan, read_plan, vocabulary_of

BUNDLE: Final = "bundle.zip"
"""The file of the bundle, in the report folder."""

REPORT: Final = "report.json"
PLAN: Final = "plan.yaml"
_RUN: Final = "run.json"
_CASE: Final = "case.json"


def run_parts(
    run: RunReport,
    subject: Subject,
    attests: Mapping[str, str],
    plan: bytes,
    contract: Mapping[str, Any],
    report: str,
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest of a run, and the parts: the files of plan, contract and report, and the
    workspaces of the cases."""
    cases: dict[str, CaseReport] = {}
    checks = [
        {
            "id": checked.check.id,
            "cases": [_listed(checked.check, case, cases) for case in checked.cases],
        }
        for checked in run.checks
    ]
    found = {
        "declared": sorted(subject.declared),
        "attests": dict(attests),
        "isComplete": run.is_complete,
        "began": run.began,
        "checks": checks,
    }
    parts = {PLAN: plan, CONTRACT: contract_part(contract), REPORT: report.encode()}
    parts[_RUN] = as_json(found)
    described = {}
    for name, case in cases.items():
        record = case.record
        assert record is not None  # noqa: S101 - only those with one are listed
        described[name] = about(record.recording)
        observed = asdict(replace(record, recording={}))
        del observed["recording"]
        kept = {"task": case.task, "ending": asdict(case.ending), "record": observed}
        inside = {**parts_of(record.recording), _CASE: as_json(kept)}
        parts |= {f"{CASES}{name}/{part}": content for part, content in inside.items()}
    verdict = {"plan": run.plan.name, "verdict": run.verdict.value}
    return {"version": __version__, **verdict, "cases": described}, parts


def _listed(check: Check, case: CaseReport, cases: dict[str, CaseReport]) -> dict[str, Any]:
    """A case in the list of a run; its workspaces are added to ``cases``."""
    found: dict[str, Any] = {"name": case.name, "took": case.took}
    if case.record is None:  # nothing ran
        return {**found, "verdict": case.verdict.verdict.value, "summary": case.verdict.summary}
    for part, workspace in (("before", case.before), ("case", case), ("after", case.after)):
        if workspace is not None:
            suffix = "" if part == "case" else part
            found[part] = "-".join(filter(None, [check.id, case.name, suffix]))
            cases[found[part]] = workspace
    return found


def judged(bundle: Bundle, plan_text: tuple[str, bytes] | None) -> tuple[RunReport, Subject]:
    """The verdicts on what a bundle recorded, the same whenever they are asked for.

    The bundle of an acceptance run is judged by its own plan, and every rule counts. Any other
    needs a plan, given as its name and content; only the invariants count. Raises BundleError
    and DocumentError.
    """
    contract = bundle.json(CONTRACT)
    is_run = _RUN in bundle.parts
    given = plan_text or ((f"{bundle.file}: {PLAN}", bundle.parts[PLAN]) if is_run else None)
    if given is None:
        raise bundle.problem("it is not an acceptance run; pass --plan")
    try:
        plan = read_plan(given[1], given[0], vocabulary_of(contract))
        if not is_run:
            return recording_report(plan, bundle), contract_subject(contract, ())
        run = bundle.json(_RUN)
        checks = [*_checks(bundle, plan, run)]
        report = RunReport(plan, checks, bool(run["isComplete"]), began=int(run["began"]))
        return report, contract_subject(contract, run["declared"])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise bundle.problem(f"its run is malformed ({type(error).__name__})") from None


def _checks(bundle: Bundle, plan: Plan, run: Mapping[str, Any]) -> Iterator[CheckReport]:
    workspaces = bundle.workspaces
    by_id = {check.id: check for check in plan.checks}
    for listed in run["checks"]:
        check = by_id[listed["id"]]
        check = replace(check, cases=tuple(case.demanded(run["declared"]) for case in check.cases))
        cases = [_case(plan, check, case, workspaces) for case in listed["cases"]]
        yield attested(CheckReport(check, cases), run["attests"].get(check.id))


def _case(
    plan: Plan, check: Check, listed: Mapping[str, Any], workspaces: Mapping[str, Bundle]
) -> CaseReport:
    if "case" not in listed:
        verdict = CaseVerdict(Verdict(listed["verdict"]), listed["summary"])
        return CaseReport(listed["name"], verdict, took=listed["took"])
    case = next(case for case in check.cases if case.name == listed["name"])
    report = replace(_again(check, case, workspaces[listed["case"]]), took=listed["took"])
    if case.probe is None:
        return report
    probe = plan.probes[case.probe]
    before, after = (_again(check, probe, workspaces[listed[part]]) for part in ("before", "after"))
    return with_probe(report, before, after)


def _again(check: Check, case: Case, bundle: Bundle) -> CaseReport:
    """Return the report on a case, from its recording."""
    kept = bundle.json(_CASE)
    recording = {
        "journal": bundle.lines(JOURNAL),
        "deliveries": bundle.json(DELIVERIES),
        "end": bundle.json(END),
    }
    record, ending = CaseRecord(recording, **kept["record"]), Ending(**kept["ending"])
    return case_report(check, case, record, ending, kept["task"])
