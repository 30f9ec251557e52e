"""The pytest plugin, as those who install it see it: in test runs of their own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from invoice_sandbox.bundles.archive import read_bundle
from invoice_sandbox.replay import replay
from invoice_sandbox.testing import SandboxError
from invoice_sandbox.testing.server import Options, options_from
from tests.notes_project import write_project
from tests.receivers import is_listening
from tests.scenario_run import data, until
from tests.support import FROZEN, PATIENCE, Running, serving

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]

PLAIN = (
    *("-p", "no:cacheprovider", "-W", "error"),
    *("-p", "no:schemathesis", "-p", "no:hypothesispytest"),  # they take longer than all the rest
)
START = """
import json, os, pathlib, sys, time, asyncio, unittest
import pytest

INVOICE = {
    "sellerId": "org_seller_acme",
    "debtorId": "org_debtor_globex",
    "invoiceNumber": "INV-1",
    "amount": 900,
    "currency": "EUR",
}

def register(sandbox):
    return sandbox.client.post("/api/invoices", json=INVOICE).json()["data"]["id"]

def note(**told):
    with open("notes", "a") as file:
        file.write(json.dumps(told) + "\\n")
"""
"""What every test file of these runs begins with."""


@pytest.fixture(autouse=True)
def _no_sandbox_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "KEY", "PROJECT", "CONTRACT", "SCENARIOS"):
        monkeypatch.delenv(f"INVOICE_SANDBOX_{name}", raising=False)


def write(pytester: pytest.Pytester, text: str, name: str = "test_it.py") -> Path:
    """A test file with the usual beginning."""
    file = pytester.path / name
    file.write_text(START + text)
    return file


def run(pytester: pytest.Pytester, text: str, *arguments: str) -> pytest.RunResult:
    """A test run on one file, inside this process. Without an address it starts a server."""
    write(pytester, text)
    return pytester.runpytest_inprocess(*PLAIN, *arguments)


@pytest.fixture
def there(server: Running) -> str:
    """The option that names a running server, where starting one is not what is tested."""
    return f"--sandbox-url={server.url}"


def notes(folder: Path) -> list[dict[str, Any]]:
    """What the tests of a run have noted."""
    file = folder / "notes"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def is_up(url: str) -> bool:
    """Whether anybody listens there."""
    return is_listening(urlsplit(url).port or 0)


def assert_gone(url: str) -> None:
    """The server stops by itself, though nobody asks it to."""
    until(lambda: not is_up(url), "the server has stopped")


WRONG_CALLS = """
def test_scenario(invoice_sandbox): invoice_sandbox.scenario("unknown")
def test_time(invoice_sandbox): invoice_sandbox.advance("3D")
def test_event(invoice_sandbox): invoice_sandbox.webhooks.expect("invoice.paid")
def test_receiver(invoice_sandbox): invoice_sandbox.webhooks.to("nowhere")
def test_fault(invoice_sandbox): invoice_sandbox.fault("unknown", "status", status=503)
def test_move(invoice_sandbox): invoice_sandbox.transition("unknown", "fund")
def test_control(invoice_sandbox): invoice_sandbox.control("GET", "/unknown")
def test_verdict(invoice_sandbox): invoice_sandbox.verdicts.assert_kept("unknown")
def test_provoked(invoice_sandbox): invoice_sandbox.verdicts.provoke("unknown")
"""


def test_an_error_points_at_the_line_of_the_test(pytester: pytest.Pytester, there: str) -> None:
    result = run(pytester, WRONG_CALLS, "--tb=short", there)
    wrong = WRONG_CALLS.count("def test_")
    result.assert_outcomes(failed=wrong)
    places = re.findall(
        r"^(\S+):[0-9]+: in (?!invoice_sandbox$)", result.stdout.str(), re.MULTILINE
    )
    assert places == ["test_it.py"] * wrong


DELAYED = """
def test_it(invoice_sandbox):
    invoice_sandbox.fault("listOffers", "latency", delay="PT30S")
    with pytest.raises(Exception, match="timed out"):
        invoice_sandbox.client.get("/api/offers", timeout=0.2)
    note(ended=time.time())
