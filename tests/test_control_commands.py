"""The commands of the control API against a real server: output, JSON, errors and misuse."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import click
import httpx
import pytest
from click.testing import CliRunner, Result

from invoice_sandbox.base.ids import camel_case, key_problem
from invoice_sandbox.cli import main, output
from invoice_sandbox.cli.output import Table, plain
from invoice_sandbox.openapi.load.documents import load_document
from invoice_sandbox.runtime.journal import REQUESTS_LOG
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.cases import in_turn
from tests.scenario_run import INVOICE, register_new, until
from tests.scenario_run import data as data_of
from tests.support import PATIENCE, Running

ROOT = Path(__file__).parents[1]
COMMAND = Path(sys.executable).with_name("invoice-sandbox")
NOW = "2026-11-23T09:30:00Z"
START = f"frozen at {NOW}, nothing due"
TYPED = "correct horse battery\n"
Run = Callable[[str], Result]


def run(line: str, **env: str | None) -> Result:
    """Run a line of the command line in this process, as if stdout were a file."""
    usual = {"INVOICE_SANDBOX_URL": None, "INVOICE_SANDBOX_KEY": None, "FORCE_COLOR": None}
    return CliRunner().invoke(main, shlex.split(line), env=usual | env, input=TYPED)


@pytest.fixture
def key(server: Running) -> str:
    """The key of a workspace of the test's own."""
    return server.new_workspace(seed=7)


@pytest.fixture
def at(server: Running, key: str) -> Run:
    """Runs a line in the test's own workspace, and expects it to work."""

    def run_there(line: str) -> Result:
        ran = run(line, INVOICE_SANDBOX_URL=server.url, INVOICE_SANDBOX_KEY=key)
        assert (ran.exit_code, ran.stderr) == (0, ""), (line, ran.output, ran.exception)
        return ran

    return run_there


@pytest.fixture
def rejected(server: Running, key: str) -> Run:
    """Runs a line in the test's own workspace, and expects one line of rejection."""

    def run_there(line: str) -> Result:
        ran = run(line, INVOICE_SANDBOX_URL=server.url, INVOICE_SANDBOX_KEY=key)
        assert (ran.exit_code, ran.stdout) == (1, ""), (line, ran.exception)
        assert re.fullmatch(r"Error: [^\n]+\n", ran.stderr)
        assert key not in ran.stderr
        return ran

    return run_there


def data(ran: Result) -> Any:
    """What ``--json`` printed."""
    return json.loads(ran.stdout)


def registered(server: Running, key: str) -> str:
    """The id of an invoice, so that a scenario has something to do."""
    with server.client(key) as client:
        return register_new(client)


# --- help


def tree(command: click.Command, words: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, with the words that name it."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from tree(child, f"{words} {name}")


COMMAND_TREE = dict(tree(main, "invoice-sandbox"))
COMMANDS = {
    words.removeprefix("invoice-sandbox "): command
    for words, command in COMMAND_TREE.items()
    if {"url", "key", "json"} <= {parameter.name for parameter in command.params}
}


@in_turn("words", COMMANDS)
def test_help_reports_what_it_does_and_explains_every_option(words: str) -> None:
    shown = run(f"{words} --help")
    assert shown.exit_code == 0
    assert re.search(r"^  [A-Z][^.]+\.", shown.stdout, re.MULTILINE)
    if isinstance(COMMANDS[words], click.Group):
        assert f"\n  invoice-sandbox {words}" in shown.stdout
    for parameter in COMMANDS[words].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.opts[0]} is not explained"


EXAMPLES = sorted(
    {
        line.strip()
        for words in COMMANDS
        for line in run(f"{words} --help").stdout.splitlines()
        if line.startswith("  invoice-sandbox ")
    }
)


NOT_OF_A_WORKSPACE = {"coverage", "doctor", "listen", "mcp"}


@pytest.mark.parametrize(
    "example",
    [item for item in EXAMPLES if item.split()[1] not in NOT_OF_A_WORKSPACE and ".zip" not in item],
)
def test_every_example_is_understood(server: Running, key: str, example: str) -> None:
    """The identifiers in them are made up, which is for the server to say."""
    line = example.removeprefix("invoice-sandbox ")
    ran = run(line, INVOICE_SANDBOX_URL=server.url, INVOICE_SANDBOX_KEY=key)
    made_up = re.search(r"_(k2v5q7xa|01M7YQ)|users disable", line)
    assert ran.exit_code == (1 if made_up else 0), ran.output


