"""A record on a timeline in the workspace's time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from invoice_sandbox.console.client import Client
from invoice_sandbox.console.common import page_url, request_page
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

    ``is_bad``: it failed. ``is_ahead``: it is still to come. ``lane`` is the row that it is in,
    where it is a ``short`` text with a ``tone``; ``is_struck``: it did not happen. ``key`` names
    it in an address. ``chain`` are what led to it and the pages of that, in order.
    """

    at: str
    source: str
    text: str
    detail: Any = None
    link: str | None = None
    is_bad: bool = False
    is_ahead: bool = False
    key: str = ""
    lane: str = ""
    short: str = ""
    tone: str = ""
    is_struck: bool = False
    chain: tuple[tuple[str, str | None], ...] = ()


CLIENT_LANE: Final = "Your client"
STATUS_LANE: Final = "Status"
STEPS_LANE: Final = "Scenario steps"


def timeline_of(
    client: Client,
    records: Records,
    record_id: str,
    agenda: Mapping[str, Any],
    ids: Set[str],
    receivers: Mapping[str, str],
) -> list[Mark]:
    """Return everything about a record, oldest first; ``ids``: also of what belongs to it.
    ``agenda`` are its steps, ``receivers`` the names of endpoints."""
    numbered = {step["number"]: step for step in agenda["done"]}
    marks = [
        *_requests(client, ids),
        *_steps(agenda["due"], agenda["done"][::-1]),
        *_of_sources(client, records, record_id, numbered),
        *_events(client, records, record_id, numbered, receivers),
    ]
    # Without the Z, an instant with milliseconds comes after the same second without.
    return sorted(marks, key=lambda mark: (mark.is_ahead, mark.at.removesuffix("Z")))


def _requests(client: Client, ids: Set[str]) -> Iterator[Mark]:
    found: dict[str, Any] = {}
    for wanted in ids:
        rows = client.get("/sandbox/requests", {**_REQUESTS, "text": wanted}).rows
        found |= {entry["requestId"]: entry for entry in rows}
    for entry in sorted(found.values(), key=lambda entry: (entry["at"], entry["requestId"])):
        outcome = str(entry["status"] or "reset")
        text = f"{entry['method']} {entry['path']} → {outcome}"
        is_bad, link = (entry["status"] or 599) >= 400, request_page(entry["requestId"])
        yield Mark(
            entry["at"],
            "request",
            text,
            link=link,
            is_bad=is_bad,
            key=entry["requestId"],
            lane=CLIENT_LANE,
            short=f"{entry['method']} {_shortened(entry['path'])} {outcome}",
            tone="bad" if is_bad else "good",
            chain=((text, link),),
        )


def _shortened(path: str) -> str:
    """A path without its base and query, and with a dot for each id."""
    bare = path.partition("?")[0].removeprefix("/api")
    return "/".join("…" if "_sandbox_" in part else part for part in bare.split("/"))


def agenda_of(client: Client, ids: Set[str]) -> Mapping[str, Any]:
    """The steps about records that are due, and those that are done, newest first, with the
    scenarios of the records."""
    query = {"subject": sorted(ids)[:_SUBJECTS], "deliveries": "false"}
    received = client.get("/sandbox/agenda", query)
    empty: Mapping[str, Any] = {"due": [], "done": [], "scenarios": {}, "next": {}}
    return received.data if received.is_success else empty


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
        request_id = step.get("requestId")  # of the request that cancelled it
        link = request_page(request_id) if request_id else step_page(step)
        events = [(event, None) for event in step["events"]]
        yield Mark(
            step["at"],
            "step",
            f"{step['do']}{outcome}",
            {"scenario": step["scenario"], **step["with"]},
            link,
            is_bad=not is_done,
            key=anchor(step),
            lane=STEPS_LANE,
            short=step["do"],
            tone="good" if is_done else "bad" if step["outcome"] == "failed" else "wait",
            is_struck=step["outcome"] in {"skipped", "cancelled"},
            chain=((f"step {step['do']}{outcome}", link), *events),
        )
    for step in due:
        detail, link = {"scenario": step["scenario"], **step["with"]}, step_page(step)
        yield Mark(
            step["at"],
            "step",
            step["do"],
            detail,
            link,
            is_ahead=True,
            key=anchor(step),
            lane=STEPS_LANE,
            short=step["do"],
            chain=((f"step {step['do']}", link),),
        )


