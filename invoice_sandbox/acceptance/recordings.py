"""Judges a client by what it did anyway, in a recording that is no acceptance run.

The verdicts are those of a workspace while it is in use: one on each invariant of the plan. What
the recording has no example of is inconclusive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from invoice_sandbox.acceptance.cases import CaseReport, with_payloads
from invoice_sandbox.acceptance.runner import NOTHING, CheckReport, RunReport
from invoice_sandbox.acceptance.verdicts import CaseVerdict, Verdict, as_sentence, with_exchanges
from invoice_sandbox.bundles.archive import Bundle
from invoice_sandbox.bundles.saving import DELIVERIES, END, JOURNAL, listed_entries
from invoice_sandbox.conformance.live import LiveVerdict, State, live_verdicts, recorded
from invoice_sandbox.conformance.observations import Observations
from invoice_sandbox.conformance.plan import Case, Check, Plan
from invoice_sandbox.webhooks.endpoints import ENDPOINTS
from invoice_sandbox.webhooks.inbox import inbox_url

_VERDICTS: Final = {
    State.BROKEN: Verdict.FAIL,
    State.NOT_SEEN: Verdict.INCONCLUSIVE,
    State.KEPT: Verdict.PASS,
}


def recording_report(plan: Plan, bundle: Bundle) -> RunReport:
    """The verdicts on a recorded workspace. Raises BundleError."""
    whole = bundle.lines(JOURNAL)
    journal = listed_entries(whole)
    deliveries, end = bundle.json(DELIVERIES), bundle.json(END)
    seen = recorded(whole, deliveries, _inboxes(end["records"] or {}))
    checks = [_check(verdict, seen) for verdict in live_verdicts(plan, seen)]
    sent = with_payloads({"deliveries": deliveries, "end": end})
    shown: set[str] = set()
    with_entries = [*_with_entries(checks, journal, sent, shown)]
    others = replace(
        NOTHING,
        requests=[entry for entry in journal if entry["requestId"] not in shown],
        deliveries=[delivery for delivery in sent if delivery["id"] not in shown],
    )
    return RunReport(plan, with_entries, True, others)


def _inboxes(records: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Yield the ids of the endpoints that are an inbox of the sandbox."""
    for endpoint in records.get(ENDPOINTS, ()):
        if urlsplit(endpoint["url"]).path.startswith(inbox_url("")):
            yield endpoint["id"]


def _check(live: LiveVerdict, seen: Observations) -> CheckReport:
    """An invariant as a check with one case."""
    result = live.result
    verdict = _VERDICTS[live.state]
    text = "Cannot be judged: the recording has no example of it."
    if live.state is not State.NOT_SEEN:
        text = as_sentence(result)
    if live.state is State.BROKEN:
        text = with_exchanges(result)
    found = CaseVerdict(verdict, text, result, (result,))
    proves, place = str(result.rule["that"]), f"/invariants/{live.id}"
    check = Check(live.id, "must", proves, "All of it", (Case({}, (result.rule,)),), place)
    return CheckReport(check, [CaseReport("", found, seen)])


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
