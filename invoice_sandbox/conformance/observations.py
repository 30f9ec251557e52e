"""Observations of a client in a workspace: its requests, and its responses to webhooks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from invoice_sandbox.base import jsonio
from invoice_sandbox.base.clock import instant_text, parse_instant
from invoice_sandbox.runtime.named_secrets import SECRET

_TOO_MANY: Final = 429
_FAILURE: Final = 500
_UNREADABLE: Final = frozenset({"truncate", "html", "malformed"})
"""Faults of a response that the client cannot read."""

_ID: Final = re.compile(r"[0-9A-Za-z_.:-]+")


@dataclass(frozen=True)
class Request:
    """A request of the client. ``ended`` is when its response was complete.

    ``credential`` is its name in a recording, such as ``3``; None: it is not known. ``status`` is
    None when the connection was reset. ``period`` is the number of marks that had
    been set when the request was first seen. ``is_live``: the clock followed real time.
    """

    id: str
    ended: datetime
    took: timedelta
    operation: str | None
    method: str
    path: str
    status: int | None
    idempotency_key: str | None = None
    retry_after: timedelta | None = None
    body: str | None = None
    response: str | None = None
    fault: str | None = None
    replayed: bool = False
    credential: str | None = None
    period: int = 0
    is_live: bool = True

    @property
    def began(self) -> datetime:
        """The instant of its arrival."""
        return self.ended - self.took if self.is_live else self.ended

    @property
    def line(self) -> str:
        """The request in one line."""
        return f"{self.method} {self.path}: {self.status or 'connection reset'}"

    @property
    def has_failed(self) -> bool:
        """True if a repetition may succeed: 429, 5xx, no response, or one that cannot be read."""
        return (
            self.status is None
            or self.status == _TOO_MANY
            or self.status >= _FAILURE
            or self.fault in _UNREADABLE
        )

    def evidence(self) -> dict[str, Any]:
        """A reference to its journal entry."""
        return {
            "requestId": self.id,
            "line": self.line,
            "operation": self.operation,
            "at": instant_text(self.began),
        }


@dataclass(frozen=True)
class Attempt:
    """An attempt to deliver a webhook, and what the client responded.

    ``kind`` is the fault that altered it; None: it is genuine.
    """

    delivery_id: str
    number: int
    event_type: str
    kind: str | None
    status: int | None
    error: str | None
    at: str
    period: int = 0

    @property
    def line(self) -> str:
        """The attempt in one line."""
        kind = f" ({self.kind})" if self.kind else ""
        return f"{self.event_type}{kind}: {self.status or self.error}"

    def evidence(self) -> dict[str, Any]:
        """A reference to its delivery."""
        return {
            "deliveryId": self.delivery_id,
            "attempt": self.number,
            "line": self.line,
            "eventType": self.event_type,
            "at": self.at,
        }


@dataclass(frozen=True)
class Observations:
    """Requests, oldest first, attempts in order of their periods, and the marks that were set.

    ``until`` is the instant of the workspace at which a client that had not ended was seen last;
    None: it had ended.
    """

    requests: Sequence[Request] = ()
    attempts: Sequence[Attempt] = ()
    marks: Sequence[str] = ()
    until: datetime | None = None


def observations_of(
    journal: Sequence[Mapping[str, Any]],
    deliveries: Sequence[Mapping[str, Any]],
    marks: Sequence[str] = (),
    period_of: Callable[[str], int] = lambda _: 0,
) -> Observations:
    """Return what journal entries and deliveries show, both oldest first."""
    requests = [_request(entry, period_of) for entry in journal]
    attempts = [
        _attempt(delivery, attempt, period_of)
        for delivery in deliveries
        for attempt in delivery["attempts"]
        if attempt["sent"]
    ]
    attempts.sort(key=lambda attempt: attempt.period)
    return Observations(requests, attempts, tuple(marks))


def _request(entry: Mapping[str, Any], period_of: Callable[[str], int]) -> Request:
    sent, received = _headers(entry["request"]), _headers(entry["response"])
    return Request(
        id=entry["requestId"],
        ended=parse_instant(entry["at"]),
        took=timedelta(milliseconds=float(entry["durationMs"])),
        operation=entry["operation"],
        method=entry["method"],
        path=entry["path"],
        status=entry["status"],
        idempotency_key=sent.get("idempotency-key"),
        retry_after=_seconds(received.get("retry-after")),
        body=entry["request"]["body"],
        response=entry["response"]["body"],
        fault=entry["why"].get("fault", "").rpartition(" ")[2] or None,
        replayed=bool(entry["why"].get("replayed", False)),
        credential=_credential(sent),
        period=period_of(entry["requestId"]),
        is_live=entry["why"].get("clock", "live").startswith("live"),
    )


def _attempt(
    delivery: Mapping[str, Any], attempt: Mapping[str, Any], period_of: Callable[[str], int]
) -> Attempt:
    return Attempt(
        delivery_id=delivery["id"],
        number=attempt["attempt"],
        event_type=delivery["eventType"],
        kind=attempt["variation"],
        status=attempt["responseStatus"],
        error=attempt["error"],
        at=attempt["at"],
        period=period_of(f"{delivery['id']}/{attempt['attempt']}"),
    )


def contains(value: Any, wanted: str) -> bool:
    """True if ``wanted`` is a text anywhere in a JSON value."""
    if isinstance(value, Mapping):
        return any(contains(member, wanted) for member in value.values())
    if isinstance(value, list):
        return any(contains(item, wanted) for item in value)
    return bool(value == wanted)


def statuses_shown(value: Any) -> dict[str, str]:
    """Return the statuses of the records anywhere in a JSON value, by their ids."""
    if isinstance(value, list):
        return {name: text for item in value for name, text in statuses_shown(item).items()}
    if not isinstance(value, Mapping):
        return {}
    found = statuses_shown(list(value.values()))
    record, status = value.get("id"), value.get("status")
    if isinstance(record, str) and isinstance(status, str):
        found[record] = status
    return found


def named_by(request: Request) -> set[str]:
    """Return everything that a request names: steps and values of its path, texts of its body."""
    return {*_ID.findall(request.path), *_texts(jsonio.parsed(request.body))}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def path_names(path: str, wanted: str) -> bool:
    """True if ``wanted`` is a step or a value of a path."""
    return wanted in _ID.findall(path)


def _headers(message: Mapping[str, Any]) -> dict[str, str]:
    return {name.lower(): value for name, value in message["headers"]}


def _credential(headers: Mapping[str, str]) -> str | None:
    """Return the name that a recording has for the credential of a request."""
    found = SECRET.search(headers.get("authorization") or headers.get("x-api-key", ""))
    return None if found is None else found[1]


def _seconds(text: str | None) -> timedelta | None:
    return timedelta(seconds=int(text)) if text and text.isascii() and text.isdigit() else None