@in_turn(
    ("line", "message"),
    [
        ("clock advance 3D", "invalid duration '3D'; use ISO 8601 such as P3D or PT10S"),
        (
            "clock advance P1M",
            "'P1M': write weeks as days; months and years have no fixed length; use",
        ),
        ("clock advance P-1D", "invalid duration 'P-1D': no clock goes back; use"),
        ("clock advance", "pass either DURATION or --to"),
        ("clock advance --to yesterday", "invalid instant 'yesterday'; use RFC 3339 such as 2026-"),
        ("fault add --kind latency --delay 2s", "duration '2s'; use ISO 8601 such as P"),
        ("fault add --kind response --body {bad", "Invalid value for '--body': '{bad': it is "),
        ("fault add --kind patch --patch @no", "no: No such file or directory"),
        ("fault add --kind latencey", "'latencey' is not one of 'latency', 'status', "),
        ("fault add --kind status --count x", "'x' is not a valid integer range"),
        ("fault add --kind status --probability x", "'x' is not a valid float range"),
        ("fault add", "Missing option '--kind'. Choose from:"),
        ("zzz", "there is no command 'zzz'; 'main --help' lists all of them"),
        ("serv", "there is no command 'serv'; did you mean serve?"),
        ("clock advanc P1D", "there is no command 'advanc'; did you mean advance?"),
        ("snapshot go", "there is no command 'go'; known: list, restore, take"),
        ("clock --jsno", "No such option '--jsno'. Did you mean '--json'?"),
        ("reset now", "Got unexpected extra argument (now)"),
        ("workspace delete ''", "Invalid value for 'ID': it must not be empty"),
        ("trigger invoice.paid --subject ''", "'--subject' / '--invoice': it must not be empty"),
        ("listen --forward-to 3000 --events a,,b", "'a,,b': use types of events, separated by"),
        ("init pyproject.toml --contract pyproject.toml", "pyproject.toml: Not a directory"),
        ("serve --scenario zzz --port 0", "'zzz'; 'invoice-sandbox scenarios list' lists all"),
    ],
)
def test_an_error_names_what_was_typed(line: str, message: str) -> None:
    misused = run(line)
    assert (misused.exit_code, misused.stdout) == (2, "")
    assert message in misused.stderr


# --- the contract of the control API

CONTROL = load_document(ROOT / "invoice_sandbox" / "control" / "openapi.yaml")
SCHEMAS = {
    **CONTROL["components"]["schemas"],
    **load_document(ROOT / "openapi" / "sandbox.yaml")["components"]["schemas"],
}
FILTERS = {one["name"] for one in CONTROL["paths"]["/requests"]["get"]["parameters"]}


@pytest.mark.parametrize(
    ("words", "members"),
    [
        ("fault add", set(SCHEMAS["FaultInput"]["properties"])),
        ("workspace new", set(SCHEMAS["WorkspaceInput"]["properties"])),
        ("requests", FILTERS - {"id", "cursor", "messages"} | {"show", "follow"}),
        ("users add", set(SCHEMAS["UserInput"]["properties"]) - {"password"}),
    ],
)
def test_a_command_has_an_input_for_every_member_of_the_contract(
    words: str, members: set[str]
) -> None:
    inputs = {camel_case(one.name or "") for one in COMMANDS[words].params}
    assert inputs - {"url", "key", "json"} == members


# --- for scripts

READING = {
    "clock": "/clock",
    "agenda": "/agenda",
    "workspace list": "/workspaces",
    "snapshot list": "/snapshots",
    "scenarios": "/scenarios",
    "fault list": "/faults",
    "requests": "/requests",
    "inbox": "/inbox",
    "users list": "/users",
    "session list": "/sessions",
    "transition inv_sandbox_0006": "/invoices/inv_sandbox_0006/transition",
}
CHANGING: dict[str, dict[str, Any]] = {
    "clock advance PT1S": {"from": NOW, "now": "2026-11-23T09:30:01Z", "happened": []},
    "clock freeze": {"mode": "frozen"},
    "clock release": {"mode": "live"},
    "workspace new --seed 9": {"seed": 9, "current": False},
    "workspace delete {workspace}": {"id": "{workspace}", "deleted": True},
    "reset": {"seed": 7, "current": True},
    "snapshot take": {"takenAt": NOW},
    "snapshot restore {snapshot}": {"seed": 7, "current": True},
    "scenarios use manual": {"name": "manual", "current": True, "steps": []},
    "fault add --kind drip --delay PT3S": {"kind": "drip", "delay": "PT3S", "count": 1},
    """fault add --kind response --operation createOffer --status 409 --body '{{"error": {{"code":
    "conflict", "message": "Taken.", "requestId": "req_sandbox_1"}}, "mode": "sandbox_mock"}}'""": {
        "kind": "response",
        "status": 409,
    },
    "fault remove {fault}": {"id": "{fault}", "deleted": True},
    "transition inv_sandbox_0006 become-overdue": {"status": "Overdue"},
    "replay {delivery}": {"id": "{delivery}", "status": "Delivered", "attempt": 2},
    "acceptance show {run}": {"id": "{run}", "reported": None, "hasReport": True},
    "acceptance ready {run} --task 1": {"reported": {"task": 1, "state": "ready"}},
    "acceptance done {run} --task 1": {"reported": {"task": 1, "state": "done"}},
    "users add Bo@corp.example --role auditor": {"email": "bo@corp.example", "status": "Active"},
    "users disable auditor@demo.example": {"id": "usr_sandbox_auditor", "status": "Disabled"},
    "session revoke {session}": {"id": "{session}", "role": "demo_seller"},
}


