"""The reference clients and the clients with a seeded fault, and a server with the partner plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from invoice_sandbox.acceptance.plan import Plan, load_plan, served_vocabulary
from invoice_sandbox.acceptance.selftest import KnownClient, load_clients
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.project.loader import default_project
from invoice_sandbox.testing.server import Options, serving

FOLDER: Final = Path(__file__).parent
PLAN: Final = default_project() / "acceptance" / "partner.yaml"
CLIENTS: Final = FOLDER / "clients.yaml"


@contextmanager
def judging() -> Iterator[tuple[Plan, ControlClient]]:
    """The partner plan, and a server."""
    with serving(Options()) as control:
        yield load_plan(PLAN, served_vocabulary(control)), control


def clients_of(plan: Plan) -> Mapping[str, KnownClient]:
    """All clients by name."""
    return {one.name: one for one in load_clients(CLIENTS, plan)}


def faulty(clients: Mapping[str, KnownClient]) -> Sequence[KnownClient]:
    """Those that a check must catch."""
    return [one for one in clients.values() if one.caught_by is not None]
