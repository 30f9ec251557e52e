"""Topics of changes: a page names the ones that it shows, and its stream reports no others.

A topic is one of the constants here, or the id of a record. A change by the control API, such as a
reset or a moved clock, concerns every page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from invoice_sandbox.runtime.agenda import ATTEMPTS_LOG
from invoice_sandbox.runtime.journal import REQUESTS_LOG, Entry, mentions
from invoice_sandbox.runtime.journal_entry import JournalEntry
from invoice_sandbox.state import STEPS_LOG, Log, Record, Transaction
from invoice_sandbox.webhooks.inbox import INBOX_LOG
from invoice_sandbox.webhooks.outbox import DELIVERIES, EVENTS

REQUESTS: Final = "requests"
CHANGES: Final = "changes"
FAULTS: Final = "faults"
STEPS: Final = "steps"
WEBHOOKS: Final = "webhooks"
"""Every request; one that may change something; one that met a fault; every step of a scenario;
every attempt to deliver and every message in the inbox."""

BAR: Final = frozenset({CHANGES, STEPS, WEBHOOKS})
"""The topics of the bar of every page."""

_WORDS: Final = frozenset({REQUESTS, CHANGES, FAULTS, STEPS, WEBHOOKS})
_MOST: Final = 200
_CONTROL: Final = "/sandbox/"
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def topics_of(text: str) -> frozenset[str]:
    """The topics that a text names with commas between them, at most 200; empty: all."""
    return frozenset(name for name in text.split(",")[:_MOST] if name)


def concerns(state: Transaction, found: Mapping[str, Log], topics: Set[str]) -> bool:
    """True if new entries of logs have one of the topics, or if there are none."""
    if not topics:
        return True
    ids = topics - _WORDS
    entries = {name: log.entries for name, log in found.items()}
    return (
        any(_is_request_about(entry, topics, ids) for entry in entries[REQUESTS_LOG])
        or any(not topics.isdisjoint(_of_step(entry)) for entry in entries[STEPS_LOG])
        or (WEBHOOKS in topics and bool(entries[ATTEMPTS_LOG] or entries[INBOX_LOG]))
        or any(not ids.isdisjoint(_of_attempt(state, entry)) for entry in entries[ATTEMPTS_LOG])
    )


def _is_request_about(entry: Entry, topics: Set[str], ids: Set[str]) -> bool:
    method, path, why = _summary(entry)
    changes = method not in _READING
    return (
        REQUESTS in topics
        or (changes and (CHANGES in topics or path.startswith(_CONTROL)))
        or (FAULTS in topics and "fault" in why)
        or any(mentions(entry, name) for name in ids)
    )


def _summary(entry: Entry) -> tuple[str, str, Mapping[str, Any]]:
    if isinstance(entry, JournalEntry):
        return entry.method, entry.path, entry.why.found
    return entry["method"], entry["path"], entry["why"]


def _of_step(entry: Record) -> Iterator[str]:
    """The topics of a step, which are also the records that it is about."""
    yield STEPS
    yield str(entry["subject"])
    yield from map(str, entry["with"].values())


def _of_attempt(state: Transaction, entry: Record) -> Iterator[str]:
    """The delivery of an attempt, and the records that its event is about."""
    yield str(entry["subject"])
    delivery = state.get(DELIVERIES, str(entry["subject"])) or {}
    event = state.get(EVENTS, delivery.get("eventId", "")) or {}
    yield from event.get("subjects", ())
