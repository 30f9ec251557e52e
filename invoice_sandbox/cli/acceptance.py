"""``invoice-sandbox acceptance``."""

from __future__ import annotations

import hashlib
import shutil
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import TIMEOUT_MAX, Event
from typing import Any, Final

import click

from invoice_sandbox.acceptance.application import ApplicationClient, checked_endpoint
from invoice_sandbox.acceptance.clients import Client
from invoice_sandbox.acceptance.process import CommandClient
from invoice_sandbox.acceptance.progress import Progress
from invoice_sandbox.acceptance.remote import PatientClient, RemoteClient
from invoice_sandbox.acceptance.reports import as_json, report_object
from invoice_sandbox.acceptance.runs import judged
from invoice_sandbox.base.clock import parse_duration
from invoice_sandbox.base.errors import UserError, suggestion
from invoice_sandbox.bundles.archive import read_bundle
from invoice_sandbox.cli.acceptance_explore import explore
from invoice_sandbox.cli.acceptance_prove import prove
from invoice_sandbox.cli.acceptance_run import (
    CASE,
    INTERRUPTED,
    OPTIONS,
    Chosen,
    conclusion,
    print_check,
    run_checks,
    server_of,
    status_of,
    words_of,
    write_reports,
)
from invoice_sandbox.cli.acceptance_sensitivity import sensitivity
from invoice_sandbox.cli.options import (
    FILE,
    FOLDER,
    ID,
    Commands,
    client,
    options,
    print_data,
    with_connection,
)
from invoice_sandbox.cli.output import Row, Table, plain, print_lines, print_table
from invoice_sandbox.conformance.plan import plan_of
from invoice_sandbox.control.client import ControlClient, path
from invoice_sandbox.project.loader import default_project

_WEBHOOK_URL: Final[dict[str, Any]] = {
    "metavar": "URL",
    "help": "Where the client receives webhooks; needed if it declares that it does.",
}
_CLIENT: Final[dict[str, dict[str, Any]]] = {
    "--exec command": {
        "metavar": "CMD",
        "help": "Command of the client; it runs once for each case, with ACCEPTANCE_TASK.",
    },
    "--http": {
        "metavar": "URL",
        "callback": lambda _context, _parameter, text: text and checked_endpoint(text),
        "help": "Endpoint of the client, a running application, that each task is posted to.",
    },
    "--webhook-url": {
        **_WEBHOOK_URL,
        "help": "With --http: where the client receives webhooks; {task} is replaced by a number.",
    },
    "--at-a-time": {
        "metavar": "N",
        "type": click.IntRange(1, 32),
        "default": 8,
        "show_default": True,
        "help": "How many tasks the client does at the same time.",
    },
}
_REMOTE: Final[dict[str, dict[str, Any]]] = {
    "--webhook-url": _WEBHOOK_URL,
    "--patience": {
        "metavar": "DURATION",
        "default": "PT10M",
        "show_default": True,
        "callback": lambda _context, _parameter, text: _seconds(text),
        "help": "How long the run waits for the client to begin a task.",
    },
    "--grace": {
        "metavar": "DURATION",
        "default": "PT15S",
        "show_default": True,
        "callback": lambda _context, _parameter, text: _seconds(text),
        "help": "How long the started server still responds when the run is over.",
    },
    "--host": {
        "metavar": "ADDRESS",
        "help": "Address that the started server listens on. Default: 127.0.0.1.",
    },
    "--port": {"metavar": "PORT", "help": "Port of the started server. Default: a free one."},
    "--public-url": {
        "metavar": "URL",
        "help": "URL at which the client reaches the started server.",
    },
}


@click.group(cls=Commands)
def acceptance() -> None:
    """Judge a client against an acceptance plan."""


acceptance.add_command(explore)
acceptance.add_command(prove)


