"""Acceptance runs in the control API: their progress, what they wait for, their reports."""

from __future__ import annotations

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
    content = b"PK" + bytes(range(256)) * 5_000
    assert data(client.put(f"{run}/bundle", content=content, headers=zipped))["hasBundle"] is True
    found = client.get(f"{run}/bundle")
    assert (found.content, found.headers["content-type"]) == (content, "application/octet-stream")
    data(client.put(run, json=PROGRESS))
    assert client.get(f"{run}/bundle").content == content
    assert b"PK" not in client.get("/sandbox/recording").content


def test_a_client_reports_only_the_task_that_the_run_waits_for(client: httpx.Client) -> None:
    run = announced(client)
    late = client.put(f"{run}/task", json={"state": "done", "task": 2})
    assert late.status_code == 409
    assert data(client.put(f"{run}/task", json={"state": "ready"}))["reported"] == {
        "task": 3,
        "state": "ready",
    }
    data(client.put(run, json={**PROGRESS, "waitingFor": None}))
    assert client.put(f"{run}/task", json={"state": "done"}).status_code == 409


def test_the_oldest_runs_are_dropped(client: httpx.Client) -> None:
    runs = [announced(client) for _ in range(MAX_RUNS + 1)]
    assert client.get(runs[0]).status_code == 404
    assert [f"{RUNS}/{one['id']}" for one in data(client.get(RUNS))] == runs[:0:-1]
