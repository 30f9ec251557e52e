"""Deliveries of a run on a live clock happen in its replay when and as they happened in the run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace as changed
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from invoice_sandbox.base.clock import ClockState
from invoice_sandbox.bundles.archive import Bundle, read_bundle
from invoice_sandbox.bundles.compare import Difference
from invoice_sandbox.bundles.saving import save_bundle
from invoice_sandbox.control.client import ControlClient
from invoice_sandbox.replay import replay
from invoice_sandbox.runtime.agenda import STEPS_LOG
from tests.receivers import deliveries, held, receiving, response, subscribe
from tests.scenario_run import INVOICE, until
from tests.support import FROZEN, PATIENCE, Running, serving

pytestmark = pytest.mark.slow

LIVE = changed(FROZEN, clock=ClockState("live"))


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server on the clock of the machine."""
    with serving(LIVE, real_time=True) as running:
        yield running


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    """A client of a new workspace."""
    with server.client(server.new_workspace(seed=7)) as own:
        yield own


def saved(client: httpx.Client, file: Path) -> Bundle:
    """The bundle of the client's workspace."""
    key = client.headers["Authorization"].removeprefix("Bearer ")
    save_bundle(ControlClient(str(client.base_url).rstrip("/"), key), file)
    return read_bundle(file)


def difference(bundle: Bundle) -> Difference | None:
    """The first difference of a replay that compares everything."""
    found = replay(bundle)
    assert (found.with_end, found.notes) == (True, ())
    return found.difference


def replayed(client: httpx.Client, **body: str) -> Any:
    """The first delivery, replayed."""
    first = deliveries(client)[0]["id"]
    return client.post(f"/sandbox/deliveries/{first}/replay", json=body).json()["data"]


def test_what_the_inbox_takes_is_what_it_took(client: httpx.Client, tmp_path: Path) -> None:
    """The attempt after one with a wrong signature begins when that one ends."""
    subscribe(client, client.get("/sandbox/inbox").json()["data"]["url"], events=["*"])
    client.post("/api/invoices", json=INVOICE)
    attempts = replayed(client, fault="bad-signature")["attempts"]
    assert [one["responseStatus"] for one in attempts] == [200, 401, 200]
    assert difference(saved(client, tmp_path / "x.zip")) is None


def test_a_secret_in_the_address_of_a_receiver_is_not_in_the_bundle(
    client: httpx.Client, tmp_path: Path
) -> None:
    """Some clients write & with an escape."""
    with receiving(response(418), response()) as receiver:
        for number in range(2):
            url = f"{receiver.url}/?one=1&token=secret-of-{number}"
            body = json.dumps({"url": url, "events": ["*"]})
            content = body.replace("&", "\\u0026") if number else body
            headers = {"Content-Type": "application/json"}
            assert client.post("/api/webhooks", content=content, headers=headers).is_success
            client.post("/api/invoices", json={**INVOICE, "invoiceNumber": f"S-{number}"})
        until(lambda: len(receiver.messages) == 3, "the first attempts")
    bundle = saved(client, tmp_path / "x.zip")
    assert b"secret-of-" not in b"".join(bundle.parts.values())
    assert difference(bundle) is None


def test_attempts_that_overlap_get_the_responses_that_they_got(
    client: httpx.Client, tmp_path: Path
) -> None:
    """A delivery is replayed while its first attempt waits, which ends last."""
    gate = Event()
    with receiving(held(gate), response(503), response()) as receiver:
        subscribe(client, receiver.url, events=["*"])
        client.post("/api/invoices", json=INVOICE)
        until(lambda: bool(receiver.messages), "the first attempt")
        assert replayed(client, fault="bad-signature")["attempt"] == 2
        gate.set()
        until(lambda: deliveries(client)[0]["attempt"] == 3, "the attempt that waited")
    bundle = saved(client, tmp_path / "x.zip")
    assert [one["status"] for one in bundle.lines("outcomes.ndjson")] == [503, 200, 200]
    assert difference(bundle) is None


def test_what_is_under_way_at_the_end_is_under_way_at_the_end_of_a_replay(
    client: httpx.Client, tmp_path: Path
) -> None:
    gate = Event()
    with receiving(held(gate)) as receiver:
        subscribe(client, receiver.url, events=["*"])
        client.post("/api/invoices", json=INVOICE)
        until(lambda: bool(receiver.messages), "the first attempt")
        bundle = saved(client, tmp_path / "x.zip")
        gate.set()
    assert bundle.json("deliveries.json")[0]["status"] == "Pending"
    assert difference(bundle) is None


def test_an_advance_shows_what_a_timer_did_while_it_waited(
    server: Running, client: httpx.Client, tmp_path: Path
) -> None:
    gate = Event()
    workspace = client.get("/sandbox/workspaces").json()["data"][0]["id"]
    with receiving(held(gate)) as receiver:
        subscribe(client, receiver.url, events=["*"])
        client.post("/api/invoices", json=INVOICE, headers={"X-Sandbox-Scenario": "auto-progress"})
        until(lambda: bool(receiver.messages), "the first attempt")
        body = {"by": "PT0.5S"}
        thread = Thread(target=client.post, args=["/sandbox/clock/advance"], kwargs={"json": body})
        thread.start()
        until(lambda: bool(server.log(STEPS_LOG, workspace).entries), "the step at 1 s")
        gate.set()
        thread.join(PATIENCE)
    bundle = saved(client, tmp_path / "x.zip")
    assert '"start-verification"' in bundle.lines("inputs.ndjson")[-1]["response"]["body"]
    assert difference(bundle) is None
