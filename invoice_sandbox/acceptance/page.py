"""The report of a run as one HTML file that needs nothing else, not even a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from invoice_sandbox import __version__
from invoice_sandbox.acceptance.cases import CaseReport
from invoice_sandbox.acceptance.reports import (
    TOOL,
    Subject,
    contract_pointers,
    entry_id,
    plain_json,
)
from invoice_sandbox.acceptance.runner import RunReport
from invoice_sandbox.acceptance.verdicts import CONFORMANT, Verdict
from invoice_sandbox.base.clock import parse_instant

_FOLDER: Final = Path(__file__).parent
_TEMPLATE: Final = "report.template.html"
TOKENS: Final = _FOLDER.parent / "console" / "static" / "tokens.css"
"""The colours of the console, which reports share."""

_GROUP: Final = 200
"""Entries of a timeline that are shown at once; the next ones are in folded groups of as many."""
_MAX_BODY: Final = 500
"""Characters of a body beyond the first group, unless it proves the verdict."""

Headers = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Entry:
    """A request or a delivery attempt in the timeline of a case."""

    id: str
    at: str
    line: str
    sent_headers: Headers
    sent_body: str | None
    received_headers: Headers
    received_body: str | None

    @property
    def instant(self) -> datetime:
        """The instant, on the clock of the workspace."""
        return parse_instant(self.at)

    def short(self) -> Entry:
        """The entry with the beginnings of its bodies."""
        return replace(
            self, sent_body=_beginning(self.sent_body), received_body=_beginning(self.received_body)
        )


def _beginning(body: str | None) -> str | None:
    if body is None or len(body) <= _MAX_BODY:
        return body
    return f"{body[:_MAX_BODY]}\n... the bundle has the rest"


def as_html(run: RunReport, subject: Subject) -> str:
    """The report as HTML."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(_TEMPLATE).render(
        run=run,
        tokens=TOKENS.read_text(),
        subject=subject,
        conclusion=_conclusion(run),
        timeline=timeline,
        group=_GROUP,
        entry_id=entry_id,
        contract=lambda result: contract_pointers(result, run.plan.pointers),
        json=plain_json,
        tool=TOOL,
        version=__version__,
    )


def _conclusion(run: RunReport) -> str:
    if run.verdict is Verdict.FAIL:
        return "The client is not conformant: it broke rules that it must keep."
    if run.verdict in CONFORMANT:
        return "The client is conformant in every check that applies to it."
    if run.verdict is Verdict.NOT_APPLICABLE:
        return "Nothing was judged: the client does not declare what the checks need."
    return "The client is not verified yet: some checks have no final verdict."


def timeline(case: CaseReport) -> list[Entry]:
    """Return the entries of a case and of its probes, by time. In a long one, only the beginning
    and what proves the verdict have long bodies."""
    parts = [("before: ", case.before), ("", case), ("after: ", case.after)]
    evidence = {entry_id(entry) for result in case.verdict.results for entry in result.evidence}
    entries = [entry for name, part in parts if part is not None for entry in _part(name, part)]
    return [
        entry if place < _GROUP or entry.id in evidence else entry.short()
        for place, entry in enumerate(entries)
    ]


def _part(name: str, case: CaseReport) -> list[Entry]:
    """Return the entries of one workspace."""
    entries = [_request(request) for request in case.requests]
    entries += [entry for delivery in case.deliveries for entry in _attempts(delivery)]
    ordered = sorted(entries, key=lambda entry: entry.instant)
    return [replace(entry, line=f"{name}{entry.line}") for entry in ordered]


def _payload(delivery: Mapping[str, Any], request: Mapping[str, Any]) -> str | None:
    """Return what an attempt sent: where, how much, and the body without secrets."""
    if "bodySize" not in request:
        return None
    sent = f"to {request['url']}\n{request['bodySize']} bytes, {request['bodyDigest']}"
    payload = request.get("payload", delivery["payload"])
    return sent if payload is None else f"{sent}\n\n{plain_json(payload)}"


def _request(entry: Mapping[str, Any]) -> Entry:
    status = entry["status"] or "connection reset"
    fault = f" ({entry['why']['fault']})" if "fault" in entry["why"] else ""
    return Entry(
        id=entry["requestId"],
        at=entry["at"],
        line=f"{entry['method']} {entry['path']}: {status}{fault}",
        sent_headers=entry["request"]["headers"],
        sent_body=entry["request"]["body"],
        received_headers=entry["response"]["headers"],
        received_body=entry["response"]["body"],
    )


def _attempts(delivery: Mapping[str, Any]) -> Iterator[Entry]:
    for attempt in delivery["attempts"]:
        kind = f" ({attempt['variation']})" if attempt["variation"] else ""
        outcome = attempt["responseStatus"] or attempt["error"]
        request = attempt["request"] or {"headers": {}}
        yield Entry(
            id=f"{delivery['id']}-{attempt['attempt']}",
            at=attempt["at"],
            line=f"webhook {delivery['eventType']}{kind}: {outcome}",
            sent_headers=[*request["headers"].items()],
            sent_body=_payload(delivery, request),
            received_headers=[],
            received_body=attempt["response"]["body"],
        )
