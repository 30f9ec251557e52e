"""The sandbox in tests: a fixture for pytest (``invoice_sandbox``), and ``running`` for others.

>>> with running(scenario="kyb-hold") as sandbox:
...     sandbox.client.get("/api/invoices")
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from invoice_sandbox.control.client import SandboxError
    from invoice_sandbox.testing.acceptance import ClientTask
    from invoice_sandbox.testing.webhooks import NotReceivedError, Webhooks
    from invoice_sandbox.testing.workspace import InvoiceSandbox, Snapshot

__all__ = [
    "ClientTask",
    "InvoiceSandbox",
    "NotReceivedError",
    "SandboxError",
    "Snapshot",
    "Webhooks",
    "running",
]

_MODULES = {
    "ClientTask": "invoice_sandbox.testing.acceptance",
    "InvoiceSandbox": "invoice_sandbox.testing.workspace",
    "NotReceivedError": "invoice_sandbox.testing.webhooks",
    "SandboxError": "invoice_sandbox.control.client",
    "Snapshot": "invoice_sandbox.testing.workspace",
    "Webhooks": "invoice_sandbox.testing.webhooks",
}


def __getattr__(name: str) -> Any:
    """Import a class on first use: every pytest run loads this package."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


@contextmanager
def running(
    scenario: str | None = None,
    *,
    seed: int = 1,
    clock: str = "frozen",
    url: str | None = None,
    key: str | None = None,
    project: str | None = None,
    contract: str | None = None,
    scenarios: str | None = None,
    stateful: bool = False,
    **conditions: Any,
) -> Iterator[InvoiceSandbox]:
    """A workspace on a new server, which is stopped at the end.

    With ``url`` and ``key`` it uses a running server instead; ``project`` and ``scenarios`` are
    folders to serve, ``contract`` is an OpenAPI document to serve without a project; if
    ``stateful``, it keeps what is posted to its collections. Other values come from the
    environment, such as INVOICE_SANDBOX_URL. For a workspace per test, use ``sandbox.workspace()``.

    Raises SandboxError when no server starts or responds, and for an unknown scenario.
    """
    from invoice_sandbox.testing.server import options_from, serving
    from invoice_sandbox.testing.workspace import ScenarioChoice, new_workspace

    given = {"url": url, "key": key, "project": project, "contract": contract}
    given |= {"scenarios": scenarios, "stateful": "on" if stateful else None}
    choice = ScenarioChoice(scenario, conditions)
    with (
        serving(options_from(given, os.environ)) as control,
        new_workspace(control, choice, seed=seed, clock=clock) as made,
    ):
        yield made
