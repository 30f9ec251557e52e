"""The collaborators of a running server. ``app`` creates them."""

from __future__ import annotations

from asyncio import Event
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from invoice_sandbox.base.clock import SystemClock
from invoice_sandbox.base.errors import ApiError
from invoice_sandbox.project.loader import Project
from invoice_sandbox.runtime.agenda import Agenda
from invoice_sandbox.runtime.journal import Journal
from invoice_sandbox.runtime.workspaces import Workspaces
from invoice_sandbox.state import Quotas, Store, Workspace
from invoice_sandbox.state.hits import Coverage
from invoice_sandbox.webhooks.listeners import Listeners
from invoice_sandbox.webhooks.network import Network
from invoice_sandbox.webhooks.sender import Sender


@dataclass(frozen=True)
class Engine:
    """What the request pipeline works with.

    ``first_workspace`` is the workspace of requests without a credential, ``url`` the server's
    address for clients. ``local``: only this machine can reach the server, unless a proxy on it
    passes requests on. Webhooks may also be sent to ``webhook_networks``. Webhook signatures use
    real time, unless ``virtual_webhook_time``. ``passwords`` are the random ones of demo users, by
    e-mail address. ``conditions`` are the settings that responses depend on, for recordings.
    ``stopping`` is set when the server stops: endless streams end then.
    """

    project: Project
    store: Store
    journal: Journal
    system_clock: SystemClock
    agenda: Agenda
    sender: Sender
    listeners: Listeners
    workspaces: Workspaces
    quotas: Quotas
    coverage: Coverage
    first_workspace: str
    url: str
    local: bool
    webhook_networks: tuple[Network, ...]
    virtual_webhook_time: bool
    passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    stopping: Event = field(default_factory=Event)

    def readiness(self) -> Mapping[str, bool]:
        """What every request needs, by its name, and whether it works now."""
        return {"store": _works(self.store.check)}

    def end_streams(self) -> None:
        """End what would never end by itself, as the server stops."""
        self.stopping.set()
        self.listeners.remove_all()

    async def default_workspace(self) -> Workspace:
        """The workspace of requests without a credential. It is never deleted."""
        workspace = await self.store.workspace(self.first_workspace)
        if workspace is None:
            raise RuntimeError("the first workspace was deleted")
        return workspace


def _works(check: Callable[[], None]) -> bool:
    try:
        check()
    except ApiError:
        return False
    return True
