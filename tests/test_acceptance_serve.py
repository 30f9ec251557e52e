"""``invoice-sandbox acceptance serve``: a client on another machine does what the run waits for."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, STDOUT
from threading import Event, Thread
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result

from invoice_sandbox.cli import main
from invoice_sandbox.state.credentials import DEMO_KEY
from tests.receivers import free_port
from tests.support import PATIENCE, Running

pytestmark = pytest.mark.slow

PLAN = """\
name: remote
purpose: A client somewhere else does its tasks.
capabilities: {webhooks: It receives webhooks.}
tasks:
  list-offers: List the offers.
  receive-webhooks: Receive webhooks.
asks:
  list-offers: list the offers of {/page/number}
probes:
  lists:
    task: {name: list-offers, page: {number: A-7}}
    rules: [{that: It lists the offers., request: listOffers, status: 2xx, atLeast: 1}]
checks:
  - id: list
    level: must
    proves: The client lists offers.
    specification: Lists
    cases:
      - task: {name: list-offers, page: {number: A-8}}
        probe: lists
        rules: [{that: It lists once., request: listOffers, atMost: 1}]
  - id: receive
    level: must
    proves: The client receives webhooks.
    specification: Events
    cases:
      - task: {name: receive-webhooks}
        when: webhooks
        clock: frozen
        webhooks: [invoice.verified]
        during:
          - send: POST /sandbox/events
            body: {type: invoice.verified, invoiceId: inv_sandbox_0001}
          - {send: POST /sandbox/clock/advance, body: {by: PT1S}}
        ends: steps
        rules: [{that: It rejects what others signed., delivery: '*', response: not-2xx}]
