"""The journal of a workspace: its requests and responses, and what explains them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final, NamedTuple

from msgspec import structs

from invoice_sandbox.openapi.operation import Contract
from invoice_sandbox.runtime.journal_entry import NO_BODY, JournalEntry
from invoice_sandbox.runtime.redaction import MAX_BODY, REDACTED, UNLISTED, Redactor
from invoice_sandbox.state import Log, Record, Store

REQUESTS_LOG: Final = "requests"
"""The log of a workspace that holds its journal."""

_LARGE_ENTRY: Final = 4 * MAX_BODY
"""Bodies of an entry beyond this are cut, and redacted for that, when it is recorded."""

_UNRECORDED: Final = frozenset(
    {
        *("createWorkspace", "deleteWorkspace", "reportMessageResponse", "receiveForListener"),
        "receiveWebhook",
    }
)
"""Control operations that change other workspaces or nothing, or carry what another log has."""

_OF_ACCEPTANCE: Final = re.compile("(create|update|report|keep)Acceptance(Run|Task|Bundle)")
"""Control operations that change nothing that the API shows; the console shows them at once."""

CREATE_LISTENER: Final = "createListener"
_OF_LISTENERS: Final = frozenset({CREATE_LISTENER, "deleteListener"})
"""Control operations that fail for reasons that no recording has, such as who is connected."""


_LOGGED: Final = ("method", "path", "status", "operation", "durationMs")
"""Members of an entry that stand in a log of JSON objects."""

Entry = JournalEntry | Record
"""An entry; one of an earlier process is a record."""

Recorder = Callable[[Entry], Record]
"""Shows the entries of one workspace, with a name for each secret."""

_SIDES: Final = ("request", "response")
_NO_MESSAGE: Final[Record] = {"headers": [], "body": None}

_REMEMBERED: Final = 16
"""Workspaces of which it is remembered what their entries show."""


class Journal:
    """Keeps the requests of each workspace in its log."""

    def __init__(self, store: Store, contracts: Iterable[Contract], key_prefix: str) -> None:
        self._store = store
        self.redactor = Redactor(tuple(contracts), key_prefix)
        self._remembered: dict[str, tuple[Recorder, list[tuple[Entry, Record]]]] = {}

    def record(self, workspace_id: str, entry: JournalEntry) -> None:
        """Add a request to the journal of a workspace."""
        operation, status = entry.why.operation, entry.status
        has_failed = (status or 0) >= HTTPStatus.BAD_REQUEST
        if entry.is_control and (
            operation in _UNRECORDED or (operation in _OF_LISTENERS and has_failed)
        ):
            return
        if entry.is_control and _OF_ACCEPTANCE.fullmatch(operation or ""):
            entry = structs.replace(entry, is_sent_again=False)
        size = _size(entry)
        if size > _LARGE_ENTRY:
            entry = self.redactor.without_large_bodies(entry)
            size = _size(entry)
        self._store.append(workspace_id, REQUESTS_LOG, entry, size, self.redactor.kept)

    def logged(self, entry: JournalEntry) -> tuple[str, Record]:
        """The entry for a log, without secrets: one line with the headers of a rejected credential,
        the reason and what the request may have wrong, and the members of the line."""
        shown = self.redactor.shown(entry)
        parts = [entry.method, shown["path"], shown["status"] or "reset", shown["operation"] or "-"]
        parts += [f"{shown['durationMs']:.0f} ms", entry.request_id]
        if entry.status == HTTPStatus.UNAUTHORIZED:
            headers = shown["request"]["headers"]
            parts += [f"{name}: {text}" for name, text in headers if text == REDACTED]
        hints = shown["why"].get("hints", [])
        reason = {name: shown["why"][name] for name in ("reason",) if name in shown["why"]}
        parts += [*reason.values(), *hints]
        line = re.sub(r"[^\x20-\x7e]", "?", "  ".join(map(str, parts)))
        members = {"requestId": entry.request_id} | {name: shown[name] for name in _LOGGED}
        return line, members | reason | ({"hints": hints} if hints else {})

    def newest(
        self,
        workspace_id: str,
        matches: Callable[[Record], bool],
        text: str,
        limit: int,
        *,
        older_than: str | None = None,
        with_control: bool = False,
        with_messages: bool = True,
    ) -> JournalPage:
        """Return the entries that match, and that show ``text`` in the path or a body.

        ``older_than``: only those before the request of that id; none if it was dropped.
        ``with_control``: also those that are not listed, such as changes by the control API.
        ``with_messages``: with headers and bodies.
        """
        log = self._store.log(workspace_id, REQUESTS_LOG)
        entries = [
            (place, entry)
            for place, entry in enumerate(reversed(log.entries))
            if (with_control or _is_listed(entry)) and matches(_summary(entry))
        ]
        if text:
            entries = [it for it in entries if self._shows(it[1], text)]
        newest = -1 if older_than is None else _place(log, older_than)
        older = [entry for place, entry in entries if place > newest]
        show = self._shown_entry if with_messages else self._without_messages
        shown = [show(entry) for entry in older[:limit]]
        return JournalPage(shown, len(entries), log.dropped, limit < len(older))

    def whole(self, workspace_id: str, new_recorder: Callable[[], Recorder]) -> list[Record]:
        """Return every kept entry, oldest first, as a recording has it: with ``isListed``.

        The recorder of a workspace and what it made of an entry are remembered, so that only new
        entries cost something, and a secret keeps its name.
        """
        log = self._store.log(workspace_id, REQUESTS_LOG)
        remembered = self._remembered.get(workspace_id)
        recorder, last = (new_recorder(), []) if remembered is None else remembered
        known = {id(entry): shown for entry, shown in last}
        whole = [
            (entry, known.get(id(entry)) or {**recorder(entry), "isListed": _is_listed(entry)})
            for entry in log.entries
        ]
        self._remembered.pop(workspace_id, None)  # the last one that was asked for is kept longest
        self._remembered[workspace_id] = recorder, whole
        for oldest in [*self._remembered][:-_REMEMBERED]:
            self._remembered.pop(oldest, None)
        return [shown for _, shown in whole]

    def shown(
        self, entry: JournalEntry | Record, matches: Callable[[Record], bool], text: str
    ) -> Record | None:
        """A listed entry as the journal shows it; None: it does not match, or lacks ``text``."""
        if not (_is_listed(entry) and matches(_summary(entry))):
            return None
        shown = self._shown_entry(entry)
        return shown if not text or _shows(shown, text) else None

    def _shows(self, entry: Entry, text: str) -> bool:
        """True if the path or a body shows a text. A word that is not in what was sent is shown
        only where it stands for a secret, so that most entries need not be looked at closely."""
        is_word = re.fullmatch(r"\w+", text) is not None and text not in REDACTED
        return (not is_word or mentions(entry, text)) and _shows(self._shown_entry(entry), text)

    def _without_messages(self, entry: Entry) -> Record:
        """The entry as it is shown, without the headers and bodies of its messages."""
        if isinstance(entry, JournalEntry):
            bare = {"headers": (), "body": NO_BODY}
            parts = {f"{side}_{name}": value for side in _SIDES for name, value in bare.items()}
            entry = structs.replace(entry, **parts)
        return {**self._shown_entry(entry), "request": _NO_MESSAGE, "response": _NO_MESSAGE}

    def _shown_entry(self, entry: JournalEntry | Record) -> Record:
        """The entry without secrets; one of an earlier process has none."""
        if isinstance(entry, JournalEntry):
            return self.redactor.shown(entry)
        return {name: value for name, value in entry.items() if name != UNLISTED}


def _place(log: Log, request_id: str) -> int:
    """The place of a request among the newest ones; after all of them if it was dropped."""
    ids = [_summary(entry)["requestId"] for entry in reversed(log.entries)]
    return ids.index(request_id) if request_id in ids else len(ids)


def _is_listed(entry: JournalEntry | Record) -> bool:
    return entry.is_listed if isinstance(entry, JournalEntry) else UNLISTED not in entry


class JournalPage(NamedTuple):
    """Entries as the journal shows them, newest first, not more than were asked for; the number of
    all that match in ``total``, and of older ones that were ``dropped``. ``has_more``: older ones
    match as well."""

    entries: list[Record]
    total: int
    dropped: int
    has_more: bool


def _summary(entry: JournalEntry | Record) -> Record:
    """Return the members that entries are filtered by, as they are shown."""
    if not isinstance(entry, JournalEntry):
        return entry
    return {
        "requestId": entry.request_id,
        "operation": entry.why.operation,
        "method": entry.method,
        "status": entry.status,
        "why": entry.why.found,
    }


def _shows(entry: Record, text: str) -> bool:
    bodies = (entry[name]["body"] or "" for name in ("request", "response"))
    return text in entry["path"] or any(text in body for body in bodies)


def mentions(entry: Entry, text: str) -> bool:
    """True if a text is in the path, the query or a body of an entry, also where it is hidden."""
    if not isinstance(entry, JournalEntry):
        return _shows(entry, text)
    bodies = (entry.request_body.content, entry.response_body.content)
    is_in_body = any(text.encode() in content for content in bodies)
    return text in entry.path or text in entry.query or is_in_body


def _size(entry: JournalEntry) -> int:
    """About how many bytes the entry takes: only its texts and bodies can be long."""
    size = len(entry.path) + len(entry.query) + entry.heads_length
    for body in (entry.request_body, entry.response_body):
        size += len(body.content) if body.shown is None else len(body.shown["body"] or "")
    return size
