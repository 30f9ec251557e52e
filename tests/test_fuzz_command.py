"""``invoice-sandbox fuzz`` with real servers: what it finds, leaves behind, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from invoice_sandbox.cli import main
from invoice_sandbox.cli.fuzz import fuzz as fuzz_command
from invoice_sandbox.fuzzing.reports import WHOLE_RUN
from tests.fuzz_docs import PAGE, played
from tests.support import LONG_PATIENCE, PATIENCE, Running

pytestmark = pytest.mark.process

BIN = Path(sys.executable).parent
COMMAND = BIN / "invoice-sandbox"
QUICK = ("--max-examples", "3")


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    status: int
    out: str
    err: str


def fuzz(*options: object, **environment: str) -> Ended:
    """Run the command as a user does."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("INVOICE_SANDBOX_")}
    done = subprocess.run(
        [COMMAND, "fuzz", *map(str, options)],
        env=env | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_PATIENCE,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def workspaces(server: Running, key: str) -> list[str]:
    """The ids of the workspace of the key and of those made from it."""
    with server.client(key) as client:
        return [one["id"] for one in client.get("/sandbox/workspaces").json()["data"]]


@pytest.fixture
def key(server: Running) -> str:
    """The key of a workspace of the test's own."""
    return server.new_workspace(seed=11)


@dataclass(frozen=True)
class PageRun:
    """The command of the page was run in ``folder`` and wrote both reports."""

    folder: Path
    page: str
    json: Path
    junit: Path


@pytest.fixture(scope="module")
def page_run(tmp_path_factory: pytest.TempPathFactory) -> PageRun:
    """One run for all tests of what is printed and reported."""
    folder = tmp_path_factory.mktemp("fuzz")
    reports = {name: folder / f"report.{name}" for name in ("json", "junit")}
    options = [f"--{name}={file}" for name, file in reports.items()]
    return PageRun(folder, played(PAGE.read_text(), folder, BIN, *options), **reports)


def test_the_command_of_the_page_prints_what_the_page_shows(page_run: PageRun) -> None:
    assert page_run.page == PAGE.read_text()


def test_a_finding_is_in_both_reports(page_run: PageRun) -> None:
    (contract,) = json.loads(page_run.json.read_text())["contracts"]
    assert "Created resource not found" in {one["title"] for one in contract["findings"]}
    (suite,) = ElementTree.parse(page_run.junit).getroot()  # noqa: S314 - our own
    failed = [one.get("name") for one in suite if one.find("failure") is not None]
    assert failed == ["getThing"]
    assert WHOLE_RUN in [one.get("name") for one in suite]


def test_the_same_command_reproduces_the_findings(page_run: PageRun, tmp_path: Path) -> None:
    again = tmp_path / "again.json"
    assert played(PAGE.read_text(), tmp_path, BIN, f"--json={again}") == page_run.page
    assert _without_chance(again) == _without_chance(page_run.json)


def _without_chance(report: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(report.read_text())
    for contract in read["contracts"]:
        for finding in contract["findings"]:
            finding["requests"] = len(finding["requests"])
    return read


def test_an_operation_that_must_be_prepared_is_reached_on_a_server_that_is_left_as_it_was(
    server: Running, key: str
) -> None:
    before = workspaces(server, key)
    options = ("--operation", "rotateEndpointSecret", "--operation", "removeFault")
    ended = fuzz("--url", server.url, "--key", key, *options, *QUICK, "--table")
    assert ended.status == 0, ended
    assert "rotateEndpointSecret  200x" in ended.out
    assert "PASSED  sandbox" in ended.out
    assert "sandbox  coverage" in ended.err
    assert workspaces(server, key) == before


def test_a_kept_workspace_is_as_every_request_met_it(server: Running, key: str) -> None:
    options = ("--operation", "createInvoice", "--operation", "listInvoices", "--seed", 21)
    ended = fuzz(
        *options, "--keep", *QUICK, INVOICE_SANDBOX_URL=server.url, INVOICE_SANDBOX_KEY=key
    )
    assert ended.status == 0, ended
    kept = [line.split()[-1] for line in ended.out.splitlines() if line.startswith("Kept:")]
    assert len(kept) == 2
    with server.client(kept[0]) as fuzzed, server.client(server.new_workspace(seed=21)) as fresh:
        paths = ("/api/invoices", "/api/audit-log", "/sandbox/clock")
        assert [fuzzed.get(one).content for one in paths] == [
            fresh.get(one).content for one in paths
        ]


def test_a_document_of_somebody_else_is_fuzzed_with_its_own_credential(tmp_path: Path) -> None:
    responses = {"200": {"description": "Fine."}, "401": {"description": "Who are you?"}}
    scheme = {"type": "apiKey", "in": "header", "name": "X-Pet-Key"}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Pets", "version": "1"},
        "components": {"securitySchemes": {"pet": scheme}},
        "security": [{"pet": []}],
        "paths": {"/pets": {"get": {"operationId": "listPets", "responses": responses}}},
    }
    file = tmp_path / "pets.json"
    file.write_text(json.dumps(document))
    ended = fuzz("--document", file, "--contract", "api", *QUICK)
    assert ended.status == 0, ended


def test_ctrl_c_stops_it_and_deletes_its_workspaces(server: Running, key: str) -> None:
    before = workspaces(server, key)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [COMMAND, "fuzz", "--url", server.url, "--key", key, "--max-examples", "1000"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        shown = b""
        while b"requests" not in shown:
            shown += os.read(ours, 1024)
        assert len(workspaces(server, key)) == len(before) + 2
        process.send_signal(signal.SIGINT)
        shown += _rest(ours)
        assert process.wait(PATIENCE) == 130
    os.close(ours)
    assert b"Stopped; there is no result." in shown
    assert workspaces(server, key) == before


def _rest(terminal: int) -> bytes:
    """What is still written to a terminal until the last who can has gone."""
    read = b""
    try:
        while more := os.read(terminal, 1024):
            read += more
    except OSError:
        pass  # how Linux reports that nobody writes any more
    return read


def test_the_hooks_serve_a_run_of_schemathesis_too(server: Running, tmp_path: Path) -> None:
    key = server.new_workspace(seed=12)
    with server.client(key) as client:
        before = client.get("/api/invoices").content
        done = subprocess.run(
            [
                *(BIN / "schemathesis", "run", f"{server.url}/openapi.json"),
                *("--origin", server.url, "-H", f"Authorization: Bearer {key}"),
                *("--generation-with-security-parameters=false", "--max-examples=3"),
                *("--include-operation-id=createInvoice", "--phases=examples,coverage"),
            ],
            cwd=tmp_path,
            env={
                **os.environ,
                "SCHEMATHESIS_HOOKS": "invoice_sandbox.fuzzing.hooks",
                "INVOICE_SANDBOX_URL": server.url,
                "INVOICE_SANDBOX_KEY": key,
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=LONG_PATIENCE,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (snapshot,) = client.get("/sandbox/snapshots").json()["data"]
        client.post(f"/sandbox/snapshots/{snapshot['id']}/restore").raise_for_status()
        assert client.get("/api/invoices").content == before


# --- misuse

NOBODY = "http://127.0.0.1:1"
MISUSED = {
    "nobody answers": (["--url", NOBODY], "no sandbox responds at http://127.0.0.1:1"),
    "an address that is none": (["--url", "here"], "invalid URL of a sandbox"),
    "nothing to keep": (["--keep"], "--keep needs --url"),
    "a project of a running server": (
        ["--url", NOBODY, "--project", "."],
        "--project cannot be used with --url",
    ),
    "a time that is none": (["--time", "soon"], "invalid duration 'soon'"),
    "hardly any time": (["--time", "PT0.5S"], "must be at least a second"),
    "a folder without a project": (["--project", "tests"], "openapi"),
}


@pytest.mark.parametrize(("options", "said"), MISUSED.values(), ids=MISUSED)
def test_misuse_ends_with_2_and_reports_what_to_do(options: list[str], said: str) -> None:
    ended = fuzz(*options)
    assert ended.status == 2
    assert said in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("seeds", "last"),
    [
        ("0 1 0", "something was found with seeds: 1"),
        ("0 2 1", "seed 2 has no result: status 2"),
    ],
)
def test_for_make_a_run_that_could_not_start_is_no_finding(
    tmp_path: Path, seeds: str, last: str
) -> None:
    command = tmp_path / "invoice-sandbox"
    command.write_text('#!/bin/sh\nfor seed; do :; done\nexit "$seed"\n')
    command.chmod(0o755)
    variables = [f"BIN={tmp_path}", f"SEEDS={seeds}", f"READY={command}"]
    made = subprocess.run(
        ["make", "--silent", "fuzz-seeds", *variables],  # noqa: S607
        check=False,
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (made.returncode, made.stdout.splitlines()[-1]) == (2, last)


def test_an_operation_that_is_none_is_misuse(server: Running, key: str) -> None:
    ended = fuzz("--url", server.url, "--key", key, "--operation", "nope")
    assert ended.status == 2
    assert "'--operation': unknown operation 'nope'; known: listInvoices" in ended.err


def test_a_key_that_opens_nothing_is_misuse(server: Running) -> None:
    ended = fuzz("--url", server.url, "--key", "ilk_sandbox_wrong")
    assert ended.status == 2
    assert ended.err.startswith("Error: ")


def test_without_schemathesis_it_reports_how_to_install_it() -> None:
    code = "import sys; sys.modules['schemathesis'] = None; from invoice_sandbox import cli"
    code += "; cli.main(['fuzz'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 2
    assert "pip install 'schemathesis>=4.32,<5'" in done.stderr


def test_the_page_names_every_option() -> None:
    page = PAGE.read_text()
    options = [option.opts[0] for option in fuzz_command.params]
    assert [option for option in options if option not in page] == []


def test_a_traceback_is_a_finding_of_the_contract_that_caused_it(tmp_path: Path) -> None:
    thing = {"operationId": "getThing", "responses": {"200": {"description": "ok"}}}
    document = {"openapi": "3.1.0", "info": {"title": "Toy", "version": "1"}}
    file, folder = tmp_path / "toy.json", tmp_path / "toy"
    file.write_text(json.dumps({**document, "paths": {"/thing": {"get": thing}}}))
    made = CliRunner().invoke(main, ["init", str(folder), "--contract", str(file)])
    assert made.exit_code == 0, made.output
    for one in (folder / "handlers").glob("[a-z]*.py"):
        one.unlink()
    broken = "async def get_thing(call):\n    raise ValueError\n"
    (folder / "handlers" / "broken.py").write_text(broken)
    chosen = ("--operation", "getThing", "--operation", "getClock")
    ended = fuzz("--project", folder, *QUICK, *chosen)
    assert ended.status == 1, ended.err
    assert "FAILED  api:" in ended.out
    assert "PASSED  sandbox:" in ended.out
