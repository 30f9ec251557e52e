"""``invoice-sandbox acceptance``."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Final

import click

from invoice_sandbox.acceptance.attestation import InvalidAttestationError, sign, verify
from invoice_sandbox.acceptance.clients import Client
from invoice_sandbox.acceptance.page import as_html
from invoice_sandbox.acceptance.plan import Check, Plan, load_plan, plan_of, served_vocabulary
from invoice_sandbox.acceptance.process import CommandClient
from invoice_sandbox.acceptance.progress import Progress
from invoice_sandbox.acceptance.remote import PatientClient, RemoteClient
from invoice_sandbox.acceptance.reports import (
    Subject,
    as_ctrf,
    as_json,
    as_junit,
    contract_subject,
    report_object,
)
from invoice_sandbox.acceptance.runner import CheckReport, RunReport, run_plan
from invoice_sandbox.acceptance.runs import BUNDLE, judged, run_parts, texts_of
from invoice_sandbox.acceptance.selftest import (
    KnownClient,
    judge_clients,
    load_clients,
    problems,
    selftest_table,
)
from invoice_sandbox.acceptance.verdicts import CONFORMANT, Verdict
from invoice_sandbox.base.clock import parse_duration
from invoice_sandbox.base.errors import UserError, suggestion
from invoice_sandbox.bundles.archive import read_bundle, write_bundle
from invoice_sandbox.cli.control import commands_below
from invoice_sandbox.cli.options import (
    CONNECTION,
    FAILED,
    FILE,
    FOLDER,
    checked,
    options,
)
from invoice_sandbox.control.client import ControlClient, SandboxError, checked_key, checked_url
from invoice_sandbox.project.loader import default_project
from invoice_sandbox.testing.server import Options, serving

_CLIENTS: Final = Path("tests/acceptance/clients.yaml")
_TABLE: Final = "<!-- generated: selftest -->"
_END_OF_TABLE: Final = "<!-- end of selftest -->"
_INTERRUPTED: Final = 130
_EXEC: Final[dict[str, dict[str, Any]]] = {
    "--exec command": {
        "metavar": "CMD",
        "required": True,
        "help": "Command of the client; it runs once for each case, with ACCEPTANCE_TASK.",
    },
}
_OPTIONS: Final[dict[str, dict[str, Any]]] = {
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
_REMOTE: Final[dict[str, dict[str, Any]]] = {
    "--webhook-url": {
        "metavar": "URL",
        "help": "Where the client receives webhooks; needed if it declares that it does.",
    },
    "--patience": {
        "metavar": "DURATION",
        "default": "PT10M",
        "show_default": True,
        "callback": lambda _context, _parameter, text: _seconds(text),
        "help": "How long the run waits for the client to begin a task.",
    },
    "--host": {
        "metavar": "ADDRESS",
        "help": "Address that the started server listens on. Default: 127.0.0.1.",
    },
    "--port": {"metavar": "PORT", "help": "Port of the started server. Default: a free one."},
}


@dataclass(frozen=True)
class _Chosen:
    """The options of both ways to run a plan: the plan, the checks, the server, the reports."""

    out: Path
    plan: Path | None
    only: tuple[str, ...]
    declared: str
    attests: tuple[tuple[str, str], ...]
    server: str | None
    key: str
    project: Path | None


@click.group()
def acceptance() -> None:
    """Judge a client against an acceptance plan."""


for _command_of_run in commands_below("acceptance").values():
    acceptance.add_command(_command_of_run)


@acceptance.command()
@options(_EXEC | _OPTIONS)
def run(command: str, **given: Any) -> None:
    """Run the client once for each case of a plan, and judge what it did.

    Writes report.json, report.html, junit.xml and ctrf.json. Status 0 when the client is
    conformant, 1 when it is not, 130 when the run was interrupted.

    \b
    invoice-sandbox acceptance run --exec 'python client.py' --out report
    invoice-sandbox acceptance run --exec ./client --out report --declare webhooks,idempotency
    invoice-sandbox acceptance run --exec ./client --out report --only backoff --only money
    """
    chosen, parts = _Chosen(**given), _command(command)

    def client(_: Progress, declared: frozenset[str]) -> CommandClient:
        return CommandClient(parts, declared, chosen.out)

    with _control(chosen) as control:
        _run(chosen, control, client)


@acceptance.command()
@options(_OPTIONS | _REMOTE)
def serve(
    webhook_url: str | None, patience: float, host: str | None, port: str | None, **given: Any
) -> None:
    """Run a plan for a client on another machine, which does one task after the other.

    Each task is shown here, by 'acceptance show RUN' and by the control API, with the URL, the key
    and the deadline. A client that receives webhooks reports that it is ready; any other may report
    that it is done. The client and whoever watches may disconnect at any time.

    \b
    invoice-sandbox acceptance serve --out report --host 0.0.0.0 --port 8080
    invoice-sandbox acceptance serve --out report --server https://sandbox.example --key KEY
    """
    chosen = _Chosen(**given)
    if chosen.server is not None and (host is not None or port is not None):
        raise click.UsageError("--host and --port cannot be used with --server, which has started")

    def client(progress: Progress, declared: frozenset[str]) -> RemoteClient:
        if "webhooks" in declared and webhook_url is None:
            raise UserError("--declare webhooks needs --webhook-url")
        click.echo(f"Run {progress.id} at {progress.url}")
        return RemoteClient(progress, declared, patience, _waiting, webhook_url or "")

    with _control(chosen, host=host, port=port) as started:
        if chosen.server is None:
            click.echo(f"Sandbox at {started.url} with the key {started.key}")
        _run(chosen, PatientClient(started.url, started.key), client)


@contextmanager
def _control(chosen: _Chosen, **texts: str | None) -> Iterator[ControlClient]:
    """The client of the server of a run."""
    if chosen.server is not None and chosen.project is not None:
        raise click.UsageError("--project cannot be used with --server, which has started")
    folder = None if chosen.project is None else str(chosen.project)
    key = chosen.key if chosen.server else None
    settings = {name: text for name, text in texts.items() if text is not None}
    with serving(Options(chosen.server, key, folder, settings=settings)) as control:
        yield control


def _run(
    chosen: _Chosen,
    control: ControlClient,
    client_of: Callable[[Progress, frozenset[str]], Client],
) -> None:
    """Run the checks and write the reports. Ends the process with its status."""
    out = chosen.out
    file = chosen.plan or plan_of(chosen.project or default_project())
    plan = _plan(file, control)
    declared, attests = _declared(plan, chosen.declared), dict(chosen.attests)
    _known(plan, "--attest", attests)
    checks = _chosen(plan, chosen.only)
    out.mkdir(parents=True, exist_ok=True)
    contract = control.whole("GET", "/openapi.json")
    subject, progress = contract_subject(contract, declared), Progress(plan, checks, control)
    finished: list[CheckReport] = []

    def on_result(one: CheckReport) -> None:
        finished.append(one)
        partial = report_object(RunReport(plan, finished, is_complete=False), subject)
        progress.finish(one.check, one.verdict.value, one.decisive.summary, partial)
        _print(one)

    report = run_plan(
        plan,
        checks,
        client_of(progress, frozenset(declared)),
        control,
        on_result,
        Event(),
        attests,
        progress.begin,
    )
    progress.end(report_object(report, subject))
    text = _write(out, report, subject)
    parts = run_parts(report, subject, attests, texts_of(file.read_bytes(), contract, text))
    write_bundle(out / BUNDLE, *parts)
    if not report.is_complete:
        click.echo(f"Interrupted; {out}/report.json has the finished checks.", err=True)
        sys.exit(_INTERRUPTED)
    click.echo(f"{report.verdict.value}: {_words(report)}; {out}/report.html")
    sys.exit(0 if report.verdict in CONFORMANT else FAILED)


def _waiting(task: Mapping[str, Any]) -> None:
    click.echo(f"waiting for you: {task['text']} ({task['check']}, until {task['deadline']})")
    for name, text in task["environment"].items():
        click.echo(f"  {name}={text}")


def _seconds(text: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@acceptance.command("judge")
@click.argument("file", metavar="BUNDLE", type=FILE)
@click.option("--plan", metavar="FILE", type=FILE, help="Acceptance plan. Default: its own one.")
@click.option(
    "--out",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the reports.",
)
def judge_bundle(file: Path, plan: Path | None, out: Path | None) -> None:
    """Judge what a bundle recorded. The same bundle always gives the same report.

    A bundle of 'acceptance run' is judged by every rule of its plan. Any other bundle is judged by
    the rules that need no step of a run; what it has no example of is inconclusive. Status 0 when
    the client is conformant, 1 when it is not, 2 for a file that is no bundle.

    \b
    invoice-sandbox acceptance judge report/bundle.zip
    invoice-sandbox acceptance judge bug.zip --plan acceptance/plan.yaml --out report
    """
    bundle = read_bundle(file)
    chosen = plan if plan or "cases" in bundle.manifest else plan_of(default_project())
    report, subject = judged(bundle, None if chosen is None else _text_of(chosen))
    for one in report.checks:
        _print(one)
    text = as_json(report_object(report, subject))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        _write(out, report, subject)
    digest = hashlib.sha256(text.encode()).hexdigest()
    click.echo(f"{report.verdict.value}: {_words(report)}; report sha256:{digest}")
    sys.exit(0 if report.verdict in CONFORMANT else FAILED)


def _text_of(plan: Path) -> tuple[str, bytes]:
    try:
        return str(plan), plan.read_bytes()
    except OSError as error:
        raise UserError(f"{plan}: {error.strerror}") from None


_SELFTEST: Final[dict[str, dict[str, Any]]] = {
    "--clients file": {
        "metavar": "FILE",
        "type": FILE,
        "help": "Clients with their faults. Default: tests/acceptance/clients.yaml of the project.",
    },
    "--only": {"metavar": "NAME", "multiple": True, "help": "Only this client. Repeatable."},
    "--bounded": {
        "is_flag": True,
        "help": "Run a client with a fault only through the check that must catch it.",
    },
    "--write page": {
        "metavar": "FILE",
        "type": FILE,
        "help": "Write the table of clients and checks into this Markdown page.",
    },
    **{one: _OPTIONS[one] for one in ("--plan", "--server", "--key", "--project")},
}


@acceptance.command()
@options(_SELFTEST)
def selftest(
    file: Path | None, only: tuple[str, ...], bounded: bool, page: Path | None, **given: Any
) -> None:
    """Check a plan: right clients pass, and each fault is caught by its own check only.

    The clients are those of a checkout of the sandbox, or of FILE. Status 1 for a false FAIL, a
    missed fault, or a right client that does not pass.

    \b
    invoice-sandbox acceptance selftest --bounded
    invoice-sandbox acceptance selftest --only Python --only shell
    """
    chosen = _Chosen(Path(), only=(), declared="", attests=(), **given)
    project = chosen.project or default_project()
    clients = file or project / _CLIENTS
    if not clients.is_file():
        raise UserError(f"{clients} does not exist: use a checkout of the sandbox, or --clients")
    wrong: list[str] = []

    def on_report(client: KnownClient, report: RunReport) -> None:
        found = [*problems(client, report)]
        wrong.extend(found)
        click.echo(f"{'wrong' if found else 'right':<6} {client.name}")

    with _control(chosen) as control:
        plan = _plan(chosen.plan or plan_of(project), control)
        known = load_clients(clients, plan)
        names = [one.name for one in known]
        _named("--only", "client", only, names)
        those = [one for one in known if not only or one.name in only]
        reports = judge_clients(those, plan, control, own_check_only=bounded, on_report=on_report)
    if page is not None:
        _publish(page, selftest_table(plan, those, reports))
    for line in wrong:
        click.echo(line, err=True)
    click.echo(f"{len(those)} clients, {len(wrong)} wrong verdicts")
    sys.exit(FAILED if wrong else 0)


def _publish(page: Path, table: str) -> None:
    """Replace the table between the comments of a page. Raises UserError."""
    before, opened, rest = page.read_text(encoding="utf-8").partition(_TABLE)
    _, closed, after = rest.partition(_END_OF_TABLE)
    if not (opened and closed):
        raise UserError(f"{page} has no place for the table: {_TABLE} and {_END_OF_TABLE}")
    page.write_text(f"{before}{opened}\n{table}{closed}{after}", encoding="utf-8")


_REPORTS: Final = click.argument("folder", metavar="DIR", type=FOLDER)


@acceptance.command("sign")
@_REPORTS
@click.option("--key", metavar="FILE", type=FILE, required=True, help="Private Ed25519 key, PEM.")
def sign_reports(folder: Path, key: Path) -> None:
    """Sign the reports in DIR: an in-toto test result in a DSSE envelope.

    Writes attestation.json. Needs: pip install './invoice-liquidity-sandbox[sign]'

    \b
    openssl genpkey -algorithm ed25519 -out key.pem
    openssl pkey -in key.pem -pubout -out public.pem
    invoice-sandbox acceptance sign report --key key.pem
    """
    click.echo(_signed("signed", sign(folder, key)))


@acceptance.command("verify")
@_REPORTS
@click.option("--key", metavar="FILE", type=FILE, required=True, help="Public Ed25519 key, PEM.")
def verify_reports(folder: Path, key: Path) -> None:
    """Verify the signature and the digest of every file in DIR, without a network.

    \b
    invoice-sandbox acceptance verify report --key public.pem
    """
    try:
        statement = verify(folder, key)
    except InvalidAttestationError as error:
        raise click.ClickException(f"not verified: {error}") from None
    click.echo(_signed("verified", statement))


def _signed(done: str, statement: Mapping[str, Any]) -> str:
    predicate = statement["predicate"]
    names = ", ".join(one["name"] for one in predicate["configuration"])
    files = len(statement["subject"])
    return f"{done}: {predicate['result']}, {names}, {files} files"


def _plan(file: Path, control: ControlClient) -> Plan:
    """The plan for the project of a server. Raises UserError."""
    try:
        return load_plan(file, served_vocabulary(control))
    except SandboxError as error:
        raise UserError(str(error)) from None


def _command(text: str) -> list[str]:
    """The words of a command. Raises UserError when it cannot be started."""
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise UserError(f"--exec: {error}") from None
    if not parts or shutil.which(parts[0]) is None:
        raise UserError(f"--exec: there is no command '{parts[0] if parts else ''}'")
    return parts


def _declared(plan: Plan, text: str) -> list[str]:
    names = [one.strip() for one in text.split(",") if one.strip()]
    for name in names:
        if name not in plan.capabilities:
            advice = suggestion(name, plan.capabilities)
            raise UserError(f"--declare: there is no capability '{name}' ({advice})")
    return names


def _chosen(plan: Plan, only: Sequence[str]) -> list[Check]:
    _known(plan, "--only", only)
    return [one for one in plan.checks if not only or one.id in only]


def _known(plan: Plan, option: str, names: Iterable[str]) -> None:
    """Raise UserError for a name that is no check."""
    _named(option, "check", names, [one.id for one in plan.checks])


def _named(option: str, what: str, names: Iterable[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise UserError(f"{option}: there is no {what} '{name}' ({suggestion(name, known)})")


def _print(one: CheckReport) -> None:
    click.echo(f"{one.verdict.value:<14} {one.check.id}: {one.decisive.summary}")


def _write(out: Path, report: RunReport, subject: Subject) -> str:
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


def _words(report: RunReport) -> str:
    verdicts = [one.verdict for one in report.checks]
    counts = [f"{verdicts.count(one)} {one.value}" for one in Verdict if one in verdicts]
    return ", ".join(counts)
