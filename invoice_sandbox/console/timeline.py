"""A record on a timeline in the workspace's time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from invoice_sandbox.console.client import Client
from invoice_sandbox.console.common import page_url
from invoice_sandbox.console.records import Records, Source

_REQUESTS: Final = {"limit": 100, "messages": "false"}
_EVENTS: Final = 100
_SUBJECTS: Final = 200

_Step = Mapping[str, Any]
"""A step as the agenda of the control API shows it."""


@dataclass(frozen=True)
class Mark:
    """Something at an instant: its ``source`` in a word, what it was, details, and the page of what
    caused it: a request, a step, or a delivery.

    ``is_bad``: it failed. ``is_ahead``: it is still to come.
    """

    at: str
    source: str
    text: str
    detail: Any = None
    link: str | None = None
    is_bad: bool = False
    is_ahead: bool = False


def timeline_of(client: Client, records: Records, record_id: str, ids: Set[str]) -> list[Mark]:
    """Return everything about a record, oldest first; ``ids``: also of what belongs to it."""
    agenda = _agenda(client, ids)
    numbered = {step["number"]: step for step in agenda["done"]}
    marks = [
        *_requests(client, ids),
        *_steps(agenda["due"], agenda["done"]),
        *_of_sources(client, records, record_id, numbered),
        *_events(client, record_id, numbered),
    ]
    # Without the Z, an instant with milliseconds comes after the same second without.
    return sorted(marks, key=lambda mark: (mark.is_ahead, mark.at.removesuffix("Z")))


def _requests(client: Client, ids: Set[str]) -> Iterator[Mark]:
    found: dict[str, Any] = {}
    for wanted in ids:
        rows = client.get("/sandbox/requests", {**_REQUESTS, "text": wanted}).rows
        found |= {entry["requestId"]: entry for entry in rows}
    for entry in sorted(found.values(), key=lambda entry: (entry["at"], entry["requestId"])):
        text = f"{entry['method']} {entry['path']} → {entry['status'] or 'reset'}"
        is_bad = (entry["status"] or 599) >= 400
        yield Mark(
            entry["at"], "request", text, link=request_page(entry["requestId"]), is_bad=is_bad
        )


def request_page(request_id: str) -> str:
    """The page of an entry of the journal."""
    return page_url(f"/requests/{request_id}")


def _agenda(client: Client, ids: Set[str]) -> Mapping[str, list[_Step]]:
    """The steps about records that are due, and those that are done, oldest first."""
    query = {"subject": sorted(ids)[:_SUBJECTS], "deliveries": "false"}
    received = client.get("/sandbox/agenda", query)
    if not received.is_success:
        return {"due": [], "done": []}
    return {"due": received.data["due"], "done": received.data["done"][::-1]}


def anchor(step: _Step) -> str:
    """The id of the entry of a step in the page of the agenda."""
    number = step.get("number")
    if number is not None:
        return f"step-{number}"
    about = "-".join(map(str, filter(None, (step["subject"], *step["with"].values()))))
    return f"step-{step['at']}-{step['do']}-{about}"


def step_page(step: _Step) -> str:
    """The entry of a step in the agenda, among those about the same record."""
    about = step["subject"] or next(iter(step["with"].values()))
    return page_url(f"/scenario?{urlencode({'about': about})}#{quote(anchor(step))}")


def _steps(due: Sequence[_Step], done: Sequence[_Step]) -> Iterator[Mark]:
    for step in done:
        is_done = step["outcome"] == "done"
        outcome = "" if is_done else f" ({step['outcome']}: {step['reason']})"
        detail = {"scenario": step["scenario"], **step["with"]}
        request_id = step.get("requestId")  # of the request that cancelled it
        link = request_page(request_id) if request_id else step_page(step)
        text = f"{step['do']}{outcome}"
        yield Mark(step["at"], "step", text, detail, link, is_bad=not is_done)
    for step in due:
        detail = {"scenario": step["scenario"], **step["with"]}
        yield Mark(step["at"], "step", step["do"], detail, step_page(step), is_ahead=True)


def _cause(row: Any, path: str, done: Mapping[int, _Step]) -> str | None:
    """The page of the request or of the step that caused a row; None: it is not known.

    ``path`` leads to the id of the request in the row, with dots between the names. If it is null,
    the number of the step stands beside it. ``done`` are the steps by their numbers.
    """
    *names, last = path.split(".")
    for name in names:
        row = row.get(name) if isinstance(row, Mapping) else None
    if not isinstance(row, Mapping):
        return None
    if row.get(last) is not None:
        return request_page(row[last])
    step = done.get(row.get("stepNumber", 0))
    return None if step is None else step_page(step)


def _of_sources(
    client: Client, records: Records, record_id: str, done: Mapping[int, _Step]
) -> Iterator[Mark]:
    for source in records.timeline:
        if source.by is None:
            data = client.get(source.address.path(record_id)).data
            rows = data.get(source.member, []) if isinstance(data, Mapping) else []
        else:
            rows = client.get(source.address.path(), {source.by: record_id, "limit": 100}).rows
        yield from _marks(source, rows, done)


def _marks(source: Source, rows: Any, done: Mapping[int, _Step]) -> Iterator[Mark]:
    for row in reversed(rows) if source.by else rows:
        detail = {key: value for key, value in row.items() if key not in {source.at, source.what}}
        at, what = row.get(source.at) or "", str(row[source.what])
        link = _cause(row, source.request, done) if source.request else None
        yield Mark(at, source.title.lower(), what, detail, link)


def _events(client: Client, record_id: str, done: Mapping[int, _Step]) -> Iterator[Mark]:
    """Events about the record, and the attempts to deliver them."""
    rows = client.get("/sandbox/event-log", {"subject": record_id, "limit": _EVENTS}).rows
    for event in reversed(rows):
        link = _cause(event, "requestId", done)
        yield Mark(event["at"], "event", event["type"], event["payload"], link)
        for delivery in reversed(event["deliveries"]):
            yield from _attempts(delivery, page_url(f"/webhooks/{delivery['id']}"))


def _attempts(delivery: Mapping[str, Any], page: str) -> Iterator[Mark]:
    to = f"{delivery['eventType']} to {delivery['endpointId']}"
    for attempt in delivery["attempts"]:
        outcome = attempt["responseStatus"] or attempt["error"]
        altered = f", {attempt['variation']}" if attempt["variation"] else ""
        is_bad = attempt["status"] != "Delivered"
        yield Mark(
            attempt["at"], "delivery", f"{to} → {outcome}{altered}", link=page, is_bad=is_bad
        )
    if delivery["nextAttemptAt"]:
        yield Mark(delivery["nextAttemptAt"], "delivery", to, link=page, is_ahead=True)
