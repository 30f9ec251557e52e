"""Verdicts: what the results of the rules say about a case, a check and a whole run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from invoice_sandbox.acceptance.clients import Ending
from invoice_sandbox.conformance.observations import Observations
from invoice_sandbox.conformance.plan import Case
from invoice_sandbox.conformance.rules import Outcome, Result, evaluate


class Verdict(Enum):
    """The verdict on a client. The order is worst first: the worst of several counts."""

    FAIL = "FAIL"
    ERROR = "ERROR"
    INCONCLUSIVE = "INCONCLUSIVE"
    REVIEW = "REVIEW"
    WARN = "WARN"
    PASS = "PASS"  # noqa: S105 - no password
    NOT_APPLICABLE = "NOT_APPLICABLE"


CONFORMANT: Final = frozenset({Verdict.PASS, Verdict.WARN})
"""The verdicts of a client that was judged and broke no rule it must keep."""

_NO_ENDING: Final = Ending()
_SHOWN_LINES: Final = 2
_SHOWN_REQUESTS: Final = 3
_SHOWN_LETTERS: Final = 200

_TOO_LITTLE: Final = frozenset({Outcome.ABSENT, Outcome.UNJUDGED})
"""Outcomes of rules about what a client did not do."""


def rank(verdict: Verdict) -> int:
    """The place of a verdict, worst first."""
    return list(Verdict).index(verdict)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst of several verdicts; of none NOT_APPLICABLE."""
    return min(verdicts, key=rank, default=Verdict.NOT_APPLICABLE)


@dataclass(frozen=True)
class CaseVerdict:
    """The verdict on a case, a sentence, and the result that decided it, if there is one.

    ``explanation`` is what explains that a client did too little, if it did. ``violation`` is the
    invariant that it broke.
    """

    verdict: Verdict
    summary: str
    decisive: Result | None = None
    results: tuple[Result, ...] = ()
    explanation: str = ""
    violation: Result | None = None


def judge(case: Case, level: str, seen: Observations, ending: Ending = _NO_ENDING) -> CaseVerdict:
    """The verdict on what a client did in a case. The values of the case must be filled in.

    A broken control shows that the client fails at something more basic, so that the rules say
    nothing. Otherwise what a client did wrong counts always; what it failed to do, or did not do
    wrong, counts only if the controls show that it was working. A broken invariant counts always.
    """
    explanation = _explanation(seen, ending)
    verdict = _judged(case, level, seen)
    is_too_little = verdict.decisive is not None and verdict.decisive.outcome in _TOO_LITTLE
    text = verdict.summary + explanation if is_too_little else verdict.summary
    violation = _first([evaluate(rule, seen) for rule in case.invariants], Outcome.BROKEN)
    judged = replace(verdict, summary=text, explanation=explanation)
    if violation is None:
        return judged
    return _violated(replace(judged, results=(*judged.results, violation)), violation)


def _violated(verdict: CaseVerdict, violation: Result) -> CaseVerdict:
    """The verdict on a case in which the client broke an invariant, and perhaps its rules, too."""
    with_violation = replace(verdict, violation=violation)
    decisive = verdict.decisive
    if verdict.verdict is Verdict.FAIL and decisive and decisive.outcome is Outcome.BROKEN:
        return with_violation
    text = with_exchanges(violation)
    return replace(with_violation, verdict=Verdict.FAIL, summary=text, decisive=violation)


def _judged(case: Case, level: str, seen: Observations) -> CaseVerdict:
    controls = [evaluate(rule, seen) for rule in case.controls]
    rules = [evaluate(rule, seen) for rule in case.rules]
    results = (*controls, *rules)
    bad = broken_at(level)
    basic, broken = _first(controls, Outcome.BROKEN), _first(rules, Outcome.BROKEN)
    if broken is not None and basic is None:
        return CaseVerdict(bad, as_sentence(broken), broken, results)
    missing = basic or next((rule for rule in controls if not rule.is_kept), None)
    if missing is not None:
        text = f"Cannot be judged. {as_text(missing)}"
        return CaseVerdict(Verdict.INCONCLUSIVE, text, missing, results)
    absent = _first(rules, Outcome.ABSENT)
    if absent is not None:
        return CaseVerdict(bad, as_sentence(absent), absent, results)
    unjudged = _first(rules, Outcome.UNJUDGED)
    if unjudged is not None:
        text = f"Cannot be judged. {as_text(unjudged)}"
        return CaseVerdict(Verdict.INCONCLUSIVE, text, unjudged, results)
    return _with_effects(case, bad, seen, results)


