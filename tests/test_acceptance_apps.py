"""Clients that are running applications, and the client that ``new-client`` writes."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner

from invoice_sandbox.acceptance.application import ApplicationClient
from invoice_sandbox.acceptance.clients import Assignment, Endpoint
from invoice_sandbox.cli import main
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.testing.server import Options, serving
from tests.acceptance.applications import running
from tests.support import PATIENCE
from tests.test_acceptance_command import report

Received = list[tuple[str, str, Any]]
Served = tuple[ApplicationClient, Received]
CLIENTS = {"python": "client.py", "typescript": "client.ts"}


class Application(BaseHTTPRequestHandler):
    """Responds to a task as its environment says, and keeps what it received."""

    received: Received

    def do_POST(self) -> None:
        """Begin a task."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.received.append(("POST", self.path, body))
        wanted = int(body["environment"]["STATUS"])
        if wanted == 0:  # until it is ended
            while ("DELETE", f"{self.path}/{body['id']}", None) not in self.received:
                time.sleep(0.01)
        self.send_response(wanted or 204)
        self.end_headers()
        if wanted >= 300:
            self.wfile.write(f"no {body['environment']['SANDBOX_API_KEY']}".encode())

    def do_DELETE(self) -> None:
        """End a task."""
        self.received.append(("DELETE", self.path, None))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


@pytest.fixture
def application() -> Iterator[Served]:
    """A client that is an application, and what it received."""
    received: Received = []
    handler = type("Handler", (Application,), {"received": received})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        Thread(target=served.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{served.server_port}/acceptance"
        webhooks = "http://127.0.0.1:1/webhooks/{task}"
        yield ApplicationClient(frozenset(), url=url, webhooks=webhooks), received
        served.shutdown()


def wait(is_over: Callable[[], object]) -> None:
    """Wait for something that is soon so."""
    until = time.monotonic() + PATIENCE
    while not is_over():
        assert time.monotonic() < until
        time.sleep(0.01)


def assignment(status: int, endpoint: Endpoint | None = None) -> Assignment:
    """A task that the application responds to with this status; 0: when it is ended."""
    environment = {"ACCEPTANCE_TASK": '{"name": "order"}', "SANDBOX_API_KEY": "secret"}
    environment["STATUS"] = str(status)
    return Assignment("check", "check-case", {"name": "order"}, "order", environment, endpoint)


@pytest.mark.parametrize(
    ("status", "expected"), [(204, (0, "")), (500, (1, "HTTP 500: no [redacted]"))]
)
def test_the_response_is_the_end_of_a_task(
    application: Served, status: int, expected: tuple[int, str]
) -> None:
    client, received = application
    session = client.start(assignment(status))
    assert session.has_begun(lambda: 0)
    wait(lambda: session.has_ended)
    session.stop()
    ending = session.ending(["secret"])
    assert (ending.exit_status, ending.output) == expected
    ((method, path, body),) = received  # nothing is left to end
    assert (method, path) == ("POST", "/acceptance")
    assert (body["id"], body["task"]) == ("check-case", {"name": "order"})


def test_a_task_without_a_response_is_ended(application: Served) -> None:
    client, received = application
    session = client.start(assignment(0))
    wait(lambda: received)
    before = session.has_ended
    session.stop()
    assert (before, session.has_ended) == (False, True)
    assert received[1] == ("DELETE", "/acceptance/check-case", None)


def test_a_task_with_webhooks_goes_on_after_the_response(application: Served) -> None:
    client, received = application
    endpoints = [client.endpoint(), client.endpoint()]
    assert [one.url[-10:] for one in endpoints] == ["webhooks/1", "webhooks/2"]
    session = client.start(assignment(204, endpoints[1]))
    wait(lambda: session.has_begun(lambda: 0))
    assert not session.has_ended
    session.stop()
    assert received[0][2]["environment"]["ACCEPTANCE_WEBHOOK_URL"] == endpoints[1].url
    assert received[1] == ("DELETE", "/acceptance/check-case", None)
    failed = client.start(assignment(503, endpoints[1]))
    wait(lambda: failed.has_ended)


def test_an_application_that_is_gone_has_done_nothing() -> None:
    client = ApplicationClient(frozenset(), url="http://127.0.0.1:1/acceptance")
    session = client.start(assignment(204))
    wait(lambda: session.has_ended)
    ending = session.ending([])
    assert ending.exit_status is None
    assert ending.output.startswith("No response from http://127.0.0.1:1/acceptance: ")


@pytest.fixture(scope="module")
def live() -> Iterator[ControlClient]:
    """A server whose time passes."""
    with serving(Options()) as control:
        yield control


def invoke(*words: str) -> tuple[int, str]:
    """Exit status and output of ``acceptance``."""
    result = CliRunner().invoke(main, ["acceptance", *words])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--http", "http://127.0.0.1:1/x"], "no client at 127.0.0.1:1: "),
        (["--http", "ftp://127.0.0.1/x"], "invalid URL of a client"),
        (["--http", "http://user:pass@127.0.0.1/x"], "invalid URL of a client"),
        (["--http", "http://127.0.0.1:99999/x"], "no client at 127.0.0.1:99999: "),
        ([], "pass either --exec or --http"),
        (["--exec", "true", "--webhook-url", "http://x"], "--webhook-url needs --http"),
    ],
)
def test_misuse(words: list[str], expected: str, tmp_path: Path) -> None:
    status, output = invoke("run", "--out", str(tmp_path), *words)
    assert (status, expected in output) == (2, True), output


