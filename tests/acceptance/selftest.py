"""Whether the partner plan judges rightly: clients that are known to be right, and clients with one
fault that one check must catch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, Final

from invoice_sandbox.acceptance.application import ApplicationClient
from invoice_sandbox.acceptance.clients import Client
from invoice_sandbox.acceptance.observer import served_vocabulary
from invoice_sandbox.acceptance.process import CommandClient
from invoice_sandbox.acceptance.runner import RunReport, run_plan
from invoice_sandbox.acceptance.verdicts import Verdict
from invoice_sandbox.conformance.plan import Check, Plan, load_plan
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.project.loader import default_project
from invoice_sandbox.testing.server import Options, serving
from tests.acceptance.applications import running

FOLDER: Final = Path(__file__).parent
PLAN: Final = default_project() / "acceptance" / "partner.yaml"
CLIENTS: Final = FOLDER / "clients.yaml"
BROKEN: Final = frozenset({Verdict.FAIL, Verdict.WARN})
_SIDE_BY_SIDE: Final = 3
_BOUNDED_SIDE_BY_SIDE: Final = 6
"""Clients; each does up to eight cases at a time, but one with a fault that is bounded only few."""

_MORE_CHANCES: Final = 2
"""A machine that stalls makes constant waits look like growing ones: a missed fault has more
chances. A false FAIL has none."""

_SHORT: Final = {Verdict.PASS: "pass", Verdict.NOT_APPLICABLE: "", Verdict.FAIL: "**FAIL**"}


@dataclass(frozen=True)
class KnownClient:
    """A client with the check that must catch it; None: it passes whatever it declares.

    A client that ``may_be_reviewed`` has effects that the sandbox cannot see. An ``application``
    is one of docs/acceptance-apps.md, and has no command.
    """

    name: str
    command: Sequence[str]
    declared: frozenset[str]
    caught_by: str | None = None
    may_be_reviewed: bool = False
    application: str | None = None


@contextmanager
def judging() -> Iterator[tuple[Plan, ControlClient]]:
    """The partner plan, and a server."""
    with serving(Options()) as control:
        yield load_plan(PLAN, served_vocabulary(control)), control


def known_clients() -> Mapping[str, KnownClient]:
    """The clients by name: those that are right, then those with a fault."""
    right, faulty = [], []
    for row in load_document(CLIENTS)["clients"]:
        declared = frozenset(row.get("declares", ()))
        if "application" in row:
            name = row["application"]
            right.append(KnownClient(row["name"], (), declared, application=name))
            continue
        command, reviewed = _command(FOLDER, row["command"]), row.get("review", False)
        right.append(KnownClient(row["name"], command, declared, may_be_reviewed=reviewed))
        for name, check in row.get("faults", {}).items():
            faulty.append(KnownClient(name, (*command, "--fault", name), declared, check))
    return {client.name: client for client in (*right, *faulty)}


def faulty(clients: Mapping[str, KnownClient]) -> Sequence[KnownClient]:
    """Those that a check must catch."""
    return [one for one in clients.values() if one.caught_by is not None]


def _command(folder: Path, words: Sequence[str]) -> tuple[str, ...]:
    """A command with the files of the folder; ``python`` is the one that runs this."""
    files = [str(folder / one) if (folder / one).is_file() else one for one in words]
    return (sys.executable if files[0] == "python" else files[0], *files[1:])


def judge_clients(
    clients: Sequence[KnownClient],
    plan: Plan,
    control: ControlClient,
    *,
    own_check_only: bool = False,
    on_report: Callable[[KnownClient, RunReport], None] = lambda *_: None,
) -> Mapping[str, RunReport]:
    """The reports of the clients by name, of all checks or of the one that must catch them."""

    def run(client: KnownClient) -> RunReport:
        own = own_check_only and client.caught_by is not None
        checks = [one for one in plan.checks if not own or one.id == client.caught_by]
        report = run_client(client, plan, checks, control)
        for _ in range(_MORE_CHANCES):
            if not is_missed(client, report):
                break
            report = run_client(client, plan, checks, control)
        on_report(client, report)
        return report

    with ThreadPoolExecutor(_BOUNDED_SIDE_BY_SIDE if own_check_only else _SIDE_BY_SIDE) as pool:
        return dict(zip((one.name for one in clients), pool.map(run, clients), strict=True))


def run_client(
    client: KnownClient, plan: Plan, checks: Sequence[Check], control: ControlClient
) -> RunReport:
    """Run these checks with a client."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        subject: Client
        if client.application is None:
            subject = CommandClient(client.declared, command=client.command, output=Path(folder))
        else:
            url = stack.enter_context(running(client.application, Path(folder) / "application"))
            webhooks = f"{url}/webhooks/{{task}}"
            subject = ApplicationClient(
                client.declared, side_by_side=8, url=f"{url}/acceptance", webhooks=webhooks
            )
        return run_plan(plan, checks, subject, control, lambda _: None, Event())


def is_missed(client: KnownClient, report: RunReport) -> bool:
    """Whether the fault of the client was not caught, and nothing else was."""
    return client.caught_by is not None and all(one.verdict not in BROKEN for one in report.checks)


def problems(client: KnownClient, report: RunReport) -> Iterator[str]:
    """What is not as it must be, one line each: a false FAIL, a missed fault, no final verdict."""
    fine = {Verdict.PASS, Verdict.NOT_APPLICABLE}
    fine |= {Verdict.REVIEW} if client.may_be_reviewed else set()
    for one in report.checks:
        line = f"{client.name}: {one.check.id}: "
        caught = client.caught_by is not None and one.decisive.violation is not None
        if one.verdict in BROKEN and one.check.id != client.caught_by and not caught:
            yield f"{line}false FAIL: {one.decisive.summary}"
        elif one.verdict not in BROKEN and one.check.id == client.caught_by:
            yield f"{line}missed: {one.decisive.summary}"
        elif client.caught_by is None and one.verdict not in fine:
            yield f"{line}{one.verdict.value}: {one.decisive.summary}"


def verdicts(ids: Sequence[str], report: RunReport) -> list[str]:
    """The verdicts of a report on those checks, in short."""
    found: dict[str, Any] = {one.check.id: one.verdict for one in report.checks}
    return [_SHORT.get(found[one], "?") if one in found else "" for one in ids]
