"""The common part of the commands for acceptance runs: options, server, plan, reports."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Final

import click

from invoice_sandbox.acceptance.clients import Client
from invoice_sandbox.acceptance.observer import served_vocabulary
from invoice_sandbox.acceptance.page import as_html
from invoice_sandbox.acceptance.progress import Progress
from invoice_sandbox.acceptance.reports import (
    Subject,
    as_ctrf,
    as_json,
    as_junit,
    contract_subject,
    report_object,
)
from invoice_sandbox.acceptance.runner import CheckReport, RunReport, run_plan
from invoice_sandbox.acceptance.runs import BUNDLE, run_parts
from invoice_sandbox.acceptance.single_case import plan_with_case
from invoice_sandbox.acceptance.verdicts import CONFORMANT, Verdict
from invoice_sandbox.base.errors import UserError, suggestion
from invoice_sandbox.bundles.archive import write_bundle
from invoice_sandbox.cli.acceptance_progress import ProgressLines
from invoice_sandbox.cli.options import CONNECTION, FAILED, FILE, FOLDER, checked
from invoice_sandbox.conformance.plan import (
    Case,
    Check,
    Plan,
    load_plan,
    plan_of,
)
from invoice_sandbox.control.client import ControlClient, SandboxError, checked_key, checked_url
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.project.loader import default_project
from invoice_sandbox.testing.server import Options, serving

INTERRUPTED: Final = 130
"""Exit status of a run that was interrupted."""

CASE: Final[dict[str, dict[str, Any]]] = {
    "--case": {
        "metavar": "FILE",
        "type": FILE,
        "help": "Run only the case in this file, such as one of 'acceptance explore'.",
    }
}
EXEC: Final[dict[str, dict[str, Any]]] = {
    "--exec command": {
        "metavar": "CMD",
        "required": True,
        "help": "Command of the client; it runs once for each case, with ACCEPTANCE_TASK.",
    }
}
OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "--out": {
        "metavar": "DIR",
        "required": True,
        "type": click.Path(file_okay=False, path_type=Path),
        "help": "Folder for the reports and the output of the client.",
    },
    "--plan": {
        "metavar": "FILE",
        "type": FILE,
        "help": "Acceptance plan. Default: that of the project.",
    },
    "--only": {"metavar": "ID", "multiple": True, "help": "Only this check. Repeatable."},
    "--declare declared": {
        "metavar": "NAMES",
        "default": "",
        "help": "What the client is capable of, such as webhooks,idempotency.",
    },
    "--attest attests": {
        "metavar": "ID TEXT",
        "nargs": 2,
        "multiple": True,
        "help": "Attest a check with the verdict REVIEW: by whom, and why. Repeatable.",
    },
    "--server": {
        "metavar": "URL",
        "callback": lambda _context, _parameter, text: text and checked(checked_url, text),
        "help": "Use the server at this URL. Default: start one.",
    },
    "--key": {
        **CONNECTION["--key"],
        "callback": lambda _context, _parameter, text: checked(checked_key, text),
        "help": "API key of that server; the workspaces are created from its workspace.",
    },
    "--project": {
        "metavar": "DIR",
        "type": FOLDER,
        "help": "Project that the started server serves. Default: the bundled one.",
    },
}


@dataclass(frozen=True)
class Chosen:
    """The options of both ways to run a plan: the plan, the checks, the server, the reports."""

    out: Path
    plan: Path | None
    only: tuple[str, ...]
    declared: str
    attests: tuple[tuple[str, str], ...]
    server: str | None
    key: str
    project: Path | None
    case: Path | None = None


@contextmanager
def server_of(chosen: Chosen, **texts: str | None) -> Iterator[ControlClient]:
    """The client of the server of a run."""
    if chosen.server is not None and chosen.project is not None:
        raise click.UsageError("--project cannot be used with --server, which has started")
    folder = None if chosen.project is None else str(chosen.project)
    key = chosen.key if chosen.server else None
    settings = {name: text for name, text in texts.items() if text is not None}
    with serving(Options(chosen.server, key, folder, settings=settings)) as control:
        yield control


def run_checks(
    chosen: Chosen, control: ControlClient, client_of: Callable[[Progress, frozenset[str]], Client]
) -> int:
    """Run the checks and write the reports. Returns the exit status of the command."""
    out = chosen.out
    plan, content = _plan_of(chosen, control)
    declared, attests = declared_of(plan, chosen.declared), dict(chosen.attests)
    known_checks(plan, "--attest", attests)
    checks = _chosen(plan, chosen.only)
    out.mkdir(parents=True, exist_ok=True)
    contract = control.whole("GET", "/openapi.json")
    subject, progress = contract_subject(contract, declared), Progress(plan, checks, control)
    finished: dict[str, CheckReport] = {}
    lines = ProgressLines(checks)

    def on_start(check: Check, case: Case) -> None:
        progress.begin(check, case)
        lines.begin(check, case)

    def on_result(report: CheckReport) -> None:
        finished[report.check.id] = report
        ordered = [finished[other.id] for other in checks if other.id in finished]
        partial = report_object(RunReport(plan, ordered, is_complete=False), subject)
        progress.finish(report.check, report.verdict.value, report.summary, partial)

    report = run_plan(
        plan,
        checks,
        client_of(progress, frozenset(declared)),
        control,
        on_result,
        Event(),
        attests,
        on_start,
        lines.end,
    )
    lines.close()
    progress.end(report_object(report, subject))
    text = write_reports(out, report, subject)
    parts = run_parts(report, subject, attests, content, contract, text)
    write_bundle(out / BUNDLE, *parts)
    progress.keep((out / BUNDLE).read_bytes())
    for check in report.worst_first:
        print_check(check)
    if not report.is_complete:
        click.echo(f"Interrupted; {out}/report.json has the finished checks.", err=True)
        return INTERRUPTED
    click.echo(f"{conclusion(report)}; {out}/report.html")
    return status_of(report)


def words_of(text: str, option: str = "--exec") -> list[str]:
    """The words of a command. Raises UserError when it cannot be started."""
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise UserError(f"{option}: {error}") from None
    if not parts or shutil.which(parts[0]) is None:
        raise UserError(f"{option}: there is no command '{parts[0] if parts else ''}'")
    return parts


def file_of(chosen: Chosen) -> Path:
    """The file of the plan. Raises UserError."""
    return chosen.plan or plan_of(chosen.project or default_project())


def _plan_of(chosen: Chosen, control: ControlClient) -> tuple[Plan, bytes]:
    """The plan, with the only case if one was chosen, and its content."""
    file = file_of(chosen)
    plan = loaded_plan(file, control)
    if chosen.case is None:
        return plan, file.read_bytes()
    if chosen.only:
        raise click.UsageError("--only cannot be used with --case, which is the only case")
    name, case = str(chosen.case), load_document(chosen.case)
    return plan_with_case(file.read_bytes(), name, case, served_vocabulary(control))


def loaded_plan(file: Path, control: ControlClient) -> Plan:
    """The plan for the project of a server. Raises UserError."""
    try:
        return load_plan(file, served_vocabulary(control))
    except SandboxError as error:
        raise UserError(str(error)) from None


def declared_of(plan: Plan, text: str) -> list[str]:
    """The capabilities that a client declares. Raises UserError for one that the plan has not."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in plan.capabilities:
            advice = suggestion(name, plan.capabilities)
            raise UserError(f"--declare: there is no capability '{name}' ({advice})")
    return names