"""


def test_a_run_does_not_wait_for_injected_delays(pytester: pytest.Pytester) -> None:
    run(pytester, DELAYED).assert_outcomes(passed=1)
    (reported,) = notes(pytester.path)
    assert time.time() - reported["ended"] < 4


# --- workspaces

ISOLATED = """
@pytest.mark.parametrize("number", [1, 2])
def test_it(invoice_sandbox, number):
    assert invoice_sandbox.requests == []
    note(test=str(number), invoice=register(invoice_sandbox), key=invoice_sandbox.key)
    assert len(invoice_sandbox.requests) == 1
"""


def test_each_test_has_a_workspace_of_its_own_and_ids_that_repeat(
    pytester: pytest.Pytester, there: str
) -> None:
    run(pytester, ISOLATED, there).assert_outcomes(passed=2)
    run(pytester, ISOLATED, there, "-k", "2").assert_outcomes(passed=1)
    first, second, again = notes(pytester.path)
    assert len({one["key"] for one in (first, second, again)}) == 3
    assert first["invoice"] != second["invoice"]
    assert again["invoice"] == second["invoice"]


# --- the marker

MARKED = """
@pytest.mark.scenario("rate-limited", rejections=1)
def test_conditions(invoice_sandbox):
    answers = [invoice_sandbox.client.post("/api/invoices", json=INVOICE) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [429, 201]

@pytest.mark.scenario("manual")
class TestClass:
    def test_of_the_class(self, invoice_sandbox):
        register(invoice_sandbox)
        assert invoice_sandbox.advance("P1D")["happened"] == []

    @pytest.mark.scenario("auto-progress")
    def test_the_nearest_one(self, invoice_sandbox):
        register(invoice_sandbox)
        assert invoice_sandbox.advance("PT1S")["happened"]
"""
WRONG = """
@pytest.mark.scenario("kyb-hod")
def test_name(invoice_sandbox): pass

@pytest.mark.scenario("kyb-hold", hld="P1D")
def test_condition(invoice_sandbox): pass

@pytest.mark.scenario()
def test_nothing(invoice_sandbox): pass
"""


def test_the_marker_chooses_the_scenario(pytester: pytest.Pytester, there: str) -> None:
    run(pytester, MARKED, there, "--strict-markers").assert_outcomes(passed=3)


def test_a_wrong_marker_is_reported_in_the_words_of_the_api(
    pytester: pytest.Pytester, there: str
) -> None:
    result = run(pytester, WRONG, there)
    result.assert_outcomes(errors=3)
    printed = result.stdout.str()
    assert "there is no scenario 'kyb-hod'. Did you mean kyb-hold?" in printed
    assert "hld" in printed
    assert '@pytest.mark.scenario("kyb-hold")' in printed
    assert "Traceback" not in printed


# --- what a failing test prints

FAILING = """
def test_passes(invoice_sandbox):
    invoice_sandbox.client.get("/api/offers")

def test_fails(invoice_sandbox):
    invoice_sandbox.fault("listOffers", "status", status=503)
    invoice_sandbox.client.get("/api/offers")
    for _ in range(19):
        invoice_sandbox.client.get("/api/invoices")
    invoice_sandbox.client.post("/api/invoices", json={"sellerId": "org_seller_acme"})
    assert False

@pytest.fixture
def broken(invoice_sandbox):
    invoice_sandbox.client.get("/api/partners")
    raise ValueError("broken")

def test_errs(broken): pass
"""


def test_a_failing_test_prints_the_journal_of_its_workspace(
    pytester: pytest.Pytester, there: str
) -> None:
    result = run(pytester, FAILING, there)
    result.assert_outcomes(passed=1, failed=1, errors=1)
    printed = result.stdout.str()
    assert printed.count("journal of the invoice sandbox") == 2
    failure = printed.partition("test_fails")[2]
    assert "(1 earlier requests are left out)" in failure
    assert "GET /api/invoices 200 listInvoices (auto-progress)" in failure
    assert (
        "POST /api/invoices 400 createInvoice (auto-progress): debtorId, invoiceNumber, amount"
        in failure
    )
    assert "GET /api/partners 200 listPartners" in printed.partition("ERRORS")[2]
    assert "ilk_sandbox_" not in printed.replace("ilk_sandbox_Demo", "")
    assert printed.count("Run again with --sandbox-bundles DIR") == 2


BROKEN = """
import logging

def write_note(call):
    logging.warning("%d notes", "many")  # a wrong call, which only costs the record
    return {"text": nothing_of_this_name}

def list_bells(call):
    raise ValueError("of no use: " + call.query.get("key", "ilk_sandbox_SomethingLikeAKey"))
"""
ASKS_BROKEN = """
def test_passes(invoice_sandbox):
    explain = {"X-Sandbox-Explain": "1"}
    for reply in (
        invoice_sandbox.client.get("/bells", headers=explain),
        invoice_sandbox.client.post("/notes", json={}, headers=explain),
    ):
        assert reply.status_code == 500
        assert "operation=" in reply.headers["X-Sandbox-Explain"]
        assert "Error" not in f"{reply.text} {reply.headers}"

def test_fails(invoice_sandbox):
    invoice_sandbox.client.post("/notes", json={})
    invoice_sandbox.client.get("/bells?key=my-own-password")
    assert False
"""


@pytest.mark.process
def test_a_failing_test_prints_why_the_server_responded_500(pytester: pytest.Pytester) -> None:
    folder = write_project(pytester.mkdir("other"))
    (folder / "handlers" / "notes.py").write_text(BROKEN)
    result = run(pytester, ASKS_BROKEN, "--sandbox-project=other")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "POST /notes 500 writeNote (manual): NameError at handlers/notes.py:6",
            "GET /bells* 500 listBells (manual): ValueError at handlers/notes.py:9; *",
            "*log of the invoice sandbox*",
            "*no response could be given",
            "*nothing_of_this_name*",
            "NameError: *",
            "*no response could be given",
            "ValueError: *",
        ]
    )
    printed = result.stdout.str()
    assert printed.count("no response could be given") == 2
    assert "SomethingLikeAKey" not in printed.partition("log of the invoice")[2]


def test_the_workspaces_of_failing_tests_are_kept_in_files(
    pytester: pytest.Pytester, there: str
) -> None:
    result = run(pytester, FAILING, there, "--sandbox-bundles", "kept/here")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    folder = pytester.path / "kept" / "here"
    assert sorted(one.name for one in folder.iterdir()) == [
        *("test_it.py-test_errs.zip", "test_it.py-test_fails.zip"),
    ]
    result.stdout.fnmatch_lines(["All of it is in *test_it.py-test_fails.zip; see *"])
    found = replay(read_bundle(folder / "test_it.py-test_fails.zip"))
    assert (found.differences, found.requests) == ((), 23)


# --- asynchronous tests

ASYNC = """
@pytest.mark.anyio
async def test_with_anyio(invoice_sandbox):
    async with invoice_sandbox.async_client() as client:
        answer = await client.post("/api/invoices", json=INVOICE)
    assert answer.status_code == 201
    invoice_sandbox.advance("PT2S")
    assert invoice_sandbox.webhooks.expect("invoice.verified")

def test_with_asyncio(invoice_sandbox):
    async def ask():
        async with invoice_sandbox.async_client() as client:
            return await client.get("/api/invoices")
    assert asyncio.run(ask()).status_code == 200
"""


def test_the_fixture_works_in_asynchronous_tests(pytester: pytest.Pytester, there: str) -> None:
    run(pytester, ASYNC, there).assert_outcomes(passed=2)


# --- nothing is left behind

SLEEPING = """
@pytest.mark.parametrize("number", range(2))
def test_it(invoice_sandbox, number):
    note(url=invoice_sandbox.url)
    time.sleep(600)
"""


@contextmanager
def sleeping(pytester: pytest.Pytester, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A test run, in a process group of its own, whose test goes on and on."""
    write(pytester, SLEEPING)
    command = [sys.executable, "-m", "pytest", *PLAIN, *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            until(lambda: process.poll() is not None or bool(notes(pytester.path)), "a test runs")
            assert is_up(notes(pytester.path)[0]["url"])
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "arguments"), [("SIGINT", ["-n1"]), ("SIGTERM", []), ("SIGKILL", [])]
)
def test_a_run_that_is_stopped_leaves_no_server(
    pytester: pytest.Pytester, name: str, arguments: list[str]
) -> None:
    with sleeping(pytester, *arguments) as process:
        os.killpg(process.pid, signal.Signals[name])
        process.wait(PATIENCE)
        assert_gone(notes(pytester.path)[0]["url"])