"""
RUNS = "/sandbox/acceptance/runs"
SILENT = "The client reported 'done', and sent no request."


class Somewhere:
    """A client on another machine: it polls the run, and does whatever it waits for."""

    def __init__(self, server: Running, *, works: bool = True) -> None:
        self.server, self.works = server, works
        self.asked: list[str] = []
        self._over = Event()
        self._thread = Thread(target=self._run)

    def __enter__(self) -> Somewhere:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with self.server.client(DEMO_KEY) as client:
            while not self._over.wait(0.05):
                for run in client.get(RUNS).json()["data"][:1]:
                    if run["waitingFor"] and not self._is_reported(run):
                        self._do(client, run["id"], run["waitingFor"])

    @staticmethod
    def _is_reported(run: dict[str, Any]) -> bool:
        return bool(run["reported"] and run["reported"]["task"] == run["waitingFor"]["task"])

    def _do(self, client: httpx.Client, run: str, task: dict[str, Any]) -> None:
        given = task["environment"]
        self.asked.append(task["text"])
        receives = "ACCEPTANCE_WEBHOOK_URL" in given
        if self.works and not receives:
            headers = {"Authorization": f"Bearer {given['SANDBOX_API_KEY']}"}
            httpx.get(f"{given['SANDBOX_API_URL']}/api/offers", headers=headers, timeout=PATIENCE)
        body = {"state": "ready" if receives else "done", "task": task["task"]}
        client.put(f"{RUNS}/{run}/task", json=body)


def serve(server: Running, folder: Path, *words: str) -> Result:
    """The result of a run that waits for its client."""
    (folder / "remote.yaml").write_text(PLAN)
    fixed = ["acceptance", "serve", "--server", server.url, "--plan", str(folder / "remote.yaml")]
    return CliRunner().invoke(main, [*fixed, "--out", str(folder / "out"), *words])


@pytest.fixture
def inbox(server: Running) -> Iterator[str]:
    """A receiver that rejects what it does not know."""
    with server.client(DEMO_KEY) as client:
        yield client.get("/sandbox/inbox").json()["data"]["url"]


def test_a_client_on_another_machine_does_one_task_after_the_other(
    server: Running, tmp_path: Path, inbox: str
) -> None:
    with Somewhere(server) as somewhere:
        result = serve(server, tmp_path, "--declare", "webhooks", "--webhook-url", inbox)
    assert result.exit_code == 0, result.output
    lists = [f"list the offers of A-{number}" for number in (7, 8, 7)]
    assert somewhere.asked == [*lists, "Receive webhooks."]
    assert "waiting for you: list the offers of A-7 (task 1, list, until 20" in result.output
    (run,) = re.findall(r"Run (\S+) at", result.output)
    reports = re.findall(r"  when \w+: invoice-sandbox acceptance (.*)", result.output)
    assert reports == [
        *(f"done {run} --task {number}" for number in (1, 2, 3)),
        f"ready {run} --task 4",
    ]
    with server.client(DEMO_KEY) as client:
        shown = client.get(f"{RUNS}/{run}").json()["data"]
        report = client.get(f"{RUNS}/{run}/report").json()["data"]
    states = [(one["id"], one["state"], one["verdict"]) for one in shown["checks"]]
    assert states == [("list", "finished", "PASS"), ("receive", "finished", "PASS")]
    assert (shown["state"], shown["verdict"], shown["waitingFor"]) == ("finished", "PASS", None)
    assert report == json.loads((tmp_path / "out" / "report.json").read_text())
    ended = [one["cases"][0]["client"] for one in report["checks"]]
    assert ended == [
        {"exitStatus": None, "reported": state, "output": ""} for state in ("done", "ready")
    ]
    page = (tmp_path / "out" / "report.html").read_text()
    assert ("Exit status" in page, page.count("The client reported: done.")) == (False, 1)


def test_a_client_that_does_nothing_before_the_deadline_is_not_judged(
    server: Running, tmp_path: Path
) -> None:
    result = serve(server, tmp_path, "--only", "list", "--patience", "PT0.05S")
    assert (result.exit_code, result.output.splitlines()[-1][:12]) == (1, "INCONCLUSIVE")
    late = "at least 1 is needed. The client did not begin in time."
    again = CliRunner().invoke(main, ["acceptance", "judge", str(tmp_path / "out" / "bundle.zip")])
    assert (late in result.output, late in again.output) == (True, True)


def test_done_without_any_request_is_inconclusive(server: Running, tmp_path: Path) -> None:
    with Somewhere(server, works=False):
        result = serve(server, tmp_path, "--only", "list")
    expected = "Before the check: It lists the offers. Sent no request to listOffers with status"
    assert f"{expected} 2xx; at least 1 is needed. {SILENT}" in result.output
    again = CliRunner().invoke(main, ["acceptance", "judge", str(tmp_path / "out" / "bundle.zip")])
    assert SILENT in again.output
    page = (tmp_path / "out" / "report.html").read_text()
    assert "The client reported: done, and sent no request." in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--declare", "webhooks"], "--declare webhooks needs --webhook-url"),
        (["--patience", "soon"], "invalid duration 'soon'"),
        (["--port", "8080"], "--host, --port and --public-url cannot be used with"),
    ],
)
def test_misuse(server: Running, tmp_path: Path, words: list[str], message: str) -> None:
    result = serve(server, tmp_path, *words)
    assert (result.exit_code, message in result.output) == (2, True), result.output


@pytest.mark.process
@pytest.mark.slow
def test_the_started_server_has_the_address_that_the_client_uses(tmp_path: Path) -> None:
    (tmp_path / "remote.yaml").write_text(PLAN)
    port = free_port()
    local, url = f"http://127.0.0.1:{port}", f"http://sandbox.invalid:{port}"
    words = [sys.executable, "-m", "invoice_sandbox", "acceptance", "serve", "--public-url", url]
    words += ["--plan", str(tmp_path / "remote.yaml"), "--only", "list", "--out", str(tmp_path)]
    words += ["--patience", "PT0.05S", "--port", str(port), "--grace", "P999999D"]
    with subprocess.Popen(words, stdout=PIPE, stderr=STDOUT, text=True) as process:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith("The server responds"):
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        (key,) = re.findall(rf"^Sandbox at {url} with the key (\S+);", lines[0])
        assert lines[1] == f"  export INVOICE_SANDBOX_URL={url} INVOICE_SANDBOX_KEY={key}\n"
        assert f"  SANDBOX_API_URL={url}\n" in lines
        headers = {"Authorization": f"Bearer {key}"}
        (run,) = httpx.get(f"{local}{RUNS}", headers=headers, timeout=PATIENCE).json()["data"]
        assert (run["state"], run["verdict"]) == ("finished", "INCONCLUSIVE")
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 1