@acceptance.command()
@options(_CLIENT | OPTIONS | CASE)
def run(
    command: str | None, http: str | None, webhook_url: str | None, at_a_time: int, **given: Any
) -> None:
    """Have a client do each case of a plan, and judge what it did.

    The client is a command that is started (--exec) or an application that runs (--http).

    Writes report.json, report.html, junit.xml and ctrf.json. Status 0 when the client is
    conformant, 1 when it is not or nothing was judged, 130 when the run was interrupted.

    \b
    invoice-sandbox acceptance run --exec 'python client.py' --out report
    invoice-sandbox acceptance run --exec ./client --out report --declare webhooks,idempotency
    invoice-sandbox acceptance run --exec ./client --out report --only backoff --only money
    invoice-sandbox acceptance run --http http://localhost:5000/acceptance --out report
    invoice-sandbox acceptance run --exec ./client --out report --case found/case.yaml
    """
    if (command is None) == (http is None):
        raise click.UsageError("pass either --exec or --http")
    if http is None and webhook_url is not None:
        raise click.UsageError("--webhook-url needs --http; a command gets a port")
    chosen, parts = Chosen(**given), words_of(command or "true")

    def client_of(_: Progress, declared: frozenset[str]) -> Client:
        if http is None:
            return CommandClient(declared, side_by_side=at_a_time, command=parts, output=chosen.out)
        if "webhooks" in declared and webhook_url is None:
            raise UserError("--declare webhooks needs --webhook-url")
        return ApplicationClient(
            declared, side_by_side=at_a_time, url=http, webhooks=webhook_url or ""
        )

    with server_of(chosen) as control:
        status = run_checks(chosen, control, client_of)
    sys.exit(status)


@acceptance.command()
@options(OPTIONS | _REMOTE)
def serve(
    webhook_url: str | None,
    patience: float,
    grace: float,
    host: str | None,
    port: str | None,
    public_url: str | None,
    **given: Any,
) -> None:
    """Run a plan for a client on another machine, which does one task after the other.

    Each task is shown here, by 'acceptance show RUN' and by the control API, with the URL, the key
    and the deadline. A client that receives webhooks reports that it is ready; any other may report
    that it is done. The client and whoever watches may disconnect at any time. A started server
    responds for a while after the end.

    \b
    invoice-sandbox acceptance serve --out report --host 0.0.0.0 --port 8080 \\
      --public-url http://sandbox.example:8080
    invoice-sandbox acceptance serve --out report --server https://sandbox.example --key KEY
    """
    chosen = Chosen(**given)
    settings = {"host": host, "port": port, "public-url": public_url}
    if chosen.server is not None and any(text is not None for text in settings.values()):
        text = "--host, --port and --public-url cannot be used with --server, which has started"
        raise click.UsageError(text)

    def client_of(progress: Progress, declared: frozenset[str]) -> RemoteClient:
        if "webhooks" in declared and webhook_url is None:
            raise UserError("--declare webhooks needs --webhook-url")
        click.echo(f"Run {progress.id} at {address}")
        waiting = partial(_show_task, progress.id)
        return RemoteClient(
            declared,
            patience,
            progress=progress,
            on_wait=waiting,
            server=address,
            webhooks=webhook_url or "",
        )

    with server_of(chosen, **settings) as started:
        address = (public_url or started.url).rstrip("/")
        if chosen.server is None:
            _started(address, started)
        status = run_checks(chosen, PatientClient(started.url, started.key), client_of)
        if chosen.server is None and status != INTERRUPTED and grace:
            click.echo(f"The server responds for another {grace:g} s; Ctrl-C ends it.")
            with suppress(KeyboardInterrupt):
                Event().wait(min(grace, TIMEOUT_MAX))
    sys.exit(status)


def _started(address: str, started: ControlClient) -> None:
    """Print how clients and commands reach a started server."""
    click.echo(f"Sandbox at {address} with the key {started.key}; the commands need:")
    click.echo(f"  export INVOICE_SANDBOX_URL={address} INVOICE_SANDBOX_KEY={started.key}")


