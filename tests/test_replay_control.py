"""A server replays bundles in a process of its own, and shows what comes of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import httpx
import pytest

from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.bundles import control
from invoice_sandbox.bundles.archive import read_bundle, write_bundle
from invoice_sandbox.bundles.control import MOST, MOST_OF_A_FAMILY
from invoice_sandbox.bundles.saving import save_bundle
from invoice_sandbox.cli.replay import MAX_CPU_SECONDS, MAX_MEMORY
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.replay import replay
from tests.receivers import receiving, response
from tests.scenario_run import advance, data, register_new
from tests.support import FROZEN, PATIENCE, Running, serving
from tests.test_console import act
from tests.test_console_views import buttons, text_of
from tests.test_replay import edited

pytestmark = [pytest.mark.process, pytest.mark.slow]

REPLAYS = "/sandbox/replays"
RUNS = "/sandbox/acceptance/runs"
ZIP = {"Content-Type": "application/octet-stream"}
RUN: dict[str, Any] = {
    "plan": "partner",
    "state": "finished",
    "verdict": "PASS",
    "waitingFor": None,
    "checks": [],
}


@pytest.fixture
def key(server: Running) -> str:
    return server.new_workspace()


@pytest.fixture
def client(server: Running, key: str) -> Iterator[httpx.Client]:
    """A workspace in which something has happened."""
    with server.client(key) as client:
        register_new(client)
        advance(client, "PT1H")
        yield client


def outcome(client: httpx.Client, path: str = REPLAYS) -> dict[str, Any]:
    """What comes of a replay."""
    started = data(client.post(path), 202)
    assert started["state"] == "waiting"
    return finished(client, started["id"])


def finished(client: httpx.Client, id_: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        [found] = [one for one in data(client.get(REPLAYS)) if one["id"] == id_]
        if found["state"] == "finished":
            return dict(found)
        assert found["same"] is None
        time.sleep(0.05)
    raise AssertionError("the replay does not end")


def processes() -> list[Path]:
    """The processes of replays that this process has started."""
    found = []
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            children = (task / "children").read_text().split()
            found += [Path("/proc") / one for one in children]
    return [one for one in found if b"invoice_sandbox.cli.replay" in contents(one / "cmdline")]


def contents(file: Path) -> bytes:
    """What a file of a process says: nothing once the process has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return file.read_bytes()
    return b""


def kept_run(client: httpx.Client, content: bytes) -> str:
    """The id of an acceptance run with this bundle."""
    run = str(data(client.post(RUNS, json=RUN), 201)["id"])
    data(client.put(f"{RUNS}/{run}/bundle", content=content, headers=ZIP))
    return run


def test_a_workspace_replays_the_same_again_and_again(client: httpx.Client) -> None:
    """A replay leaves nothing in the workspace."""
    first, second = outcome(client), outcome(client)
    for found in (first, second):
        assert (found["same"], found["problem"], found["notes"]) == (True, None, [])
        assert (found["requests"], found["withEnd"], found["run"]) == (2, True, None)
    assert [one["id"] for one in data(client.get(REPLAYS))] == [second["id"], first["id"]]


def test_a_workspace_on_a_live_clock_replays() -> None:
    live = changed(FROZEN, clock=ClockState("live"))
    with serving(live, real_time=True) as running, running.client() as client:
        register_new(client)
        advance(client, "P1D")
        found = outcome(client)
        assert (found["same"], found["requests"]) == (True, 2), found


CONTRACT: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Notes", "version": "1"},
    "paths": {
        "/notes": {
            "get": {"operationId": "listNotes", "responses": {"200": {"description": "Notes."}}}
        }
    },
}


def test_a_server_of_a_contract_replays_with_it(tmp_path: Path) -> None:
    file = tmp_path / "notes.json"
    file.write_text(json.dumps(CONTRACT))
    with serving(changed(FROZEN, contract=file)) as running, running.client() as client:
        assert client.get("/notes").status_code == 200
        found = outcome(client)
        assert (found["same"], found["requests"], found["notes"]) == (True, 1, [])
        page = client.get("/console/scenario")
        assert "Download the bundle of this workspace" in page.text
        assert f"POST {REPLAYS}" in buttons(page)
        assert "same 1 requests and what they left" in text_of(page)


