"""The metrics for Prometheus, and the log as JSON objects."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from invoice_sandbox.http.journaling import REQUESTS, JsonLines
from invoice_sandbox.settings import Postgresql
from tests.databases import new_database
from tests.receivers import free_port, receiving, response, subscribe, trigger
from tests.scenario_run import advance, register_new
from tests.support import FROZEN, Running, serving

STORES: dict[str, Callable[[Path], Path | Postgresql | None]] = {
    "memory": lambda _: None,
    "SQLite": lambda folder: folder / "state.db",
    "PostgreSQL": lambda _: Postgresql(new_database()),
}


@pytest.fixture(scope="module", params=STORES)
def measured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    store = STORES[request.param](tmp_path_factory.mktemp("store"))
    with serving(replace(FROZEN, metrics=True, store=store)) as running:
        yield running


def metrics(client: httpx.Client) -> dict[tuple[str, ...], float]:
    """The value of each sample, by its name and the values of its labels."""
    page = client.get("/metrics", headers={"Authorization": ""})
    assert page.headers["content-type"].startswith("text/plain; version=1.0.0")
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.text)
        for sample in family.samples
    }


def test_requests_are_counted_by_operation_and_status(measured: Running) -> None:
    with measured.client() as client:
        client.get("/api/partners")
        for _ in range(2):
            client.get("/api/partners", headers={"Authorization": "Bearer unknown-key"})
        client.get("/api/nothing/here")
        client.post("/sandbox/faults", json={"kind": "reset"})
        with pytest.raises(httpx.TransportError):
            client.get("/api/offers")
        found = metrics(client)
    assert found["sandbox_requests_total", "listPartners", "200"] == 1
    assert found["sandbox_requests_total", "listPartners", "401"] == 2
    assert found["sandbox_requests_total", "", "404"] == 1
    assert found["sandbox_requests_total", "listOffers", "503"] == 1  # a reset
    assert found["sandbox_request_duration_seconds_count", "listPartners"] == 3
    assert found["sandbox_request_duration_seconds_sum", "listPartners"] == 0  # the clock stands
    assert not [name for name in found if "unknown-key" in str(name)]


def test_deliveries_are_counted_by_their_outcome(measured: Running) -> None:
    with measured.client(measured.new_workspace()) as client, receiving() as receiver:
        register_new(client)
        receiver.responses(response(), response(500), response())
        subscribe(client, receiver.url)
        trigger(client)
        trigger(client)
        advance(client, by="PT0S")
        subscribe(client, f"http://127.0.0.1:{free_port()}/")
        trigger(client)
        advance(client, by="PT0S")
        found = metrics(client)
    assert found["sandbox_deliveries_total", "accepted"] == 2
    assert found["sandbox_deliveries_total", "rejected"] == 1
    assert found["sandbox_deliveries_total", "failed"] == 1


def test_gauges_show_the_present(measured: Running) -> None:
    with measured.client() as client:
        before = metrics(client)["sandbox_workspaces",]
        measured.new_workspace()
        found = metrics(client)
    assert found["sandbox_workspaces",] == before + 1
    assert found["sandbox_ready",] == 1


def test_without_the_setting_there_is_no_page(client: httpx.Client) -> None:
    assert client.get("/metrics").status_code == 404


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """The lines of a log of JSON objects."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    kept, level = Kept(), REQUESTS.level
    kept.setFormatter(JsonLines())
    REQUESTS.addHandler(kept)
    REQUESTS.setLevel(logging.INFO)
    yield lines
    REQUESTS.removeHandler(kept)
    REQUESTS.setLevel(level)


def test_a_request_is_a_json_object_in_the_log(client: httpx.Client, logged: list[str]) -> None:
    reply = client.get("/api/partners", params={"api_key": "secret-of-mine"})
    (line,) = map(json.loads, logged)
    assert line["requestId"] == reply.headers["X-Request-Id"]
    assert (line["level"], line["operation"], line["status"]) == ("INFO", "listPartners", 200)
    assert (line["method"], line["path"]) == ("GET", "/api/partners?api_key=[redacted]")
    assert line["durationMs"] == 0  # the clock stands
    assert line["time"].endswith("Z")


def test_the_line_of_a_429_has_the_reason(logged: list[str]) -> None:
    with serving(replace(FROZEN, rate_limit=1)) as running, running.client() as client:
        rejected = [client.get("/api/partners") for _ in range(2)][1]
    first, second = map(json.loads, logged)
    assert "reason" not in first
    assert (second["status"], second["reason"]) == (429, rejected.json()["error"]["message"])


def test_an_exception_is_one_json_object_too() -> None:
    try:
        json.loads("{")
    except ValueError:
        record = logging.LogRecord("a", logging.ERROR, "", 1, "failed: %s", ("x",), sys.exc_info())
    line = json.loads(JsonLines().format(record))
    assert (line["level"], line["message"]) == ("ERROR", "failed: x")
    assert "JSONDecodeError" in line["exception"]