RUN: dict[str, Any] = {
    "plan": "partner",
    "state": "running",
    "verdict": None,
    "waitingFor": {"task": 1, "check": "money", "text": "register it", "environment": {}},
    "checks": [],
    "report": {"verdict": "PASS", "state": "interrupted", "checks": []},
}


@pytest.fixture
def names(at: Run, server: Running, key: str) -> dict[str, str]:
    """What there is in the workspace: a made workspace, a snapshot, a fault, a request."""
    inbox = data(at("inbox --json"))["url"]
    with server.client(key) as client:
        run = client.post("/sandbox/acceptance/runs", json=RUN).json()["data"]
        client.post("/api/webhooks", json={"url": inbox, "events": ["*"]}).raise_for_status()
        registered(server, key)
        login = {"email": "seller@demo.example", "password": "demo-password"}
        client.post("/api/auth/login", json=login).raise_for_status()
        (session,) = client.get("/sandbox/sessions").json()["data"]
        at("clock advance PT0S")
        (delivery,) = client.get("/api/webhooks").json()["data"]["deliveries"]
    return {
        "delivery": delivery["id"],
        "session": session["id"],
        "workspace": data(at("workspace new --json"))["id"],
        "snapshot": data(at("snapshot take --json"))["id"],
        "fault": data(at("fault add --kind reset --json"))["id"],
        "request": data(at("requests --json"))[0]["requestId"],
        "run": run["id"],
    }


@in_turn("line", READING)
@pytest.mark.usefixtures("names")
def test_json_is_exactly_the_data_of_the_response(
    at: Run, server: Running, key: str, line: str
) -> None:
    with server.client(key) as client:
        assert data(at(f"{line} --json")) == client.get(f"/sandbox{READING[line]}").json()["data"]


@pytest.mark.parametrize("line", CHANGING)
def test_a_change_returns_its_data_as_json(at: Run, names: dict[str, str], line: str) -> None:
    changed = data(at(line.format(**names) + " --json"))
    expected = {
        name: value.format(**names) if isinstance(value, str) else value
        for name, value in CHANGING[line].items()
    }
    assert {name: changed[name] for name in expected} == expected


def test_json_is_indented_and_ends_in_a_newline(at: Run) -> None:
    assert at("fault clear --json").stdout == "[]\n"
    assert at("clock --json").stdout == (
        f'{{\n  "mode": "frozen",\n  "now": "{NOW}",\n  "nextDue": null\n}}\n'
    )


# --- for people: clock and agenda


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("clock", START),
        ("clock freeze", START),
        ("clock release", f"live at {NOW}, nothing due"),
        ("clock advance P3D", "frozen at 2026-11-26T09:30:00Z, nothing due"),
        ("clock advance --to 2026-12-26T18:00:00Z", "frozen at 2026-12-26T18:00:00Z, nothing due"),
    ],
)
def test_the_clock_is_one_line(at: Run, line: str, shown: str) -> None:
    assert at(line).stdout == f"{shown}\n"


def test_an_advance_lists_what_happened_a_line_for_each_step(
    at: Run, server: Running, key: str
) -> None:
    at("scenarios use auto-progress")
    invoice = registered(server, key)
    due = data(at("agenda --json"))["due"]
    *lines, clock = at("clock advance PT1H").stdout.splitlines()
    done = data(at("agenda --json"))["done"][::-1]
    assert clock.startswith("frozen at 2026-11-23T10:30:00Z, ")
    assert len(lines) == len(done) == len([one for one in due if one["do"] != "pass-date"]) > 0
    for line, step in zip(lines, done, strict=True):
        events = ", ".join(step["events"]) or "-"
        subject, reason = step["subject"] or "-", step["reason"] or "-"
        doing = " ".join([step["do"], *(f"{name}={one}" for name, one in step["with"].items())])
        expected = [step["at"], doing, step["outcome"], subject, reason, events]
        assert line == "  ".join(expected)
    assert invoice in lines[0]


def test_a_scenario_is_used_with_conditions(at: Run, server: Running, key: str) -> None:
    at("""scenarios use rate-limited --with '{"rejections": 1}'""")
    invoice = {**INVOICE, "invoiceNumber": "INV-WITH"}
    with server.client(key) as client:
        statuses = [client.post("/api/invoices", json=invoice).status_code for _ in range(2)]
    assert statuses == [429, 201]


def test_the_agenda_shows_what_is_due_and_then_what_was_done(
    at: Run, server: Running, key: str
) -> None:
    assert at("agenda").stdout == "Nothing is due.\n\nNo step has run yet.\n"
    at("scenarios use auto-progress")
    registered(server, key)
    step = data(at("agenda --json"))["due"][0]
    due, _, done = at("agenda").stdout.partition("\n\n")
    assert re.search(rf"{step['at']} +{step['do']} +{step['subject']} +auto-progress", due)
    assert done == "No step has run yet.\n"
    at(f"clock advance --to {step['at']}")
    done = at("agenda").stdout.partition("\n\n")[2]
    assert re.search(rf"{step['at']} +{step['do']} +done +{step['subject']} ", done)