def test_a_replay_loads_nothing_over_the_network(tmp_path: Path) -> None:
    schema = {"type": "array"}
    with receiving(*[response(200, json.dumps(schema).encode())] * 9) as elsewhere:
        media = {"application/json": {"schema": {"$ref": elsewhere.url}}}
        responses = {"200": {"description": "Notes.", "content": media}}
        operation = {"operationId": "listNotes", "responses": responses}
        file = tmp_path / "notes.json"
        file.write_text(json.dumps({**CONTRACT, "paths": {"/notes": {"get": operation}}}))
        settings = changed(FROZEN, contract=file, allow_remote_refs=True)
        with serving(settings) as running, running.client() as client:
            before = len(elsewhere.messages)
            assert client.get("/notes").status_code == 200
            found = outcome(client)
            assert len(elsewhere.messages) == before
    assert found["same"] is None
    assert found["problem"] == (
        "the contract refers to files over http(s), which a replay does not load"
    )


def test_a_project_that_was_changed_meanwhile_is_named_as_such(tmp_path: Path) -> None:
    """The message names no file, as whoever has a key reads it."""
    file = tmp_path / "notes.json"
    file.write_text(json.dumps(CONTRACT))
    with serving(changed(FROZEN, contract=file)) as running, running.client() as client:
        client.get("/notes")
        file.write_text("{")
        assert outcome(client)["problem"] == (
            "files of the server's project have changed since it started and can no longer be "
            "loaded; restart the server, which reports what is wrong"
        )


def test_a_run_waits_for_another_replay_of_its_workspace(client: httpx.Client, saved: Path) -> None:
    run = kept_run(client, saved.read_bytes())
    started = data(client.post(REPLAYS), 202)["id"]
    response = client.post(f"{RUNS}/{run}/replay")
    assert response.status_code == 409
    assert "has as many replays under way as it may" in response.json()["error"]["message"]
    finished(client, started)
    assert [one["run"] for one in data(client.get(REPLAYS))] == [None]


@pytest.fixture
def saved(server: Running, client: httpx.Client, key: str, tmp_path: Path) -> Path:
    """The bundle of the workspace."""
    assert data(client.get("/api/invoices"))
    save_bundle(ControlClient(server.url, key), tmp_path / "saved.zip")
    return tmp_path / "saved.zip"


def test_the_bundle_of_a_run_replays_and_shows_what_differs(
    server: Running, client: httpx.Client, key: str, saved: Path
) -> None:
    def edit(parts: dict[str, bytes]) -> None:
        parts["inputs.ndjson"] = parts["inputs.ndjson"].replace(b"Registered", b"<b>Draft")

    run = kept_run(client, saved.read_bytes())
    found = outcome(client, f"{RUNS}/{run}/replay")
    assert (found["same"], found["run"]) == (True, run)
    edited(saved, saved, edit)
    run = kept_run(client, saved.read_bytes())
    found = outcome(client, f"{RUNS}/{run}/replay")
    assert found["same"] is False
    assert found["difference"] == {
        "request": "1 (POST /api/invoices)",
        "member": "/body/data/status",
        "expected": '"<b>Draft"',
        "actual": '"Registered"',
        "case": "",
    }
    with server.client(None) as visitor:
        visitor.post("/console/sign-in", data={"key": key})
        page = visitor.get(f"/console/acceptance/{run}")
        assert f"POST {RUNS}/{run}/replay" in buttons(page)
        for text in ("different 1 (POST /api/invoices)", "/body/data/status", '"<b>Draft"'):
            assert text in text_of(page)
        assert "different" not in visitor.get("/console/acceptance").text


def test_a_bundle_that_cannot_be_replayed_shows_why(client: httpx.Client, saved: Path) -> None:
    bundle = read_bundle(saved)
    about = {**bundle.manifest, "replayable": False, "reason": "the beginning is gone"}
    write_bundle(saved, {k: v for k, v in about.items() if k != "parts"}, bundle.parts)
    for content, problem in (
        (b"PK", "bundle.zip: it is no bundle, or it is damaged"),
        (saved.read_bytes(), "bundle.zip: it cannot be replayed: the beginning is gone"),
    ):
        found = outcome(client, f"{RUNS}/{kept_run(client, content)}/replay")
        assert (found["same"], found["problem"]) == (None, problem)


