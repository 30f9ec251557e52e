"""``invoice-sandbox fuzz`` runs Schemathesis on a server, whose workspaces are always restored."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from invoice_sandbox.control.client import ControlClient, SandboxError
from invoice_sandbox.fuzzing.state import FuzzState
from tests.support import LONG_PATIENCE, PATIENCE, Running

URL = "http://127.0.0.1:9000/hooks"
REGISTER = {"send": "POST /api/webhooks", "body": {"url": URL}, "keep": {"id": "/data/id"}}


def document(*steps: dict[str, Any]) -> dict[str, Any]:
    """A document with one operation, which the steps prepare."""
    parameter = {"name": "id", "in": "path", "example": "unknown"}
    enable = {"operationId": "enable", "parameters": [parameter], "x-fuzz-setup": list(steps)}
    return {"paths": {"/webhooks/{id}/enable": {"post": enable}}}


@pytest.fixture
def mine(server: Running) -> Iterator[httpx.Client]:
    """A client of the workspace that is fuzzed."""
    with server.client(server.new_workspace()) as client:
        yield client


@pytest.fixture
def state(server: Running, mine: httpx.Client) -> FuzzState:
    """The workspace of ``mine``, and one of somebody else."""
    keys = (mine.headers["Authorization"].split()[1], server.new_workspace())
    return FuzzState([ControlClient(server.url, key) for key in keys])


def endpoints(client: httpx.Client) -> list[str]:
    """The ids of the webhook endpoints of a workspace."""
    return [one["id"] for one in client.get("/api/webhooks").json()["data"]["endpoints"]]


def register(client: httpx.Client) -> None:
    """Make another webhook endpoint."""
    client.post("/api/webhooks", json={"url": URL}).raise_for_status()


def test_what_was_kept_of_a_response_is_an_example_of_the_parameter(
    state: FuzzState, mine: httpx.Client
) -> None:
    prepared = document(REGISTER)
    state.prepare(prepared)
    (made,) = endpoints(mine)
    (parameter,) = prepared["paths"]["/webhooks/{id}/enable"]["post"]["parameters"]
    assert parameter["examples"] == {"prepared": {"value": made}}
    assert "example" not in parameter


def test_a_workspace_that_was_used_is_put_back_to_what_was_prepared(
    state: FuzzState, mine: httpx.Client
) -> None:
    state.prepare(document(REGISTER))
    prepared = endpoints(mine)
    register(mine)
    state.mark_used([])
    state.restore()
    assert endpoints(mine) == prepared


def test_a_workspace_that_was_not_used_is_left_alone(state: FuzzState, mine: httpx.Client) -> None:
    state.prepare(document())
    register(mine)
    state.restore()
    assert len(endpoints(mine)) == 1


def test_without_its_snapshot_the_workspace_is_prepared_again(
    state: FuzzState, mine: httpx.Client
) -> None:
    state.prepare(document(REGISTER))
    prepared = endpoints(mine)
    (snapshot,) = mine.get("/sandbox/snapshots").json()["data"]
    mine.delete(f"/sandbox/snapshots/{snapshot['id']}").raise_for_status()
    for _ in range(2):
        register(mine)
        state.mark_used([])
        state.restore()
        assert endpoints(mine) == prepared


def test_a_setup_that_is_rejected_reports_why(state: FuzzState) -> None:
    with pytest.raises(SandboxError, match="sellerId"):
        state.prepare(document(REGISTER | {"send": "POST /api/invoices"}))


# --- the command

BIN = Path(sys.executable).parent
QUICK = ("--max-examples", "2")
THING = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}


def run(*command: object, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a tool as a user does."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("INVOICE_SANDBOX_")}
    tool, *arguments = map(str, command)
    return subprocess.run(
        [BIN / tool, *arguments],
        cwd=folder,
        env=env | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LONG_PATIENCE,
    )


def write_contract(folder: Path) -> Path:
    """A document with one operation, whose key is in a header of its own."""
    content = {"application/json": {"schema": THING, "example": {"id": "one"}}}
    responses = {"200": {"description": "A thing.", "content": content}}
    responses |= {status: {"description": "An error."} for status in ("400", "401", "405")}
    get = {"operationId": "getThing", "responses": responses}
    scheme = {"type": "apiKey", "in": "header", "name": "X-Thing-Key"}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Things", "version": "1"},
        "components": {"securitySchemes": {"own": scheme}},
        "security": [{"own": []}],
        "paths": {"/thing": {"get": get}},
    }
    file = folder / "things.json"
    file.write_text(json.dumps(document))
    return file


@pytest.mark.process
def test_a_contract_of_ones_own_is_fuzzed_with_its_own_credential(tmp_path: Path) -> None:
    file = write_contract(tmp_path)
    report = ("--report-junit-path", "report.xml")
    ended = run("invoice-sandbox", "fuzz", "--contract", file, *QUICK, *report, folder=tmp_path)
    assert ended.returncode == 0, ended.stdout
    assert "Seed: 7" in ended.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"things.json", "report.xml"}


@pytest.mark.process
def test_a_finding_ends_with_the_status_of_schemathesis_and_the_command_that_repeats_it(
    tmp_path: Path,
) -> None:
    file = write_contract(tmp_path)
    made = run("invoice-sandbox", "init", "things", "--contract", file, folder=tmp_path)
    assert made.returncode == 0, made.stderr
    for handlers in (tmp_path / "things" / "handlers").glob("[a-z]*.py"):
        handlers.unlink()
    broken = "def get_thing(call):\n    raise ValueError\n"
    (tmp_path / "things" / "handlers" / "broken.py").write_text(broken)
    arguments = ("--project", "things", *QUICK, "--seed", "5")
    ended = run("invoice-sandbox", "fuzz", *arguments, folder=tmp_path)
    assert ended.returncode == 1
    assert "Server error" in ended.stdout
    assert "Seed: 5" in ended.stdout
    assert "broken.py" in ended.stderr
    again = "invoice-sandbox fuzz --project things --max-examples 2 --seed 5"
    assert ended.stderr.endswith(f"Reproduce with the same requests: {again}\n")


@pytest.mark.process
def test_ctrl_c_stops_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [BIN / "invoice-sandbox", "fuzz", "--max-examples", "1000"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "Base URL:" in line)
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(PATIENCE) == 130
    with pytest.raises(httpx.ConnectError):
        httpx.get(line.split()[-1])


@pytest.mark.process
def test_the_hooks_serve_a_run_of_schemathesis_too(server: Running, tmp_path: Path) -> None:
    key = server.new_workspace(seed=12)
    arguments = (
        *(f"{server.url}/openapi.json", "--origin", server.url),
        *("-H", f"Authorization: Bearer {key}", "--generation-with-security-parameters=false"),
        *("--include-operation-id=createInvoice", "--phases=examples,coverage", *QUICK),
    )
    names = {"SCHEMATHESIS_HOOKS": "invoice_sandbox.fuzzing.hooks"}
    names |= {"INVOICE_SANDBOX_URL": server.url, "INVOICE_SANDBOX_KEY": key}
    with server.client(key) as client:
        before = client.get("/api/invoices").content
        ended = run("schemathesis", "run", *arguments, folder=tmp_path, **names)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        (snapshot,) = client.get("/sandbox/snapshots").json()["data"]
        client.post(f"/sandbox/snapshots/{snapshot['id']}/restore").raise_for_status()
        assert client.get("/api/invoices").content == before


@pytest.mark.process
def test_a_folder_without_a_project_is_misuse(tmp_path: Path) -> None:
    ended = run("invoice-sandbox", "fuzz", "--project", ".", folder=tmp_path)
    assert ended.returncode == 2
    assert "is no project" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr


def test_without_schemathesis_it_reports_how_to_install_it() -> None:
    code = "import sys; sys.modules['schemathesis'] = None; from invoice_sandbox import cli"
    code += "; cli.main(['fuzz'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 2
    assert "pip install 'schemathesis>=4.32,<5'" in done.stderr
