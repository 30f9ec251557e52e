"""The pages about webhooks are executed: their sessions, and their receivers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from invoice_sandbox.state.credentials import DEMO_KEY
from tests.readme import commands
from tests.receivers import deliveries, free_port, replay, subscribe, switch
from tests.scenario_run import INVOICE
from tests.support import PATIENCE
from tests.testing_docs import environment, output
from tests.webhook_docs import (
    BODY,
    FORGED,
    JAVASCRIPT,
    PAGE,
    PYTHON,
    REFERENCE,
    genuine,
    has_javascript,
    javascript_played,
    javascript_shown,
    played,
    receiver_of_docs,
    responses_to_forgeries,
    serving,
    with_generated,
)

pytestmark = pytest.mark.process

needs_node = pytest.mark.skipif(not has_javascript(), reason="needs Node.js: make interop")
RECEIVERS = [PYTHON, pytest.param(JAVASCRIPT, marks=needs_node)]
FAILURES = [
    "webhook-bad-signature",
    "webhook-down-then-up",
    "webhook-duplicate",
    "webhook-out-of-order",
]
EVENTS = ["invoice.verified", "offer.received"]
JSON = {"Content-Type": "application/json"}
SLOW = ('"""Your part.', 'import time; time.sleep(600); """Your part.')


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A sandbox with real time for its signatures, as receivers compare it with their own."""
    with serving("--rate-limit", "off") as url:
        yield url


@pytest.fixture
def sandbox(url: str) -> Iterator[httpx.Client]:
    """A new workspace whose clock stands."""
    demo = {"Authorization": f"Bearer {DEMO_KEY}"}
    made = httpx.post(
        f"{url}/sandbox/workspaces", json={"clock": "frozen"}, headers=demo, timeout=PATIENCE
    )
    key = made.json()["data"]["key"]
    with httpx.Client(
        base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE
    ) as client:
        yield client


def live_through(sandbox: httpx.Client, scenario: str, time: str) -> None:
    """An invoice under a scenario, and what happens to it in that time."""
    sandbox.put("/sandbox/scenario", json={"name": scenario}).raise_for_status()
    sandbox.post("/api/invoices", json=INVOICE).raise_for_status()
    sandbox.post("/sandbox/clock/advance", json={"by": time}).raise_for_status()


def test_a_receiver_that_does_not_start_is_waited_for_briefly_and_its_log_is_shown(
    tmp_path: Path,
) -> None:
    (tmp_path / "receiver.py").write_text("import standardwebhooks_that_is_not_there")
    (start,) = (one for one in commands(PAGE.read_text()) if one.startswith("start()"))
    waits = start.replace("--retry 9", "--retry 1").replace("9000", str(free_port()))
    printed = output(f"{waits}; start", tmp_path, environment(Path(sys.executable).parent))
    assert "No module named 'standardwebhooks_that_is_not_there'" in printed
    assert "--retry-delay 1 " in start, "the waits of --retry alone double: 1 s, 2 s, up to 10 min"
    assert "--max-time" in start


def accepted(lines: list[str]) -> list[str]:
    """The types of the events that a receiver has accepted, by name."""
    return sorted(line.split()[1] for line in lines if line.startswith("accepted"))


def test_the_session_of_the_page_prints_what_the_page_shows() -> None:
    page = PAGE.read_text()
    assert played(page, javascript=False) == page


@needs_node
def test_the_session_in_javascript_prints_what_the_page_shows() -> None:
    assert javascript_played() == javascript_shown()


def test_what_is_generated_from_the_code_is_up_to_date() -> None:
    page = REFERENCE.read_text()
    assert with_generated(page) == page


@pytest.mark.parametrize("file", RECEIVERS)
def test_a_receiver_rejects_every_forgery_with_401(file: str) -> None:
    with receiver_of_docs(file) as receiver:
        assert responses_to_forgeries(receiver) == dict.fromkeys(FORGED, 401)


@pytest.mark.parametrize("file", RECEIVERS)
def test_a_receiver_accepts_an_event_once_and_responds_to_it_twice(file: str) -> None:
    with receiver_of_docs(file) as receiver:
        assert [receiver.post(BODY, genuine(BODY)) for _ in range(2)] == [204, 204]
        assert receiver.lines()[-2:] == ["accepted: invoice.verified evt_1", "again: evt_1"]


@pytest.mark.parametrize("file", RECEIVERS)
def test_a_receiver_rejects_a_body_without_bounds(file: str) -> None:
    with receiver_of_docs(file) as receiver:
        assert receiver.post(b" " * 100_000, {}) == 413


def test_the_receiver_in_python_responds_before_its_work_is_done() -> None:
    with receiver_of_docs(PYTHON, changed=SLOW) as receiver:
        assert [receiver.post(BODY, genuine(BODY)) for _ in range(2)] == [204, 204]


@pytest.mark.parametrize("file", RECEIVERS)
@pytest.mark.parametrize("scenario", FAILURES)
def test_a_receiver_passes_each_failure(sandbox: httpx.Client, file: str, scenario: str) -> None:
    port = free_port()
    secret = subscribe(sandbox, f"http://127.0.0.1:{port}")["secret"]
    with receiver_of_docs(file, secret, port=port) as receiver:
        live_through(sandbox, scenario, "P1D")
        assert accepted(receiver.lines()) == EVENTS
    assert {one["status"] for one in deliveries(sandbox)} == {"Delivered"}


def test_a_receiver_goes_on_with_either_secret_while_both_sign(sandbox: httpx.Client) -> None:
    port = free_port()
    secret = subscribe(sandbox, f"http://127.0.0.1:{port}")["secret"]
    with receiver_of_docs(PYTHON, secret, port=port) as receiver:
        live_through(sandbox, "secret-rotation", "P1D")
        assert accepted(receiver.lines()) == EVENTS


def test_what_is_exhausted_can_be_replayed_after_enabling(sandbox: httpx.Client) -> None:
    port = free_port()
    endpoint = subscribe(sandbox, f"http://127.0.0.1:{port}")
    live_through(sandbox, "webhook-exhausted", "P6D")
    assert {one["status"] for one in deliveries(sandbox)} == {"Exhausted"}
    assert switch(sandbox, endpoint["id"], "enable")["status"] == "Enabled"
    with receiver_of_docs(PYTHON, endpoint["secret"], port=port) as receiver:
        for one in deliveries(sandbox):
            replay(sandbox, one["id"])
        assert accepted(receiver.lines()) == EVENTS


def test_the_one_line_for_each_failure_is_accepted(sandbox: httpx.Client) -> None:
    lines = re.findall(
        r"^api /sandbox/scenario -X PUT -d '(.*)'$", REFERENCE.read_text(), re.MULTILINE
    )
    assert len(lines) == 2
    for body in lines:
        assert sandbox.put("/sandbox/scenario", content=body, headers=JSON).status_code == 200


def test_every_scenario_of_deliveries_is_on_the_page() -> None:
    page = REFERENCE.read_text()
    for scenario in (*FAILURES, "webhook-exhausted", "secret-rotation"):
        assert f"| `{scenario}` |" in page
