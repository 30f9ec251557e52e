"""A request and its response, as the journal keeps them, with all secrets."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from invoice_sandbox.base.clock import instant_text
from invoice_sandbox.state import Record

Headers = tuple[tuple[str, str], ...]


class Body(Struct, frozen=True, gc=False):
    """A body as it was sent. ``is_valid_json``: it has been parsed already.

    ``shown`` is what the journal shows of it, if that was found out already.
    """

    content: bytes
    media_type: str
    is_valid_json: bool = True
    shown: Record | None = None


NO_BODY: Final = Body(b"", "")


class Why(Struct, frozen=True, gc=False):
    """The explanation of a response: its operation, ``found`` on the way, and, of a known
    workspace, its scenario, the mode of its clock and its instant ``at``."""

    operation: str | None
    scenario: str | None = None
    clock: str = ""
    at: datetime | None = None
    found: Mapping[str, Any] = {}

    def shown(self) -> Record:
        """The explanation as the journal shows it."""
        why: Record = {}
        if self.operation is not None:
            why["operation"] = self.operation
        if self.at is not None:
            if self.scenario is not None:
                why["scenario"] = self.scenario
            why["clock"] = f"{self.clock} {instant_text(self.at)}"
        return {**why, **self.found}


class JournalEntry(Struct, gc=False):
    """A request and its response, with all secrets: only ``Journal.entries`` shows it.

    ``path_secrets`` are secrets that the path carries in declared parameters. ``heads_length``
    counts the characters of all headers. A ``status`` of None means that nothing of the response
    went out. ``received`` is the real instant of its arrival, ``number`` that of the request in its
    workspace (0: of none), ``raw_path`` the path as it was sent. ``is_control``: it was sent to the
    control API, whose operations may have the names of others. An entry that is not ``is_listed``
    changed the workspace and is in bundles only; a replay sends what ``is_sent_again``.
    """

    request_id: str
    seconds: float
    method: str
    path: str
    query: str
    path_secrets: tuple[str, ...]
    heads_length: int
    request_headers: Headers
    request_body: Body
    status: int | None
    response_headers: Headers
    response_body: Body
    why: Why
    received: datetime | None = None
    number: int = 0
    client: str = ""
    raw_path: str = ""
    is_control: bool = False
    is_listed: bool = True
    is_sent_again: bool = True

    def __repr__(self) -> str:
        """Without secrets."""
        return (
            f"JournalEntry({self.request_id}: {self.method}, {self.why.operation}, {self.status})"
        )
