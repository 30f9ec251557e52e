"""The collaborators of a running sandbox, made in ``app`` and handed to who needs them."""

from __future__ import annotations

from dataclasses import dataclass

from invoice_sandbox.base.clock import SystemClock
from invoice_sandbox.project.loader import Project
from invoice_sandbox.runtime.agenda import Agenda
from invoice_sandbox.runtime.workspaces import Workspaces
from invoice_sandbox.state import Store, Workspace
from invoice_sandbox.state.hits import Coverage
from invoice_sandbox.webhooks.listeners import Listeners
from invoice_sandbox.webhooks.sender import Sender


@dataclass(frozen=True)
class Engine:
    """What stands behind the pipeline.

    ``first_workspace`` is the one of requests that bring no credential, ``url`` the address that
    clients use, and ``local`` says whether only this machine can reach the server. Webhooks are
    signed with real time, unless ``virtual_webhook_time``.
    """

    project: Project
    store: Store
    system_clock: SystemClock
    agenda: Agenda
    sender: Sender
    listeners: Listeners
    workspaces: Workspaces
    coverage: Coverage
    first_workspace: str
    url: str
    local: bool
    virtual_webhook_time: bool

    async def default_workspace(self) -> Workspace:
        """The workspace of requests that bring no credential; it is never deleted."""
        workspace = await self.store.workspace(self.first_workspace)
        if workspace is None:
            raise RuntimeError("the first workspace is always there")
        return workspace