def _seconds(text: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


acceptance.add_command(sensitivity)


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
    the client is conformant, 1 when it is not, 2 for a file that is not a bundle.

    \b
    invoice-sandbox acceptance judge report/bundle.zip
    invoice-sandbox acceptance judge bug.zip --plan acceptance/plan.yaml --out report
    """
    bundle = read_bundle(file)
    chosen = plan if plan or "cases" in bundle.manifest else plan_of(default_project())
    report, subject = judged(bundle, None if chosen is None else (str(chosen), chosen.read_bytes()))
    for check in report.worst_first:
        print_check(check)
    text = as_json(report_object(report, subject))
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_reports(out, report, subject)
    digest = hashlib.sha256(text.encode()).hexdigest()
    click.echo(f"{conclusion(report)}; report sha256:{digest}")
    sys.exit(status_of(report))


@acceptance.command("new-client")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--lang",
    metavar="LANGUAGE",
    required=True,
    help="Language of the client: python or typescript.",
)
@click.option("--project", metavar="DIR", type=FOLDER, help="Project. Default: the bundled one.")
def new_client(folder: Path, lang: str, project: Path | None) -> None:
    """Write a client that passes the plan, to begin with.

    DIR gets the client, a receiver of webhooks, an adapter for 'acceptance run', tests and a
    workflow for CI. It must be empty, or not exist.

    \b
    invoice-sandbox acceptance new-client --lang python my-client
    """
    clients = (project or default_project()) / "acceptance" / "clients"
    known = sorted(place.name for place in clients.glob("*") if place.is_dir())
    if lang not in known:
        raise UserError(f"--lang: there is no client in '{lang}' ({suggestion(lang, known)})")
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty")
    shutil.copytree(
        clients / lang, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    click.echo(f"{(folder / 'README.md').read_text().strip()}\n\nBegin with:\n  cd {folder}")


_CHECKS: Final = Table(
    {"verdict": lambda row: row["verdict"] or row["state"], "check": "id", "summary": "summary"},
    empty="No checks.",
)


def _show_task(run: str, task: Row) -> None:
    """Print what a run waits for, and how to report it."""
    until = f", until {task['deadline']}" if "deadline" in task else ""
    number = task["task"]
    print_lines([f"waiting for you: {task['text']} (task {number}, {task['check']}{until})"])
    for name, text in task["environment"].items():
        click.echo(f"  {plain(name)}={plain(text)}")
    state = "ready" if task.get("webhooks") else "done"
    _show_how(run, number, state)


def _show_how(run: str, number: int, state: str) -> None:
    click.echo(f"  when {state}: invoice-sandbox acceptance {state} {run} --task {number}")


def _show_run(run: Row) -> None:
    print_lines([run["id"], run["plan"], run["state"], run["verdict"] or "no verdict yet"])
    print_table(_CHECKS, run["checks"])
    waiting, reported = run["waitingFor"], run["reported"] or {}
    if waiting is None:
        return
    click.echo()
    if reported.get("task") != waiting["task"]:
        _show_task(run["id"], waiting)
        return
    click.echo(f"task {reported['task']} is reported as {reported['state']}")
    if reported["state"] == "ready":
        _show_how(run["id"], reported["task"], "done")


_RUN: Final = click.argument("run_id", metavar="RUN", type=ID)
_TASK: Final = click.option(
    "--task", metavar="N", type=click.IntRange(1), required=True, help="Number of the task."
)


@acceptance.command("show")
@_RUN
@with_connection
def show_run(run_id: str) -> None:
    """Show an acceptance run.

    The run with its checks, and what the client must do next, with the environment that it needs
    for it.
    """
    print_data(client().ask("GET", path("/acceptance/runs/{id}", id=run_id)), _show_run)


def _report(run_id: str, task: int, state: str) -> None:
    place = path("/acceptance/runs/{id}/task", id=run_id)
    print_data(client().ask("PUT", place, {"task": task, "state": state}), _show_run)


@acceptance.command("ready")
@_RUN
@_TASK
@with_connection
def report_ready(run_id: str, task: int) -> None:
    """Report that the client receives webhooks.

    It has the secret of the task. The command fails in a task that receives no webhooks.
    """
    _report(run_id, task, "ready")


@acceptance.command("done")
@_RUN
@_TASK
@with_connection
def report_done(run_id: str, task: int) -> None:
    """Report that the client is done with its task.

    The run goes on at once, not after the time for the task.
    """
    _report(run_id, task, "done")