def test_who_looks_does_not_replay_and_sees_no_other_workspace(
    server: Running, client: httpx.Client, saved: Path
) -> None:
    run = kept_run(client, saved.read_bytes())
    made = data(client.post("/api/developer/api-keys", json={"scopes": ["sandbox:read"]}), 201)
    started = data(client.post(REPLAYS), 202)["id"]
    with server.client(made["secret"]) as viewer, server.client(server.new_workspace()) as other:
        assert [one["id"] for one in data(viewer.get(REPLAYS))] == [started]
        assert viewer.post(REPLAYS).status_code == 403
        assert viewer.post(f"{RUNS}/{run}/replay").status_code == 403
        assert data(other.get(REPLAYS)) == []
        assert other.post(f"{RUNS}/{run}/replay").status_code == 404
        without = data(client.post(RUNS, json=RUN), 201)["id"]
        assert client.post(f"{RUNS}/{without}/replay").status_code == 404
    finished(client, started)


def test_replays_take_turns() -> None:
    """A workspace has one at a time, and its family only a part of those of the server."""
    with serving(FROZEN) as running, running.client() as first:
        register_new(first)
        child = data(first.post("/sandbox/workspaces", json={}), 201)["key"]
        with running.client(child) as client:
            made = [data(client.post("/sandbox/workspaces", json={}), 201) for _ in range(4)]
        family = [child, *(one["key"] for one in made)]
        tried = []
        for one in family:
            with running.client(one) as client:
                register_new(client)
                tried.append(client.post(REPLAYS).status_code)
                assert client.post(REPLAYS).status_code == 409
        assert tried == [202] * MOST_OF_A_FAMILY + [409]
        assert len(processes()) <= 1
        data(first.post(REPLAYS), 202)
    assert processes() == []  # those that waited end with the server


def test_the_replays_of_a_server_are_limited() -> None:
    with serving(FROZEN) as running:
        tried = []
        for _ in range(MOST + 1):
            with running.client(running.new_workspace()) as client:
                client.get("/api/invoices")
                tried.append(client.post(REPLAYS).status_code)
        assert tried == [202] * MOST + [409]
        assert len(processes()) == 1


def test_a_replay_that_does_not_end_is_ended(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "MOST_SECONDS", 0.1)
    assert outcome(client)["problem"].startswith("the replay did not end within its time")
    assert processes() == []


def test_a_replay_has_limits_and_ends_with_the_server() -> None:
    with serving(FROZEN) as running, running.client() as client:
        register_new(client)
        client.post(REPLAYS)
        limits, deadline = "", time.monotonic() + PATIENCE
        while f" {MAX_MEMORY} " not in limits and time.monotonic() < deadline:
            limits = b"".join(contents(one / "limits") for one in processes()).decode()
        assert f"Max cpu time              {MAX_CPU_SECONDS} " in limits
        assert b"INVOICE_SANDBOX" not in b"".join(contents(one / "environ") for one in processes())
    assert processes() == []


def test_a_replay_starts_no_replay(saved: Path) -> None:
    """Not even if a stranger's bundle has the request."""

    def edit(parts: dict[str, bytes]) -> None:
        for name in ("/sandbox/clock/advance", "/api/invoices"):
            parts["inputs.ndjson"] = parts["inputs.ndjson"].replace(
                f'"target": "{name}"'.encode(), b'"target": "/sandbox/replays"'
            )

    found = replay(edited(saved, saved, edit))
    assert found.difference
    assert found.difference.request == "1 (POST /sandbox/replays)"
    assert processes() == []


def test_a_button_of_the_console_replays(server: Running, client: httpx.Client, key: str) -> None:
    with server.client(None) as visitor:
        visitor.post("/console/sign-in", data={"key": key})
        page = visitor.get("/console/acceptance")
        assert f"POST {REPLAYS}" in buttons(page)
        assert "<b>202</b>" in act(visitor, "POST", REPLAYS).text
        finished(client, data(client.get(REPLAYS))[0]["id"])
        shown = text_of(visitor.get("/console/acceptance"))
        assert "same 2 requests and what they left" in shown
        assert f"GET {REPLAYS}" in shown