def test_the_inbox_is_its_address_and_then_what_it_received(at: Run) -> None:
    address, empty = at("inbox").stdout.splitlines()
    assert empty == "No webhooks yet."
    assert httpx.post(address, json={"type": "invoice.paid"}, timeout=PATIENCE).status_code == 401
    first, titles, row = at("inbox").stdout.splitlines()
    assert first == address
    assert titles.split() == ["received", "at", "type", "verified", "duplicate", "problem"]
    assert row.split()[:4] == [NOW, "invoice.paid", "no", "no"]


# --- for people: workspaces, snapshots, scenarios


def test_a_new_workspace_comes_with_its_key_to_copy(at: Run, server: Running) -> None:
    lines = at(
        f"workspace new --seed 9 --scenario manual --clock frozen --now {NOW}"
    ).stdout.splitlines()
    assert re.fullmatch(rf"wsp_sandbox_\w+  scenario manual  seed 9  {START}", lines[0])
    key = lines[-1].removeprefix("export INVOICE_SANDBOX_KEY=")
    assert key_problem(key) is None
    there = run("workspace list --json", INVOICE_SANDBOX_URL=server.url, INVOICE_SANDBOX_KEY=key)
    assert data(there)[0]["seed"] == 9


def test_the_workspace_of_the_key_is_marked(at: Run) -> None:
    made = data(at("workspace new --scenario manual --json"))
    own, _ = sorted(data(at("workspace list --json")), key=lambda one: not one["current"])
    header, first, second = at("workspace list").stdout.splitlines()
    assert header.split()[:3] == ["id", "scenario", "seed"]
    assert first.split()[:3] == [made["id"], "manual", str(made["seed"])]
    assert second.split()[:4] == ["*", own["id"], "manual", "7"]


def test_a_bare_group_does_nothing(at: Run, server: Running, key: str) -> None:
    with server.client(key) as client:
        for group in ("snapshot", "clock", "scenarios", "workspace", "fault", "bundle"):
            run(group, INVOICE_SANDBOX_URL=server.url, INVOICE_SANDBOX_KEY=key)
        assert data_of(client.get("/sandbox/snapshots")) == []
        assert data_of(client.get("/sandbox/faults")) == []
    assert at("clock").stdout == f"{START}\n"


def test_lists_have_a_limit(at: Run, server: Running, key: str) -> None:
    with server.client(key) as client:
        url = data_of(client.get("/sandbox/inbox"))["url"]
        client.post("/api/webhooks", json={"url": url, "events": ["*"]})
        for _ in range(3):
            client.post("/sandbox/events", json={"type": "invoice.verified"})
        until(lambda: len(data(at("inbox --json"))["messages"]) == 3, "three messages")
    assert at("inbox --limit 2").stdout.endswith("2 of 3; --limit shows more.\n")
    shown = at("deliveries --limit 2").stdout.splitlines()
    assert (len(shown), shown[-1]) == (4, "2 of 3; --limit shows more.")
    assert len(at("deliveries").stdout.splitlines()) == 4
    assert len(data(at("deliveries --json"))) == 3


TABLE = Table({"id": "id", "what happens": "what", "reason": "why"}, "None.")
ROWS = [
    {"id": "inv_sandbox_cjbpucqs_0001", "what": "It is verified and gets an offer.", "why": "x"},
    {"id": "inv_sandbox_cjbpucqs_0002", "what": "It waits.", "why": "The seller is in review."},
]


@pytest.mark.parametrize("width", [300, 80, 60, 55, 20])
def test_a_table_fits_the_terminal_and_breaks_no_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], width: int
) -> None:
    monkeypatch.setattr(output, "_terminal_width", lambda: width)
    output.print_table(TABLE, ROWS)
    lines = capsys.readouterr().out.splitlines()
    words = {word for row in ROWS for text in row.values() for word in text.split()}
    assert words <= {word for line in lines for word in line.split()}
    if width >= 55:
        assert max(map(len, lines)) <= width
    assert (len(lines) == 3) is (width == 300)


def test_a_table_for_a_program_has_a_line_for_each_row(at: Run) -> None:
    assert len(at("scenarios").stdout.splitlines()) == 1 + len(data(at("scenarios --json")))


def test_a_snapshot_is_gone_back_to(at: Run) -> None:
    assert at("snapshot list").stdout == "No snapshots.\n"
    taken = at("snapshot take").stdout
    snapshot = taken.split()[0]
    assert taken == f"{snapshot}  taken at {NOW}\n"
    assert at("snapshot list").stdout.splitlines()[1].split() == [snapshot, NOW]
    at("clock advance P3D")
    assert at(f"snapshot restore {snapshot}").stdout.endswith(f"  {START}\n")
    assert at("clock").stdout == f"{START}\n"


def test_transitions_without_a_trigger_are_those_that_are_legal_now(at: Run) -> None:
    shown = at("transition inv_sandbox_0006").stdout.splitlines()
    assert shown[0] == "Funded  legal now:"
    assert "  become-overdue" in shown
    assert "  verify" not in shown
    at("transition inv_sandbox_0006 become-overdue")
    assert at("transition inv_sandbox_0006").stdout.startswith("Overdue  legal now:\n")


