"""Whether a plan judges rightly: clients that are known to be right, and clients with one fault."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, Final

from invoice_sandbox.acceptance.plan import Check, Plan
from invoice_sandbox.acceptance.process import CommandClient
from invoice_sandbox.acceptance.runner import RunReport, run_plan
from invoice_sandbox.acceptance.verdicts import Verdict
from invoice_sandbox.base.errors import UserError, suggestion
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.openapi.load.documents import load_document, place_of
from invoice_sandbox.openapi.load.text import DocumentError
from invoice_sandbox.openapi.schema.file_schema import schema_problems

SCHEMA: Final = Path(__file__).with_name("selftest.schema.json")
"""The JSON Schema of a list of clients."""

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

    A client that ``may_be_reviewed`` has effects that the sandbox cannot see.
    """

    name: str
    command: Sequence[str]
    declared: frozenset[str]
    caught_by: str | None = None
    may_be_reviewed: bool = False


def load_clients(file: Path, plan: Plan) -> list[KnownClient]:
    """The clients in a file: those that are right, then those with a fault.

    Raises DocumentError for the first problem.
    """
    document = load_document(file)
    for problem in schema_problems(document, SCHEMA):
        raise DocumentError(place_of(file, problem.pointer), problem.text, problem.advice)
    known = {one.id for one in plan.checks}
    right, faulty = [], []
    for index, body in enumerate(document["clients"]):
        command = _command(file.parent, body["command"])
        declared = frozenset(body.get("declares", ()))
        right.append(
            KnownClient(body["name"], command, declared, may_be_reviewed=body.get("review", False))
        )
        for name, check in body.get("faults", {}).items():
            if check not in known:
                place = place_of(file, ("clients", index, "faults", name))
                raise DocumentError(place, f"there is no check '{check}'", suggestion(check, known))
            words = (*command, "--fault", name)
            faulty.append(KnownClient(name, words, declared, caught_by=check))
    return [*right, *faulty]


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
    """The reports of the clients by name, of all checks or of the one that must catch them.

    Raises UserError for a command that is not installed.
    """
    for client in clients:
        if which(client.command[0]) is None:
            raise UserError(f"the client {client.name} needs the command '{client.command[0]}'")

    def run(client: KnownClient) -> RunReport:
        own = own_check_only and client.caught_by is not None
        checks = [one for one in plan.checks if not own or one.id == client.caught_by]
        report = _run(client, plan, checks, control)
        for _ in range(_MORE_CHANCES):
            if not is_missed(client, report):
                break
            report = _run(client, plan, checks, control)
        on_report(client, report)
        return report

    with ThreadPoolExecutor(_BOUNDED_SIDE_BY_SIDE if own_check_only else _SIDE_BY_SIDE) as pool:
        return dict(zip((one.name for one in clients), pool.map(run, clients), strict=True))


def _run(
    client: KnownClient, plan: Plan, checks: Sequence[Check], control: ControlClient
) -> RunReport:
    with TemporaryDirectory() as folder:
        subject = CommandClient(client.command, client.declared, Path(folder))
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
        if one.verdict in BROKEN and one.check.id != client.caught_by:
            yield f"{line}false FAIL: {one.decisive.summary}"
        elif one.verdict not in BROKEN and one.check.id == client.caught_by:
            yield f"{line}missed: {one.decisive.summary}"
        elif client.caught_by is None and one.verdict not in fine:
            yield f"{line}{one.verdict.value}: {one.decisive.summary}"


def selftest_table(
    plan: Plan, clients: Sequence[KnownClient], reports: Mapping[str, RunReport]
) -> str:
    """The verdicts as a Markdown table, clients by checks; a check is its number in the plan."""
    ids = [one.id for one in plan.checks]
    heads = ["Client", *(f"[{number}](#checks)" for number in range(1, len(ids) + 1))]
    rows = [[one.name, *_verdicts(ids, reports[one.name])] for one in clients]
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("|  |", "| |")


def _verdicts(ids: Sequence[str], report: RunReport) -> list[str]:
    found: dict[str, Any] = {one.check.id: one.verdict for one in report.checks}
    return [_SHORT.get(found[one], "?") if one in found else "" for one in ids]
