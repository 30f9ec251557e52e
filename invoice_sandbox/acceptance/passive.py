"""Judges a client by what it did anyway, without the steps of an acceptance run.

Only rules that need no step count: what a client repeats after a failure, how long it waits, and
how it responds to webhooks. Everything else, and whatever the recording has no example of, is
inconclusive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from invoice_sandbox.acceptance.cases import CaseReport, with_payloads
from invoice_sandbox.acceptance.runner import NOTHING, CheckReport, RunReport
from invoice_sandbox.acceptance.verdicts import (
    CaseVerdict,
    Verdict,
    as_sentence,
    broken_at,
    judge,
)
from invoice_sandbox.bundles.archive import Bundle
from invoice_sandbox.bundles.saving import DELIVERIES, END, JOURNAL, START, listed_entries
from invoice_sandbox.conformance.observations import Observations, Request, observations_of
from invoice_sandbox.conformance.plan import Case, Check, Plan, Rule, listed
from invoice_sandbox.conformance.rules import Outcome, Result, evaluate, is_status

_OF_REPETITIONS: Final = frozenset({"that", "request", "status", "same", "gaps"})
_OF_BODIES: Final = frozenset({"that", "request", "status", "sameBodyAtMost"})
_OF_DELIVERIES: Final = frozenset({"that", "delivery", "kind", "response"})
_PASSIVE: Final = (_OF_REPETITIONS, _OF_BODIES, _OF_DELIVERIES)
_GAPS: Final = "gaps"
_END: Final = "end"
"""A rule about how the client ended, which no recording shows."""


def passive_report(plan: Plan, bundle: Bundle) -> RunReport:
    """The verdicts on a recorded workspace. Raises BundleError."""
    journal = listed_entries(bundle.lines(JOURNAL))
    deliveries, end = bundle.json(DELIVERIES), bundle.json(END)
    seen = observations_of(journal, deliveries)
    is_live = all(bundle.json(part)["clock"]["mode"] == "live" for part in (START, END))
    checks = [passive_check(check, seen, is_live=is_live) for check in plan.checks]
    checks += _invariants(plan, seen)
    sent = with_payloads({"deliveries": deliveries, "end": end})
    shown: set[str] = set()
    with_entries = [*_with_entries(checks, journal, sent, shown)]
    others = replace(
        NOTHING,
        requests=[entry for entry in journal if entry["requestId"] not in shown],
        deliveries=[delivery for delivery in sent if delivery["id"] not in shown],
    )
    return RunReport(plan, with_entries, True, others)


def _invariants(plan: Plan, seen: Observations) -> Iterator[CheckReport]:
    """Yield the verdict on the invariants of a plan, if the client did anything."""
    if plan.invariants and (seen.requests or seen.attempts):
        case = Case({}, (), invariants=tuple(plan.invariants.values()))
        proves = "The client keeps what holds in every case."
        check = Check("invariants", "must", proves, "All of it", (case,), "/invariants")
        yield CheckReport(check, [CaseReport("", judge(case, check.level, seen), seen)])


def _with_entries(
    checks: Sequence[CheckReport],
    journal: Sequence[Mapping[str, Any]],
    deliveries: Sequence[Mapping[str, Any]],
    shown: set[str],
) -> Iterator[CheckReport]:
    """The checks with the entries that are their evidence; each entry is shown once, and its id is
    then in ``shown``."""
    for check in checks:
        cases = []
        for case in check.cases:
            evidence = [entry for result in case.verdict.results for entry in result.evidence]
            named = {entry.get("requestId", entry.get("deliveryId")) for entry in evidence} - shown
            shown |= named
            requests = [entry for entry in journal if entry["requestId"] in named]
            sent = [entry for entry in deliveries if entry["id"] in named]
            cases.append(replace(case, requests=requests, deliveries=sent))
        yield replace(check, cases=cases)


def passive_check(check: Check, seen: Observations, *, is_live: bool) -> CheckReport:
    """The verdict on a check. ``is_live``: the clock followed real time, so that waits count.

    A check is as good as its cases that can be judged; the report lists what was not.
    """
    reports = [_case(check, case, seen, is_live=is_live) for case in check.cases]
    judged = [report for report in reports if report.verdict.verdict is not Verdict.INCONCLUSIVE]
    seen_rules = {result.rule.get("that") for report in judged for result in report.verdict.results}
    rules = [rule["that"] for case in check.cases for rule in case.rules if "that" in rule]
    rules += [case.review["that"] for case in check.cases if case.review is not None]
    unseen = [rule for rule in dict.fromkeys(rules) if rule not in seen_rules]
    return CheckReport(check, judged or reports[:1], unseen)


def _case(check: Check, case: Case, seen: Observations, *, is_live: bool) -> CaseReport:
    by_rule = [
        _judged(rule, seen) if is_live or _GAPS not in rule else []
        for rule in case.rules
        if _is_passive(rule)
    ]
    results = [result for found in by_rule for result in found]
    broken = next((result for result in results if not result.is_kept), None)
    if broken is None and not (by_rule and all(by_rule)):
        text = "Cannot be judged: the recording has no example of it."
        return CaseReport(case.name, CaseVerdict(Verdict.INCONCLUSIVE, text), seen)
    if broken is None:
        text = f"Every rule that needs no step was kept, {len(results)} times."
        return CaseReport(case.name, CaseVerdict(Verdict.PASS, text, None, tuple(results)), seen)
    verdict = CaseVerdict(broken_at(check.level), as_sentence(broken), broken, tuple(results))
    return CaseReport(case.name, verdict, seen)


def _judged(rule: Rule, seen: Observations) -> list[Result]:
    return [result for result in _results(rule, seen) if result.outcome is not Outcome.UNJUDGED]


def _is_passive(rule: Rule) -> bool:
    return any(rule.keys() <= members for members in _PASSIVE) and rule.get(_GAPS) != _END


def _results(rule: Rule, seen: Observations) -> Iterator[Result]:
    """Yield the result of a rule for each example of it."""
    if "delivery" in rule:
        yield from _of_deliveries(rule, seen)
    elif "sameBodyAtMost" in rule:
        yield from (result for result in [evaluate(rule, seen)] if result.evidence)
    else:
        for operation in listed(rule["request"]):
            own = [request for request in seen.requests if request.operation == operation]
            for episode in _episodes(own):
                yield evaluate(rule, replace(seen, requests=episode))


def _episodes(requests: Sequence[Request]) -> Iterator[Sequence[Request]]:
    """The requests from a failure to the first one that does not fail, each time."""
    ended = 0
    numbers = []
    for request in requests:
        numbers.append(ended)
        ended += not request.has_failed
    for _, pairs in groupby(zip(numbers, requests, strict=True), lambda pair: pair[0]):
        episode = [request for _, request in pairs]
        if len(episode) > 1:
            yield episode


def _of_deliveries(rule: Rule, seen: Observations) -> Iterator[Result]:
    """A rejected delivery says something only between two genuine ones that were accepted."""
    result = evaluate(rule, seen)
    if str(rule["response"]).startswith(("not-", "rejected")) and result.is_kept:
        ordered = sorted(seen.attempts, key=lambda attempt: attempt.at)
        accepted = [
            index
            for index, attempt in enumerate(ordered)
            if attempt.kind is None and is_status("2xx", attempt.status)
        ]
        meant = [
            index for index, attempt in enumerate(ordered) if attempt.kind in listed(rule["kind"])
        ]
        if not accepted or not accepted[0] < min(meant) <= max(meant) < accepted[-1]:
            return
    yield result