def test_the_scenario_in_force_is_marked_and_another_can_be_chosen(
    at: Run, server: Running, key: str
) -> None:
    assert re.search(r"^\*  manual ", at("scenarios").stdout, re.MULTILINE)
    chosen = at("scenarios use auto-progress").stdout
    steps = data(at("scenarios use auto-progress --json"))["steps"]
    assert chosen.startswith("auto-progress  ")
    assert f"  {steps[0]['after']}  after  {steps[0]['on']}  {steps[0]['do']}\n" in chosen
    assert re.search(r"^\*  auto-progress ", at("scenarios").stdout, re.MULTILINE)
    assert "cancelled" not in chosen
    with server.client(key) as client:
        register_new(client)
    assert at("scenarios use manual").stdout.endswith("another scenario: 1\n")
    ended = at("scenarios use manual --end-runs").stdout
    assert re.search(r"cancelled: [1-9]\d*\n\Z", ended)


# --- for people: faults and the journal


def test_a_reported_task_is_not_asked_for_again(at: Run, server: Running, key: str) -> None:
    with server.client(key) as client:
        task = {**RUN["waitingFor"], "webhooks": True}
        run = client.post("/sandbox/acceptance/runs", json={**RUN, "waitingFor": task})
    name = run.json()["data"]["id"]
    ready = at(f"acceptance ready {name} --task 1").stdout.splitlines()
    done = f"  when done: invoice-sandbox acceptance done {name} --task 1"
    assert ready[-2:] == ["task 1 is reported as ready", done]
    reported = at(f"acceptance done {name} --task 1").stdout
    assert reported.endswith("\ntask 1 is reported as done\n")
    assert "waiting for you" not in reported


def test_faults_are_added_listed_removed_and_cleared(at: Run) -> None:
    added = at(
        "fault add --operation createInvoice --kind latency --delay PT2S --up-to PT3S"
        " --when after --count forever --probability 0.5"
    ).stdout
    fault = added.splitlines()[1].split()
    assert " ".join(fault[1:]) == "latency createInvoice PT2S PT3S after forever 0.5 0"
    at("fault add --kind status --status 503 --count 3")
    assert re.search(r" status +every +503 .* before +3 ", at("fault list").stdout)
    assert at(f"fault remove {fault[0]}").stdout == f"{fault[0]}  deleted\n"
    assert fault[0] not in at("fault list").stdout
    assert at("fault clear").stdout == "No faults.\n"
    assert at("fault list").stdout == "No faults.\n"


def test_a_response_to_inject_keeps_the_digits_of_its_numbers(
    at: Run, server: Running, key: str, tmp_path: Path
) -> None:
    file, place = tmp_path / "invoice.json", "/api/invoices/inv_sandbox_0006"
    with server.client(key) as client:
        body = client.get(place).json()
        body["data"]["amount"] = "AMOUNT"
        file.write_text(json.dumps(body).replace('"AMOUNT"', "12500.10"))
        at(f"fault add --operation getInvoice --kind response --body @{file}")
        assert '"amount":12500.10,' in client.get(place).text


@pytest.fixture
def asked(at: Run, server: Running, key: str) -> str:
    """Four requests, one of them with a fault; the identifier of the one that was rejected."""
    with server.client(key) as client:
        client.post("/api/invoices", json=INVOICE)
        client.post("/api/invoices?x=a b", json={"sellerId": "\x1b[31m"})
        client.get("/api/invoices")
        at("fault add --kind status --status 503 --when before")
        client.get("/api/partners")
    return str(data(at("requests --status 400 --json"))[0]["requestId"])


@pytest.mark.usefixtures("asked")
def test_requests_are_listed_newest_first_with_whole_identifiers(at: Run) -> None:
    entries = data(at("requests --json"))
    header, *lines = at("requests").stdout.splitlines()
    assert [title for title in header.split() if title != "request"] == [
        *("at", "method", "path", "status", "operation", "fault")
    ]
    assert [int(line.split()[3]) for line in lines] == [503, 200, 400, 201]
    assert all(
        line.endswith(entry["requestId"]) for line, entry in zip(lines, entries, strict=True)
    )


@pytest.mark.usefixtures("asked")
@in_turn(
    ("filters", "statuses"),
    [
        ("--operation createInvoice", [400, 201]),
        ("--method get", [503, 200]),
        ("--status 201", [201]),
        ("--fault", [503]),
        ("--no-fault", [200, 400, 201]),
        ("--method POST --limit 1", [400]),
        ("--method PATCH", []),
    ],
)
def test_requests_are_filtered(at: Run, filters: str, statuses: list[int]) -> None:
    found = data(at(f"requests {filters} --json"))
    assert [entry["status"] for entry in found] == statuses
    assert len(at(f"requests {filters}").stdout.splitlines()) >= max(len(statuses), 1)