def _cause(row: Any, path: str, done: Mapping[int, _Step]) -> tuple[str, str] | None:
    """The request or the step that caused a row, and its page; None: it is not known.

    ``path`` leads to the id of the request in the row, with dots between the names. If it is null,
    the number of the step stands beside it. ``done`` are the steps by their numbers.
    """
    *names, last = path.split(".")
    for name in names:
        row = row.get(name) if isinstance(row, Mapping) else None
    if not isinstance(row, Mapping):
        return None
    if row.get(last) is not None:
        return f"request {row[last]}", request_page(row[last])
    step = done.get(row.get("stepNumber", 0))
    return None if step is None else (f"step {step['do']}", step_page(step))


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
    for number, row in enumerate(reversed(rows) if source.by else rows):
        detail = {key: value for key, value in row.items() if key not in {source.at, source.what}}
        at, what = row.get(source.at) or "", str(row[source.what])
        cause = _cause(row, source.request, done) if source.request else None
        yield Mark(
            at,
            source.title.lower(),
            what,
            detail,
            cause[1] if cause else None,
            key=f"{source.title}-{row.get('id', number)}".replace(" ", "-"),
            lane=source.title if source.member else "",  # a log repeats what is in other lanes
            short=what,
            chain=_chain(cause, (f"{source.title}: {what}", None)),
        )


def _chain(
    cause: tuple[str, str] | None, *following: tuple[str, str | None]
) -> tuple[tuple[str, str | None], ...]:
    return following if cause is None else (cause, *following)


def _events(
    client: Client,
    records: Records,
    record_id: str,
    done: Mapping[int, _Step],
    receivers: Mapping[str, str],
) -> Iterator[Mark]:
    """Events about the record, and the attempts to deliver them."""
    rows = client.get("/sandbox/event-log", {"subject": record_id, "limit": _EVENTS}).rows
    states = _states(records)
    for event in reversed(rows):
        cause, state = _cause(event, "requestId", done), states.get(event["type"])
        tones = records.machine.tones if records.machine else {}
        yield Mark(
            event["at"],
            "event",
            event["type"],
            event["payload"],
            cause[1] if cause else None,
            key=event["id"],
            lane=STATUS_LANE if state else "",
            short=state or "",
            tone=tones.get(state or "", ""),
            chain=_chain(cause, (f"event {event['type']}", None)),
        )
        for delivery in reversed(event["deliveries"]):
            yield from _attempts(delivery, receivers, cause)


def _states(records: Records) -> dict[str, str]:
    """The status that an event shows, by its type."""
    machine = records.machine
    if machine is None:
        return {}
    moves = [(move.event, move.to) for move in machine.transitions if move.to in machine.states]
    return {event: state for event, state in (*moves, (machine.created, machine.initial)) if event}


def _attempts(
    delivery: Mapping[str, Any], receivers: Mapping[str, str], cause: tuple[str, str] | None
) -> Iterator[Mark]:
    page, name = page_url(f"/webhooks/{delivery['id']}"), delivery["eventType"]
    receiver = receivers.get(delivery["endpointId"], delivery["endpointId"])
    to, short = f"{name} to {receiver}", name.rpartition(".")[2]
    known = _chain(cause, (f"event {name}", None), (f"delivery to {receiver}", page))
    for attempt in delivery["attempts"]:
        outcome = attempt["responseStatus"] or attempt["error"]
        altered = f", {attempt['variation']}" if attempt["variation"] else ""
        is_bad = attempt["status"] != "Delivered"
        yield Mark(
            attempt["at"],
            "delivery",
            f"{to} → {outcome}{altered}",
            link=page,
            is_bad=is_bad,
            key=f"{delivery['id']}.{attempt['attempt']}",
            lane=receiver,
            short=f"{short} {outcome}",
            tone="bad" if is_bad else "good",
            chain=(*known, (f"response {outcome}{altered}", page)),
        )
    if delivery["nextAttemptAt"]:
        yield Mark(
            delivery["nextAttemptAt"],
            "delivery",
            to,
            link=page,
            is_ahead=True,
            key=f"{delivery['id']}.next",
            lane=receiver,
            short=f"{short} again" if delivery["attempts"] else short,
            chain=known,
        )
