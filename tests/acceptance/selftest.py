"""Runs the reference clients and the clients with a seeded fault through the partner plan."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Final

from invoice_sandbox.acceptance.plan import Check, Plan, load_plan, served_vocabulary
from invoice_sandbox.acceptance.process import CommandClient
from invoice_sandbox.acceptance.runner import RunReport, run_plan
from invoice_sandbox.acceptance.verdicts import Verdict
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.project.loader import default_project
from invoice_sandbox.testing.server import Options, serving
from tests.acceptance.client import FAULTS

FOLDER: Final = Path(__file__).parent
PLAN: Final = default_project() / "acceptance" / "partner.yaml"
BROKEN: Final = frozenset({Verdict.FAIL, Verdict.WARN})
_EVERYTHING: Final = frozenset({"webhooks", "idempotency", "secret-expiry", "offers"})
_PYTHON: Final = (sys.executable, "-S", "-E", str(FOLDER / "client.py"))
_CLIENTS_SIDE_BY_SIDE: Final = 3


@dataclass(frozen=True)
class KnownClient:
    """A client with the check that must catch it; None: it passes whatever it declares."""

    name: str
    command: Sequence[str]
    declared: frozenset[str] = _EVERYTHING
    caught_by: str | None = None


REFERENCES: Final = (
    KnownClient("Python", _PYTHON),
    KnownClient("shell", ("bash", str(FOLDER / "client.sh")), frozenset({"idempotency"})),
)
FAULTY: Final = tuple(
    KnownClient(name, (*_PYTHON, "--fault", name), caught_by=check)
    for name, check in FAULTS.items()
)


@contextmanager
def judging() -> Iterator[tuple[Plan, ControlClient]]:
    """The partner plan, and a server."""
    with serving(Options()) as control:
        yield load_plan(PLAN, served_vocabulary(control)), control


def judge(
    clients: Sequence[KnownClient],
    plan: Plan,
    control: ControlClient,
    *,
    own_check_only: bool = False,
) -> Mapping[str, RunReport]:
    """The reports of the clients by name, of all checks or of the one that must catch them."""

    def run(client: KnownClient) -> RunReport:
        checks = [one for one in plan.checks if not own_check_only or one.id == client.caught_by]
        return _run(client, plan, checks, control)

    with ThreadPoolExecutor(_CLIENTS_SIDE_BY_SIDE) as pool:
        return dict(zip((one.name for one in clients), pool.map(run, clients), strict=True))


def _run(
    client: KnownClient, plan: Plan, checks: Sequence[Check], control: ControlClient
) -> RunReport:
    with TemporaryDirectory() as folder:
        subject = CommandClient(client.command, client.declared, Path(folder))
        return run_plan(plan, checks, subject, control, lambda _: None, Event())


def problems(client: KnownClient, report: RunReport) -> list[str]:
    """What is not as it must be, one line each: a false FAIL, or a missed fault."""
    found = []
    for one in report.checks:
        is_broken = one.verdict in BROKEN
        if is_broken != (one.check.id == client.caught_by):
            text = "false FAIL" if is_broken else "missed"
            found.append(f"{client.name}: {one.check.id}: {text}: {one.decisive.summary}")
        if client.caught_by is None and one.verdict not in {Verdict.PASS, Verdict.NOT_APPLICABLE}:
            found.append(f"{client.name}: {one.check.id}: {one.verdict.value}: {one.decisive}")
    return found
