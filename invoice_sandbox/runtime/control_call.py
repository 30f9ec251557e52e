"""What a lever is given."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from invoice_sandbox.base.clock import duration_text, instant_text
from invoice_sandbox.runtime.engine import Engine
from invoice_sandbox.state import Credential, NoWorkspaceError, Record, Workspace


@dataclass(frozen=True)
class Raw:
    """An answer that is not put into the envelope: its body as it is, or a ``stream`` of parts."""

    status: int
    media_type: str
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    stream: AsyncGenerator[bytes, None] | None = None


@dataclass(frozen=True)
class ControlCall:
    """One request to one call, already checked against the contract.

    ``path``, ``query``, ``headers`` (in small letters) and ``body`` are what was sent; ``caller``
    and ``found`` are None for a lever that is open to all.
    """

    engine: Engine
    caller: Credential | None
    found: Workspace | None
    path: Mapping[str, Any]
    query: Mapping[str, Any]
    headers: Mapping[str, str]
    body: Any
    raw_body: bytes

    @property
    def workspace(self) -> Workspace:
        """The caller's workspace, as it was when the request came."""
        if self.found is None:
            raise RuntimeError("a lever that is open to all has no workspace")
        return self.found

    @property
    def credential(self) -> Credential:
        """The caller's credential."""
        if self.caller is None:
            raise RuntimeError("a lever that is open to all has no caller")
        return self.caller

    async def fresh(self) -> Workspace:
        """The caller's workspace as it is now."""
        workspace = await self.engine.store.workspace(self.workspace.id)
        if workspace is None:
            raise NoWorkspaceError(self.workspace.id)
        return workspace

    async def is_there(self) -> bool:
        """Whether the caller's workspace has not been deleted meanwhile."""
        return await self.engine.store.workspace(self.workspace.id) is not None

    async def clock_of(self, workspace: Workspace) -> Record:
        """A workspace's clock as the levers show it."""
        due = (await self.engine.store.due_times(workspace.id)).get(None)
        return {
            "mode": workspace.clock.mode,
            "now": instant_text(workspace.clock.now(self.engine.system_clock)),
            "nextDue": None if due is None else instant_text(due),
        }

    async def describe(self, workspace: Workspace) -> Record:
        """A workspace as the levers show it."""
        idle = self.engine.workspaces.idle if workspace.made_by else None
        return {
            "id": workspace.id,
            "seed": workspace.seed,
            "scenario": workspace.scenario,
            "clock": await self.clock_of(workspace),
            "keptIdleFor": None if idle is None else duration_text(idle),
            "current": workspace.id == self.workspace.id,
        }


ControlFunction = Callable[[ControlCall], Awaitable[Any]]
"""What carries out one operation of the control API: returns data, a Response, or Raw."""