def test_requests_are_followed_until_the_workspace_is_deleted(server: Running, key: str) -> None:
    env = {"INVOICE_SANDBOX_URL": server.url, "INVOICE_SANDBOX_KEY": key}
    before = server.sandbox.engine.streams.total()
    with (
        server.client(key) as client,
        server.client() as parent,
        ThreadPoolExecutor() as pool,
    ):
        client.get("/api/partners")
        following = pool.submit(run, "requests --follow --method GET", **env)
        until(lambda: server.sandbox.engine.streams.total() > before, "it follows")
        client.get("/api/offers")
        client.post("/api/invoices", json={})
        client.get("/api/invoices/nothing")
        name = client.get("/sandbox/workspaces").json()["data"][0]["id"]
        until(lambda: len(server.log(REQUESTS_LOG, name).entries) == 4, "they are in the journal")
        parent.delete(f"/sandbox/workspaces/{name}")
        ran = following.result(PATIENCE)
    assert [line.split()[1:5] for line in ran.stdout.splitlines()] == [
        ["GET", "/api/offers", "200", "listOffers"],
        ["GET", "/api/invoices/nothing", "404", "getInvoice"],
    ]
    assert ran.exit_code == 1
    assert ran.stderr == "Error: the server has stopped, or the workspace was deleted\n"


def test_ctrl_c_ends_following_and_every_line_is_json(server: Running, key: str) -> None:
    arguments = ["requests", "-f", "--json", "--url", server.url, "--key", key]
    before = server.sandbox.engine.streams.total()
    with subprocess.Popen([COMMAND, *arguments], stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        until(lambda: server.sandbox.engine.streams.total() > before, "it follows")
        with server.client(key) as client:
            client.get("/api/offers/one")
        assert json.loads(following.stdout.readline())["path"] == "/api/offers/one"
        following.send_signal(signal.SIGINT)
        assert following.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--follow --limit 5", "leave out --limit"),
        ("--follow --show x", "leave out other options"),
    ],
)
def test_options_that_do_not_fit_together_are_an_error(options: str, problem: str) -> None:
    ran = run(f"requests {options}")
    assert (ran.exit_code, problem in ran.stderr) == (2, True)


def test_one_request_is_shown_in_full(at: Run, asked: str) -> None:
    (entry,) = [one for one in data(at("requests --json")) if one["requestId"] == asked]
    assert data(at(f"requests --show {asked} --json")) == entry
    shown = at(f"requests --show {asked}").stdout
    assert shown.startswith(f"{asked}  {NOW}  {entry['durationMs']} ms\nPOST  /api/invoices?x=")
    for name in ("request", "response"):
        assert all(f"\n  {key}: {value}\n" in shown for key, value in entry[name]["headers"])
    assert '\n    "sellerId": "\\u001b[31m"\n' in shown
    assert '\n      "code": "invalid_request",\n' in shown
    why = {**entry["why"]}
    for one in why.pop("problems"):
        assert f"\n    {one['pointer']}: {one['problem']}\n" in shown
    assert all(f"\n  {name}: {plain(value)}\n" in shown for name, value in why.items())


# --- the connection


def test_url_and_key_are_options_too(server: Running, key: str) -> None:
    mine = run(f"workspace list --json --url {server.url}/ --key {key}")
    assert data(mine)[0]["seed"] == 7
    assert [one["current"] for one in data(mine)] == [True]


def test_an_option_wins_over_the_environment(server: Running, key: str) -> None:
    wrong = {"INVOICE_SANDBOX_URL": "http://127.0.0.1:1", "INVOICE_SANDBOX_KEY": "nobody"}
    assert run(f"clock --url {server.url} --key {key}", **wrong).stdout == f"{START}\n"
    grouped = run(f"clock --url {server.url} --key {key} --json freeze", **wrong)
    assert data(grouped)["mode"] == "frozen"


def test_a_proxy_is_not_asked_for_what_listens_on_this_machine(
    at: Run, server: Running, key: str
) -> None:
    proxy = {"HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": None, "INVOICE_SANDBOX_KEY": key}
    with_proxy = run(f"clock --url {server.url}", **proxy)
    assert with_proxy.stdout == at("clock").stdout


@in_turn(
    ("url", "reason"),
    [
        (
            "localhost:8080",
            "invalid URL of a sandbox 'localhost:8080'; use one such as http://127.0.0.1:8080",
        ),
        ("me:secret@127.0.0.1", "invalid URL of a sandbox; use one such as"),
        ("ftp://127.0.0.1", "invalid URL of a sandbox"),
        ("http://[::1", "invalid URL of a sandbox"),
        ("http://127.0.0.1:8080/sandbox#a", "the URL must have no query and no fragment"),
        ("http://127.0.0.1:8080?a=b", "the URL must have no query and no fragment"),
        ("http://me:secret@127.0.0.1", "the URL must not contain a user name or password"),
    ],
)
def test_an_address_of_another_form_is_misuse(url: str, reason: str) -> None:
    for misused in (run(f"clock --url '{url}'"), run("clock", INVOICE_SANDBOX_URL=url)):
        assert (misused.exit_code, misused.stdout) == (2, "")
        assert reason in misused.stderr
        assert "secret" not in misused.stderr