@pytest.mark.process
def test_the_flask_adapter_does_tasks_and_receives_webhooks(
    live: ControlClient, tmp_path: Path
) -> None:
    """``make acceptance`` runs every adapter through every check."""
    words = [
        "--server",
        live.url,
        "--key",
        str(live.key),
        "--out",
        str(tmp_path / "out"),
        "--declare",
        "webhooks",
    ]
    for check in ("scope-missing", "webhook-order", "validation-errors"):
        words += ["--only", check]
    with running("flask", tmp_path / "application") as url:
        words += ["--http", f"{url}/acceptance", "--webhook-url", f"{url}/webhooks/{{task}}"]
        status, output = invoke("run", *words)
    assert status == 0, output
    assert {one["verdict"] for one in report(tmp_path / "out")["checks"]} == {"PASS"}


@pytest.mark.parametrize("language", CLIENTS)
def test_new_client_writes_what_it_prints(language: str, tmp_path: Path) -> None:
    """``make acceptance`` runs the clients through every check."""
    status, output = invoke("new-client", "--lang", language, str(tmp_path / "new"))
    assert status == 0, output
    written = [str(it.relative_to(tmp_path / "new")) for it in (tmp_path / "new").rglob("*.*")]
    assert {CLIENTS[language], ".github/workflows/acceptance.yml"} <= {*written}
    named, *_ = output.partition(" and ")
    assert [name for name in named.split(", ") if name not in written] == []
    assert f"cd {tmp_path / 'new'}\n" in output
    assert invoke("new-client", "--lang", language, str(tmp_path / "new"))[0] == 2


def test_a_language_without_a_client_is_misuse(tmp_path: Path) -> None:
    status, output = invoke("new-client", "--lang", "pyton", str(tmp_path))
    assert (status, "did you mean python" in output) == (2, True), output


@pytest.mark.process
def test_the_written_python_client_gets_a_verdict_with_the_printed_command(
    live: ControlClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, output = invoke("new-client", "--lang", "python", str(tmp_path / "new"))
    monkeypatch.chdir(tmp_path / "new")
    (line,) = [line for line in output.splitlines() if "--only" in line]
    words = shlex.split(line)[2:]
    started = time.monotonic()
    status, text = invoke(*words, "--server", live.url, "--key", str(live.key))
    assert (status, text.splitlines()[-1][:12]) == (0, "PASS: 2 PASS"), text
    assert time.monotonic() - started < PATIENCE
