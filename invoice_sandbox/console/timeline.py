"""One record on one timeline in the workspace's time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Final

from invoice_sandbox.console.client import Client
from invoice_sandbox.console.records import Records, Source
from invoice_sandbox.http.pages import CONSOLE

_JOURNAL: Final = 100
_EVENTS: Final = 100


@dataclass(frozen=True)
class Mark:
    """Something at an instant: its ``source`` in a word, what it was, details, and its page.

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
    """Everything about a record, oldest first; ``ids`` are those of what belongs to it, too."""
    marks = [
        *_requests(client, ids),
        *_steps(client.get("/sandbox/agenda").data, ids),
        *_of_sources(client, records, record_id),
        *_events(client, record_id),
    ]
    return sorted(marks, key=lambda one: (one.is_ahead, _sortable(one.at)))


def _sortable(at: str) -> str:
    """An instant with milliseconds comes after the same second without."""
    return at.removesuffix("Z")


def _requests(client: Client, ids: Set[str]) -> Iterator[Mark]:
    found: dict[str, Any] = {}
    for wanted in ids:
        rows = client.get("/sandbox/requests", {"limit": _JOURNAL, "text": wanted}).rows
        found |= {one["requestId"]: one for one in rows}
    for one in sorted(found.values(), key=lambda one: (one["at"], one["requestId"])):
        text = f"{one['method']} {one['path']} → {one['status'] or 'reset'}"
        is_bad = (one["status"] or 599) >= 400
        yield Mark(one["at"], "request", text, link=request_page(one["requestId"]), is_bad=is_bad)


def request_page(request_id: str) -> str:
    """The page of an entry of the journal."""
    return f"{CONSOLE}/requests/{request_id}"


def _steps(agenda: Any, ids: Set[str]) -> Iterator[Mark]:
    if not isinstance(agenda, Mapping) or "done" not in agenda:
        return
    for one in reversed(agenda["done"]):
        if _is_about(one, ids):
            is_done = one["outcome"] == "done"
            outcome = "" if is_done else f" ({one['outcome']}: {one['reason']})"
            detail = {"scenario": one["scenario"], **one["with"]}
            yield Mark(one["at"], "step", f"{one['do']}{outcome}", detail, is_bad=not is_done)
    for one in agenda["due"]:
        if _is_about(one, ids):
            detail = {"scenario": one["scenario"], **one["with"]}
            yield Mark(one["at"], "step", one["do"], detail, is_ahead=True)


def _is_about(step: Mapping[str, Any], ids: Set[str]) -> bool:
    return step["subject"] in ids or any(one in ids for one in step["with"].values())


def _of_sources(client: Client, records: Records, record_id: str) -> Iterator[Mark]:
    for source in records.timeline:
        if source.by is None:
            data = client.get(source.address.path(record_id)).data
            rows = data.get(source.member, []) if isinstance(data, Mapping) else []
        else:
            rows = client.get(source.address.path(), {source.by: record_id, "limit": 100}).rows
        yield from _marks(source, rows)


def _marks(source: Source, rows: Any) -> Iterator[Mark]:
    for row in reversed(rows) if source.by else rows:
        detail = {key: one for key, one in row.items() if key not in {source.at, source.what}}
        cause = _member(row, source.request)
        link = None if cause is None else request_page(cause)
        at = row.get(source.at) or ""
        yield Mark(at, source.title.lower(), str(row[source.what]), detail, link)


def _member(row: Any, path: str | None) -> str | None:
    """The text at a path of member names with dots between them."""
    for name in path.split(".") if path else ():
        row = row.get(name) if isinstance(row, Mapping) else None
    return row if path and isinstance(row, str) else None


def _events(client: Client, record_id: str) -> Iterator[Mark]:
    """Events about the record, and the attempts to deliver them."""
    rows = client.get("/sandbox/event-log", {"subject": record_id, "limit": _EVENTS}).rows
    for event in reversed(rows):
        yield Mark(event["at"], "event", event["type"], event["payload"])
        for delivery in reversed(event["deliveries"]):
            yield from _attempts(delivery, f"{CONSOLE}/webhooks/{delivery['id']}")


def _attempts(delivery: Mapping[str, Any], page: str) -> Iterator[Mark]:
    to = f"{delivery['eventType']} to {delivery['endpointId']}"
    for one in delivery["attempts"]:
        outcome = one["responseStatus"] or one["error"]
        altered = f", {one['variation']}" if one["variation"] else ""
        is_bad = one["status"] != "Delivered"
        yield Mark(one["at"], "delivery", f"{to} → {outcome}{altered}", link=page, is_bad=is_bad)
    if delivery["nextAttemptAt"]:
        yield Mark(delivery["nextAttemptAt"], "delivery", to, link=page, is_ahead=True)