@pytest.mark.parametrize("bad", ["ilk_sandbox_ä", "ilk_sandbox_a b", "ilk_sandbox_a\n"])
def test_a_key_that_no_header_carries_is_misuse_and_not_repeated(bad: str) -> None:
    misused = run("clock", INVOICE_SANDBOX_KEY=bad)
    assert (misused.exit_code, misused.stdout) == (2, "")
    assert "a key holds letters, digits and underscores only" in misused.stderr
    assert "ilk_sandbox_a" not in misused.stderr


# --- rejections and misuse


@in_turn(
    ("line", "message"),
    [
        (
            "clock advance --to 2020-01-01T00:00:00Z",
            f"The clock shows {NOW} and never goes backwards, here to 2020-01-01T00:00:00Z.",
        ),
        (
            "workspace delete wsp_nobody",
            "There is no workspace created from this one with this id. Check 'wsp_nobody', and",
        ),
        (
            "snapshot restore snp_nobody",
            "There is no snapshot with this id. Check 'snp_nobody', and",
        ),
        ("snapshot restore ../clock", "There is no snapshot with this id. Check the value, and"),
        (
            "scenarios use manul",
            (
                "there is no scenario 'manul'. Did you mean manual? "
                "'invoice-sandbox scenarios' or GET /sandbox/scenarios lists all of them."
            ),
        ),
        ("fault add --kind reset --status 503", "A fault of kind 'reset' cannot have 'status'"),
        (
            "fault add --kind status --operation nope",
            "operation is unknown; the contract lists all 25. The contract is at http",
        ),
        (
            "transition inv_sandbox_0001 become-overdu",
            "trigger 'become-overdu' is unknown; did you mean become-overdue?",
        ),
        (
            "requests --operation getInvoic",
            "operation 'getInvoic' is unknown; did you mean getInvoice?",
        ),
        ("fault remove flt_nobody", "There is no fault with this id. Check 'flt_nobody', and"),
        (
            "trigger invoice.verifed",
            "type 'invoice.verifed' is unknown; did you mean invoice.verified?",
        ),
        (
            "trigger invoice.paid --subject inv_no",
            "There is no invoice with this id. Check 'inv_no', and",
        ),
        ("requests --show req_nobody", "no request 'req_nobody' in the journal of this workspace"),
    ],
)
def test_what_the_server_rejects_is_said_in_its_words(
    rejected: Run, line: str, message: str
) -> None:
    said = rejected(line).stderr
    assert message in said
    assert "?." not in said
    assert message in rejected(f"{line} --json").stderr


def test_an_unknown_key_is_rejected_and_not_repeated(server: Running) -> None:
    ran = run(f"clock --url {server.url} --key ilk_sandbox_unknown")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"Error: {server.url}: The credential is not valid here")
    assert ran.stderr.endswith(" Pass a key with --key or INVOICE_SANDBOX_KEY.\n")
    assert "ilk_sandbox_unknown" not in ran.stderr


# --- when no sandbox responds


ADVICE = "start one with 'invoice-sandbox serve', or correct the URL (or INVOICE_SANDBOX_URL)"


def test_a_server_that_is_not_there_is_one_helpful_line() -> None:
    ran = run("clock advance P3D --json", INVOICE_SANDBOX_URL="http://127.0.0.1:1/")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert (
        ran.stderr
        == f"Error: no sandbox responds at http://127.0.0.1:1 (connection refused); {ADVICE}\n"
    )


@contextmanager
def responding(status: int, body: bytes, location: str = "") -> Iterator[str]:
    """The address of a server that responds to everything alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if location:
                self.send_header("Location", location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{other.server_port}"
        finally:
            other.shutdown()
            thread.join(PATIENCE)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(200, b"<html></html>", id="a page"),
        pytest.param(200, b'{"data": {}}', id="data of something else"),
        pytest.param(404, b'{"error": {"message": "x"}}', id="an error of something else"),
        pytest.param(302, b"", id="a redirection"),
        pytest.param(404, b'{"data": {}, "mode": "sandbox_mock"}', id="data with an error status"),
    ],
)
def test_what_is_no_sandbox_is_one_helpful_line(status: int, body: bytes) -> None:
    with responding(status, body) as url:
        ran = run(f"clock --url {url}")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr == f"Error: the server at {url} is not an invoice sandbox; {ADVICE}\n"


def test_the_key_does_not_follow_a_redirect(server: Running, key: str) -> None:
    with responding(302, b"", f"{server.url}/sandbox/clock") as url:
        ran = run(f"clock --url {url} --key {key}")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "is not an invoice sandbox" in ran.stderr


def test_a_key_in_a_message_of_the_server_is_not_printed() -> None:
    error = {
        "error": {"code": "unauthenticated", "message": f"no {DEMO_KEY}\x1b[31m"},
        "mode": "sandbox_mock",
    }
    with responding(401, json.dumps(error).encode()) as url:
        ran = run(f"clock --url {url}")
    advice = "Pass a key with --key or INVOICE_SANDBOX_KEY."
    assert ran.stderr == f"Error: {url}: no [key]\\x1b[31m {advice}\n"


@contextmanager
def silent() -> Iterator[tuple[str, socket.socket]]:
    """The address of a server that takes connections and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", listener


