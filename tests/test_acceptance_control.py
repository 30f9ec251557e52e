"""Acceptance runs in the control API: their progress, what they wait for, their reports."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import httpx

from invoice_sandbox.control.acceptance import MAX_RUNS

WAITING = {"task": 3, "check": "money", "text": "register an invoice", "environment": {"A": "b"}}
PROGRESS: dict[str, Any] = {
    "plan": "partner",
    "state": "running",
    "verdict": None,
    "waitingFor": WAITING,
    "checks": [],
}
REPORT = {"verdict": "PASS", "state": "finished", "checks": []}
RUNS = "/sandbox/acceptance/runs"


def data(response: httpx.Response) -> Any:
    """The data of a response that succeeded."""
    assert response.is_success, response.text
    return response.json()["data"]


def announced(client: httpx.Client) -> str:
    """The address of a new run."""
    return f"{RUNS}/{data(client.post(RUNS, json=PROGRESS))['id']}"


def test_a_run_is_kept_with_what_it_waits_for(client: httpx.Client) -> None:
    run = announced(client)
    found = data(client.get(run))
    assert (found["waitingFor"], found["reported"], found["hasReport"]) == (WAITING, None, False)
    assert data(client.get(RUNS)) == [found]


def test_the_report_is_there_when_the_run_has_one(client: httpx.Client) -> None:
    run = announced(client)
    assert client.get(f"{run}/report").status_code == 404
    data(client.put(run, json={**PROGRESS, "report": REPORT}))
    done = {**PROGRESS, "state": "finished", "verdict": "PASS", "waitingFor": None}
    assert data(client.put(run, json=done))["hasReport"] is True
    assert data(client.get(f"{run}/report")) == REPORT


def test_a_run_keeps_its_bundle(client: httpx.Client) -> None:
    run, zipped = announced(client), {"Content-Type": "application/octet-stream"}
    assert client.get(f"{run}/bundle").status_code == 404
    assert client.put(f"{run}/bundle").status_code == 400
    assert data(client.get(run))["hasBundle"] is False
    content = b"a bundle" + bytes(range(256)) * 5_000
    assert data(client.put(f"{run}/bundle", content=content, headers=zipped))["hasBundle"] is True
    found = client.get(f"{run}/bundle")
    assert (found.content, found.headers["content-type"]) == (content, "application/octet-stream")
    data(client.put(run, json=PROGRESS))
    assert client.get(f"{run}/bundle").content == content
    recorded = client.get("/sandbox/recording").content
    assert not any(one in recorded for one in (b"a bundle", b64encode(b"a bundle")[:8]))


def problem(client: httpx.Client, run: str, **report: Any) -> tuple[int, str]:
    """The status and the message of an error of a report about a task."""
    found = client.put(f"{run}/task", json=report)
    return found.status_code, found.json()["error"]["message"]


def test_a_client_reports_only_the_task_that_the_run_waits_for(client: httpx.Client) -> None:
    run = announced(client)
    status, text = problem(client, run, state="done", task=2)
    assert (status, text.split(".")[0]) == (409, "The run waits for task 3, not for task 2")
    ready = {"task": 3, "state": "ready"}
    assert data(client.put(f"{run}/task", json=ready))["reported"] == ready
    data(client.put(run, json={**PROGRESS, "waitingFor": None}))
    status, text = problem(client, run, state="done", task=3)
    assert (status, text.split(".")[0]) == (409, "The run waits for no task now, not for task 3")


def test_a_report_without_the_number_of_its_task_is_rejected(client: httpx.Client) -> None:
    run = announced(client)
    status, text = problem(client, run, state="done")
    assert (status, "task" in text) == (400, True), text
    assert data(client.get(run))["reported"] is None


def test_a_task_without_webhooks_has_nothing_to_be_ready_for(client: httpx.Client) -> None:
    run = announced(client)
    data(client.put(run, json={**PROGRESS, "waitingFor": {**WAITING, "webhooks": False}}))
    status, text = problem(client, run, state="ready", task=3)
    assert (status, text.split(",")[0]) == (409, "The client receives no webhooks in task 3")
    data(client.put(f"{run}/task", json={"state": "done", "task": 3}))
    data(client.put(run, json={**PROGRESS, "waitingFor": {**WAITING, "webhooks": True}}))
    data(client.put(f"{run}/task", json={"state": "ready", "task": 3}))


def test_the_oldest_runs_are_dropped(client: httpx.Client) -> None:
    runs = [announced(client) for _ in range(MAX_RUNS + 1)]
    assert client.get(runs[0]).status_code == 404
    assert [f"{RUNS}/{one['id']}" for one in data(client.get(RUNS))] == runs[:0:-1]