# --- runs that do not use it

UNUSED = """
def test_it():
    ours = {name for name in sys.modules if name.partition(".")[0] == "invoice_sandbox"}
    package = "invoice_sandbox.testing"
    assert ours == {"invoice_sandbox", package, f"{package}.plugin"}
    assert sys.modules.keys().isdisjoint({"httpx", "httpx2", "connexion", "uvicorn", "click"})
"""


@pytest.mark.process
def test_a_run_that_does_not_use_it_imports_nothing_of_it(pytester: pytest.Pytester) -> None:
    write(pytester, UNUSED)
    pytester.runpytest_subprocess(*PLAIN).assert_outcomes(passed=1)


# --- a server that is running, other folders

ASKS = """
def test_it(invoice_sandbox):
    note(url=invoice_sandbox.url, workspace=invoice_sandbox.id)
    register(invoice_sandbox)
    invoice_sandbox.advance("PT2S")
    invoice_sandbox.webhooks.expect("invoice.verified")
"""


@pytest.mark.parametrize("given", ["options", "environment"])
def test_a_server_that_is_running_is_used_and_left_clean(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    with serving(FROZEN) as server, server.client(server.new_workspace()) as client:
        key = client.headers["Authorization"].split()[1]
        options = {"url": server.url, "key": key}
        if given == "environment":
            for name, text in options.items():
                monkeypatch.setenv(f"INVOICE_SANDBOX_{name.upper()}", text)
            options = {}
        run(pytester, ASKS, *(f"--sandbox-{name}={text}" for name, text in options.items()))
        (reported,) = notes(pytester.path)
        assert reported["url"] == server.url
        assert reported["workspace"].startswith("wsp_sandbox_")
        assert len(data(client.get("/sandbox/workspaces"))) == 1


REJECTED: dict[str, tuple[list[str], str]] = {
    "nobody there": (["--sandbox-url=http://127.0.0.1:9"], "no sandbox responds at"),
    "no address": (["--sandbox-url=here"], "invalid URL of a sandbox 'here'"),
    "address and folder": (
        ["--sandbox-url=http://127.0.0.1:9", "--sandbox-project=x"],
        "serves a project already; leave out --sandbox-project, or the URL",
    ),
    "key alone": (
        ["--sandbox-key=x"],
        "--sandbox-key needs the URL of a running server: --sandbox-url or INVOICE_SANDBOX_URL",
    ),
    "no folder": (["--sandbox-scenarios=nowhere"], "--scenarios: there is no folder"),
    "state without a document": (["--sandbox-stateful"], "--stateful needs --contract"),
    "state of a running server": (
        ["--sandbox-url=http://127.0.0.1:9", "--sandbox-stateful"],
        "serves a project already; leave out --sandbox-stateful, or the URL",
    ),
}


@pytest.mark.parametrize("name", REJECTED)
@pytest.mark.process
def test_options_that_cannot_be_are_reported_in_a_line(
    pytester: pytest.Pytester, name: str
) -> None:
    arguments, problem = REJECTED[name]
    result = run(pytester, ASKS, *arguments)
    result.assert_outcomes(errors=1)
    assert problem in result.stdout.str()
    assert "Traceback" not in result.stdout.str()


def test_what_is_given_comes_before_the_environment() -> None:
    environment = {"INVOICE_SANDBOX_URL": "http://there", "INVOICE_SANDBOX_KEY": "theirs"}
    assert options_from({}, environment) == Options("http://there", "theirs")
    assert options_from({"url": "http://here"}, environment).url == "http://here"
    assert options_from({}, {"INVOICE_SANDBOX_KEY": "alone"}).url is None
    with pytest.raises(SandboxError, match=r"INVOICE_SANDBOX_URL .* leave out scenarios, or the"):
        options_from({"scenarios": "mine"}, environment)


OWN_SCENARIO = """
name: own-scenario
purpose: Nothing happens but a verification.
passes: The client waits.
steps:
  - {on: start, after: P2D, do: start-verification}
"""


@pytest.mark.process
def test_scenarios_of_a_folder_may_be_chosen_and_a_run_waits_for_its_server_to_end(
    pytester: pytest.Pytester,
) -> None:
    folder = pytester.mkdir("mine")
    (folder / "own-scenario.yaml").write_text(OWN_SCENARIO)
    text = """
@pytest.mark.scenario("own-scenario")
def test_it(invoice_sandbox):
    note(url=invoice_sandbox.url)
    register(invoice_sandbox)
    assert invoice_sandbox.advance("P3D")["happened"][0]["at"][:10] == "2026-11-25"
"""
    run(pytester, text, "--sandbox-scenarios=mine").assert_outcomes(passed=1)
    assert not is_up(notes(pytester.path)[0]["url"])


@pytest.mark.process
def test_another_project_may_be_served(pytester: pytest.Pytester) -> None:
    write_project(pytester.mkdir("other"), ringing="start PT1S ring one")
    text = """
@pytest.mark.scenario("ringing")
def test_a_scenario_of_it(invoice_sandbox):
    invoice_sandbox.client.post("/notes", json={})
    (rung,) = invoice_sandbox.advance("P1D")["happened"]
    assert rung["do"] == "ring"

def test_without_webhooks(invoice_sandbox):
    assert invoice_sandbox.clock["mode"] == "frozen"
    assert invoice_sandbox.webhooks.received == []
"""
    run(pytester, text, "--sandbox-project=other").assert_outcomes(passed=2)


DOGS = """
openapi: 3.1.0
info: {title: Dogs, version: 1.0.0}
paths:
  /dogs:
    post:
      operationId: addDog
      requestBody: {content: {application/json: {schema: {type: object, required: [name]}}}}
      responses:
        '201': {description: It., content: &dog {application/json: {schema: {required: [id]}}}}
  /dogs/{id}:
    get:
      operationId: getDog
      parameters: [{name: id, in: path, required: true, schema: {type: string}}]
      responses: {'200': {description: It., content: *dog}}
"""


@pytest.mark.process
def test_a_document_may_be_served_with_state(pytester: pytest.Pytester) -> None:
    (pytester.path / "dogs.yaml").write_text(DOGS)
    text = """
def test_it(invoice_sandbox):
    dog = invoice_sandbox.client.post("/dogs", json={"name": "Rex"}).json()
    assert dog["name"] == "Rex"
    assert invoice_sandbox.client.get(f"/dogs/{dog['id']}").json() == dog
"""
    options = ["--sandbox-contract=dogs.yaml", "--sandbox-stateful"]
    run(pytester, text, *options).assert_outcomes(passed=1)


ASKS_NOTES = """
def test_it(invoice_sandbox):
    invoice_sandbox.client.post("/notes", json={})
    invoice_sandbox.webhooks.expect("note.written")
"""


def test_the_project_of_a_running_server_needs_no_scenario_of_ours(
    pytester: pytest.Pytester,
) -> None:
    with serving(replace(FROZEN, project=write_project(pytester.mkdir("other")))) as server:
        result = run(pytester, ASKS_NOTES, f"--sandbox-url={server.url}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E * note.written did not arrive",
            "E * note.written was recorded, but no endpoint is registered for it; 'webhooks' of *",
        ]
    )


def test_a_receiver_of_a_project_that_names_no_registration_is_reported(
    pytester: pytest.Pytester,
) -> None:
    text = "def test_it(invoice_sandbox): invoice_sandbox.webhooks.to('http://127.0.0.1:9')"
    with serving(replace(FROZEN, project=write_project(pytester.mkdir("other")))) as server:
        result = run(pytester, text, f"--sandbox-url={server.url}")
    result.assert_outcomes(failed=1)
    problem = "does not name the operation that registers webhook endpoints; name it in 'webhooks'"
    result.stdout.fnmatch_lines([f"E * the project at {server.url} {problem} of *"])
