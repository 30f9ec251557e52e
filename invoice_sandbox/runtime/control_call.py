"""The call of a function of the control API, and its response."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from invoice_sandbox.base.clock import duration_text, instant_text
from invoice_sandbox.project.api import Context, Origin
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.scenarios.library import resolver_of
from invoice_sandbox.state import (
    DROPPED,
    Credential,
    NoWorkspaceError,
    Record,
    Transaction,
    Workspace,
)

STREAM: Final = "text/event-stream"
_MAX_DIGITS: Final = 18


@dataclass(frozen=True)
class Raw:
    """A response without the envelope: its body as it is, or a ``stream`` of parts."""

    status: int
    media_type: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    stream: AsyncGenerator[bytes, None] | None = None


@dataclass(frozen=True)
class PublicControlCall:
    """A request to an operation without credentials, already validated against the contract.

    ``path``, ``query``, ``headers`` (names in lower case) and ``body`` are what was sent.
    """

    engine: Engine
    path: Mapping[str, Any]
    query: Mapping[str, Any]
    headers: Mapping[str, str]
    body: Any
    raw_body: bytes

    @property
    def wants_stream(self) -> bool:
        """True if the client reads server-sent events as they come."""
        return STREAM in self.headers.get("accept", "")

    @property
    def last_event(self) -> int:
        """The number in ``Last-Event-ID``; 0 for any other text, and without the header."""
        text = self.headers.get("last-event-id", "")
        is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
        return int(text) if is_number else 0


@dataclass(frozen=True)
class ControlCall(PublicControlCall):
    """A request of a known caller; ``workspace`` is as it was when the request arrived."""

    credential: Credential
    workspace: Workspace
    origin: Origin

    def context(self, state: Transaction) -> Context:
        """The workspace that ``state`` has open, for a hook of the project."""
        workspace, project = state.workspace(), self.engine.project
        arrived = workspace.clock.now(self.engine.system_clock)
        return Context(
            state=state,
            workspace=workspace,
            now=state.not_before(arrived),
            origin=self.origin,
            contract=project.contract,
            lifecycle=project.lifecycle,
            conventions=project.conventions,
            scenarios=resolver_of(project.scenarios, workspace),
        )

    def fresh(self) -> Workspace:
        """The caller's workspace as it is now."""
        workspace = self.engine.store.workspace(self.workspace.id)
        if workspace is None:
            raise NoWorkspaceError(self.workspace.id)
        return workspace

    def link_to_next(self, path: str, cursor: str | int) -> tuple[str, str]:
        """The header that names the next page of a list: its query with another ``cursor``."""
        query = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in {**self.query, "cursor": cursor}.items()
        }
        address = f"{self.engine.public_path}{path}?{urlencode(query, doseq=True)}"
        return "Link", f'<{address}>; rel="next"'

    def is_there(self) -> bool:
        """True unless the caller's workspace was deleted meanwhile."""
        return self.engine.store.workspace(self.workspace.id) is not None

    def clock_of(self, workspace: Workspace) -> Record:
        """A workspace's clock as the control API shows it."""
        now = workspace.clock.now(self.engine.system_clock)
        queues = self.engine.store.due_times(workspace.id).items()
        due = min((at for lane, at in queues if lane is None or at > now), default=None)
        return {
            "mode": workspace.clock.mode,
            "now": instant_text(now),
            "nextDue": None if due is None else instant_text(due),
        }

    def describe(self, workspace: Workspace) -> Record:
        """A workspace as the control API shows it."""
        is_current = workspace.id == self.workspace.id
        idle = self.engine.workspaces.idle if workspace.made_by else None
        return {
            "id": workspace.id,
            "seed": workspace.seed,
            "scenario": workspace.scenario,
            "clock": self.clock_of(workspace),
            "keptIdleFor": None if idle is None else duration_text(idle),
            "current": is_current,
            **(self._dropped(workspace) if is_current else {}),
        }

    def _dropped(self, workspace: Workspace) -> Record:
        """Return the number of dropped records of each collection, if any were."""
        with self.engine.store.transaction(workspace.id) as state:
            records = state.page(DROPPED).records
        counts = {record["name"]: record["count"] for record in records}
        return {"dropped": counts} if counts else {}