def _chosen(plan: Plan, only: Sequence[str]) -> list[Check]:
    known_checks(plan, "--only", only)
    return [check for check in plan.checks if not only or check.id in only]


def known_checks(plan: Plan, option: str, names: Iterable[str]) -> None:
    """Raise UserError for a name that is not a check's."""
    known = [check.id for check in plan.checks]
    for name in names:
        if name not in known:
            raise UserError(f"{option}: there is no check '{name}' ({suggestion(name, known)})")


def print_check(report: CheckReport) -> None:
    """Print the verdict on a check on one line."""
    click.echo(f"{report.verdict.value:<14} {report.check.id}: {report.summary}")


def write_reports(out: Path, report: RunReport, subject: Subject) -> str:
    """Write the reports, and return that for machines."""
    data = report_object(report, subject)
    texts = {
        "report.json": as_json(data),
        "report.html": as_html(report, subject),
        "junit.xml": as_junit(report),
        "ctrf.json": as_ctrf(report),
    }
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    return texts["report.json"]


def conclusion(report: RunReport) -> str:
    """The verdict on a run, and how many checks have each, worst first; of a run that judged
    nothing also what the client would have to declare."""
    counts = [f"{count} {verdict.value}" for verdict, count in report.counts.items()]
    text = f"{report.verdict.value}: {', '.join(counts)}"
    if report.verdict is not Verdict.NOT_APPLICABLE:
        return text
    cases = [case for report in report.checks for case in report.check.cases]
    needed = ",".join(dict.fromkeys(case.when for case in cases if case.when is not None))
    advice = f"; --declare {needed} if the client is capable of it" if needed else ""
    return f"{text}; nothing was judged{advice}"


def status_of(report: RunReport) -> int:
    """The exit status of a command that judged a client."""
    return 0 if report.verdict in CONFORMANT else FAILED