# --- text that is put in and out


def test_a_line_feed_makes_no_row_of_its_own(at: Run, server: Running, key: str) -> None:
    with server.client(key) as client:
        client.get("/api/invoices/a%0A2026-11-23T09:30:00Z  POST")
    (_, row) = at("requests").stdout.splitlines()
    assert "  /api/invoices/a\\n2026-11-23T09:30:00Z  POST  404  " in row


# --- real processes


def environment(server: Running, **more: str) -> dict[str, str]:
    """What a process needs to find the server."""
    kept = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    return kept | {"INVOICE_SANDBOX_URL": server.url} | more


@pytest.mark.process
def test_a_process_moves_the_clock_and_warns_of_nothing(server: Running, key: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", COMMAND, "clock", "advance", "P3D"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(server, INVOICE_SANDBOX_KEY=key),
    )
    shown = "frozen at 2026-11-26T09:30:00Z, nothing due\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")


@pytest.mark.process
def test_a_pipe_gets_no_colours_and_whole_lines(server: Running, key: str) -> None:
    registered(server, key)
    done = subprocess.run(
        [COMMAND, "requests"],
        capture_output=True,
        text=True,
        check=True,
        env=environment(server, INVOICE_SANDBOX_KEY=key, COLUMNS="40"),
    )
    assert "\x1b" not in done.stdout
    assert re.search(
        r"^2026.* POST .* createInvoice .* req_sandbox_\w{26}$", done.stdout, re.MULTILINE
    )


@pytest.mark.process
def test_ctrl_c_ends_quietly() -> None:
    with (
        silent() as (url, listener),
        subprocess.Popen(
            [COMMAND, "clock", "--url", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process,
    ):
        listener.settimeout(PATIENCE)
        asking, _ = listener.accept()
        with asking:  # its end wakes a system call that began just after the signal
            asking.recv(4096)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_a_key_that_only_creates_workspaces_works_without_seeds(server: Running) -> None:
    with server.client() as client:
        body = {"scopes": ["workspaces:create"]}
        made = client.post("/api/developer/api-keys", json=body).json()["data"]["secret"]
    usual = {"INVOICE_SANDBOX_URL": server.url, "INVOICE_SANDBOX_KEY": made}
    created = CliRunner().invoke(main, ["workspace", "new"], env=usual)
    assert (created.exit_code, "seed" in created.output) == (0, False), created.output
    listed = CliRunner().invoke(main, ["workspace", "list"], env=usual)
    assert (listed.exit_code, created.output.split()[0] in listed.output) == (0, True)


def test_verdicts_are_listed_with_the_broken_ones_first(server: Running, key: str) -> None:
    where = {"INVOICE_SANDBOX_URL": server.url, "INVOICE_SANDBOX_KEY": key}
    before = run("verdicts", **where)
    assert (before.exit_code, "broken" in before.stdout) == (0, False), before.output
    with server.client(key) as client:
        ids = [client.post("/api/invoices", json={}).json()["error"]["requestId"] for _ in "ab"]
    table = run("verdicts", **where)
    assert table.exit_code == 1
    lines = table.stdout.splitlines()
    assert lines[1].startswith("broken ")
    assert "not seen yet  missing-once" in table.stdout
    assert all(f"POST /api/invoices: 400  {request_id}" in table.stdout for request_id in ids)
    found = run("verdicts --json", **where)
    verdicts = {verdict["check"]: verdict for verdict in data(found)}
    assert found.exit_code == 1
    exchanges = verdicts["rejected-once"]["exchanges"]
    assert [exchange["requestId"] for exchange in exchanges] == ids
    assert verdicts["distinct-keys"]["verdict"] == "not-seen"


def test_a_check_is_provoked_and_changes_are_followed(
    at: Run, rejected: Run, server: Running, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provoked = at("verdicts provoke retry-after").stdout
    assert "every operation: status 429, once" in provoked
    assert "Send any request." in provoked
    assert "did you mean" not in rejected("verdicts provoke distinct-keys").stderr
    rounds: list[float] = []

    def pause(seconds: float) -> None:
        rounds.append(seconds)
        if len(rounds) > 1:
            raise KeyboardInterrupt
        with server.client(key) as client:
            for _ in range(2):
                client.post("/api/invoices", json={})

    monkeypatch.setattr("invoice_sandbox.cli.verdicts.time.sleep", pause)
    where = {"INVOICE_SANDBOX_URL": server.url, "INVOICE_SANDBOX_KEY": key}
    followed = run("verdicts --follow", **where)
    assert followed.exit_code == 1, followed.output
    lines = [line for line in followed.stdout.splitlines() if not line.startswith("   ")]
    assert len([line for line in lines if line.startswith("not seen yet")]) == 11
    assert [line.split()[1] for line in lines if line.startswith("broken")] == ["valid-requests"]
    assert run("verdicts --follow provoke retry-after", **where).exit_code == 2