def _with_effects(
    case: Case, bad: Verdict, seen: Observations, results: tuple[Result, ...]
) -> CaseVerdict:
    """The verdict on a client that kept its rules: one without any effect is for review."""
    effects = [evaluate(rule, seen) for rule in case.effects]
    results = (*results, *effects)
    missing = _first(effects, Outcome.BROKEN)
    missing = missing or next((effect for effect in effects if not effect.is_kept), None)
    if missing is None:
        return _reviewed(case, seen, results)
    acts = [effect for effect in effects if "request" in effect.rule]
    if missing.outcome in _TOO_LITTLE and not any(effect.is_kept for effect in acts):
        text = " ".join(effect.rule["that"] for effect in effects if not effect.is_kept)
        return CaseVerdict(Verdict.REVIEW, f"A person must attest: {text}", None, results)
    return CaseVerdict(bad, as_sentence(missing), missing, results)


def controlled(verdict: CaseVerdict, before: CaseVerdict, after: CaseVerdict) -> CaseVerdict:
    """The verdict on a case whose probe came to ``before`` and ``after`` it.

    A client that does not do the probe shows nothing by what it did not do; what it did wrong
    counts, unless it did the probe wrong: that is more basic.
    """
    first = tuple(_when("Before the check", result) for result in before.results)
    last = tuple(_when("After the check", result) for result in after.results)
    every = replace(verdict, results=(*first, *verdict.results, *last))
    broken = [found.violation for found in (verdict, before, after) if found.violation is not None]
    if broken:
        return _violated(every, broken[0])
    probed = [*first, *last]
    missing = next((result for result in probed if not result.is_kept), None)
    wrong = verdict.decisive is not None and verdict.decisive.outcome is Outcome.BROKEN
    failed = _first(probed, Outcome.BROKEN) or (None if wrong else missing)
    if failed is None:
        return every
    text = f"Cannot be judged. {as_sentence(failed)}"
    if failed.outcome in _TOO_LITTLE:
        text += before.explanation if failed in first else after.explanation
    return replace(every, verdict=Verdict.INCONCLUSIVE, summary=text)


def _explanation(seen: Observations, ending: Ending) -> str:
    """Return sentences about how a client ended, and about its requests that no operation
    matches."""
    how = "The client had not ended" if seen.until is not None else "The client ended"
    if not ending.has_begun:
        how = "The client did not begin in time"
    elif ending.reported is not None:
        nothing = "" if seen.requests else ", and sent no request"
        how = f"The client reported '{ending.reported}'{nothing}"
    elif ending.exit_status is not None and seen.until is None:
        status = ending.exit_status
        how += f" with exit status {status}" if status >= 0 else f" by signal {-status}"
    printed = [line.strip() for line in ending.output.splitlines() if line.strip()]
    last = " / ".join(map(_plain, printed[-_SHOWN_LINES:]))
    sentences = f" {how}: {last.removesuffix('.')}." if last else f" {how}."
    lines = dict.fromkeys(request.line for request in seen.requests if request.operation is None)
    if lines:
        shown = ", ".join(map(_plain, [*lines][:_SHOWN_REQUESTS]))
        sentences += f" No operation matches {shown}."
    return sentences


def _plain(text: str) -> str:
    """The beginning of a text of the client, without control characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:_SHOWN_LETTERS])


def _when(time: str, result: Result) -> Result:
    that = result.rule.get("that") or "The client works."
    return replace(result, rule={**result.rule, "that": f"{time}: {that}"})


def _reviewed(case: Case, seen: Observations, results: tuple[Result, ...]) -> CaseVerdict:
    if case.review is None:
        return CaseVerdict(Verdict.PASS, "Every rule was kept.", None, results)
    unless = case.review.get("unless")
    if unless is not None and evaluate(unless, seen).is_kept:
        return CaseVerdict(Verdict.PASS, "Every rule was kept.", None, results)
    text = f"A person must attest: {case.review['that']}"
    return CaseVerdict(Verdict.REVIEW, text, None, results)


def _first(results: Sequence[Result], outcome: Outcome) -> Result | None:
    return next((result for result in results if result.outcome is outcome), None)


def broken_at(level: str) -> Verdict:
    """The verdict on a client that breaks a rule of a check of this level."""
    return Verdict.FAIL if level == "must" else Verdict.WARN


def as_sentence(result: Result) -> str:
    """A rule that was not kept, and what the client did."""
    rule = result.rule.get("that") or "A rule was broken."
    return f"{rule} {as_text(result)}"


def with_exchanges(violation: Result) -> str:
    """A broken invariant, what the client did, and the exchanges with their times."""
    exchanges = ", ".join(f"{entry['line']} at {entry['at']}" for entry in violation.evidence)
    return f"{as_sentence(violation)} {exchanges}."


def as_text(result: Result) -> str:
    """The deeds of the client, as a sentence."""
    if result.outcome is Outcome.UNJUDGED:
        return f"There was nothing to see of {result.expected}."
    return f"{result.actual}."
